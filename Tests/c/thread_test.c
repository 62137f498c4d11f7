/* Threads: how they start, scheduling class, nice and slice, from inside and outside. R-CPU-01, R-CARD-01,
 * R-SYS-03 */
#include "opportune.h"

#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- A thread that waits until it is let go ------------------------------------------------- */

typedef struct guest {
    sem_t ready, go, done;
    int32_t id;
    sigset_t blocked;
    char name[16];
} guest;

static void guest_main(void *context) {
    guest *own = context;
    own->id = opp_thread_id();
    pthread_sigmask(SIG_SETMASK, NULL, &own->blocked);
    prctl(PR_GET_NAME, own->name);
    sem_post(&own->ready);
    while (sem_wait(&own->go) != 0) continue;
    sem_post(&own->done);
}

static void guest_start(guest *own, const char *name) {
    memset(own, 0, sizeof *own);
    sem_init(&own->ready, 0, 0);
    sem_init(&own->go, 0, 0);
    sem_init(&own->done, 0, 0);
    CHECK_EQUAL(opp_thread_start(name, 1, guest_main, own), 0);
    while (sem_wait(&own->ready) != 0) continue;
}

static void guest_end(guest *own) {
    sem_post(&own->go);
    while (sem_wait(&own->done) != 0) continue;
}

static opp_sched_params params_of(int32_t tid) {
    opp_sched_params params;
    CHECK_EQUAL(opp_thread_get_sched(tid, &params), 0);
    return params;
}

static int set(int32_t tid, opp_class policy, int8_t nice, uint8_t rt_priority, uint64_t slice_ns) {
    opp_sched_params params =
        {.policy = policy, .nice = nice, .rt_priority = rt_priority, .slice_ns = slice_ns};
    return opp_thread_set_sched(tid, &params);
}

/* --- Tests ---------------------------------------------------------------------------------- */

