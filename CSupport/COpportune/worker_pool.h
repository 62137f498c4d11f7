/*
 * The shared definitions of worker_pool.c (tokens, demoted work, the spare worker), worker_park.c (parking
 * and waking) and worker.c (the transitions of a worker's state). Private to the core. The invariants are at
 * the top of each.
 */
#ifndef OPP_POOL_PRIVATE_H
#define OPP_POOL_PRIVATE_H

#include "opp_assert.h"
#include "opp_pool.h"
#include "opp_readiness.h"
#include "opp_sync.h"
#include "report.h"

#define ASLEEP_WORDS (OPP_POOL_WORKERS / 64)

/* A worker's word: its state in the low bits, above them a version that grows each time it may take jobs
 * again. */
#define STATE_MASK 15u
#define VERSION_STEP 16u

struct opp_worker {
    _Alignas(OPP_LINE) _Atomic(uint32_t) word; /* a futex */
    /* statistics; these two are written by the thread that has cleared the worker's bit */
    _Atomic(uint32_t) wakeups;
    uint32_t wakeups_told;
    opp_pool *pool;         /* set once */
    opp_consumer *consumer; /* set by opp_worker_begin() */
    /* The worker's own fields. Its waker reads `version`, which was published with the bit. */
    uint32_t version; /* the part of the word above the state */
    /* what the worker's own thread has stepped to, but for a wait inside of a job; the word may say
     * otherwise, by the monitor or by that wait */
    opp_worker_state set;
    opp_turn turn;
    uint32_t picks;
    /* how many searches in succession were vain; and how many of the next are skipped for that */
    uint8_t vain_searches, searches_to_skip;
    bool has_served; /* as the spare worker, since it was called */
    bool has_left;   /* the running slice has queued a job for this worker, and woke none for it */
    bool is_appointed; /* it was woken to lead, and has not led since */
};

/* LEADER_COMING, in the first seat alone: one was woken to lead, or a worker is to be started for it. */
enum { LEADERS = 2, LEADER_NONE = 0, LEADER_COMING = OPP_POOL_WORKERS + 1 };

struct opp_pool {
    _Alignas(OPP_LINE) _Atomic(uint64_t) count; /* tokens << 32 | in use */
    /* room for demoted work: added << 42 | limit << 21 | in use */
    _Atomic(uint64_t) demoted;
    _Atomic(uint32_t) closed;
    _Atomic(bool) stalled;
    _Atomic(bool) searching; /* a worker searches before it parks */
    _Alignas(OPP_LINE) _Atomic(uint64_t) asleep[ASLEEP_WORDS];
    _Atomic(uint32_t) slot_end; /* no bit at or above it was ever set */
    _Atomic(uint32_t) leaders[LEADERS]; /* each LEADER_NONE, LEADER_COMING, or a leader's slot + 1 */
    _Atomic(uint64_t) harvested_at; /* by a worker between two jobs */
    opp_readiness *readiness;   /* set before the first worker begins; NULL: nobody leads */
    _Alignas(OPP_LINE) _Atomic(uint32_t) spare;
    uint32_t spare_seen; /* the monitor's own field */
    _Atomic(uint64_t) watch_delay;
    /* Set before the first worker begins. */
    uint64_t levels, demoted_levels, once_levels;
    opp_core *core;
    opp_alarms *alarms;
    uint32_t alarm, group;
    opp_worker workers[OPP_POOL_WORKERS];
    /* What each tells of its running job. Apart, so that what is never had takes no memory. */
    opp_report reports[OPP_POOL_WORKERS];
};

/* The halves of a pool's `count`. */
static inline uint32_t count_used(uint64_t count) {
    return (uint32_t)count;
}

static inline uint32_t count_tokens(uint64_t count) {
    return (uint32_t)(count >> 32);
}

/* Whether a worker sits in this seat. */
static inline bool is_led(uint32_t seat) {
    return seat != LEADER_NONE && seat != LEADER_COMING;
}

static inline opp_worker_state state_of(uint32_t word) {
    return (opp_worker_state)(word & STATE_MASK);
}

/* Ends a call of the spare worker that opp_pool_begin_call() has begun as `waking`. */
void opp_pool_end_call(opp_pool *pool, uint32_t waking, bool is_woken);

/* Counts one more among the demoted, even beyond the limit. */
void opp_pool_count_demoted(opp_pool *pool);

/*
 * The parked worker of `slot` waits in the pool's readiness, if a seat is free: until it is woken, or has
 * claimed waiters. Afterwards it leads no more; whoever goes on to work owes opp_pool_appoint().
 */
void opp_pool_lead(opp_pool *pool, uint32_t slot, opp_harvest *harvest);

/* The parked worker of `slot` gets up by itself: OPP_WOKEN_NOTHING, or for what another has woken it. False
 * where a thread has chosen the worker and has not said for what yet. */
bool opp_pool_try_rise(opp_pool *pool, uint32_t slot, opp_woken *woken);

/* The caller has taken a notification of the readiness. Notifies again if it may have been meant for a leader
 * that is woken; false if there is none. */
bool opp_pool_pass_notice(opp_pool *pool);

/* Has a parked worker lead where none does; OPP_WAKE_START where none is parked. `again`: even where one is
 * about to. */
opp_wake opp_pool_appoint(opp_pool *pool, bool again);

#endif
