/*
 * The resources of a pool: run tokens, room for demoted work, the call of the spare worker.
 * How workers park and are woken is in worker_park.c, what a worker does with all that in worker.c.
 *
 *     count    tokens in use (low half) and number of tokens (high half), in one word
 *     demoted  room for demoted work: what is in use, the limit, and what was added, in one word
 *     spare    whether a spare worker is awake (low two bits), and how often one was called
 *
 * Invariants (L1, L2 and why no wake-up is lost: worker_park.c)
 *  L3  Nothing is returned to `count` or `demoted` that was not taken.
 *  L4  At most one spare worker is awake or being called, and one more for each caller that was stopped in
 *      the middle and that the monitor gave up.
 *
 * A stopped thread. If one is stopped while it calls the spare worker, the monitor waits until its next look.
 * Then it lets another call.
 */
#include "worker_pool.h"
#include "mapping.h"
#include "runq.h"

#include <stdlib.h>

opp_pool *opp_pool_create(uint32_t tokens) {
    if (tokens < 1 || tokens > OPP_POOL_WORKERS) return NULL;
    opp_pool *pool = opp_map(sizeof(opp_pool));
    if (pool == NULL) return NULL;
    for (uint32_t i = 0; i < OPP_POOL_WORKERS; i++) pool->workers[i].pool = pool;
    atomic_init(&pool->count, (uint64_t)tokens << 32);
    return pool;
}

void opp_pool_destroy(opp_pool *pool) {
    opp_unmap(pool, sizeof(opp_pool));
}

void opp_pool_set_levels(opp_pool *pool, uint64_t levels, uint64_t demoted, uint64_t lowered_once) {
    OPP_ASSERT(pool->core == NULL);
    OPP_ASSERT((demoted & ~levels) == 0);
    OPP_ASSERT((lowered_once & ~demoted) == 0);
    pool->levels = levels;
    pool->demoted_levels = demoted;
    pool->once_levels = lowered_once;
}

void opp_pool_serve(opp_pool *pool, opp_core *core, opp_alarms *alarms, uint32_t alarm) {
    OPP_ASSERT(pool->core == NULL);
    OPP_ASSERT(pool->levels != 0);
    OPP_ASSERT(alarms == NULL || alarm < OPP_ALARMS);
    pool->core = core;
    pool->alarms = alarms;
    pool->alarm = alarm;
    pool->group = ++core->pool_count;
    for (unsigned number = 0; number < OPP_LEVELS; number++) {
        if (!(pool->levels & 1ull << number)) continue;
        OPP_ASSERT(core->pool_of[number] == NULL);
        core->pool_of[number] = pool;
    }
}

void opp_pool_set_readiness(opp_pool *pool, opp_readiness *readiness) {
    OPP_ASSERT(pool->readiness == NULL);
    pool->readiness = readiness;
}

/* --- Tokens ----------------------------------------------------------------------------------- */

bool opp_pool_enter(opp_pool *pool) {
    uint64_t count = opp_load(&pool->count, seq_cst); /* [count] see worker_park.c, "No lost wake-up" */
    do {
        if (count_used(count) >= count_tokens(count)) return false;
        /* relaxed: only a count; taking a token hides nothing from other threads. A failed exchange reloads
         * relaxed, which can only read a later value of the same word. */
    } while (!opp_cas(&pool->count, &count, count + 1, relaxed));
    OPP_ASSERT(count_used(count) < count_tokens(count));
    return true;
}

void opp_pool_leave(opp_pool *pool) {
    uint64_t before = opp_sub(&pool->count, 1, seq_cst); /* [count] before the look at the queues */
    OPP_ASSERT(count_used(before) > 0);                  /* L3 */
    OPP_ASSERT(count_used(before) <= OPP_POOL_WORKERS);
    (void)before;
}

void opp_pool_set_tokens(opp_pool *pool, uint32_t tokens) {
    if (tokens < 1) tokens = 1;
    if (tokens > OPP_POOL_WORKERS) tokens = OPP_POOL_WORKERS;
    uint64_t count = opp_load(&pool->count, relaxed);
    /* relaxed: this owes no worker a wake-up. The next push sees the tokens, and a caller that raises their
     * number wakes workers for what waits. */
    while (!opp_cas(&pool->count, &count, (uint64_t)tokens << 32 | count_used(count), relaxed)) {}
}

