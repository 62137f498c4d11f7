#include "topology.h"
#include "cgroup.h"
#include "opp_assert.h"
#include "opp_sync.h"
#include "system_file.h"

#include <dlfcn.h>
#include <limits.h>
#include <numa.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(OPP_MAX_CPUS <= UINT16_MAX &&
               OPP_CPU_NUMBERS <= UINT16_MAX, "CPU numbers are kept in 16 bits");
_Static_assert(OPP_MAX_NODES <= UINT8_MAX, "node indices are kept in 8 bits");

enum { DISTANCE_LOCAL = 10, DISTANCE_REMOTE = 20 /* where the firmware gives none */ };

/* --- Calls of the machine ------------------------------------------------------------------- */

static int machine_affinity(uint64_t mask[OPP_CPU_NUMBERS / 64]) {
    /* The plain system call: the C library's cpu_set_t ends at CPU 1023 and fails on larger machines. */
    long bytes = syscall(SYS_sched_getaffinity, 0, OPP_CPU_NUMBERS / 8, mask);
    return bytes < 0 ? -errno : 0;
}

/* libnuma's calls: those that the program is linked with, else the library's, found at run time, so that a
 * program runs where it is not installed. */
extern __typeof__(numa_available) numa_available __attribute__((weak));
extern __typeof__(numa_node_of_cpu) numa_node_of_cpu __attribute__((weak));
extern __typeof__(numa_distance) numa_distance __attribute__((weak));

static struct {
    bool was_sought;
    __typeof__(numa_available) *available;
    __typeof__(numa_node_of_cpu) *node_of_cpu;
    __typeof__(numa_distance) *distance;
} numa; /* protected by `numa_lock` */

/* Also: libnuma fills in a table at its first call, which two threads must not make at once. */
static pthread_mutex_t numa_lock = PTHREAD_MUTEX_INITIALIZER;

static void numa_seek(void) {
    numa.was_sought = true;
    if (numa_available != NULL && numa_node_of_cpu != NULL && numa_distance != NULL) {
        numa.available = numa_available;
        numa.node_of_cpu = numa_node_of_cpu;
        numa.distance = numa_distance;
        return;
    }
    void *library = dlopen("libnuma.so.1", RTLD_NOW | RTLD_LOCAL); /* stays for as long as the process does */
    if (library == NULL) return;
    numa.available = (__typeof__(numa_available) *)dlsym(library, "numa_available");
    numa.node_of_cpu = (__typeof__(numa_node_of_cpu) *)dlsym(library, "numa_node_of_cpu");
    numa.distance = (__typeof__(numa_distance) *)dlsym(library, "numa_distance");
    if (numa.node_of_cpu == NULL || numa.distance == NULL) numa.available = NULL;
}

static bool numa_works(void) {
    /* Without /sys libnuma would print to the program's standard error. */
    if (access("/sys/devices/system/node/online", R_OK) != 0) return false;
    if (!numa.was_sought) numa_seek();
    return numa.available != NULL && numa.available() >= 0;
}

static int machine_node_of(int cpu) {
    pthread_mutex_lock(&numa_lock);
    int node = numa_works() ? numa.node_of_cpu(cpu) : -1;
    pthread_mutex_unlock(&numa_lock);
    return node;
}

static int machine_distance(int from, int to) {
    pthread_mutex_lock(&numa_lock);
    int distance = numa_works() ? numa.distance(from, to) : 0;
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

/* Clears the bits that a list such as "0-3,8" does not contain. A list that cannot be parsed clears
 * nothing. */
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
    for (size_t word = 0; word < OPP_CPU_NUMBERS / 64; word++)
        leaves_some |= (mask[word] & listed[word]) != 0;
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
    OPP_ASSERT(topology->cpu_count <= OPP_MAX_CPUS);
    return topology->cpu_count == 0 ? -ENODATA : 0;
}

/* --- Nodes ---------------------------------------------------------------------------------- */

/* Puts `number` into the ascending list, unless it is there or the list is full. */
static void node_insert(int number[OPP_MAX_NODES], uint32_t *count, int node) {
    uint32_t index = 0;
    OPP_ASSERT(*count <= OPP_MAX_NODES);
    while (index < *count && number[index] < node) index++;
    if (*count == OPP_MAX_NODES || (index < *count && number[index] == node)) return;
    memmove(&number[index + 1], &number[index], (*count - index) * sizeof number[0]);
    number[index] = node;
    (*count)++;
}

static uint8_t node_index(const int number[OPP_MAX_NODES], uint32_t count, int node) {
    for (uint32_t index = 0; index < count; index++)
        if (number[index] == node) return (uint8_t)index;
    return 0; /* beyond OPP_MAX_NODES: farther than necessary, never wrong */
}

static uint8_t distance_between(const opp_topology_calls *calls, int from, int to) {
    int distance = calls->distance(from, to);
    if (distance <= 0) return from == to ? DISTANCE_LOCAL : DISTANCE_REMOTE;
    return distance > UINT8_MAX ? UINT8_MAX : (uint8_t)distance;
}

/* Only nodes with a usable CPU get an index: kernel numbers have gaps, and some nodes have only memory. */
static void read_nodes(const opp_topology_calls *calls, opp_topology *topology) {
    int number[OPP_MAX_NODES];
    int node_of[OPP_MAX_CPUS];
    uint32_t count = 0;
    for (uint32_t index = 0; index < topology->cpu_count; index++) {
        int node = calls->node_of(topology->cpu[index]);
        node_of[index] = node < 0 ? 0 : node;
        node_insert(number, &count, node_of[index]);
    }
    OPP_ASSERT(count > 0);
    topology->node_count = count;
    for (uint32_t index = 0; index < topology->cpu_count; index++)
        topology->node_of[index] = node_index(number, count, node_of[index]);
    for (uint32_t from = 0; from < count; from++)
        for (uint32_t to = 0; to < count; to++)
            topology->distance[from][to] = distance_between(calls, number[from], number[to]);
}

/* --- CPU quota ------------------------------------------------------------------------------ */

/* The limit of one cgroup in thousandths of a CPU; UINT64_MAX where it has none. */
static uint64_t limit_of(const char *root, const char *folder, bool is_unified) {
    char path[PATH_MAX], text[64];
    long long quota = -1, period = 0;
    int length = snprintf(path, sizeof path, "%s/%s", folder, is_unified ? "cpu.max" : "cpu.cfs_quota_us");
    if (length < 0 || (size_t)length >= sizeof path) return UINT64_MAX;
    if (is_unified) {
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

static void take_least(const char *root, const char *folder, bool is_unified, void *context) {
    uint64_t limit = limit_of(root, folder, is_unified), *least = context;
    if (limit < *least) *least = limit;
}

static uint64_t read_quota(const char *root) {
    uint64_t least = UINT64_MAX;
    opp_cgroup_visit(root, "cpu", take_least, &least);
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
    int cpu = sched_getcpu(); /* from memory that the kernel updates (rseq), or the vDSO */
    if (cpu < 0) return -1;
    /* Usually all CPUs are usable, and each has its own number as index. */
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
