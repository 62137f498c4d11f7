/*
 * The kernel's interface to threads, CPUs and limits. Every call returns 0 or a count, or -errno; the caller
 * never reads errno itself.
 */
#ifndef OPP_SYSTEM_H
#define OPP_SYSTEM_H

#include "opp_base.h"

OPP_BEGIN_DECLS

/* --- Threads -------------------------------------------------------------------------------- */

/* The kernel scheduling class of a thread. Parameters that do not apply to a class are ignored. */
typedef enum opp_class {
    OPP_CLASS_NORMAL = 0, /* SCHED_OTHER; `nice` and `slice_ns` apply */
    OPP_CLASS_BATCH = 1,  /* SCHED_BATCH; `nice` and `slice_ns` apply */
    OPP_CLASS_IDLE = 2,   /* SCHED_IDLE */
    OPP_CLASS_RR = 3,     /* SCHED_RR with reset-on-fork; `rt_priority` applies */
} opp_class;

/* The slices that kernels accept. */
#define OPP_SLICE_NS_MIN 100000u
#define OPP_SLICE_NS_MAX 100000000u

typedef struct opp_sched_params {
    opp_class policy;
    int8_t nice;         /* -20 (first) to 19 (last) */
    uint8_t rt_priority; /* 1 to 99, OPP_CLASS_RR only */
    /* EEVDF slice, 100 us to 100 ms; 0 is the kernel's default. Ignored before Linux 6.12 */
    uint64_t slice_ns;
} opp_sched_params;

/* The kernel id of the calling thread. A system call only at the thread's first call, and after fork(). */
int32_t opp_thread_id(void);

/*
 * Sets class, nice and slice of thread `tid` (of this process; 0 is the caller). About 0.5 us. Returns 0;
 * -EPERM without the privilege to lower nice, to leave SCHED_IDLE or to enter SCHED_RR; -ESRCH if the thread
 * has ended; -EINVAL if a value that applies is out of range. Without privilege a thread that has left
 * SCHED_RR keeps reset-on-fork. In other classes that only means that its children have nice 0 at least.
 */
int opp_thread_set_sched(int32_t tid, const opp_sched_params *_Nonnull params);

/*
 * Reads them; `slice_ns` is the slice in force, 0 where the kernel does not report it. Returns 0, -ESRCH if
 * the thread has ended, -ENOTSUP if it is in a class that is not listed here, such as SCHED_FIFO.
 */
int opp_thread_get_sched(int32_t tid, opp_sched_params *_Nonnull params);

/*
 * Starts a detached thread, named `name` (15 bytes are kept), and calls body(context) on it. It inherits the
 * caller's class. Signals are blocked there, so that the program's handlers run on the program's threads. Not
 * blocked are signals of the thread's own faults (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS), so that
 * crash handlers see them. `stack_bytes`: 0 is the program's default, all else counts as at least 256 KiB.
 * Returns 0 or -errno (-EAGAIN where the process may have no more threads, -ENOMEM).
 */
int opp_thread_start(const char *_Nonnull name, size_t stack_bytes,
                     void (*_Nonnull body)(void *_Nullable), void *_Nullable context);

/*
 * Sets the timer slack of the calling thread in nanoseconds (prctl PR_SET_TIMERSLACK); 0 restores the
 * thread's initial value. Returns 0 or -errno.
 */
int opp_thread_set_timer_slack(uint64_t slack_ns);

/* --- CPU time of another thread of this process --------------------------------------------- */

/*
 * The CPU clock and an open descriptor (close-on-exec) of one thread. Created on that thread, read by any. If
 * the thread has ended, the calls return -ESRCH, or -ENOENT where they read /proc. A meter must not be read
 * in the child of fork().
 */
typedef struct opp_thread_meter opp_thread_meter;

