/* A process that leaves nothing frozen behind, whatever becomes of the one that started it. */
#include "opp_host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* What the kernel puts into a buffer of getdents64; glibc has no name for it. */
struct entry {
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

struct message {
    int32_t pid;
    int32_t is_stopped;
};

enum { stopped_max = 32768 };
static int32_t stopped[stopped_max];

static void thaw_group(int folder, const char *name) {
    int group = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (group < 0) return;
    int file = openat(group, "cgroup.freeze", O_WRONLY | O_CLOEXEC);
    if (file >= 0) {
        ssize_t written = write(file, "0", 1);
        (void)written; /* nobody could be told */
        close(file);
    }
    close(group);
}

static void thaw_groups(int folder) {
    _Alignas(struct entry) char buffer[4096];
    lseek(folder, 0, SEEK_SET);
    long count;
    while ((count = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0) {
        for (long place = 0; place < count;) {
            const struct entry *entry = (const struct entry *)(const void *)(buffer + place);
            if (entry->type == DT_DIR && entry->name[0] != '.') thaw_group(folder, entry->name);
            place += entry->length;
        }
    }
}

static void note(struct message message, size_t *count) {
    for (size_t index = 0; index < *count; index++) {
        if (stopped[index] != message.pid) continue;
        if (message.is_stopped == 0) stopped[index] = stopped[--*count];
        return;
    }
    if (message.is_stopped != 0 && *count < stopped_max) stopped[(*count)++] = message.pid;
}

/* A copy of one thread of a process that may have many: nothing here may take a lock. */
static _Noreturn void guard(int channel, int folder, int turn) {
    setsid();
    setpriority(PRIO_PROCESS, 0, -20); /* where it may: what is frozen waits for this process */
    prctl(PR_SET_NAME, "opportune-ward", 0, 0, 0);
    int next = fcntl(channel, F_DUPFD, 3);
    int groups = folder < 0 ? -1 : fcntl(folder, F_DUPFD, 3);
    int held = turn < 0 ? -1 : fcntl(turn, F_DUPFD, 3);
    dup2(next, 0);
    if (groups >= 0) dup2(groups, 1); else close(1);
    if (held >= 0) dup2(held, 2); else close(2);
    syscall(SYS_close_range, 3, ~0u, 0);

    size_t count = 0;
    struct message message;
    for (;;) {
        ssize_t got = recv(0, &message, sizeof message, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        if (got == (ssize_t)sizeof message) note(message, &count);
    }
    if (groups >= 0) thaw_groups(1);
    for (size_t index = 0; index < count; index++) kill(stopped[index], SIGCONT);
    _exit(0);
}

int opp_host_warden_turn(const char *key) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    /* After a null byte: a name of no file, which goes with who has it. */
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "opportune-warden-%u-%s", geteuid(), key);
    if (length < 0 || (size_t)length >= sizeof name.sun_path - 1) return -ENAMETOOLONG;
    int turn = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (turn < 0) return -errno;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    if (bind(turn, (struct sockaddr *)&name, size) == 0) return turn;
    int number = errno;
    close(turn);
    return -number;
}

int opp_host_warden_start(const char *folder, int turn, pid_t *warden) {
    int ends[2], groups = -1;
    if (folder != NULL && (groups = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) return -errno;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        int number = errno;
        if (groups >= 0) close(groups);
        return -number;
    }
    /* A full channel waits for the warden: what it is not told of would stay stopped. */
    struct timeval patience = {.tv_sec = 1};
    setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    struct clone_args arguments = {.exit_signal = SIGCHLD};
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (pid == 0) guard(ends[1], groups, turn);
    int number = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (groups >= 0) close(groups);
    if (pid < 0) {
        close(ends[0]);
        return -number;
    }
    *warden = (pid_t)pid;
    return ends[0];
}

int opp_host_warden_tell(int channel, pid_t pid, int is_stopped) {
    struct message message = {.pid = pid, .is_stopped = is_stopped};
    ssize_t sent;
    do sent = send(channel, &message, sizeof message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : 0;
}
