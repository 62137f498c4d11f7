#include "topology.h"
#include "opp_sync.h"
#include "system_file.h"

#include <limits.h>
#include <numa.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(OPP_MAX_CPUS <= UINT16_MAX && OPP_CPU_NUMBERS <= UINT16_MAX, "CPU numbers are kept in 16 bits");
_Static_assert(OPP_MAX_NODES <= UINT8_MAX, "node indices are kept in 8 bits");

enum { DISTANCE_LOCAL = 10, DISTANCE_REMOTE = 20 /* where the firmware gives none */ };

/* --- Calls of the machine ------------------------------------------------------------------- */

static int machine_affinity(uint64_t mask[OPP_CPU_NUMBERS / 64]) {
    /* The system call itself: the C library's cpu_set_t ends at CPU 1023 and fails on larger machines. */
    long bytes = syscall(SYS_sched_getaffinity, 0, OPP_CPU_NUMBERS / 8, mask);
    return bytes < 0 ? -errno : 0;
}

/* libnuma fills in a table at the first question, which two threads must not do at once. */
static pthread_mutex_t numa_lock = PTHREAD_MUTEX_INITIALIZER;

static bool numa_works(void) {
    /* Without /sys libnuma would complain on standard error, which is the program's. */
    return access("/sys/devices/system/node/online", R_OK) == 0 && numa_available() >= 0;
}

static int machine_node_of(int cpu) {
    pthread_mutex_lock(&numa_lock);
    int node = numa_works() ? numa_node_of_cpu(cpu) : -1;
    pthread_mutex_unlock(&numa_lock);
    return node;
}

static int machine_distance(int from, int to) {
    pthread_mutex_lock(&numa_lock);
    int distance = numa_works() ? numa_distance(from, to) : 0;
    pthread_mutex_unlock(&numa_lock);
    return distance;
}

bool opp_topology_has_numa(void) {
    pthread_mutex_lock(&numa_lock);
    bool works = numa_works();
    pthread_mutex_unlock(&numa_lock);
    return works;
}

const opp_topology_calls opp_topology_machine = {
    .affinity = machine_affinity, .node_of = machine_node_of, .distance = machine_distance};

/* --- CPUs ----------------------------------------------------------------------------------- */

/* Clears the bits that a list such as "0-3,8" does not name. A list that cannot be read clears nothing. */
static void keep_listed(uint64_t mask[OPP_CPU_NUMBERS / 64], const char *list) {
    uint64_t listed[OPP_CPU_NUMBERS / 64] = {0};
    for (const char *at = list; *at >= '0' && *at <= '9';) {
        char *end;
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (*end == '-') last = strtoul(end + 1, &end, 10);
        for (unsigned long cpu = first; cpu <= last && cpu < OPP_CPU_NUMBERS; cpu++)
            listed[cpu / 64] |= (uint64_t)1 << (cpu % 64);
        at = *end == ',' ? end + 1 : end;
        if (*end != ',') break;
    }
    bool leaves_some = false;
    for (size_t word = 0; word < OPP_CPU_NUMBERS / 64; word++) leaves_some |= (mask[word] & listed[word]) != 0;
    if (!leaves_some) return;
    for (size_t word = 0; word < OPP_CPU_NUMBERS / 64; word++) mask[word] &= listed[word];
}

static int read_cpus(const char *root, const opp_topology_calls *calls, opp_topology *topology) {
    uint64_t mask[OPP_CPU_NUMBERS / 64] = {0};
    int result = calls->affinity(mask);
    if (result != 0) return result;
    char online[4096];
    if (opp_file_read(root, "/sys/devices/system/cpu/online", online, sizeof online) > 0)
        keep_listed(mask, online);
    for (uint32_t cpu = 0; cpu < OPP_CPU_NUMBERS && topology->cpu_count < OPP_MAX_CPUS; cpu++)
        if ((mask[cpu / 64] >> (cpu % 64) & 1) != 0) topology->cpu[topology->cpu_count++] = (uint16_t)cpu;
    return topology->cpu_count == 0 ? -ENODATA : 0;
}

/* --- Nodes ---------------------------------------------------------------------------------- */

/* Puts `number` into the ascending list, unless it is there or the list is full. */
static void node_insert(int number[OPP_MAX_NODES], uint32_t *count, int node) {
    uint32_t place = 0;
    while (place < *count && number[place] < node) place++;
    if (*count == OPP_MAX_NODES || (place < *count && number[place] == node)) return;
    memmove(&number[place + 1], &number[place], (*count - place) * sizeof number[0]);
    number[place] = node;
    (*count)++;
}

