/* In the place of libnuma's header: the library links the C library alone, and takes every machine for one
 * node. */
#ifndef OPPC_WITHOUT_NUMA_H
#define OPPC_WITHOUT_NUMA_H

static inline int numa_available(void) {
    return -1;
}

static inline int numa_node_of_cpu(int cpu) {
    (void)cpu;
    return -1;
}

static inline int numa_distance(int from, int to) {
    (void)from;
    (void)to;
    return 0;
}

#endif
