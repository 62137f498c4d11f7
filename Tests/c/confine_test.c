/* What the host of programs gives up is refused to all its threads, and what it needs is not. */
#ifndef __clang__
#define _Nonnull
#define _Nullable
#endif
#include "confine.c"

#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>

/* Each but the first would succeed, or fail by another error, where it is not refused. */
static void check_refused(void) {
    char *const words[] = {"/bin/false", NULL};
    CHECK_EQUAL(syscall(SYS_execve, words[0], words, words + 1), -1);
    CHECK_EQUAL(errno, EPERM);
    static const struct {
        long number, arguments[3];
    } calls[] = {
        {SYS_personality, {0xffffffff}}, {SYS_unshare, {0}}, {SYS_setresuid, {-1, -1, -1}},
        {SYS_setresgid, {-1, -1, -1}}, {SYS_io_uring_setup, {0}}, {SYS_kcmp, {0}}, {SYS_keyctl, {-1}},
        {SYS_perf_event_open, {0}}, {SYS_process_vm_writev, {0}}, {SYS_adjtimex, {0}}, {SYS_setns, {-1}},
        {SYS_mknodat, {-1, 0}},
#if defined(__x86_64__)
        {0x40000000 | SYS_getpid, {0}},
#endif
    };
    for (size_t index = 0; index < sizeof calls / sizeof calls[0]; index++) {
        const long *with = calls[index].arguments;
        errno = 0;
        long status = syscall((long)calls[index].number, with[0], with[1], with[2], 0, 0);
        if (status != -1 || errno != EPERM) fprintf(stderr, "call %ld: %s\n", calls[index].number, strerror(errno));
        CHECK_EQUAL(status, -1);
        CHECK_EQUAL(errno, EPERM);
    }
}

static int told[2];

static void *other(void *unused) {
    char byte;
    CHECK_EQUAL(read(told[0], &byte, 1), 1);
    check_refused();
    CHECK(opp_host_is_confined());
    return unused;
}

static void in_child(void) {
    pthread_t thread;
    CHECK_EQUAL(pipe(told), 0);
    CHECK_EQUAL(pthread_create(&thread, NULL, other, NULL), 0);
    CHECK(!opp_host_is_confined());
    int error = opp_host_confine();
    if (error == -ENOSYS || error == -EINVAL) _exit(77);
    CHECK_EQUAL(error, 0);
    CHECK(opp_host_is_confined());
    check_refused();
    CHECK_EQUAL(write(told[1], "", 1), 1);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);

    char from = 7, to = 0;
    struct iovec here = {.iov_base = &to, .iov_len = 1}, there = {.iov_base = &from, .iov_len = 1};
    CHECK_EQUAL(process_vm_readv(getpid(), &here, 1, &there, 1, 0), 1);
    CHECK_EQUAL(to, 7);
    CHECK(open("/proc/self/status", O_RDONLY) >= 0);
    CHECK(syscall(SYS_pidfd_open, getpid(), 0) >= 0);
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    CHECK_EQUAL(syscall(SYS_capget, &header, sets), 0);
    CHECK_EQUAL(sets[0].permitted & (CAP_TO_MASK(CAP_SETUID) | CAP_TO_MASK(CAP_SYS_MODULE)), 0);
    if (geteuid() == 0 && (sets[1].permitted & CAP_TO_MASK(CAP_BPF)) != 0)
        CHECK_EQUAL(sets[0].permitted & CAP_TO_MASK(CAP_SYS_ADMIN), 0);
    _exit(0); /* the leak sanitizer would look by ptrace() */
}

int main(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) in_child();
    int status;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) SKIP("the kernel takes no filter of system calls");
    CHECK_EQUAL(status, 0);
    CHECK(!opp_host_is_confined());
    return 0;
}