static void starts_named_and_deaf(void) {
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    guest own;
    guest_start(&own, "a name that is too long");
    CHECK(strcmp(own.name, "a name that is ") == 0);
    CHECK(own.id != opp_thread_id());
    for (int number = 1; number <= SIGSYS; number++) { /* behind it come two of the C library */
        int is_fault = number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
                       number == SIGTRAP || number == SIGSYS;
        int can_block = number != SIGKILL && number != SIGSTOP;
        CHECK_EQUAL(sigismember(&own.blocked, number), can_block && !is_fault);
    }
    CHECK_EQUAL(sigismember(&own.blocked, SIGRTMIN), 1);
    guest_end(&own);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    CHECK_EQUAL(sigismember(&after, SIGINT), sigismember(&before, SIGINT));
    CHECK_EQUAL(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
}

static void sets_what_is_asked(void) {
    guest own;
    guest_start(&own, "guest");
    int8_t nice = params_of(own.id).nice;

    int8_t nicer = nice < 18 ? (int8_t)(nice + 1) : 19, nicest = nice < 16 ? (int8_t)(nice + 3) : 19;
    CHECK_EQUAL(set(own.id, OPP_CLASS_BATCH, nicer, 0, 0), 0);
    CHECK_EQUAL(params_of(own.id).policy, OPP_CLASS_BATCH);
    CHECK_EQUAL(params_of(own.id).nice, nicer);

    CHECK_EQUAL(set(own.id, OPP_CLASS_NORMAL, nicest, 0, 0), 0);
    CHECK_EQUAL(params_of(own.id).policy, OPP_CLASS_NORMAL);
    CHECK_EQUAL(params_of(own.id).nice, nicest);

    /* Allowed to everyone, whatever the thread's nice value; the caller's own class stays. */
    CHECK_EQUAL(set(own.id, OPP_CLASS_IDLE, 0, 0, 0), 0);
    CHECK_EQUAL(params_of(own.id).policy, OPP_CLASS_IDLE);
    CHECK_EQUAL(params_of(0).policy, OPP_CLASS_NORMAL);
    guest_end(&own);
}

static void refuses_what_is_out_of_range(void) {
    opp_sched_params before = params_of(0);
    CHECK_EQUAL(set(0, OPP_CLASS_NORMAL, 20, 0, 0), -EINVAL);
    CHECK_EQUAL(set(0, OPP_CLASS_NORMAL, -21, 0, 0), -EINVAL);
    CHECK_EQUAL(set(0, OPP_CLASS_NORMAL, before.nice, 0, OPP_SLICE_NS_MIN - 1), -EINVAL);
    CHECK_EQUAL(set(0, OPP_CLASS_BATCH, before.nice, 0, OPP_SLICE_NS_MAX + 1), -EINVAL);
    CHECK_EQUAL(set(0, OPP_CLASS_RR, 0, 0, 0), -EINVAL);
    CHECK_EQUAL(set(0, OPP_CLASS_RR, 0, 100, 0), -EINVAL);
    CHECK_EQUAL(set(0, (opp_class)7, 0, 0, 0), -EINVAL);
    CHECK_EQUAL(set(INT32_MAX, OPP_CLASS_IDLE, 0, 0, 0), -ESRCH);
    opp_sched_params after = params_of(0);
    CHECK_EQUAL(after.policy, before.policy);
    CHECK_EQUAL(after.nice, before.nice);
}

/* R-CPU-06: the slice goes both ways without privilege, which demotion relies on. */
static void slice_goes_both_ways(const opp_system_probe *probe) {
    struct utsname names;
    int major = 0, minor = 0;
    CHECK_EQUAL(uname(&names), 0);
    CHECK_EQUAL(sscanf(names.release, "%d.%d", &major, &minor), 2);
    if (major > 6 || (major == 6 && minor >= 12)) CHECK(probe->can_set_slice);
    if (probe->can_set_slice == 0) {
        fprintf(stderr, "note: this kernel has no slices (Linux 6.12 has)\n");
        return;
    }
    guest own;
    guest_start(&own, "guest");
    int8_t nice = params_of(own.id).nice;
    CHECK_EQUAL(set(own.id, OPP_CLASS_NORMAL, nice, 0, OPP_SLICE_NS_MAX), 0);
    CHECK_EQUAL(params_of(own.id).slice_ns, OPP_SLICE_NS_MAX);
    CHECK_EQUAL(set(own.id, OPP_CLASS_NORMAL, nice, 0, OPP_SLICE_NS_MIN), 0);
    CHECK_EQUAL(params_of(own.id).slice_ns, OPP_SLICE_NS_MIN);
    CHECK_EQUAL(set(own.id, OPP_CLASS_NORMAL, nice, 0, 0), 0);
    CHECK_EQUAL(params_of(own.id).slice_ns, probe->default_slice_ns);
    CHECK(probe->default_slice_ns != OPP_SLICE_NS_MIN);
    guest_end(&own);
}

/* What the probe promises is what happens, allowed or not. */
static void probe_is_right(const opp_system_probe *probe) {
    guest own;
    guest_start(&own, "guest");
    int8_t nice = params_of(own.id).nice;
    int result = set(own.id, OPP_CLASS_RR, 0, 1, 0);
    CHECK_EQUAL(result, probe->can_use_rr ? 0 : -EPERM);
    if (result == 0) {
        CHECK_EQUAL(params_of(own.id).policy, OPP_CLASS_RR);
        CHECK_EQUAL(params_of(own.id).rt_priority, 1);
        CHECK_EQUAL(set(own.id, OPP_CLASS_RR, 0, (uint8_t)probe->rr_priority_max, 0), 0);
        CHECK_EQUAL(set(own.id, OPP_CLASS_NORMAL, nice, 0, 0), 0);
    }
    if (nice < 19) {
        CHECK_EQUAL(set(own.id, OPP_CLASS_NORMAL, (int8_t)(nice + 1), 0, 0), 0);
        CHECK_EQUAL(set(own.id, OPP_CLASS_NORMAL, nice, 0, 0), probe->can_raise_nice ? 0 : -EPERM);
    }
    nice = params_of(own.id).nice;
    CHECK_EQUAL(set(own.id, OPP_CLASS_IDLE, 0, 0, 0), 0);
    CHECK_EQUAL(set(own.id, OPP_CLASS_NORMAL, nice, 0, 0), probe->can_leave_idle ? 0 : -EPERM);
    guest_end(&own);
}

/* What an ordinary user's process sees. */
static void works_unprivileged(void) {
    CHECK_EQUAL(syscall(SYS_setresuid, 65534, 65534, 65534), 0);
    opp_system_probe probe;
    CHECK_EQUAL(opp_system_probe_run(&probe), 0);
    CHECK_EQUAL(probe.can_raise_nice, 0);
    CHECK_EQUAL(probe.can_leave_idle, 0);
    CHECK_EQUAL(probe.can_use_rr, 0);
    CHECK_EQUAL(probe.rr_priority_max, 0);
    sets_what_is_asked();
    slice_goes_both_ways(&probe);
    probe_is_right(&probe);
}

static void child_succeeds(pid_t child) {
    CHECK(child >= 0);
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), 0);
}

