/*
 * A counter for each CPU, on a cache line of its own: whoever adds runs on that CPU, so the line seldom
 * moves. Every access is relaxed: the counters publish nothing, and a reader that comes too early sees the
 * rest at its next look.
 */
#include "opp_assert.h"
#include "opp_cpu_use.h"
#include "opp_sync.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, CPUS_MAX = 1 << 16 };

typedef struct counter {
    _Alignas(LINE) _Atomic(uint64_t) ns;
} counter;

struct opp_cpu_use {
    _Alignas(LINE) uint32_t cpus; /* set once */
    counter counters[];
};

opp_cpu_use *opp_cpu_use_create(void) {
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    if (cpus < 1) cpus = 1;
    if (cpus > CPUS_MAX) cpus = CPUS_MAX;
    size_t size = sizeof(opp_cpu_use) + (size_t)cpus * sizeof(counter);
    opp_cpu_use *use = aligned_alloc(LINE, size);
    if (use == NULL) return NULL;
    memset(use, 0, size);
    use->cpus = (uint32_t)cpus;
    return use;
}

void opp_cpu_use_destroy(opp_cpu_use *use) {
    free(use);
}

uint32_t opp_cpu_use_cpus(const opp_cpu_use *use) {
    return use->cpus;
}

void opp_cpu_use_add(opp_cpu_use *use, uint64_t ns) {
    /* A system call only where neither rseq nor the vDSO tells the CPU. */
    opp_cpu_use_add_on(use, sched_getcpu(), ns);
}

void opp_cpu_use_add_on(opp_cpu_use *use, int cpu, uint64_t ns) {
    OPP_ASSERT(use->cpus > 0);
    uint32_t index = cpu < 0 || (uint32_t)cpu >= use->cpus ? use->cpus - 1 : (uint32_t)cpu;
    opp_add(&use->counters[index].ns, ns, relaxed);
}

uint64_t opp_cpu_use_read(const opp_cpu_use *use, uint32_t cpu) {
    OPP_ASSERT(cpu < use->cpus);
    return opp_load(&use->counters[cpu].ns, relaxed);
}