typedef struct opp_thread_usage {
    uint64_t cpu_ns;      /* CPU time used, up to date also while the thread runs */
    uint64_t wait_ns;     /* time runnable but not running, up to its last CPU; 0 where unknown */
    uint64_t wait_known;  /* 1 where the kernel counts the wait (schedstat) */
} opp_thread_usage;

/* NULL where memory is short. Works, with wait_known = 0, where /proc is not mounted. */
opp_thread_meter *_Nullable opp_thread_meter_create(void);
void opp_thread_meter_destroy(opp_thread_meter *_Nullable meter);

/* Any thread; 0 or -errno. About 0.2 us for the CPU clock, 0.4 us more for the wait. No allocation. */
int opp_thread_meter_cpu(const opp_thread_meter *_Nonnull meter, uint64_t *_Nonnull cpu_ns);
int opp_thread_meter_read(const opp_thread_meter *_Nonnull meter, opp_thread_usage *_Nonnull usage);

/*
 * Voluntary context switches so far (from the thread's status in /proc, about 10 us). If two readings are
 * equal, the thread did not block between them. Returns -errno where unknown.
 */
int64_t opp_thread_meter_voluntary_switches(const opp_thread_meter *_Nonnull meter);

/*
 * Whether the thread is blocked now: off the CPU and not waiting for one (3 to 15 us). Returns 0 if not, or
 * -errno. OPP_BLOCKED: blocked. OPP_BLOCKED_IN_KERNEL: in an uninterruptible wait, for a disk or a kernel
 * lock. OPP_BLOCKED_ON_MEMORY_MAP: known to wait for the lock of the process's memory map.
 */
#define OPP_BLOCKED 1
#define OPP_BLOCKED_IN_KERNEL 2
#define OPP_BLOCKED_ON_MEMORY_MAP 3

int opp_thread_meter_is_blocked(const opp_thread_meter *_Nonnull meter);

/* The calling thread's own meter, and its voluntary context switches, for 0.2 us more; 0 or -errno. */
int opp_thread_meter_read_own(const opp_thread_meter *_Nonnull meter, opp_thread_usage *_Nonnull usage,
                              int64_t *_Nonnull switches);

/* --- Locks of the program's own --------------------------------------------------------------- */

/* That a thread waits for a lock. */
typedef struct opp_lock_wait {
    uint64_t address;  /* of the lock's futex */
    int32_t holder;    /* kernel id of the thread that holds it */
} opp_lock_wait;

/*
 * 1 where the thread sleeps until another gives up a lock whose memory says who that is: a futex with
 * priority inheritance, as `Synchronization.Mutex` is, or an ordinary mutex of glibc's. What comes back is
 * old at once, and memory that only looks like a mutex is taken for one: `holder` is to be compared with
 * threads that are known. 0 where it waits for no such lock, or -errno. Any thread, one at a time of
 * a meter; some 4 us.
 */
int opp_thread_meter_lock_wait(opp_thread_meter *_Nonnull meter, opp_lock_wait *_Nonnull wait);

/*
 * What a line of /proc/PID/task/TID/syscall says of a wait in a futex: 1, and its first three arguments; 0
 * where the thread is in none.
 */
int opp_lock_wait_parse(const char *_Nonnull line, uint64_t *_Nonnull address, uint64_t *_Nonnull operation,
                        uint64_t *_Nonnull value);

/* Whether the kernel lets this process look at its own threads' waits. */
bool opp_lock_wait_is_readable(void);

/* The CPU on which the thread is, or was last; -errno where unknown. Some 10 us. */
int opp_thread_meter_cpu_number(const opp_thread_meter *_Nonnull meter);

/*
 * From now on the thread does not run on that CPU; and may again. Needs no privilege. 1 where that is new, 0
 * where it was so before, -EINVAL where it has no other CPU, or -errno.
 */
int opp_thread_leave_cpu(int32_t tid, int cpu);
int opp_thread_return_to_cpu(int32_t tid, int cpu);

/* --- Topology and limits -------------------------------------------------------------------- */

