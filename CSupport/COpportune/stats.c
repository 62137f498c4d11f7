/* Counters. Every access is relaxed: they are statistics, and publish nothing. */
#include "opp_assert.h"
#include "opp_stats.h"
#include "opp_sync.h"

#include <stdlib.h>
#include <string.h>

typedef struct counts {
    _Alignas(64) _Atomic(uint64_t) counter[OPP_COUNTERS];
    _Atomic(uint64_t) waited[OPP_BUCKETS];
} counts;

struct opp_stats {
    counts band[OPP_BANDS];
};

opp_stats *opp_stats_create(void) {
    opp_stats *stats = aligned_alloc(64, sizeof(opp_stats));
    if (stats != NULL) memset(stats, 0, sizeof(*stats));
    return stats;
}

void opp_stats_destroy(opp_stats *stats) {
    free(stats);
}

void opp_stats_add(opp_stats *stats, uint8_t band, opp_counter counter, uint64_t amount) {
    OPP_ASSERT(band < OPP_BANDS);
    OPP_ASSERT((unsigned)counter < OPP_COUNTERS);
    opp_add(&stats->band[band].counter[counter], amount, relaxed);
}

void opp_stats_add_jobs(opp_stats *stats, uint8_t band, uint64_t jobs, uint64_t cpu_ns, uint64_t stolen) {
    opp_stats_add(stats, band, OPP_COUNTER_JOBS, jobs);
    opp_stats_add(stats, band, OPP_COUNTER_CPU_NS, cpu_ns);
    if (stolen > 0) opp_stats_add(stats, band, OPP_COUNTER_STOLEN, stolen);
}

bool opp_stats_is_sample(void) {
    /* Random, not every eighth: the jobs of a thread often follow a pattern. A full-period generator with
     * good top bits. */
    static _Thread_local uint32_t state;
    state = state * 1664525u + 1013904223u;
    return state >> 29 == 0;
}

uint32_t opp_stats_bucket(uint64_t ns) {
    uint64_t value = ns >> OPP_BUCKET_UNIT;
    /* This many bits after the leading one select a bucket of the octave. */
    uint32_t shift = 63u - OPP_BUCKET_BITS - (uint32_t)__builtin_clzll(value | 1u << OPP_BUCKET_BITS);
    OPP_ASSERT(shift < 64);
    uint64_t bucket = ((uint64_t)shift << OPP_BUCKET_BITS) + (value >> shift);
    return bucket < OPP_BUCKETS ? (uint32_t)bucket : OPP_BUCKETS - 1;
}

void opp_stats_waited(opp_stats *stats, uint8_t band, uint64_t us) {
    OPP_ASSERT(band < OPP_BANDS);
    /* Rounded to the end of the microsecond, so that the end of a bucket is never below a value counted in
     * it. */
    opp_add(&stats->band[band].waited[opp_stats_bucket(us * 1000 + 999)], 1, relaxed);
}

void opp_stats_read(const opp_stats *stats, uint8_t band, opp_stats_values *values) {
    const counts *counts = &stats->band[band];
    for (int i = 0; i < OPP_COUNTERS; i++) values->counter[i] = opp_load(&counts->counter[i], relaxed);
    for (int i = 0; i < OPP_BUCKETS; i++) values->waited[i] = opp_load(&counts->waited[i], relaxed);
}
