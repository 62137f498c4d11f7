/*
 * A worker: from slot to slot. What a pool has to give (tokens, places for demoted work, the spare worker's
 * call) is in worker_pool.c.
 *
 *   IDLE ----> PARKED ----> WOKEN ----> RUNNING ----> DEMOTED      and from all of them back to IDLE,
 *    |            |                      |  ^            |         by opp_worker_next(), at a job's end, or
 *    |            +-------> CALLED ----> SPARE           |         where there is nothing to take
 *    |            +-------> CLOSED       |               |
 *    +--> RUNNING, DEMOTED               v               v
 *                                   HANDED_OFF <------> SUNK       by the monitor, while it is inside a job
 *
 * Invariants
 *  W1  Who holds what is in the word alone: RUNNING and WOKEN a token, DEMOTED and SUNK a place among the
 *      demoted, SPARE (and CALLED, where it was called for that) the spare worker's call. What a step of the
 *      word takes from it is given back by who made the step, and nobody else; what it adds was taken before.
 *  W2  The worker's own thread steps from IDLE, PARKED, WOKEN, CALLED, and to IDLE; the monitor only between
 *      RUNNING or SPARE and HANDED_OFF or SUNK, and from DEMOTED. Where both may step each does it by
 *      compare-and-swap.
 *  W3  The number above the slot grows with each step from having nothing to RUNNING, SPARE or DEMOTED. So
 *      who reads the same word twice, with a slot below RUNNING, knows that no job began between.
 *
 * Why that suffices. A job begins only in a slot that the worker's thread gave itself, so a step of the
 * monitor never lets two take one token: of the two exchanges from RUNNING, to IDLE and to HANDED_OFF, one
 * fails and reads the other's, and by W1 the token is given back once. A monitor that comes too late, when
 * the job has ended and another has begun, takes that one's place: one job more runs beside the tokens until
 * its end, which settles it.
 *
 * A stopped thread. A worker that is stopped keeps its place, until the monitor gives it to another, where it
 * is inside a job; between two jobs it keeps it. A monitor that is stopped between the step and the giving
 * back keeps one token.
 */
#include "worker_pool.h"
#include "runq.h"

opp_worker *opp_pool_worker(opp_pool *pool, uint32_t slot) {
    OPP_ASSERT(slot < OPP_POOL_WORKERS);
    return &pool->workers[slot];
}

static uint32_t worker_number(const opp_worker *worker) {
    return (uint32_t)(worker - worker->pool->workers);
}

opp_slot opp_worker_slot(const opp_worker *worker) {
    return slot_of(opp_load(&worker->word, relaxed)); /* relaxed: what may be another a moment later */
}

uint64_t opp_worker_idle_turn(const opp_worker *worker) {
    /* [idle] seq_cst: after what the caller announced, or the worker's step to idle comes after that, and it
     * asks what was announced. acquire: what its last job queued is seen. */
    uint32_t word = opp_load(&worker->word, seq_cst);
    return slot_of(word) <= OPP_SLOT_PARKED ? (uint64_t)word + 1 : 0;
}

/* --- Steps of the worker's own thread ------------------------------------------------------------- */

/* What the slot stands for was taken before. */
static void worker_to(opp_worker *worker, opp_slot slot) {
    OPP_ASSERT(worker->held < OPP_SLOT_RUNNING);
    OPP_ASSERT(slot >= OPP_SLOT_RUNNING);
    worker->turns += SLOT_TURN;
    worker->held = slot;
    /* A plain store: by W2 nobody else steps from here. [slot] release: its consumer, and all that it did
     * before, are seen by the monitor that hands it off. */
    opp_store(&worker->word, worker->turns | slot, release);
    /* In another slot it takes one job, or hogs: its own queue is left to those with a token. */
    if (slot == OPP_SLOT_RUNNING) opp_consumer_join(worker->consumer, worker->pool->group);
}

/* Gives back whatever it holds by now. */
static void worker_to_idle(opp_worker *worker) {
    uint32_t word = worker->turns | worker->held;
    /* [idle] seq_cst: see opp_worker_idle_turn(). release: likewise. Of the monitor's steps some may have
     * come before. */
    while (!opp_cas(&worker->word, &word, worker->turns, seq_cst)) {}
    worker->held = OPP_SLOT_IDLE;
    OPP_ASSERT((word & ~SLOT_MASK) == worker->turns);
    switch (slot_of(word)) {
    case OPP_SLOT_RUNNING: opp_pool_leave(worker->pool); break;
    case OPP_SLOT_SPARE: opp_pool_spare_parks(worker->pool); break;
    case OPP_SLOT_DEMOTED:
    case OPP_SLOT_SUNK: opp_pool_leave_demoted(worker->pool); break;
    default: OPP_ASSERT(slot_of(word) == OPP_SLOT_HANDED_OFF);
    }
}

