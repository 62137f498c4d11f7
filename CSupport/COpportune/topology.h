/* The sources of the topology, so that a test can replace the kernel. Private to the core. */
#ifndef OPP_TOPOLOGY_H
#define OPP_TOPOLOGY_H

#include "opp_system.h"

/* The limit of kernel CPU numbers; more than any kernel supports. */
#define OPP_CPU_NUMBERS 8192

/* What is obtained by calls and not from files. */
typedef struct opp_topology_calls {
    /* Sets the bits of the CPUs that the process may use. Returns 0 or -errno. */
    int (*affinity)(uint64_t mask[OPP_CPU_NUMBERS / 64]);
    /* The kernel's number of the node of a CPU, or negative where unknown. */
    int (*node_of)(int cpu);
    /* Distance between two nodes by their numbers, or 0 where unknown. */
    int (*distance)(int from, int to);
} opp_topology_calls;

/* sched_getaffinity(2) and libnuma. */
extern const opp_topology_calls opp_topology_machine;

/*
 * opp_topology_read() on the files below `root`, which replaces "/" ("" is the real root):
 * /sys/devices/system/cpu/online, /proc/self/cgroup, /proc/self/mountinfo and the cgroup file systems.
 */
int opp_topology_read_at(const char *root, const opp_topology_calls *calls, opp_topology *topology);

/* Whether libnuma works here: the kernel has the calls, and they are allowed. */
bool opp_topology_has_numa(void);

#endif
