#include "opp_system.h"
#include "opp_sync.h"
#include "system_file.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <string.h>

struct opp_thread_meter {
    clockid_t clock;
    /* Descriptors of the thread's files in /proc, each -errno where it could not be opened. */
    int schedstat;
    int status;
    int folder; /* for what is read seldom */
};

opp_thread_meter *opp_thread_meter_create(void) {
    opp_thread_meter *meter = malloc(sizeof *meter);
    if (meter == NULL) return NULL;
    if (pthread_getcpuclockid(pthread_self(), &meter->clock) != 0) {
        free(meter);
        return NULL;
    }
    /*
     * thread-self rather than the thread's number: it also holds where /proc is that of another process namespace.
     * The link is followed once, here; the descriptors stay with this thread.
     */
    meter->schedstat = opp_file_open("/proc/thread-self/schedstat");
    meter->status = opp_file_open("/proc/thread-self/status");
    meter->folder = opp_file_open_folder("/proc/thread-self");
    return meter;
}

void opp_thread_meter_destroy(opp_thread_meter *meter) {
    if (meter == NULL) return;
    opp_file_close(meter->folder);
    opp_file_close(meter->status);
    opp_file_close(meter->schedstat);
    free(meter);
}

int opp_thread_meter_cpu(const opp_thread_meter *meter, uint64_t *cpu_ns) {
    struct timespec time;
    /* EINVAL is how the kernel says that the thread has ended. */
    if (clock_gettime(meter->clock, &time) != 0) return errno == EINVAL ? -ESRCH : -errno;
    *cpu_ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
    return 0;
}

/* Time on a CPU, time waiting for one, turns on a CPU. A kernel that does not count prints three zeros. */
static bool read_wait(const opp_thread_meter *meter, uint64_t *wait_ns) {
    if (meter->schedstat < 0) return false;
    char text[80];
    ssize_t count = opp_file_pread(meter->schedstat, text, sizeof text - 1, 0);
    if (count <= 0) return false;
    text[count] = '\0';
    char *wait = strchr(text, ' ');
    if (wait == NULL) return false;
    char *turns;
    *wait_ns = strtoull(wait, &turns, 10);
    return strtoull(turns, NULL, 10) > 0;
}

int opp_thread_meter_read(const opp_thread_meter *meter, opp_thread_usage *usage) {
    *usage = (opp_thread_usage){0};
    int result = opp_thread_meter_cpu(meter, &usage->cpu_ns);
    if (result != 0) return result;
    uint64_t wait_ns;
    if (read_wait(meter, &wait_ns)) {
        usage->wait_ns = wait_ns;
        usage->wait_known = 1;
    }
    return 0;
}

int64_t opp_thread_meter_voluntary_switches(const opp_thread_meter *meter) {
    static const char key[] = "\nvoluntary_ctxt_switches:";
    if (meter->status < 0) return meter->status;
    char text[4096];
    off_t offset = 0;
    for (;;) {
        ssize_t count = opp_file_pread(meter->status, text, sizeof text - 1, offset);
        if (count < 0) return count;
        text[count] = '\0';
        char *found = strstr(text, key), *value = found == NULL ? NULL : found + sizeof key - 1;
        if (value != NULL && strchr(value, '\n') != NULL) return (int64_t)strtoull(value, NULL, 10);
        if ((size_t)count < sizeof text - 1) return -ENODATA;
        /* A process in thousands of groups has a long line before: look on, from before what may be cut here. */
        offset += count - 64;
    }
}

/*
 * Whether the thread waits for the lock of the process's memory map. The kernel tells the function that waits, not what
 * it waits for: of those that lock the map, one of these is part of each name.
 */
static bool waits_for_memory_map(const opp_thread_meter *meter) {
    static const char *const parts[] = {"mmap", "munmap", "lock_mm", "mm_fault", "addr_fault", "mprotect", "madvise",
                                        "mremap", "brk", "rwsem"};
    char function[128];
    if (opp_file_read_in(meter->folder, "wchan", function, sizeof function) <= 0) return false;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strstr(function, parts[i]) != NULL) return true;
    return false;
}

int opp_thread_meter_is_blocked(const opp_thread_meter *meter) {
    char text[128]; /* "12345 (a name of 15 bytes) S …": the state comes early */
    ssize_t count = opp_file_read_in(meter->folder, "stat", text, sizeof text);
    if (count < 0) return (int)count;
    /* The name may itself hold parentheses, but nothing behind it does. */
    char *name_end = strrchr(text, ')');
    if (name_end == NULL || name_end[1] != ' ') return -ENODATA;
    switch (name_end[2]) {
    case 'R':
        return 0;
    case 'X':
    case 'Z':
        return -ESRCH;
    case 'D':
        return waits_for_memory_map(meter) ? OPP_BLOCKED_ON_MEMORY_MAP : OPP_BLOCKED_IN_KERNEL;
    default:
        return OPP_BLOCKED;
    }
}

int64_t opp_thread_own_voluntary_switches(void) {
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nvcsw : -errno;
}