void opp_worker_begin(opp_worker *worker, opp_consumer *consumer) {
    OPP_ASSERT(worker->held == OPP_SLOT_IDLE);
    worker->consumer = consumer;
    worker->turn = (opp_turn){0};
    worker->picks = 0;
    worker->vain_searches = worker->searches_to_skip = 0;
    worker->has_left = worker->has_served = false;
}

void opp_worker_end(opp_worker *worker) {
    if (worker->held != OPP_SLOT_IDLE) worker_to_idle(worker);
    OPP_ASSERT(worker->held == OPP_SLOT_IDLE);
}

/* --- Taking, in fair turns ------------------------------------------------------------------------ */

bool opp_turn_is_over(opp_turn *turn, uint64_t now) {
    uint64_t lasted = turn->began != 0 && now > turn->began ? now - turn->began : 0;
    uint64_t others = turn->credit != 0 ? turn->credit : OPP_TURN_NS;
    bool is_over = lasted >= (turn->serves_others ? others : OPP_TURN_NS);
    if (is_over && !turn->serves_others) turn->credit = lasted < OPP_TURN_NS_MAX ? lasted : OPP_TURN_NS_MAX;
    if (is_over || turn->began == 0) turn->began = now;
    return is_over;
}

/* Of the levels that may hold something, the one whose turn it is; 0 where there are not several. */
static uint64_t levels_in_turn(const opp_worker *worker, uint64_t levels) {
    uint64_t ready = opp_ready_levels(worker->pool->core, levels);
    if ((ready & (ready - 1)) == 0) return 0;
    uint32_t skipped = worker->picks / OPP_PICKS % (uint32_t)__builtin_popcountll(ready);
    while (skipped-- > 0) ready &= ready - 1;
    OPP_ASSERT(ready != 0);
    return ready & -ready;
}

static bool worker_take(opp_worker *worker, uint64_t levels, uint64_t now, opp_taken *taken) {
    worker->picks++;
    if (now != 0 && opp_turn_is_over(&worker->turn, now)) opp_consumer_end_turn(worker->consumer);
    /* No level waits for ever: now and then another of the levels that have something comes first, in
     * turn. */
    uint64_t first = worker->picks % OPP_PICKS == 0 ? levels_in_turn(worker, levels) : 0;
    if (!(first != 0 && opp_take(worker->consumer, first, taken)) &&
        !opp_take(worker->consumer, levels, taken)) return false;
    worker->turn.serves_others = taken->stolen;
    worker->has_left = false;
    return true;
}

/*
 * Looks on for two or three microseconds before the token is given back, one worker of a pool at a time: what
 * is queued meanwhile needs no waking, which would cost whoever queues it more than that. Seldom where that
 * was in vain before, as between the answers of a disk: there the time is the whole cost.
 */
static bool worker_search(opp_worker *worker) {
    opp_pool *pool = worker->pool;
    if (worker->searches_to_skip > 0) {
        worker->searches_to_skip--;
        return false;
    }
    if (!opp_pool_begin_search(pool)) return false;
    bool found = false;
    for (int i = 0; i < OPP_SEARCH_LOOKS && !found; i++) {
        found = opp_has_ready(pool->core, opp_pool_takeable(pool));
        if (!found) opp_pause();
    }
    opp_pool_end_search(pool);
    worker->vain_searches = found ? 0 : worker->vain_searches < 4 ? worker->vain_searches + 1 : 4;
    worker->searches_to_skip = (uint8_t)((1u << worker->vain_searches) - 1);
    return found;
}

/* --- What next ------------------------------------------------------------------------------------ */

/* With a token; also where the pool has become narrower. */
static bool running_take(opp_worker *worker, uint64_t now, opp_taken *taken) {
    OPP_ASSERT(worker->held == OPP_SLOT_RUNNING);
    do {
        if (opp_pool_is_over(worker->pool)) return false;
        if (worker_take(worker, opp_pool_takeable(worker->pool), now, taken)) return true;
    } while (worker_search(worker));
    return false;
}

/* Beside the tokens, and a second time only while nobody else came free. */
static bool spare_take(opp_worker *worker, uint64_t now, opp_taken *taken) {
    const opp_pool *pool = worker->pool;
    OPP_ASSERT(worker->held == OPP_SLOT_SPARE);
    if (worker->has_served && !opp_pool_is_stalled(pool)) return false;
    worker->has_served = true;
    return worker_take(worker, pool->levels & ~pool->demoted_levels, now, taken);
}

