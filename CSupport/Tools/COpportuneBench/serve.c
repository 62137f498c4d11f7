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

int opp_bench_idle_io(void) {
    long value = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0);
    return syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, value) == 0 ? 0 : -errno;
}
