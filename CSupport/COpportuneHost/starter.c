/* A process that starts programs for one that may not: they are that one's children all the same. */
#include "opp_host.h"
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { passed_max = 6 }; /* the text, the group, its entrance, the three standard ones */
enum { look_ms = 20 };   /* a starter that does not answer is looked at so often */

/*
 * Comes with the descriptors that are given. The first is memory of both: the terms, then `text` bytes: path,
 * folder, arguments, environment. So an order is one message, of which no part can be left unsent.
 */
struct order {
    uint64_t text;
    uint32_t arguments, variables;
    int32_t has_folder;
    uint32_t given; /* a bit for each of passed_max */
};

struct answer {
    int32_t pid;     /* or -errno of clone3 */
    int32_t failure; /* what kept it from being the program; 0: it is */
};

/* --- In the starter: a copy of one thread of a process that may have many, so nothing may take a lock --- */

static int take_order(int channel, struct order *order, int passed[passed_max]) {
    union {
        char bytes[CMSG_SPACE(sizeof(int) * passed_max)];
        struct cmsghdr header;
    } control;
    struct iovec piece = {.iov_base = order, .iov_len = sizeof *order};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes,
        .msg_controllen = sizeof control.bytes};
    if (recvmsg(channel, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC) != (ssize_t)sizeof *order) return -1;
    int found[passed_max];
    size_t count = 0;
    struct cmsghdr *one = CMSG_FIRSTHDR(&message);
    if (one != NULL && one->cmsg_type == SCM_RIGHTS) {
        count = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(found, CMSG_DATA(one), count * sizeof(int));
    }
    size_t next = 0;
    for (int index = 0; index < passed_max; index++)
        passed[index] = (order->given >> index & 1) != 0 && next < count ? found[next++] : -1;
    return next == (size_t)__builtin_popcount(order->given) ? 0 : -1;
}

static void take_program(const struct order *order, const int passed[passed_max], struct answer *answer) {
    size_t pointers = ((size_t)order->arguments + order->variables + 2) * sizeof(char *);
    size_t size = sizeof(struct opp_host_terms) + order->text;
    struct opp_host_terms *terms = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, passed[0], 0);
    char **list = mmap(NULL, pointers, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    answer->failure = 0;
    if (terms == MAP_FAILED || list == MAP_FAILED) {
        answer->pid = -errno;
    } else if (((char *)(terms + 1))[order->text - 1] != 0) {
        answer->pid = -EINVAL; /* its last string has no end */
    } else if (atomic_load_explicit(&terms->is_over, memory_order_seq_cst) != 0) { /* [given up] */
        answer->pid = -ECANCELED;
    } else {
        char *text = (char *)(terms + 1), *end = text + order->text;
        opp_host_program program = {.path = text, .argv = list, .group = passed[1], .entrance = passed[2],
            .descriptors = {passed[3], passed[4], passed[5]}};
        char *next = text + strlen(text) + 1;
        if (order->has_folder != 0 && next < end) {
            program.folder = next;
            next += strlen(next) + 1;
        }
        char **place = list;
        for (uint32_t index = 0; index < order->arguments && next < end; index++, next += strlen(next) + 1)
            *place++ = next;
        program.envp = ++place; /* zero before it, as all of this memory was */
        for (uint32_t index = 0; index < order->variables && next < end; index++, next += strlen(next) + 1)
            *place++ = next;
        answer->pid = opp_host_begin(&program, CLONE_PARENT, NULL, terms, &answer->failure);
    }
    if (terms != MAP_FAILED) munmap(terms, size);
    if (list != MAP_FAILED) munmap(list, pointers);
}

/* Signals stay blocked as they were when it began, so that what ends its caller by the terminal spares it. */
static _Noreturn void serve(int channel) {
    setsid();
    prctl(PR_SET_NAME, "opportune-start", 0, 0, 0);
    dup2(channel, 3);
    syscall(SYS_close_range, 4, ~0u, 0);
    for (;;) {
        struct order order;
        struct answer answer;
        int passed[passed_max];
        if (take_order(3, &order, passed) != 0 || order.text == 0) break;
        take_program(&order, passed, &answer);
        for (int index = 0; index < passed_max; index++)
            if (passed[index] >= 0) close(passed[index]);
        if (send(3, &answer, sizeof answer, MSG_NOSIGNAL) != (ssize_t)sizeof answer) break;
    }
    _exit(0);
}

/* --- In its caller ---------------------------------------------------------------------------- */

int opp_host_starter_open(opp_host_starter *starter) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return -errno;
    long pid = -1;
    int number = EBADF; /* a standard descriptor is closed here, and programs would have this one for it */
    if (ends[0] > 2 && ends[1] > 2) {
        struct clone_args arguments = {.exit_signal = SIGCHLD};
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        pid = syscall(SYS_clone3, &arguments, sizeof arguments);
        if (pid == 0) serve(ends[1]);
        number = errno;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return -number;
    }
    *starter = (opp_host_starter){.channel = ends[0], .pid = (pid_t)pid};
    return 0;
}

/* Copies a string with its end, and returns where the next one goes; NULL: only counts. */
static void add(char **place, size_t *size, const char *text) {
    size_t length = strlen(text) + 1;
    if (*place != NULL) *place = (char *)memcpy(*place, text, length) + length;
    *size += length;
}

