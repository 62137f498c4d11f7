#include "opp_system.h"
#include "opp_assert.h"
#include "opp_sync.h"
#include "system_file.h"
#include "topology.h"

#include <liburing.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

/* --- Files and rings ------------------------------------------------------------------------ */

static void probe_ring(opp_system_probe *probe) {
    struct io_uring ring;
    struct io_uring_params params;
    memset(&params, 0, sizeof params);
    probe->io_uring = io_uring_queue_init_params(2, &ring, &params);
    if (probe->io_uring != 0) return;
    probe->io_uring_features = params.features;
    struct io_uring_probe *known = io_uring_get_probe_ring(&ring);
    if (known != NULL) {
        for (uint32_t op = 0; op < known->ops_len; op++)
            probe->io_uring_ops += (known->ops[op].flags & IO_URING_OP_SUPPORTED) != 0;
        io_uring_free_probe(known);
    }
    io_uring_queue_exit(&ring);
}

static int32_t read_number(const char *path, int32_t otherwise) {
    long long value;
    return opp_file_number("", path, &value) && value >= INT32_MIN && value <= INT32_MAX ? (int32_t)value
                                                                                       : otherwise;
}

/* --- Privileges, tried out ------------------------------------------------------------------ */

static bool sets(opp_class policy, int nice, uint8_t rt_priority, uint64_t slice_ns) {
    opp_sched_params params = {
        .policy = policy, .nice = (int8_t)nice, .rt_priority = rt_priority, .slice_ns = slice_ns};
    return opp_thread_set_sched(0, &params) == 0;
}

/* Older kernels accept the slice and ignore it. */
static bool try_slice(int nice, uint64_t *default_slice_ns) {
    const uint64_t slice_ns = 3 * 1000 * 1000;
    opp_sched_params now;
    if (!sets(OPP_CLASS_NORMAL, nice, 0, slice_ns) || opp_thread_get_sched(0, &now) != 0) return false;
    bool is_taken = now.slice_ns == slice_ns;
    if (is_taken && sets(OPP_CLASS_NORMAL, nice, 0, 0) && opp_thread_get_sched(0, &now) == 0)
        *default_slice_ns = now.slice_ns;
    return is_taken;
}

/* Raises nice and lowers it again; from nice 19 it only lowers it. */
static bool try_nice(int nice) {
    OPP_ASSERT(nice >= -20);
    OPP_ASSERT(nice <= 19);
    if (nice == 19) return sets(OPP_CLASS_NORMAL, 18, 0, 0) && sets(OPP_CLASS_NORMAL, 19, 0, 0);
    return sets(OPP_CLASS_NORMAL, 19, 0, 0) && sets(OPP_CLASS_NORMAL, nice, 0, 0);
}

/* The highest permitted priority, 0 where there is none. */
static uint8_t try_rr(void) {
    struct rlimit limit;
    if (sets(OPP_CLASS_RR, 0, 99, 0)) return 99;
    if (getrlimit(RLIMIT_RTPRIO, &limit) != 0 || limit.rlim_cur == 0) return 0;
    uint8_t allowed = limit.rlim_cur > 99 ? 99 : (uint8_t)limit.rlim_cur;
    OPP_ASSERT(allowed >= 1);
    return sets(OPP_CLASS_RR, 0, allowed, 0) ? allowed : 0;
}

/* Runs on a temporary thread, which keeps what cannot be undone. The least harmful test comes first. */
static void *probe_thread(void *context) {
    opp_system_probe *probe = context;
    opp_sched_params own;
    int nice = opp_thread_get_sched(0, &own) == 0 ? own.nice : 0;
    opp_thread_meter *meter = opp_thread_meter_create();
    opp_thread_usage usage;
    probe->has_schedstat = meter != NULL && opp_thread_meter_read(meter, &usage) == 0 &&
        usage.wait_known != 0;
    opp_thread_meter_destroy(meter);
    probe->can_see_locks = opp_lock_wait_is_readable();

    probe->can_set_slice = try_slice(nice, &probe->default_slice_ns);
    probe->rr_priority_max = try_rr();
    probe->can_use_rr = probe->rr_priority_max > 0;
    probe->can_raise_nice = sets(OPP_CLASS_NORMAL, nice, 0, 0) && try_nice(nice);
    /* At the thread's current nice value: leaving SCHED_IDLE is a separate question. */
    if (opp_thread_get_sched(0, &own) == 0) nice = own.nice;
    probe->can_leave_idle = sets(OPP_CLASS_IDLE, 0, 0, 0) && sets(OPP_CLASS_NORMAL, nice, 0, 0);
    return NULL;
}

int opp_system_probe_run(opp_system_probe *probe) {
    memset(probe, 0, sizeof *probe);
    probe_ring(probe);
    probe->numa = opp_topology_has_numa();
    probe->autogroup = read_number("/proc/sys/kernel/sched_autogroup_enabled", -1);
    probe->rt_runtime_us = read_number("/proc/sys/kernel/sched_rt_runtime_us", INT32_MIN);
    pthread_t thread;
    int result = pthread_create(&thread, NULL, probe_thread, probe);
    if (result == 0) result = pthread_join(thread, NULL);
    return -result;
}
