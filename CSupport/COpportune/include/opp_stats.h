/*
 * Counters of an app, and a histogram of its jobs' queueing times, by band. Workers add in batches, any
 * thread reads. A band is a number below OPP_BANDS.
 */
#ifndef OPP_STATS_H
#define OPP_STATS_H

#include "opp_runq.h"

OPP_BEGIN_DECLS

typedef enum OPP_CLOSED_ENUM opp_counter {
    OPP_COUNTER_JOBS = 0,    /* jobs run */
    OPP_COUNTER_CPU_NS,      /* time inside jobs, less time known to be off the CPU, in nanoseconds */
    OPP_COUNTER_STOLEN,      /* jobs taken from another thread's queue */
    OPP_COUNTER_DEMOTIONS,   /* levels lost */
    OPP_COUNTER_RESTORED,    /* levels restored */
    OPP_COUNTER_ESCAPES,     /* tasks that went to the global pool */
    OPP_COUNTER_CANCELLED,   /* closures that never ran */
    OPP_COUNTER_SUBMITTED,   /* jobs accepted; closures and strands' jobs only */
    OPP_COUNTER_WAKEUPS,     /* system calls made to wake a worker for one of its jobs */
} opp_counter;

#define OPP_COUNTERS 9
/* Waits are counted in buckets, as in Swift's LatencyHistogram. The first is 1 << OPP_BUCKET_UNIT nanoseconds
 * wide; each doubling of the wait has 1 << OPP_BUCKET_BITS of them. */
#define OPP_BUCKETS 112 /* up to 9 minutes */
#define OPP_BUCKET_BITS 2
#define OPP_BUCKET_UNIT 10

typedef struct opp_stats opp_stats;

typedef struct opp_stats_values {
    uint64_t counter[OPP_COUNTERS];
    uint64_t waited[OPP_BUCKETS];
} opp_stats_values;

opp_stats *_Nullable opp_stats_create(void);
void opp_stats_destroy(opp_stats *_Nonnull stats);
void opp_stats_add(opp_stats *_Nonnull stats, uint8_t band, opp_counter counter, uint64_t amount);
/* Counts jobs that have ended: how many, their CPU time, and how many of them were stolen. */
void opp_stats_add_jobs(opp_stats *_Nonnull stats, uint8_t band, uint64_t jobs, uint64_t cpu_ns,
                        uint64_t stolen);
/* Whether the queueing time of the caller's next job is measured: one in eight, at random, of each thread's
 * jobs. */
bool opp_stats_is_sample(void);
/* Counts one job that waited `us` microseconds. */
void opp_stats_waited(opp_stats *_Nonnull stats, uint8_t band, uint64_t us);
void opp_stats_read(const opp_stats *_Nonnull stats, uint8_t band, opp_stats_values *_Nonnull values);
/* The bucket of a wait of `ns` nanoseconds. */
uint32_t opp_stats_bucket(uint64_t ns);

OPP_END_DECLS

#endif
