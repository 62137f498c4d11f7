/* What `opportune bench serve` needs of the kernel and Swift cannot call. */
#include "opp_bench.h"

#include "opportune.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

int opp_bench_watch_open(void) {
    int watch = epoll_create1(EPOLL_CLOEXEC);
    return watch >= 0 ? watch : -errno;
}

static int set(int watch, int what, int fd, uint32_t number, bool writes) {
    struct epoll_event event = {.events = EPOLLIN | (writes ? (uint32_t)EPOLLOUT : 0), .data.u32 = number};
    return epoll_ctl(watch, what, fd, &event) == 0 ? 0 : -errno;
}

int opp_bench_watch_add(int watch, int fd, uint32_t number) {
    return set(watch, EPOLL_CTL_ADD, fd, number, false);
}

int opp_bench_watch_change(int watch, int fd, uint32_t number, bool writes) {
    return set(watch, EPOLL_CTL_MOD, fd, number, writes);
}

int opp_bench_watch_remove(int watch, int fd) { return set(watch, EPOLL_CTL_DEL, fd, 0, false); }

int opp_bench_watch_wait(int watch, uint32_t *ready, uint32_t count, uint64_t until_ns) {
    enum { most = 64 };
    struct epoll_event events[most];
    uint64_t now = opp_now_ns();
    if (until_ns > now) {
        /* epoll_wait(2) counts milliseconds. */
        uint64_t left = until_ns - now;
        struct timespec limit = {.tv_sec = (time_t)(left / 1000000000), .tv_nsec = (long)(left % 1000000000)};
        struct pollfd all = {.fd = watch, .events = POLLIN};
        int woken = ppoll(&all, 1, &limit, NULL);
        if (woken <= 0) return woken < 0 ? -errno : 0;
    }
    int found = epoll_wait(watch, events, (int)(count < most ? count : most), 0);
    for (int index = 0; index < found; index++) ready[index] = events[index].data.u32;
    return found < 0 ? -errno : found;
}

/* --- Stretches -------------------------------------------------------------------------------------- */

/* The calling thread's clocks at its begin; `is_open` where there is one. */
static _Thread_local struct {
    uint64_t now, cpu, cpu_wait;
    bool is_open;
} stretch;

static uint64_t thread_cpu_ns(void) {
    struct timespec time;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) return 0;
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static tss_t schedstat_key;
static bool has_schedstat_key;
static once_flag schedstat_once = ONCE_FLAG_INIT;
static _Thread_local int schedstat; /* the descriptor + 1, or -1: the kernel has none */

static void schedstat_close(void *descriptor) { close((int)(intptr_t)descriptor - 1); }

static void schedstat_create_key(void) {
    has_schedstat_key = tss_create(&schedstat_key, schedstat_close) == thrd_success;
}

/* Opened once in a thread, and closed as the thread ends. */
static int thread_schedstat(void) {
    if (schedstat != 0) return schedstat - 1;
    call_once(&schedstat_once, schedstat_create_key);
    int opened = has_schedstat_key ? open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC) : -1;
    schedstat = opened >= 0 ? opened + 1 : -1;
    if (opened >= 0) tss_set(schedstat_key, (void *)(intptr_t)schedstat);
    return opened;
}

/* Its second number, by the kernel's Documentation/scheduler/sched-stats. */
static uint64_t thread_cpu_wait_ns(void) {
    char text[64];
    int descriptor = thread_schedstat();
    ssize_t count = descriptor >= 0 ? pread(descriptor, text, sizeof text - 1, 0) : 0;
    if (count <= 0) return 0;
    text[count] = '\0';
    const char *second = strchr(text, ' ');
    return second != NULL ? strtoull(second, NULL, 10) : 0;
}

void opp_bench_stretch_begin(void) {
    stretch.cpu_wait = thread_cpu_wait_ns();
    stretch.now = opp_now_ns();
    stretch.cpu = thread_cpu_ns();
    stretch.is_open = true;
}

opp_bench_stretch opp_bench_stretch_end(void) {
    opp_bench_stretch passed = {0};
    if (!stretch.is_open) return passed;
    stretch.is_open = false;
    passed.cpu = thread_cpu_ns() - stretch.cpu;
    uint64_t lasted = opp_now_ns() - stretch.now;
    passed.cpu_wait = thread_cpu_wait_ns() - stretch.cpu_wait;
    uint64_t known = passed.cpu + passed.cpu_wait;
    passed.blocked = lasted > known ? lasted - known : 0;
    return passed;
}

/* --- Its class --------------------------------------------------------------------------------------- */

int opp_bench_idle_io(void) {
    long value = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0);
    return syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, value) == 0 ? 0 : -errno;
}
