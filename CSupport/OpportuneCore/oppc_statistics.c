/* The figures of apps and pools. */
#include "oppc.h"

#include <string.h>

/* The last nanosecond that falls into a bucket of opp_stats_bucket(). */
static uint64_t bucket_end(uint32_t bucket) {
    uint64_t octave = bucket >> OPP_BUCKET_BITS;
    uint64_t shift = octave < 2 ? 0 : octave - 1;
    uint64_t mantissa = bucket - (shift << OPP_BUCKET_BITS);
    return (((mantissa + 1) << shift) << OPP_BUCKET_UNIT) - 1;
}

/* The end of the bucket that holds the sample of that rank, from 1 on. */
static uint64_t value_at(const uint64_t counts[OPP_BUCKETS], uint64_t rank) {
    uint64_t seen = 0;
    for (uint32_t bucket = 0; bucket < OPP_BUCKETS; bucket++) {
        seen += counts[bucket];
        if (seen >= rank) return bucket_end(bucket);
    }
    return 0;
}

static oppc_waiting waiting_of(const uint64_t counts[OPP_BUCKETS]) {
    oppc_waiting waiting = {0};
    for (uint32_t bucket = 0; bucket < OPP_BUCKETS; bucket++) waiting.samples += counts[bucket];
    if (waiting.samples == 0) return waiting;
    waiting.p50 = value_at(counts, waiting.samples - waiting.samples * 50 / 100);
    waiting.p90 = value_at(counts, waiting.samples - waiting.samples * 10 / 100);
    waiting.p99 = value_at(counts, waiting.samples - waiting.samples * 1 / 100);
    waiting.max = value_at(counts, waiting.samples);
    return waiting;
}

static int hand_over(const void *figures, uint32_t known, void *to, uint32_t size) {
    if (size == 0) return -EINVAL;
    memset(to, 0, size);
    memcpy(to, figures, size < known ? size : known);
    return 0;
}

int oppc_app_read_statistics(const oppc_app *app, oppc_app_statistics *statistics, uint32_t size) {
    if (app == NULL || statistics == NULL) return -EINVAL;
    oppc_app_statistics now = {0};
    /* relaxed, all of these: figures that need not fit together */
    uint64_t accepted = opp_load(&app->accepted, relaxed) - app->accepted_before;
    uint64_t refused = opp_load(&app->refused, relaxed);
    now.submitted = accepted > refused ? accepted - refused : 0;
    now.cancelled = opp_load(&app->cancelled, relaxed);
    now.pending = opp_load(&app->holds, relaxed) >> HANDLE_BITS;
    uint64_t other = now.cancelled + now.pending;
    now.run = now.submitted > other ? now.submitted - other : 0;
    /* A worker counts as running its last app's jobs until it has found another's or parks. */
    now.running = opp_app_running(app->raw);
    if (now.running > now.pending) now.running = now.pending;
    now.busy = opp_load(&app->busy, relaxed);
    opp_stats_values values, sum = {0};
    for (uint8_t band = 0; band < POOLS; band++) {
        opp_stats_read(app->stats, band, &values);
        for (uint32_t i = 0; i < OPP_BUCKETS; i++) sum.waited[i] += values.waited[i];
    }
    now.waiting = waiting_of(sum.waited);
    return hand_over(&now, sizeof now, statistics, size);
}

int oppc_pool_read_statistics(const oppc_scheduler *scheduler, int band, oppc_pool_statistics *statistics,
                              uint32_t size) {
    if (scheduler == NULL || statistics == NULL || band < 0 || band >= POOLS) return -EINVAL;
    const opp_pool *pool = scheduler->pool[band];
    oppc_pool_statistics now = {.workers = opp_pool_tokens(pool), .working = opp_pool_working(pool),
                                .wakeups = opp_pool_wakeups(pool)};
    opp_stats_values values;
    opp_stats_read(scheduler->stats, (uint8_t)band, &values);
    now.waiting = waiting_of(values.waited);
    return hand_over(&now, sizeof now, statistics, size);
}
