/* The classes of others' threads. */
#include "opp_host.h"

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/ioprio.h is not everywhere. */
enum { io_who_process = 1, io_class_shift = 13, io_class_idle = 3 };

opp_host_class opp_host_class_idle(void) {
    return (opp_host_class){.policy = SCHED_IDLE, .nice = 19};
}

int opp_host_class_get(pid_t tid, opp_host_class *found) {
    int policy = sched_getscheduler(tid);
    if (policy < 0) return -errno;
    errno = 0;
    int nice = getpriority(PRIO_PROCESS, (id_t)tid);
    if (nice == -1 && errno != 0) return -errno;
    *found = (opp_host_class){.policy = policy & ~SCHED_RESET_ON_FORK, .nice = nice};
    return 0;
}

int opp_host_class_set(pid_t tid, const opp_host_class *wanted) {
    if (wanted->policy != SCHED_OTHER && wanted->policy != SCHED_BATCH && wanted->policy != SCHED_IDLE)
        return -EINVAL;
    int first = 0;
    struct sched_param none = {.sched_priority = 0};
    /* Nice first: it decides whether SCHED_IDLE may be left. */
    if (setpriority(PRIO_PROCESS, (id_t)tid, wanted->nice) != 0) first = errno == EACCES ? EPERM : errno;
    if (sched_setscheduler(tid, wanted->policy, &none) != 0 && first == 0) first = errno;
    return -first;
}

int32_t opp_host_io_class_idle(void) {
    return io_class_idle << io_class_shift;
}

int opp_host_io_class_get(pid_t tid, int32_t *found) {
    long io = syscall(SYS_ioprio_get, io_who_process, tid);
    if (io < 0 && errno != ENOSYS) return -errno;
    *found = io < 0 ? 0 : (int32_t)io;
    return 0;
}

int opp_host_io_class_set(pid_t tid, int32_t wanted) {
    return syscall(SYS_ioprio_set, io_who_process, tid, wanted) == 0 || errno == ENOSYS ? 0 : -errno;
}