#define OPP_MAX_CPUS 1024
#define OPP_MAX_NODES 64

/* The CPUs that this process may use, and their nodes. Filled by opp_topology_read(), or by a test. */
typedef struct opp_topology {
    uint32_t cpu_count;                 /* usable CPUs: online and in the affinity mask */
    uint32_t node_count;                /* at least 1 */
    uint16_t cpu[OPP_MAX_CPUS];         /* the usable CPUs' kernel numbers, ascending */
    uint8_t node_of[OPP_MAX_CPUS];      /* by position in `cpu`: index of the node, 0 to node_count - 1 */
    /* By index of the nodes that have a usable CPU; as numactl prints it: 10 is local. */
    uint8_t distance[OPP_MAX_NODES][OPP_MAX_NODES];
    uint64_t quota_milli;               /* CPU bandwidth limit in thousandths of a CPU; 0 is no limit */
} opp_topology;

/*
 * Reads the caller's affinity, libnuma, and the CPU quota: the smallest of the process's cgroup and the
 * visible ones above it (v2 cpu.max, v1 cpu.cfs_quota_us). Without /proc or /sys there is no limit and one
 * node. Reads about ten small files, in less than a millisecond. Returns 0 or -errno.
 */
int opp_topology_read(opp_topology *_Nonnull topology);

/* How many workers may run at once: min(cpu_count, quota rounded up), at least 1. */
uint32_t opp_topology_width(const opp_topology *_Nonnull topology);

/* The index in `topology->cpu` of the CPU on which the caller runs, or -1 if that is not among them. A few
 * nanoseconds. */
int32_t opp_topology_current(const opp_topology *_Nonnull topology);

/* --- Limits of threads ---------------------------------------------------------------------- */

/* A cgroup's limit of tasks, threads and processes alike, and its current number. */
typedef struct opp_task_limit {
    uint64_t max;  /* UINT64_MAX: there is no limit */
    uint64_t used;
} opp_task_limit;

/*
 * Reads pids.max and pids.current of the process's cgroup and of the visible ones above it, v1 and v2; the
 * one with the least room counts. Reads about ten small files, in less than a millisecond.
 */
void opp_task_limit_read(opp_task_limit *_Nonnull limit);

/* --- Probes for `opportune doctor` ---------------------------------------------------------- */

typedef struct opp_system_probe {
    int32_t io_uring;            /* 0, or -errno of io_uring_setup */
    uint32_t io_uring_features;  /* as the kernel reports them */
    uint32_t io_uring_ops;       /* number of opcodes supported */
    int32_t numa;                /* 1 where libnuma works here */
    int32_t autogroup;           /* /proc/sys/kernel/sched_autogroup_enabled, or -1 */
    int32_t rt_runtime_us;       /* /proc/sys/kernel/sched_rt_runtime_us, or INT32_MIN where unreadable */
    int32_t can_raise_nice;      /* 1: a thread's nice may be lowered again after raising it */
    int32_t can_leave_idle;      /* 1: SCHED_IDLE may be left again */
    int32_t can_use_rr;          /* 1: SCHED_RR may be entered */
    int32_t rr_priority_max;     /* the highest priority allowed there, 0 to 99 */
    int32_t can_set_slice;       /* 1: sched_setattr takes a slice for SCHED_OTHER */
    int32_t has_schedstat;       /* 1: run-queue wait of threads can be read */
    int32_t can_see_locks;       /* 1: opp_thread_meter_lock_wait() works */
    uint64_t default_slice_ns;   /* what sched_getattr says of SCHED_OTHER, 0 where it says nothing */
} opp_system_probe;

/*
 * Probes each on a temporary thread, so that the caller's thread is not changed; nothing that is changed
 * outlives the call. Takes about a millisecond. Returns 0, or -errno if no thread could be started (the files
 * are read all the same).
 */
int opp_system_probe_run(opp_system_probe *_Nonnull probe);

OPP_END_DECLS

#endif
