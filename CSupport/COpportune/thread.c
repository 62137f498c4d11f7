#include "opp_assert.h"
#include "opp_system.h"
#include "opp_sync.h"
#include "thread_create.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

/* --- Identity ------------------------------------------------------------------------------- */

/*
 * The id is cached for each thread, since the system call costs over 100 ns and strands need the id in each
 * run. After fork() the child's one thread has another id, so the child clears the cache.
 */
static _Thread_local int32_t known_id;
static pthread_once_t identity_once = PTHREAD_ONCE_INIT;
static bool is_forgotten_by_fork; /* written once, under identity_once */

static void forget_id(void) {
    known_id = 0;
}

static void identity_set_up(void) {
    is_forgotten_by_fork = pthread_atfork(NULL, NULL, forget_id) == 0;
}

int32_t opp_thread_id(void) {
    if (known_id != 0) return known_id;
    pthread_once(&identity_once, identity_set_up);
    int32_t id = (int32_t)syscall(SYS_gettid);
    OPP_ASSERT(id > 0);
    if (is_forgotten_by_fork) known_id = id;
    return id;
}

/* --- Scheduling ----------------------------------------------------------------------------- */

/*
 * The first version of the kernel's struct sched_attr, which has all that is needed here. Some C libraries
 * declare the struct and its two calls, others do not, and <linux/sched/types.h> clashes with those that do.
 */
struct sched_attributes {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime; /* the slice, for SCHED_OTHER and SCHED_BATCH since Linux 6.12 */
    uint64_t deadline;
    uint64_t period;
};
_Static_assert(sizeof(struct sched_attributes) == 48, "SCHED_ATTR_SIZE_VER0");

enum {
    POLICY_OTHER = 0,
    POLICY_RR = 2,
    POLICY_BATCH = 3,
    POLICY_IDLE = 5,
    FLAG_RESET_ON_FORK = 1,
};

static int attributes_set(int32_t tid, struct sched_attributes *attributes) {
    return syscall(SYS_sched_setattr, tid, attributes, 0) == 0 ? 0 : -errno;
}

static int attributes_get(int32_t tid, struct sched_attributes *attributes) {
    memset(attributes, 0, sizeof *attributes);
    return syscall(SYS_sched_getattr, tid, attributes, sizeof *attributes, 0) == 0 ? 0 : -errno;
}

/* Fills in the parameters that the class uses; the kernel would silently clamp values out of range. */
static int attributes_make(struct sched_attributes *attributes, const opp_sched_params *params) {
    *attributes = (struct sched_attributes){.size = sizeof *attributes};
    switch (params->policy) {
    case OPP_CLASS_NORMAL:
    case OPP_CLASS_BATCH:
        if (params->nice < -20 || params->nice > 19) return -EINVAL;
        if (params->slice_ns != 0 &&
            (params->slice_ns < OPP_SLICE_NS_MIN || params->slice_ns > OPP_SLICE_NS_MAX))
            return -EINVAL;
        attributes->policy = params->policy == OPP_CLASS_NORMAL ? POLICY_OTHER : POLICY_BATCH;
        attributes->nice = params->nice;
        attributes->runtime = params->slice_ns;
        return 0;
    case OPP_CLASS_IDLE:
        attributes->policy = POLICY_IDLE;
        return 0;
    case OPP_CLASS_RR:
        if (params->rt_priority < 1 || params->rt_priority > 99) return -EINVAL;
        attributes->policy = POLICY_RR;
        attributes->priority = params->rt_priority;
        /* A program that a real-time thread starts must not be real-time too. */
        attributes->flags = FLAG_RESET_ON_FORK;
        return 0;
    }
    return -EINVAL;
}

