/* Programs that start inside a group, and what is waited for and signalled by a descriptor. */
#include "opp_host.h"
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child: a copy of one thread of a process that may have many, so nothing here may take a lock. */
static void become(const opp_host_program *program, struct opp_host_terms *terms, int report) {
    /* [given up] in starter.c */
    if (terms != NULL && atomic_load_explicit(&terms->is_over, memory_order_seq_cst) != 0) _exit(126);
    /* Else the kernel would hang up on it (SIGHUP) where it is stopped when the caller dies: see _exit(2). */
    setsid();
    if (program->entrance >= 0) {
        /* Before it touches memory of its own. Where it is refused, the caller sees that it is no member. */
        ssize_t entered = write(program->entrance, "0", 1);
        (void)entered;
    }
    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) != 0 || action.sa_handler == SIG_IGN) continue;
        memset(&action, 0, sizeof action);
        action.sa_handler = SIG_DFL;
        sigaction(number, &action, NULL);
    }
    int kept[3];
    for (int index = 0; index < 3; index++) {
        /* Above the standard ones first: one of them may be the source of another. */
        kept[index] = program->descriptors[index];
        if (kept[index] >= 0 && (kept[index] = fcntl(kept[index], F_DUPFD_CLOEXEC, 3)) < 0) goto failed;
    }
    for (int index = 0; index < 3; index++)
        if (kept[index] >= 0 && dup2(kept[index], index) < 0) goto failed;
    /* What the caller was started with is not the program's: a lock that it has by such a descriptor would be
       the program's as well. Before Linux 5.11 this fails, and they stay. */
    syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC);
    if (program->folder != NULL && chdir(program->folder) != 0) goto failed;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(program->path, program->argv, program->envp);
failed:;
    int number = errno;
    ssize_t written = write(report, &number, sizeof number);
    _exit(written > 0 ? 127 : 126);
}

pid_t opp_host_begin(const opp_host_program *program, uint64_t flags, int *pidfd,
    struct opp_host_terms *terms, int *failure) {
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0) return -errno;
    if (report[1] < 3) {
        /* The standard descriptors are closed here, and the child would put the program's over the pipe. */
        close(report[0]);
        close(report[1]);
        return -EBADF;
    }
    struct clone_args arguments = {
        .flags = flags | (pidfd != NULL ? CLONE_PIDFD : 0) | (terms != NULL ? CLONE_PARENT_SETTID : 0)
            | (program->group >= 0 ? CLONE_INTO_CGROUP : 0),
        .pidfd = (uint64_t)(uintptr_t)pidfd,
        .parent_tid = terms != NULL ? (uint64_t)(uintptr_t)&terms->pid : 0,
        /* That of the caller itself for a child of its parent. */
        .exit_signal = (flags & CLONE_PARENT) != 0 ? 0 : SIGCHLD,
        .cgroup = program->group >= 0 ? (uint64_t)program->group : 0,
    };
    /* No handler of the caller's may run in the child. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (pid == 0) become(program, terms, report[1]);
    int number = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(report[1]);
    if (pid < 0) {
        close(report[0]);
        return -number;
    }
    /* Ends with the exec, which closes the other end, or with the reason why there is none. */
    ssize_t count;
    do count = read(report[0], &number, sizeof number);
    while (count < 0 && errno == EINTR);
    close(report[0]);
    *failure = count == (ssize_t)sizeof number ? number : 0;
    return (pid_t)pid;
}

pid_t opp_host_start(const opp_host_program *program, int *pidfd) {
    int child = -1, failure = 0;
    pid_t pid = opp_host_begin(program, 0, &child, NULL, &failure);
    if (pid < 0) return pid;
    if (failure != 0) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {}
        close(child);
        return -failure;
    }
    *pidfd = child;
    return pid;
}

int opp_host_pidfd_open(pid_t pid) {
    long descriptor = syscall(SYS_pidfd_open, pid, 0);
    return descriptor < 0 ? -errno : (int)descriptor;
}

int opp_host_pidfd_signal(int pidfd, int number) {
    return syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0) != 0 ? -errno : 0;
}

int opp_host_reap(int pidfd, int *status) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    if (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG) != 0) return -errno;
    if (info.si_pid == 0) return 0;
    *status = info.si_code == CLD_EXITED ? (info.si_status & 0xff) << 8 : info.si_status & 0x7f;
    return 1;
}

int opp_host_event_open(void) {
    int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return event < 0 ? -errno : event;
}

/* Neither fails on a descriptor of this kind but for a counter that is full, or empty already. */
void opp_host_event_tell(int event) {
    eventfd_write(event, 1);
}

void opp_host_event_take(int event) {
    eventfd_t count;
    eventfd_read(event, &count);
}