/* From idle: to whatever slot there is to be had. Not by the ready bits alone: a thread that is stopped while
 * it clears one leaves it set, and this worker would go from slot to slot in vain until that goes on. */
static bool worker_seek(opp_worker *worker) {
    opp_pool *pool = worker->pool;
    uint64_t demoted = pool->demoted_levels;
    OPP_ASSERT(worker->held == OPP_SLOT_IDLE);
    if (opp_pool_enter(pool)) {
        worker_to(worker, OPP_SLOT_RUNNING);
    } else if (demoted != 0 && opp_has_ready(pool->core, demoted) &&
               opp_pool_enter_demoted(pool, OPP_DEMOTION_KNOWN)) {
        worker_to(worker, OPP_SLOT_DEMOTED);
    } else {
        return false;
    }
    return true;
}

/* It is inside of no app any more, and what it has queued waits no longer for it. */
static opp_next worker_rests(opp_worker *worker) {
    opp_consumer_leave(worker->consumer);
    opp_consumer_join(worker->consumer, 0);
    return OPP_NEXT_PARK;
}

opp_next opp_worker_next(opp_worker *worker, uint64_t now, bool is_lowered, opp_taken *taken) {
    for (;;) {
        switch (worker->held) {
        case OPP_SLOT_RUNNING:
            if (is_lowered) return OPP_NEXT_RAISE;
            if (running_take(worker, now, taken)) return OPP_NEXT_JOB;
            worker_to_idle(worker);
            return worker_rests(worker);
        case OPP_SLOT_SPARE:
            if (is_lowered) return OPP_NEXT_RAISE;
            if (spare_take(worker, now, taken)) return OPP_NEXT_JOB;
            worker_to_idle(worker);
            break;
        case OPP_SLOT_DEMOTED:
            if (worker_take(worker, worker->pool->demoted_levels, now, taken)) return OPP_NEXT_JOB;
            worker_to_idle(worker);
            break;
        default: OPP_ASSERT(worker->held == OPP_SLOT_IDLE);
        }
        if (is_lowered) return OPP_NEXT_RAISE;
        if (!worker_seek(worker)) return worker_rests(worker);
    }
}

opp_parked opp_worker_park(opp_worker *worker) {
    opp_pool *pool = worker->pool;
    uint32_t slot = worker_number(worker);
    OPP_ASSERT(worker->held == OPP_SLOT_IDLE);
    opp_pool_prepare_park(pool, slot);
    /* The last look, after the token was given back and the bit was set; see worker_pool.c, "No lost
     * wake-up". */
    opp_woken woken = OPP_WOKEN_NOTHING;
    if (opp_has_ready(pool->core, opp_pool_takeable(pool))) {
        woken = opp_pool_cancel_park(pool, slot);
        /* Something waits for a token, and whoever queued it may have met a free one and nobody to give it
         * to. */
        if (woken == OPP_WOKEN_NOTHING) opp_pool_watch(pool);
    }
    if (woken == OPP_WOKEN_NOTHING) woken = opp_pool_park(pool, slot);
    worker->turn = (opp_turn){0};
    worker->has_served = false;
    switch (woken) {
    case OPP_WOKEN_TOKEN: worker_to(worker, OPP_SLOT_RUNNING); return OPP_PARKED_WORKS;
    case OPP_WOKEN_SPARE: worker_to(worker, OPP_SLOT_SPARE); return OPP_PARKED_SPARE;
    default: break;
    }
    OPP_ASSERT(woken == OPP_WOKEN_CLOSED);
    worker->held = OPP_SLOT_IDLE;
    opp_store(&worker->word, worker->turns, relaxed); /* relaxed: nobody is to learn anything by it */
    return OPP_PARKED_ENDS;
}

/* --- Around a job --------------------------------------------------------------------------------- */

opp_wake opp_worker_to_demoted(opp_worker *worker, uint32_t depth) {
    opp_pool *pool = worker->pool;
    uint32_t word = worker->turns | OPP_SLOT_RUNNING;
    OPP_ASSERT(depth > 0);
    if (worker->held != OPP_SLOT_RUNNING) return OPP_WAKE_NOTHING;
    if (!opp_pool_enter_demoted(pool, depth == 1 ? OPP_DEMOTION_ONCE : OPP_DEMOTION_KNOWN))
        return OPP_WAKE_NOTHING;
    /* It never holds nothing with a job in its hand. relaxed: what is given back comes after, with an order
     * of its own. */
    if (opp_cas(&worker->word, &word, worker->turns | OPP_SLOT_DEMOTED, relaxed)) {
        worker->held = OPP_SLOT_DEMOTED;
        opp_pool_leave(pool);
        opp_consumer_join(worker->consumer, 0);
    } else {
        /* The monitor has given the token to another, who may have found the places full. The job's end
         * settles it. */
        opp_pool_leave_demoted(pool);
    }
    return opp_pool_wake_if_ready(pool);
}

