#include "meter.h"
#include "opp_assert.h"
#include "opp_system.h"
#include "opp_sync.h"
#include "system_file.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

opp_thread_meter *opp_thread_meter_create(void) {
    opp_thread_meter *meter = malloc(sizeof *meter);
    if (meter == NULL) return NULL;
    if (pthread_getcpuclockid(pthread_self(), &meter->clock) != 0) {
        free(meter);
        return NULL;
    }
    /*
     * thread-self and not the thread's number: it is also right where /proc belongs to another process
     * namespace, whose numbers differ.
     */
    meter->schedstat = opp_file_open("/proc/thread-self/schedstat");
    meter->syscall = 0;
    char *link = stpcpy(meter->folder, "/proc/");
    size_t room = (size_t)(meter->folder + sizeof meter->folder - link);
    ssize_t length = readlink("/proc/thread-self", link, room);
    meter->folder[length < 0 || (size_t)length >= room ? 0 : link + length - meter->folder] = '\0';
    return meter;
}

void opp_thread_meter_destroy(opp_thread_meter *meter) {
    if (meter == NULL) return;
    opp_file_close(meter->schedstat);
    if (meter->syscall > 0) opp_file_close(meter->syscall);
    free(meter);
}

int opp_thread_meter_cpu(const opp_thread_meter *meter, uint64_t *cpu_ns) {
    struct timespec time;
    /* The kernel returns EINVAL for a thread that has ended. */
    if (clock_gettime(meter->clock, &time) != 0) return errno == EINVAL ? -ESRCH : -errno;
    *cpu_ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
    return 0;
}

/* Reads time on a CPU, time waiting for one, turns on a CPU. A kernel that does not count prints three
 * zeros. */
static bool read_wait(const opp_thread_meter *meter, uint64_t *wait_ns) {
    if (meter->schedstat < 0) return false;
    char text[80];
    ssize_t count = opp_file_pread(meter->schedstat, text, sizeof text - 1, 0);
    if (count <= 0) return false;
    OPP_ASSERT((size_t)count < sizeof text);
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

/* Parses a line of the thread's status. Returns whether to continue. */
static bool find_switches(char *line, void *found) {
    static const char key[] = "voluntary_ctxt_switches:";
    if (strncmp(line, key, sizeof key - 1) != 0) return true;
    *(int64_t *)found = (int64_t)strtoull(line + sizeof key - 1, NULL, 10);
    return false;
}

int64_t opp_thread_meter_voluntary_switches(const opp_thread_meter *meter) {
    if (meter->folder[0] == '\0') return -ENOENT;
    int64_t switches = -ENODATA;
    int result = opp_file_lines(meter->folder, "/status", find_switches, &switches);
    return result < 0 ? result : switches;
}

/*
 * Whether the thread waits for the lock of the process's memory map. The kernel reports the function that
 * waits, not the lock. The name of each function that locks the map contains one of these strings.
 */
static bool waits_for_memory_map(const opp_thread_meter *meter) {
    static const char *const parts[] =
        {"mmap", "munmap", "lock_mm", "mm_fault", "addr_fault", "mprotect", "madvise",
                                        "mremap", "brk", "rwsem"};
    char function[128];
    if (opp_file_read(meter->folder, "/wchan", function, sizeof function) <= 0) return false;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strstr(function, parts[i]) != NULL) return true;
    return false;
}

int opp_thread_meter_is_blocked(const opp_thread_meter *meter) {
    char text[128]; /* "12345 (a name of 15 bytes) S …": the state comes early */
    if (meter->folder[0] == '\0') return -ENOENT;
    ssize_t count = opp_file_read(meter->folder, "/stat", text, sizeof text);
    if (count < 0) return (int)count;
    /* The name may itself contain parentheses, but nothing behind it does. */
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

int opp_thread_meter_read_own(const opp_thread_meter *meter, opp_thread_usage *usage, int64_t *switches) {
    int result = opp_thread_meter_read(meter, usage);
    struct rusage own;
    if (result == 0) *switches = getrusage(RUSAGE_THREAD, &own) == 0 ? own.ru_nvcsw : -errno;
    return result;
}
