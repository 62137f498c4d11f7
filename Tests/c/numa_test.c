/*
 * The nodes of the machine are those that libnuma says, and distances too: this program has a libnuma of its
 * own, which comes before the system's, of a machine on which each CPU is a node. R-SYS-03
 */
#include "opportune.h"
#include "topology.h"

#include "check.h"

#include <stdlib.h>
#include <unistd.h>

enum { NODE_STRIDE = 3 };

int numa_available(void);
int numa_node_of_cpu(int cpu);
int numa_distance(int from, int to);

int numa_available(void) {
    return 0;
}

int numa_node_of_cpu(int cpu) {
    return cpu * NODE_STRIDE;
}

int numa_distance(int from, int to) {
    return 10 + 7 * abs(from - to) / NODE_STRIDE;
}

int main(void) {
    if (access("/sys/devices/system/node/online", R_OK) != 0)
        SKIP("/sys tells of no nodes, and then libnuma is not asked");
    opp_topology topology;
    CHECK(opp_topology_has_numa());
    CHECK_EQUAL(opp_topology_read(&topology), 0);
    uint32_t count = topology.cpu_count < OPP_MAX_NODES ? topology.cpu_count : OPP_MAX_NODES;
    CHECK_EQUAL(topology.node_count, count);
    for (uint32_t place = 0; place < count; place++) CHECK_EQUAL(topology.node_of[place], place);
    for (uint32_t from = 0; from < count; from++)
        for (uint32_t to = 0; to < count; to++) {
            int expected = numa_distance(topology.cpu[from] * NODE_STRIDE, topology.cpu[to] * NODE_STRIDE);
            CHECK_EQUAL(topology.distance[from][to], expected > UINT8_MAX ? UINT8_MAX : expected);
        }
    /* The whole way, from the CPU that the caller runs on to its node. */
    int32_t place = opp_topology_current(&topology);
    CHECK(place >= 0 && (uint32_t)place < topology.cpu_count);
    return 0;
}