static size_t write_text(const opp_host_program *program, char *place, struct order *order) {
    size_t size = 0;
    order->arguments = order->variables = 0;
    add(&place, &size, program->path);
    if (program->folder != NULL) add(&place, &size, program->folder);
    for (char *const *one = program->argv; *one != NULL; one++, order->arguments++) add(&place, &size, *one);
    for (char *const *one = program->envp; *one != NULL; one++, order->variables++) add(&place, &size, *one);
    return size;
}

static int send_order(int channel, int text, const opp_host_program *program, struct order *order) {
    const int all[passed_max] = {text, program->group, program->entrance, program->descriptors[0],
        program->descriptors[1], program->descriptors[2]};
    union {
        char bytes[CMSG_SPACE(sizeof(int) * passed_max)];
        struct cmsghdr header;
    } control;
    memset(&control, 0, sizeof control);
    int given[passed_max];
    size_t count = 0;
    for (int index = 0; index < passed_max; index++) {
        if (all[index] < 0) continue;
        order->given |= 1u << index;
        given[count++] = all[index];
    }
    struct iovec piece = {.iov_base = order, .iov_len = sizeof *order};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes,
        .msg_controllen = CMSG_SPACE(sizeof(int) * count)};
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int) * count);
    memcpy(CMSG_DATA(&control.header), given, sizeof(int) * count);
    ssize_t sent;
    do sent = sendmsg(channel, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof *order ? 0 : sent < 0 ? -errno : -EPIPE;
}

static int64_t now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static int is_stopped(pid_t child) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    return waitid(P_PID, (id_t)child, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child;
}

/* Whether the answer has come; else `lack` says why not. */
static int take_answer(opp_host_starter *starter, int64_t until, struct answer *answer) {
    for (;;) {
        int64_t left = until - now_ms();
        struct pollfd polled = {.fd = starter->channel, .events = POLLIN};
        if (poll(&polled, 1, left <= 0 ? 0 : left < look_ms ? (int)left : look_ms) > 0) break;
        starter->lack = is_stopped(starter->pid) ? opp_host_starter_stopped
            : left <= 0                          ? opp_host_starter_silent
                                                 : opp_host_starter_fit;
        if (starter->lack != opp_host_starter_fit) return 0;
    }
    ssize_t got;
    do got = recv(starter->channel, answer, sizeof *answer, MSG_WAITALL);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof *answer) starter->lack = opp_host_starter_ended;
    return got == (ssize_t)sizeof *answer;
}

static void reap(pid_t child) {
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
}

static void end(pid_t child) {
    kill(child, SIGKILL);
    reap(child);
}

/*
 * [given up] The program is not to run, whenever the starter goes on. Either there is a child, whose number
 * the kernel wrote before it ran, or the starter or the child will see that it is over. Each side writes one
 * and then reads the other, which only sequential consistency keeps in order.
 */
static void give_up(struct opp_host_terms *terms) {
    atomic_store_explicit(&terms->is_over, 1, memory_order_seq_cst);
    pid_t child = atomic_load_explicit(&terms->pid, memory_order_seq_cst);
    if (child > 0) kill(child, SIGKILL); /* not reaped before the answer, so the number is no other's */
}

/* The number of the child that answers an order, or -errno. */
static pid_t carry_out(opp_host_starter *starter, const opp_host_program *program, int64_t until) {
    struct order order = {.has_folder = program->folder != NULL};
    order.text = write_text(program, NULL, &order);
    size_t size = sizeof(struct opp_host_terms) + order.text;
    int memory = (int)syscall(SYS_memfd_create, "opportune-order", MFD_CLOEXEC);
    if (memory < 0) return -errno;
    struct opp_host_terms *terms = MAP_FAILED;
    if (ftruncate(memory, (off_t)size) == 0)
        terms = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    int error = terms == MAP_FAILED ? -errno : 0;
    if (error == 0) {
        write_text(program, (char *)(terms + 1), &order);
        error = send_order(starter->channel, memory, program, &order);
        if (error == -EPIPE || error == -ECONNRESET) starter->lack = opp_host_starter_ended;
    }
    struct answer answer;
    if (error == 0 && !take_answer(starter, until, &answer)) {
        give_up(terms);
        starter->is_late = starter->lack != opp_host_starter_ended;
        error = -ETIMEDOUT;
    }
    if (terms != MAP_FAILED) munmap(terms, size);
    close(memory);
    if (error != 0) return error;
    if (answer.pid <= 0 || answer.failure == 0) return answer.pid;
    reap(answer.pid);
    return -answer.failure;
}

pid_t opp_host_starter_start(
    opp_host_starter *starter, const opp_host_program *program, int limit_ms, int *pidfd) {
    int64_t until = now_ms() + limit_ms;
    starter->lack = opp_host_starter_fit;
    if (starter->is_late) {
        struct answer late;
        if (!take_answer(starter, until, &late)) return -ETIMEDOUT;
        starter->is_late = 0;
        if (late.pid > 0) end(late.pid);
    }
    pid_t child = carry_out(starter, program, until);
    if (child <= 0) return child;
    /* Ours to reap, so the number is no other's until then. */
    int descriptor = opp_host_pidfd_open(child);
    if (descriptor >= 0) {
        *pidfd = descriptor;
        return child;
    }
    end(child);
    return descriptor;
}

void opp_host_starter_close(opp_host_starter *starter) {
    close(starter->channel);
    end(starter->pid); /* it may be stopped */
}