uint32_t opp_pool_tokens(const opp_pool *pool) {
    /* relaxed: the number may be out of date at once */
    return count_tokens(opp_load(&pool->count, relaxed));
}

bool opp_pool_has_too_many(const opp_pool *pool) {
    /* relaxed: a thread that acts on it returns a token, and then looks again */
    uint64_t count = opp_load(&pool->count, relaxed);
    return count_used(count) > count_tokens(count);
}

uint32_t opp_pool_working(const opp_pool *pool) {
    /* relaxed: the number may be out of date at once */
    return count_used(opp_load(&pool->count, relaxed));
}

/* --- Room for demoted work, beside the tokens ---------------------------------------------------- */

#define DEMOTED_BITS 21u
#define DEMOTED_MASK ((1u << DEMOTED_BITS) - 1)

static uint32_t demoted_used(uint64_t demoted) {
    return (uint32_t)demoted & DEMOTED_MASK;
}

static uint32_t demoted_limit(uint64_t demoted) {
    return (uint32_t)(demoted >> DEMOTED_BITS) & DEMOTED_MASK;
}

static uint32_t demoted_extra(uint64_t demoted) {
    return (uint32_t)(demoted >> 2 * DEMOTED_BITS);
}

/* The one rule: a multiple of the limit. Work that was lowered once may also use the extra room. */
static uint32_t demoted_room(uint64_t demoted, opp_demotion why) {
    static const uint8_t times[] = {
        [OPP_DEMOTION_KNOWN] = 1, [OPP_DEMOTION_ONCE] = 2, [OPP_DEMOTION_FOUND] = 3,
        [OPP_DEMOTION_STARVES] = 16};
    return times[why] * demoted_limit(demoted) + (why == OPP_DEMOTION_ONCE ? demoted_extra(demoted) : 0);
}

uint64_t opp_pool_takeable(const opp_pool *pool) {
    if (pool->demoted_levels == 0) return pool->levels;
    /* [demoted] seq_cst: a demoted worker is uncounted before its last look at the queues. */
    uint64_t demoted = opp_load(&pool->demoted, seq_cst);
    uint32_t used = demoted_used(demoted);
    if (used < demoted_room(demoted, OPP_DEMOTION_KNOWN)) return pool->levels;
    uint64_t fresh = pool->levels & ~pool->demoted_levels;
    return used < demoted_room(demoted, OPP_DEMOTION_ONCE) ? fresh | pool->once_levels : fresh;
}

bool opp_pool_enter_demoted(opp_pool *pool, opp_demotion why) {
    uint64_t demoted = opp_load(&pool->demoted, relaxed); /* relaxed: the exchange reads the latest value */
    do {
        if (demoted_used(demoted) >= demoted_room(demoted, why)) return false;
    /* relaxed: only a count, like that of tokens */
    } while (!opp_cas(&pool->demoted, &demoted, demoted + 1, relaxed));
    OPP_ASSERT(demoted_used(demoted) < demoted_room(demoted, why));
    return true;
}

void opp_pool_count_demoted(opp_pool *pool) {
    uint64_t before = opp_add(&pool->demoted, 1, relaxed); /* relaxed: as above */
    OPP_ASSERT(demoted_used(before) < DEMOTED_MASK);
    (void)before;
}

void opp_pool_leave_demoted(opp_pool *pool) {
    uint64_t before = opp_sub(&pool->demoted, 1, seq_cst); /* [demoted] before the next look at the queues */
    OPP_ASSERT(demoted_used(before) > 0);                   /* L3 */
    (void)before;
}

void opp_pool_set_demoted_limit(opp_pool *pool, uint32_t limit) {
    /* far more than the possible number of workers */
    if (limit > DEMOTED_MASK / 16) limit = DEMOTED_MASK / 16;
    uint64_t demoted = opp_load(&pool->demoted, relaxed), mask = (uint64_t)DEMOTED_MASK << DEMOTED_BITS;
    /* relaxed: as opp_pool_set_tokens() */
    while (!opp_cas(&pool->demoted, &demoted, (demoted & ~mask) | (uint64_t)limit << DEMOTED_BITS,
                    relaxed)) {}
}