static uint8_t node_index(const int number[OPP_MAX_NODES], uint32_t count, int node) {
    for (uint32_t index = 0; index < count; index++)
        if (number[index] == node) return (uint8_t)index;
    return 0; /* beyond OPP_MAX_NODES: farther than need be, never wrong */
}

static uint8_t distance_between(const opp_topology_calls *calls, int from, int to) {
    int distance = calls->distance(from, to);
    if (distance <= 0) return from == to ? DISTANCE_LOCAL : DISTANCE_REMOTE;
    return distance > UINT8_MAX ? UINT8_MAX : (uint8_t)distance;
}

/* Indices go to the nodes that have a usable CPU: kernel numbers have gaps, and some nodes are memory alone. */
static void read_nodes(const opp_topology_calls *calls, opp_topology *topology) {
    int number[OPP_MAX_NODES];
    int node_of[OPP_MAX_CPUS];
    uint32_t count = 0;
    for (uint32_t place = 0; place < topology->cpu_count; place++) {
        int node = calls->node_of(topology->cpu[place]);
        node_of[place] = node < 0 ? 0 : node;
        node_insert(number, &count, node_of[place]);
    }
    topology->node_count = count;
    for (uint32_t place = 0; place < topology->cpu_count; place++)
        topology->node_of[place] = node_index(number, count, node_of[place]);
    for (uint32_t from = 0; from < count; from++)
        for (uint32_t to = 0; to < count; to++)
            topology->distance[from][to] = distance_between(calls, number[from], number[to]);
}

/* --- CPU quota ------------------------------------------------------------------------------ */

/* A cgroup file system that can limit CPU time, and where in it the process is. */
typedef struct hierarchy {
    bool is_unified;
    char path[PATH_MAX];    /* the process's cgroup, as /proc/self/cgroup has it */
    char mounted[PATH_MAX]; /* the part of the hierarchy that is mounted: "/", or a container's cgroup */
    char at[PATH_MAX];      /* the mount point; empty where there is none */
} hierarchy;

/* Whether `list`, separated by commas, has the entry "cpu". */
static bool lists_cpu(const char *list) {
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        if (*at == ',') at++;
        if (strncmp(at, "cpu", 3) == 0 && (at[3] == ',' || at[3] == '\0')) return true;
    }
    return false;
}

static void copy_path(char to[PATH_MAX], const char *from) {
    size_t length = strlen(from);
    to[0] = '\0';
    if (length < PATH_MAX) memcpy(to, from, length + 1);
}

/* "4:cpu,cpuacct:/a/b", or "0::/a/b" for the unified hierarchy. */
static bool note_cgroup(char *line, void *context) {
    hierarchy *own = context;
    char *controllers = strchr(line, ':');
    char *path = controllers == NULL ? NULL : strchr(++controllers, ':');
    if (path == NULL) return true;
    *path++ = '\0';
    bool is_own = own->is_unified ? strncmp(line, "0:", 2) == 0 && *controllers == '\0' : lists_cpu(controllers);
    if (is_own) copy_path(own->path, path);
    return !is_own;
}

