/* A process that starts programs for one that may not: they are that one's children all the same. */
#include "opp_host.h"
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { passed_max = 5 }; /* the group, its entrance, the three standard ones */

/* Comes with the descriptors that are given; `text` bytes follow: path, folder, arguments, environment. */
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

/* The text behind the pointers into it, in memory of its own. */
static int take_program(int channel, const struct order *order, const int passed[passed_max],
    struct answer *answer) {
    size_t pointers = ((size_t)order->arguments + order->variables + 2) * sizeof(char *);
    size_t size = pointers + order->text;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return -1;
    char *text = memory + pointers, *end = text + order->text;
    for (char *next = text; next < end;) {
        ssize_t got = recv(channel, next, (size_t)(end - next), 0);
        if (got <= 0) return -1;
        next += got;
    }
    if (end[-1] != 0) return -1;
    opp_host_program program = {.path = text, .group = passed[0], .entrance = passed[1],
        .descriptors = {passed[2], passed[3], passed[4]}};
    char *next = text + strlen(text) + 1;
    if (order->has_folder != 0 && next < end) {
        program.folder = next;
        next += strlen(next) + 1;
    }
    char **list = (char **)(void *)memory;
    program.argv = list;
    for (uint32_t index = 0; index < order->arguments && next < end; index++, next += strlen(next) + 1)
        *list++ = next;
    program.envp = ++list; /* zero before it, as all of this memory was */
    for (uint32_t index = 0; index < order->variables && next < end; index++, next += strlen(next) + 1)
        *list++ = next;
    int failure = 0;
    answer->pid = opp_host_begin(&program, CLONE_PARENT, NULL, &failure);
    answer->failure = failure;
    munmap(memory, size);
    return 0;
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
        if (take_program(3, &order, passed, &answer) != 0) break;
        for (int index = 0; index < passed_max; index++)
            if (passed[index] >= 0) close(passed[index]);
        if (send(3, &answer, sizeof answer, MSG_NOSIGNAL) != (ssize_t)sizeof answer) break;
    }
    _exit(0);
}

/* --- In its caller ---------------------------------------------------------------------------- */

int opp_host_starter_open(pid_t *starter) {
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
    *starter = (pid_t)pid;
    return ends[0];
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

static int send_order(int channel, const opp_host_program *program, struct order *order) {
    const int all[passed_max] = {program->group, program->entrance, program->descriptors[0],
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
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int) * count);
        memcpy(CMSG_DATA(&control.header), given, sizeof(int) * count);
    }
    ssize_t sent;
    do sent = sendmsg(channel, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof *order ? 0 : sent < 0 ? -errno : -EPIPE;
}

static int send_text(int channel, const char *text, size_t size) {
    while (size > 0) {
        ssize_t sent = send(channel, text, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return sent < 0 ? -errno : -EPIPE;
        text += sent;
        size -= (size_t)sent;
    }
    return 0;
}

pid_t opp_host_starter_start(int channel, const opp_host_program *program, int *pidfd) {
    struct order order = {.has_folder = program->folder != NULL};
    order.text = write_text(program, NULL, &order);
    char *text = malloc(order.text);
    if (text == NULL) return -ENOMEM;
    write_text(program, text, &order);
    int error = send_order(channel, program, &order);
    if (error == 0) error = send_text(channel, text, order.text);
    free(text);
    if (error != 0) return error;
    struct answer answer;
    ssize_t got;
    do got = recv(channel, &answer, sizeof answer, MSG_WAITALL);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof answer) return -EPIPE;
    if (answer.pid < 0) return answer.pid;
    /* Ours to reap, so the number is no other's until then. */
    if (answer.failure == 0 && (error = opp_host_pidfd_open(answer.pid)) >= 0) {
        *pidfd = error;
        return answer.pid;
    }
    if (answer.failure == 0) kill(answer.pid, SIGKILL);
    while (waitpid(answer.pid, NULL, 0) < 0 && errno == EINTR) {}
    return answer.failure == 0 ? error : -answer.failure;
}
