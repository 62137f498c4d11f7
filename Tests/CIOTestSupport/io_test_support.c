#include "io_test_support.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/eventfd.h>
#include <termios.h>
#include <unistd.h>

struct run {
    void (*body)(void *);
    void *context;
    int result;
};

static int refuse(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    /* Both are this thread's alone, and its children's. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -errno;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return -errno;
    return 0;
}

static void *main_of_thread(void *context) {
    struct run *run = context;
    run->result = refuse();
    if (run->result == 0) run->body(run->context);
    return NULL;
}

int io_test_without_uring(void (*body)(void *), void *context) {
    struct run run = {.body = body, .context = context};
    pthread_t thread;
    int error = pthread_create(&thread, NULL, main_of_thread, &run);
    if (error != 0) return -error;
    pthread_join(thread, NULL);
    return run.result;
}

int io_test_eventfd(void) {
    return eventfd(0, EFD_CLOEXEC);
}

int io_test_terminal(int *ends) {
    char name[64];
    struct termios mode;
    ends[0] = -1;
    ends[1] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ends[1] >= 0 && grantpt(ends[1]) == 0 && unlockpt(ends[1]) == 0 &&
        ptsname_r(ends[1], name, sizeof(name)) == 0) {
        ends[0] = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    }
    if (ends[0] >= 0 && tcgetattr(ends[0], &mode) == 0) {
        cfmakeraw(&mode);
        if (tcsetattr(ends[0], TCSANOW, &mode) == 0) return 0;
    }
    int error = -errno;
    close(ends[0]), close(ends[1]);
    return error;
}

int io_test_attach_ebpf(int socket) {
    struct bpf_insn code[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = INT32_MAX},
        {.code = BPF_JMP | BPF_EXIT},
    };
    union bpf_attr program = {
        .prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
        .insn_cnt = sizeof(code) / sizeof(code[0]),
        .insns = (uintptr_t)code,
        .license = (uintptr_t) "GPL",
    };
    int fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &program, sizeof(program));
    if (fd < 0) return -errno;
    int error = setsockopt(socket, SOL_SOCKET, SO_ATTACH_BPF, &fd, sizeof(fd)) == 0 ? 0 : -errno;
    close(fd);
    return error;
}

enum { who_process = 1, class_shift = 13, class_real_time = 1 };

int io_test_io_class(int thread) {
    long value = syscall(SYS_ioprio_get, who_process, thread);
    return value < 0 ? -errno : (int)(value >> class_shift);
}

int io_test_may_be_real_time(void) {
    if (syscall(SYS_ioprio_set, who_process, 0, class_real_time << class_shift | 4) != 0) return 0;
    return syscall(SYS_ioprio_set, who_process, 0, 0) == 0;
}