/* relaxed, these three: the numbers may be out of date at once */
uint32_t opp_pool_demoted_limit(const opp_pool *pool) {
    return demoted_limit(opp_load(&pool->demoted, relaxed));
}

uint32_t opp_pool_demoted(const opp_pool *pool) {
    return demoted_used(opp_load(&pool->demoted, relaxed));
}

uint32_t opp_pool_room(const opp_pool *pool, opp_demotion why) {
    return demoted_room(opp_load(&pool->demoted, relaxed), why);
}

bool opp_pool_add_room(opp_pool *pool) {
    uint64_t demoted = opp_load(&pool->demoted, relaxed);
    do {
        uint32_t room = demoted_room(demoted, OPP_DEMOTION_ONCE);
        if (demoted_used(demoted) < room || room >= demoted_room(demoted, OPP_DEMOTION_STARVES)) return false;
        /* relaxed: the caller's look at the queues begins with this word, seq_cst, in opp_pool_takeable(): a
         * worker that parks before that look sees what it has seen, or is parked there for it to be found. */
    } while (!opp_cas(&pool->demoted, &demoted, demoted + (1ull << 2 * DEMOTED_BITS), relaxed));
    return true;
}

void opp_pool_take_room(opp_pool *pool) {
    uint64_t demoted = opp_load(&pool->demoted, relaxed);
    /* relaxed: only a count. */
    while (demoted_extra(demoted) > 0 &&
           !opp_cas(&pool->demoted, &demoted, demoted - (1ull << 2 * DEMOTED_BITS), relaxed)) {}
}

/* --- The spare worker --------------------------------------------------------------------------- */

enum { SPARE_PARKED = 0, SPARE_WAKING = 1, SPARE_AWAKE = 2, SPARE_MASK = 3, SPARE_CALL = 4 };

void opp_pool_set_stalled(opp_pool *pool, bool stalled) {
    /* relaxed: a hint for pushers; the monitor looks again while something waits. */
    if (opp_load(&pool->stalled, relaxed) != stalled) opp_store(&pool->stalled, stalled, relaxed);
}

bool opp_pool_is_stalled(const opp_pool *pool) {
    return opp_load(&pool->stalled, relaxed);
}

uint32_t opp_pool_begin_call(opp_pool *pool) {
    uint32_t spare = opp_load(&pool->spare, relaxed);
    if ((spare & SPARE_MASK) != SPARE_PARKED) return 0;
    uint32_t waking = spare + SPARE_CALL + SPARE_WAKING;
    OPP_ASSERT((waking & SPARE_MASK) == SPARE_WAKING);
    /* [spare] acquire: pairs with opp_pool_spare_parks(): the last spare worker has finished. */
    return opp_cas(&pool->spare, &spare, waking, acquire) ? waking : 0;
}

void opp_pool_end_call(opp_pool *pool, uint32_t waking, bool is_woken) {
    /* relaxed: a hint. Not where it has parked again already, or the monitor has not waited for this
     * thread. */
    opp_cas(&pool->spare, &waking, (waking & ~(uint32_t)SPARE_MASK) | (is_woken ? SPARE_AWAKE : SPARE_PARKED),
            relaxed);
}

void opp_pool_look_at_spare(opp_pool *pool) {
    uint32_t spare = opp_load(&pool->spare, relaxed);
    if (spare == pool->spare_seen && (spare & SPARE_MASK) == SPARE_WAKING) {
        uint32_t parked = spare & ~(uint32_t)SPARE_MASK;
        opp_cas(&pool->spare, &spare, parked, relaxed); /* relaxed: as in opp_pool_end_call() */
    }
    pool->spare_seen = spare;
}

void opp_pool_spare_parks(opp_pool *pool) {
    opp_and(&pool->spare, ~(uint32_t)SPARE_MASK, release); /* [spare] release: see opp_pool_begin_call() */
}

void opp_pool_set_watch_delay(opp_pool *pool, uint64_t delay_ns) {
    opp_store(&pool->watch_delay, delay_ns, relaxed); /* relaxed: see opp_pool_watch() */
}