int opp_thread_set_sched(int32_t tid, const opp_sched_params *params) {
    struct sched_attributes wanted;
    int result = attributes_make(&wanted, params);
    if (result == 0) result = attributes_set(tid, &wanted);
    if (result != -EPERM) return result;

    /* Clearing reset-on-fork needs privilege, although no caller asked for that: a thread that has the flag
     * keeps it. */
    struct sched_attributes current;
    if (attributes_get(tid, &current) != 0) return result;
    if ((current.flags & ~wanted.flags & FLAG_RESET_ON_FORK) == 0) return result;
    wanted.flags |= FLAG_RESET_ON_FORK;
    return attributes_set(tid, &wanted);
}

int opp_thread_get_sched(int32_t tid, opp_sched_params *params) {
    struct sched_attributes current;
    int result = attributes_get(tid, &current);
    if (result != 0) return result;
    memset(params, 0, sizeof *params);
    params->nice = (int8_t)current.nice;
    switch (current.policy) {
    case POLICY_OTHER:
        params->policy = OPP_CLASS_NORMAL;
        params->slice_ns = current.runtime;
        return 0;
    case POLICY_BATCH:
        params->policy = OPP_CLASS_BATCH;
        params->slice_ns = current.runtime;
        return 0;
    case POLICY_IDLE:
        params->policy = OPP_CLASS_IDLE;
        return 0;
    case POLICY_RR:
        params->policy = OPP_CLASS_RR;
        params->rt_priority = (uint8_t)current.priority;
        return 0;
    default:
        return -ENOTSUP;
    }
}

/* --- Starting ------------------------------------------------------------------------------- */

/* Kernel names are 15 bytes and a zero. */
enum { NAME_SIZE = 16 };

/* Frames of Swift code are large, and pages that are never touched cost nothing. */
static const size_t stack_bytes_min = 256 * 1024;

typedef struct start {
    void (*body)(void *);
    void *context;
    char name[NAME_SIZE];
} start;

static void *thread_main(void *argument) {
    start own = *(start *)argument;
    free(argument);
    pthread_setname_np(pthread_self(), own.name);
    own.body(own.context);
    return NULL;
}

/*
 * The signals of a thread's own faults stay unblocked. If they were blocked, the kernel would kill the
 * process without running the program's handler, and a crash would leave no backtrace.
 */
static void fill_asynchronous(sigset_t *signals) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigfillset(signals);
    for (size_t index = 0; index < sizeof faults / sizeof faults[0]; index++)
        sigdelset(signals, faults[index]);
}

int opp_thread_create(pthread_t *joinable, size_t stack_bytes, void *(*body)(void *), void *argument) {
    pthread_attr_t attributes;
    int result = pthread_attr_init(&attributes);
    if (result != 0) return -result;
    if (joinable == NULL) result = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (result == 0 && stack_bytes > 0)
        result = pthread_attr_setstacksize(&attributes,
                                           stack_bytes < stack_bytes_min ? stack_bytes_min : stack_bytes);
    if (result == 0) {
        /* The mask is inherited, so no signal reaches the new thread before it could block it. */
        sigset_t blocked, previous;
        fill_asynchronous(&blocked);
        pthread_sigmask(SIG_SETMASK, &blocked, &previous);
        pthread_t thread;
        result = pthread_create(joinable != NULL ? joinable : &thread, &attributes, body, argument);
        pthread_sigmask(SIG_SETMASK, &previous, NULL);
    }
    pthread_attr_destroy(&attributes);
    return -result;
}

int opp_thread_start(const char *name, size_t stack_bytes, void (*body)(void *), void *context) {
    OPP_ASSERT(body != NULL);
    start *argument = calloc(1, sizeof *argument);
    if (argument == NULL) return -ENOMEM;
    argument->body = body;
    argument->context = context;
    memcpy(argument->name, name, strnlen(name, NAME_SIZE - 1));
    int result = opp_thread_create(NULL, stack_bytes, thread_main, argument);
    if (result != 0) free(argument);
    return result;
}

int opp_thread_set_timer_slack(uint64_t slack_ns) {
    if (slack_ns > ULONG_MAX) return -EINVAL;
    return prctl(PR_SET_TIMERSLACK, (unsigned long)slack_ns, 0, 0, 0) == 0 ? 0 : -errno;
}