/* mountinfo writes space, tab, newline and backslash as three octal digits. */
static void unescape(char *text) {
    char *to = text;
    for (const char *from = text; *from != '\0'; to++) {
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' &&
            from[3] >= '0' && from[3] <= '7') {
            *to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* "31 23 0:28 ROOT MOUNT-POINT OPTIONS [more ...] - TYPE SOURCE SUPER-OPTIONS" */
static bool note_mount(char *line, void *context) {
    hierarchy *own = context;
    char *type = strstr(line, " - ");
    if (type == NULL) return true;
    *type = '\0';
    type += 3;
    char *rest, *fields = line, *field[5];
    for (int index = 0; index < 5; index++)
        if ((field[index] = strtok_r(index == 0 ? fields : NULL, " ", &rest)) == NULL) return true;
    type = strtok_r(type, " ", &rest);
    char *source = strtok_r(NULL, " ", &rest), *options = strtok_r(NULL, " ", &rest);
    if (type == NULL || source == NULL || options == NULL) return true;
    if (own->is_unified ? strcmp(type, "cgroup2") != 0 : strcmp(type, "cgroup") != 0 || !lists_cpu(options))
        return true;
    unescape(field[3]);
    unescape(field[4]);
    copy_path(own->mounted, field[3]);
    copy_path(own->at, field[4]);
    return false;
}

/* The limit that one cgroup sets, in thousandths of a CPU; UINT64_MAX where it sets none. */
static uint64_t limit_of(const hierarchy *own, const char *root, const char *folder) {
    char path[PATH_MAX], text[64];
    long long quota = -1, period = 0;
    int length = snprintf(path, sizeof path, "%s/%s", folder, own->is_unified ? "cpu.max" : "cpu.cfs_quota_us");
    if (length < 0 || (size_t)length >= sizeof path) return UINT64_MAX;
    if (own->is_unified) {
        if (opp_file_read(root, path, text, sizeof text) <= 0) return UINT64_MAX;
        if (sscanf(text, "%lld %lld", &quota, &period) != 2) return UINT64_MAX; /* "max 100000" */
    } else {
        if (!opp_file_number(root, path, &quota)) return UINT64_MAX; /* -1: no limit */
        length = snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
        if (length < 0 || (size_t)length >= sizeof path || !opp_file_number(root, path, &period))
            return UINT64_MAX;
    }
    if (quota <= 0 || period <= 0) return UINT64_MAX;
    uint64_t milli = (uint64_t)quota / (uint64_t)period * 1000 +
                     (uint64_t)quota % (uint64_t)period * 1000 / (uint64_t)period;
    return milli == 0 ? 1 : milli; /* 0 means no limit at all */
}

/* The smallest limit from the process's cgroup up to the mount point: each holds for all below it. */
static uint64_t limit_on_path(const hierarchy *own, const char *root) {
    size_t prefix = strcmp(own->mounted, "/") == 0 ? 0 : strlen(own->mounted);
    const char *below = own->path;
    if (prefix > 0 && strncmp(below, own->mounted, prefix) == 0 && (below[prefix] == '/' || below[prefix] == '\0'))
        below += prefix;
    else if (prefix > 0)
        below = ""; /* what is mounted is not above us by name: take it for ours */
    if (strncmp(below, "/..", 3) == 0) below = ""; /* outside of the cgroup namespace: not to be seen */
    char folder[PATH_MAX];
    int length = snprintf(folder, sizeof folder, "%s%s", own->at, below);
    if (length < 0 || (size_t)length >= sizeof folder) return UINT64_MAX;

    size_t top = strlen(own->at);
    uint64_t least = UINT64_MAX;
    for (;;) {
        while (strlen(folder) > top && folder[strlen(folder) - 1] == '/') folder[strlen(folder) - 1] = '\0';
        uint64_t limit = limit_of(own, root, folder);
        if (limit < least) least = limit;
        if (strlen(folder) <= top) return least;
        *strrchr(folder, '/') = '\0';
    }
}

static uint64_t limit_of_hierarchy(const char *root, bool is_unified) {
    hierarchy own = {.is_unified = is_unified};
    opp_file_lines(root, "/proc/self/cgroup", note_cgroup, &own);
    if (opp_file_lines(root, "/proc/self/mountinfo", note_mount, &own) != 0) {
        /* Without /proc: containers see their own cgroup where everybody mounts it. */
        copy_path(own.at, is_unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu");
        own.path[0] = '\0';
    }
    return own.at[0] == '\0' ? UINT64_MAX : limit_on_path(&own, root);
}

/* Machines in transition have both hierarchies, and both hold. */
static uint64_t read_quota(const char *root) {
    uint64_t unified = limit_of_hierarchy(root, true), legacy = limit_of_hierarchy(root, false);
    uint64_t least = unified < legacy ? unified : legacy;
    return least == UINT64_MAX ? 0 : least;
}

/* --- Interface ------------------------------------------------------------------------------ */

int opp_topology_read_at(const char *root, const opp_topology_calls *calls, opp_topology *topology) {
    memset(topology, 0, sizeof *topology);
    int result = read_cpus(root, calls, topology);
    if (result != 0) return result;
    read_nodes(calls, topology);
    topology->quota_milli = read_quota(root);
    return 0;
}

int opp_topology_read(opp_topology *topology) {
    return opp_topology_read_at("", &opp_topology_machine, topology);
}

uint32_t opp_topology_width(const opp_topology *topology) {
    uint32_t width = topology->cpu_count == 0 ? 1 : topology->cpu_count;
    if (topology->quota_milli == 0 || topology->quota_milli / 1000 >= width) return width;
    return (uint32_t)((topology->quota_milli + 999) / 1000);
}

int32_t opp_topology_current(const opp_topology *topology) {
    int cpu = sched_getcpu(); /* from memory that the kernel keeps up to date (rseq), or the vDSO */
    if (cpu < 0) return -1;
    /* Mostly all CPUs are usable, and each is at its own number. */
    if ((uint32_t)cpu < topology->cpu_count && topology->cpu[cpu] == cpu) return cpu;
    uint32_t low = 0, high = topology->cpu_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (topology->cpu[middle] < cpu)
            low = middle + 1;
        else
            high = middle;
    }
    return low < topology->cpu_count && topology->cpu[low] == cpu ? (int32_t)low : -1;
}