/* In a program of its own, since a child of fork() may not start threads under a sanitizer. */
static void works_unprivileged_elsewhere(void) {
    if (geteuid() != 0) return; /* then all the others have shown it */
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "thread", "unprivileged", (char *)NULL);
        fprintf(stderr, "note: not run unprivileged, there is no /proc\n");
        _exit(0);
    }
    child_succeeds(child);
}

/* RR is allowed by privilege alone; what it leaves behind must not need privilege to come back from. */
static void leaves_rr_without_privilege(const opp_system_probe *probe) {
    if (geteuid() != 0 || !probe->can_use_rr) return;
    fflush(NULL);
    int8_t nice = params_of(0).nice;
    pid_t child = fork();
    if (child == 0) {
        CHECK_EQUAL(set(0, OPP_CLASS_RR, 0, 5, 0), 0);
        CHECK_EQUAL(syscall(SYS_setresuid, 65534, 65534, 65534), 0);
        CHECK_EQUAL(set(0, OPP_CLASS_NORMAL, nice, 0, 0), 0);
        CHECK_EQUAL(params_of(0).policy, OPP_CLASS_NORMAL);
        exit(0);
    }
    child_succeeds(child);
}

/* SCHED_RR is not passed on to what the thread starts. */
static void rr_resets_on_fork(const opp_system_probe *probe) {
    if (!probe->can_use_rr) return;
    opp_sched_params before = params_of(0);
    CHECK_EQUAL(set(0, OPP_CLASS_RR, 0, 1, 0), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit(params_of(0).policy == OPP_CLASS_NORMAL ? 0 : 1);
    CHECK_EQUAL(opp_thread_set_sched(0, &before), 0);
    child_succeeds(child);
}

static void id_is_new_after_fork(void) {
    CHECK_EQUAL(opp_thread_id(), syscall(SYS_gettid));
    CHECK_EQUAL(opp_thread_id(), getpid());
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit(opp_thread_id() == getpid() ? 0 : 1);
    child_succeeds(child);
}

static void sets_timer_slack(void) {
    long before = prctl(PR_GET_TIMERSLACK);
    CHECK_EQUAL(opp_thread_set_timer_slack(1), 0);
    CHECK_EQUAL(prctl(PR_GET_TIMERSLACK), 1);
    CHECK_EQUAL(opp_thread_set_timer_slack((uint64_t)before), 0);
    CHECK_EQUAL(prctl(PR_GET_TIMERSLACK), before);
}

/* The probe leaves the thread that asks as it was. */
static void probe_leaves_no_trace(void) {
    opp_sched_params before = params_of(0), after;
    opp_system_probe probe;
    CHECK_EQUAL(opp_system_probe_run(&probe), 0);
    after = params_of(0);
    CHECK_EQUAL(after.policy, before.policy);
    CHECK_EQUAL(after.nice, before.nice);
    CHECK_EQUAL(after.slice_ns, before.slice_ns);
    CHECK(probe.io_uring != 0 || probe.io_uring_ops > 10);
}

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "unprivileged") == 0) {
        works_unprivileged();
        return 0;
    }
    opp_system_probe probe;
    CHECK_EQUAL(opp_system_probe_run(&probe), 0);
    starts_named_and_deaf();
    sets_what_is_asked();
    refuses_what_is_out_of_range();
    slice_goes_both_ways(&probe);
    probe_is_right(&probe);
    works_unprivileged_elsewhere();
    leaves_rr_without_privilege(&probe);
    rr_resets_on_fork(&probe);
    id_is_new_after_fork();
    sets_timer_slack();
    probe_leaves_no_trace();
    return 0;
}