bool opp_worker_job_ended(opp_worker *worker) {
    opp_slot slot = opp_worker_slot(worker);
    OPP_ASSERT(slot >= OPP_SLOT_RUNNING);
    if (slot == OPP_SLOT_RUNNING) opp_pool_set_stalled(worker->pool, false);
    if (slot == OPP_SLOT_HANDED_OFF || slot == OPP_SLOT_SUNK) worker_to_idle(worker);
    if (opp_consumer_should_leave(worker->consumer)) opp_consumer_leave(worker->consumer);
    return slot == OPP_SLOT_RUNNING;
}

bool opp_worker_takes_next(opp_worker *worker, const opp_pool *pool, unsigned level) {
    OPP_ASSERT(level < OPP_LEVELS);
    if (worker->pool != pool || worker->has_left) return false;
    /* relaxed: who takes the token away looks what waits itself. */
    opp_slot slot = opp_worker_slot(worker);
    bool may = slot == OPP_SLOT_RUNNING || (slot == OPP_SLOT_DEMOTED && pool->demoted_levels & 1ull << level);
    if (may) worker->has_left = true;
    return may;
}

opp_wake opp_worker_goes_on(opp_worker *worker) {
    OPP_ASSERT(worker->held >= OPP_SLOT_RUNNING);
    if (!worker->has_left) return OPP_WAKE_NOTHING;
    worker->has_left = false;
    return opp_pool_wake_if_ready(worker->pool);
}

/* --- Steps of the monitor ------------------------------------------------------------------------- */

/* From a token, or the spare worker's place, to `slot`. */
static bool worker_take_place(opp_worker *worker, opp_slot slot) {
    uint32_t word = opp_load(&worker->word, relaxed);
    do {
        if (slot_of(word) != OPP_SLOT_RUNNING && slot_of(word) != OPP_SLOT_SPARE) return false;
        /* [slot] acquire: pairs with worker_to(). */
    } while (!opp_cas(&worker->word, &word, (word & ~SLOT_MASK) | slot, acquire));
    if (slot_of(word) == OPP_SLOT_RUNNING) opp_pool_leave(worker->pool);
    else opp_pool_spare_parks(worker->pool);
    /* Its word may come when the worker has a token again: a preference, until it gets the next. */
    opp_consumer_join(worker->consumer, 0);
    return true;
}

opp_handed opp_worker_hand_off(opp_worker *worker) {
    return worker_take_place(worker, OPP_SLOT_HANDED_OFF) ? OPP_HANDED_OFF : OPP_HANDED_NOT;
}

opp_handed opp_worker_sink(opp_worker *worker, opp_demotion why) {
    opp_slot slot = opp_worker_slot(worker);
    if (slot != OPP_SLOT_RUNNING && slot != OPP_SLOT_SPARE) return OPP_HANDED_NOT;
    if (!opp_pool_enter_demoted(worker->pool, why)) return OPP_HANDED_NOT;
    if (worker_take_place(worker, OPP_SLOT_SUNK)) return OPP_HANDED_OFF;
    opp_pool_leave_demoted(worker->pool);
    return OPP_HANDED_LATE;
}

opp_handed opp_worker_count(opp_worker *worker) {
    uint32_t word = opp_load(&worker->word, relaxed);
    if (slot_of(word) != OPP_SLOT_HANDED_OFF) return OPP_HANDED_NOT;
    opp_pool_count_demoted(worker->pool);
    /* relaxed: what was counted is given back by who steps from there, by W1. */
    if (opp_cas(&worker->word, &word, (word & ~SLOT_MASK) | OPP_SLOT_SUNK, relaxed)) return OPP_HANDED_OFF;
    opp_pool_leave_demoted(worker->pool);
    return OPP_HANDED_LATE;
}

opp_handed opp_worker_uncount(opp_worker *worker) {
    uint32_t word = opp_load(&worker->word, relaxed);
    if (slot_of(word) != OPP_SLOT_DEMOTED && slot_of(word) != OPP_SLOT_SUNK) return OPP_HANDED_NOT;
    /* relaxed: as above; the place is given back after. */
    if (!opp_cas(&worker->word, &word, (word & ~SLOT_MASK) | OPP_SLOT_HANDED_OFF, relaxed))
        return OPP_HANDED_NOT;
    opp_pool_leave_demoted(worker->pool);
    return OPP_HANDED_OFF;
}
