/* What `opportune bench serve` needs of the kernel and Swift cannot call. */
#include "opp_bench.h"

#include "opportune.h"

#include <errno.h>
#include <linux/ioprio.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int opp_bench_poll(struct pollfd *all, uint32_t count, uint64_t until_ns) {
    uint64_t now = opp_now_ns();
    uint64_t left = until_ns > now ? until_ns - now : 0;
    struct timespec limit = {.tv_sec = (time_t)(left / 1000000000), .tv_nsec = (long)(left % 1000000000)};
    int ready = ppoll(all, count, &limit, NULL);
    return ready < 0 ? -errno : ready;
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
