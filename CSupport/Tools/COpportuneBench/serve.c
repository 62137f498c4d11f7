/* What `opportune bench serve` needs of the kernel and Swift cannot call. */
#include "opp_bench.h"

#include "opportune.h"

#include <errno.h>
#include <linux/ioprio.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
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

/* Of the calling thread's CPU clock; 0: no stretch. */
static _Thread_local uint64_t stretch_begin;

static uint64_t thread_cpu_ns(void) {
    struct timespec time;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) return 0;
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

void opp_bench_stretch_begin(void) { stretch_begin = thread_cpu_ns(); }

uint64_t opp_bench_stretch_end(void) {
    uint64_t begin = stretch_begin;
    if (begin == 0) return 0;
    stretch_begin = 0;
    return thread_cpu_ns() - begin;
}

int opp_bench_idle_io(void) {
    long value = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0);
    return syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, value) == 0 ? 0 : -errno;
}
