/*
 * A worker and the transitions of its state, and submission to it. The resources of a pool (tokens, room
 * for demoted work, the call of the spare worker) are in worker_pool.c, parking and waking in worker_park.c.
 *
 *     IDLE ----> PARKED ----> WOKEN ----> RUNNING ----> DEMOTED      and from all of them back to IDLE,
 *      |            |                      |  ^            |         by opp_worker_next(), at a job's end, or
 *      |            +-------> CALLED ----> SPARE           |         where there is nothing to take
 *      |            +-------> CLOSED       |               |
 *      |            +-------> APPOINTED, and PARKED again  |
 *      +--> RUNNING, DEMOTED               v               v
 *                                     HANDED_OFF <------> SUNK       by the monitor, while it is inside a job
 *
 * Invariants
 *  W1  The word alone says what a worker holds: in RUNNING and WOKEN a token, in DEMOTED and SUNK room
 *      among the demoted, in SPARE (and CALLED, where it was called for that) the call of the spare worker.
 *      If a step of the word gives something up, the thread that made the step returns it, and no other. What
 *      a step adds was acquired before.
 *  W2  Who has cleared a worker's bit steps from PARKED to WOKEN, CALLED, CLOSED or APPOINTED. The worker's
 *      own thread steps from these, from IDLE, and from PARKED where it has cleared the bit itself; to IDLE;
 *      and from RUNNING to DEMOTED, or to HANDED_OFF and back, where its job waits. The monitor steps from
 *      RUNNING and SPARE to HANDED_OFF or SUNK, between these two, and from DEMOTED to HANDED_OFF. Where two
 *      may step, each does so by compare-and-swap.
 *  W3  The version above the state grows with each step from below RUNNING to RUNNING, SPARE or DEMOTED. So
 *      if a thread reads the same word twice, with a state below RUNNING, no job began in between.
 *
 * Why that suffices. A job begins only in a state that the worker's thread set itself, so a step of the
 * monitor never lets two workers take one token. Of two exchanges from RUNNING, to IDLE and to HANDED_OFF,
 * one fails and reads the other's value, and by W1 the token is returned once. If the monitor comes too late,
 * when the job has ended and another has begun, it takes the token of that one: one job more runs beside the
 * tokens until it ends.
 *
 * A stopped thread. A worker that is stopped inside a job keeps its token until the monitor hands it to
 * another. Between two jobs it keeps the token. A monitor that is stopped between the step and the return
 * keeps one token.
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

opp_report *opp_worker_report(opp_worker *worker) {
    return &worker->pool->reports[worker_number(worker)];
}

opp_worker_state opp_worker_read_state(const opp_worker *worker) {
    return state_of(opp_load(&worker->word, relaxed)); /* relaxed: the value may be out of date at once */
}

uint64_t opp_worker_idle_version(const opp_worker *worker) {
    /* [idle] seq_cst: follows the caller's announcement. Otherwise the worker's step to idle follows it, and
     * then the worker reads the announcement. acquire: the caller sees what the worker's last job queued. */
    uint32_t word = opp_load(&worker->word, seq_cst);
    return state_of(word) <= OPP_WORKER_PARKED ? (uint64_t)word + 1 : 0;
}

/* --- Steps of the worker's own thread ------------------------------------------------------------- */

/* What the state stands for was acquired before. */
static void worker_to(opp_worker *worker, opp_worker_state state) {
    OPP_ASSERT(worker->set < OPP_WORKER_RUNNING);
    OPP_ASSERT(state >= OPP_WORKER_RUNNING);
    worker->version += VERSION_STEP;
    worker->set = state;
    /* A plain store: by W2 no other thread steps from here. [state] release: pairs with worker_take_place().
     * The monitor that hands the worker off sees its consumer, and all that it did before. */
    opp_store(&worker->word, worker->version | state, release);
    /* In other states it takes one job, or hogs: its own queue is left to workers with a token. */
    if (state == OPP_WORKER_RUNNING) opp_consumer_set_group(worker->consumer, worker->pool->group);
}

/* Returns whatever the worker holds by now. */
static void worker_to_idle(opp_worker *worker) {
    uint32_t word = worker->version | worker->set;
    /* [idle] seq_cst and release: pairs with opp_worker_idle_version(). Steps of the monitor may have come
     * before. */
    while (!opp_cas(&worker->word, &word, worker->version, seq_cst)) {}
    worker->set = OPP_WORKER_IDLE;
    OPP_ASSERT((word & ~STATE_MASK) == worker->version);
    switch (state_of(word)) {
    case OPP_WORKER_RUNNING: opp_pool_leave(worker->pool); break;
    case OPP_WORKER_SPARE: opp_pool_spare_parks(worker->pool); break;
    case OPP_WORKER_DEMOTED:
    case OPP_WORKER_SUNK: opp_pool_leave_demoted(worker->pool); break;
    default: OPP_ASSERT(state_of(word) == OPP_WORKER_HANDED_OFF);
    }
}

void opp_worker_begin(opp_worker *worker, opp_consumer *consumer) {
    OPP_ASSERT(worker->set == OPP_WORKER_IDLE);
    worker->consumer = consumer;
    worker->turn = (opp_turn){0};
    worker->picks = 0;
    worker->vain_searches = worker->searches_to_skip = 0;
    worker->has_left = worker->has_served = false;
    worker->is_appointed = true; /* it may have been started to lead */
}

void opp_worker_end(opp_worker *worker) {
    if (worker->set != OPP_WORKER_IDLE) worker_to_idle(worker);
    OPP_ASSERT(worker->set == OPP_WORKER_IDLE);
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

/* Of the levels that may hold something, the one whose turn it is; 0 unless there are several. */
static uint64_t levels_in_turn(const opp_worker *worker, uint64_t levels) {
    uint64_t ready = opp_ready_levels(worker->pool->core, levels);
    if ((ready & (ready - 1)) == 0) return 0;
    uint32_t skipped = worker->picks / OPP_PICKS % (uint32_t)__builtin_popcountll(ready);
    while (skipped-- > 0) ready &= ready - 1;
    OPP_ASSERT(ready != 0);
    OPP_ASSERT((ready & ~levels) == 0);
    return ready & -ready;
}

static bool worker_take(opp_worker *worker, uint64_t levels, uint64_t now, opp_taken *taken) {
    worker->picks++;
    if (now != 0 && opp_turn_is_over(&worker->turn, now)) opp_consumer_end_turn(worker->consumer);
    /* No level starves: every OPP_PICKS takes another one of the levels that have something comes first, in
     * turn. */
    uint64_t first = worker->picks % OPP_PICKS == 0 ? levels_in_turn(worker, levels) : 0;
    if (!(first != 0 && opp_take(worker->consumer, first, taken)) &&
        !opp_take(worker->consumer, levels, taken)) return false;
    worker->turn.serves_others = taken->stolen;
    worker->has_left = false;
    return true;
}

/*
 * Searches for two or three microseconds before the token is returned; one worker of a pool at a time. A job
 * that is queued meanwhile needs no wake-up, which would cost its pusher more than that. After vain searches,
 * as between the answers of a disk, it searches less often: there the search is pure cost.
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

/* With a token; also called where the pool has become narrower. */
static bool running_take(opp_worker *worker, uint64_t now, opp_taken *taken) {
    OPP_ASSERT(worker->set == OPP_WORKER_RUNNING);
    do {
        if (opp_pool_has_too_many(worker->pool)) return false;
        if (worker_take(worker, opp_pool_takeable(worker->pool), now, taken)) return true;
    } while (worker_search(worker));
    return false;
}

/* Beside the tokens. Takes a second job only while no other worker has become free. */
static bool spare_take(opp_worker *worker, uint64_t now, opp_taken *taken) {
    const opp_pool *pool = worker->pool;
    OPP_ASSERT(worker->set == OPP_WORKER_SPARE);
    if (worker->has_served && !opp_pool_is_stalled(pool)) return false;
    worker->has_served = true;
    return worker_take(worker, pool->levels & ~pool->demoted_levels, now, taken);
}

/* From idle to any available state. Ready bits alone are not enough: a thread that is stopped while it clears
 * one leaves it set, and this worker would change its state in vain until that thread continues. */
static bool worker_seek(opp_worker *worker) {
    opp_pool *pool = worker->pool;
    uint64_t demoted = pool->demoted_levels;
    OPP_ASSERT(worker->set == OPP_WORKER_IDLE);
    if (opp_pool_enter(pool)) {
        worker_to(worker, OPP_WORKER_RUNNING);
    } else if (demoted != 0 && opp_has_ready(pool->core, demoted) &&
               opp_pool_enter_demoted(pool, OPP_DEMOTION_KNOWN)) {
        worker_to(worker, OPP_WORKER_DEMOTED);
    } else {
        return false;
    }
    return true;
}

/* The worker runs no job of any app, and what it has queued no longer waits for it. */
static opp_next worker_parks(opp_worker *worker) {
    opp_consumer_leave_app(worker->consumer);
    opp_consumer_set_group(worker->consumer, 0);
    return OPP_NEXT_PARK;
}

opp_next opp_worker_next(opp_worker *worker, uint64_t now, bool is_lowered, opp_taken *taken) {
    for (;;) {
        switch (worker->set) {
        case OPP_WORKER_RUNNING:
            if (is_lowered) return OPP_NEXT_RAISE;
            if (running_take(worker, now, taken)) return OPP_NEXT_JOB;
            worker_to_idle(worker);
            return worker_parks(worker);
        case OPP_WORKER_SPARE:
            if (is_lowered) return OPP_NEXT_RAISE;
            if (spare_take(worker, now, taken)) return OPP_NEXT_JOB;
            worker_to_idle(worker);
            break;
        case OPP_WORKER_DEMOTED:
            if (worker_take(worker, worker->pool->demoted_levels, now, taken)) return OPP_NEXT_JOB;
            worker_to_idle(worker);
            break;
        default: OPP_ASSERT(worker->set == OPP_WORKER_IDLE);
        }
        if (is_lowered) return OPP_NEXT_RAISE;
        if (!worker_seek(worker)) return worker_parks(worker);
    }
}

/* The worker gets up, for what it was woken. */
static opp_parked worker_rises(opp_worker *worker, opp_woken woken) {
    OPP_ASSERT(worker->set == OPP_WORKER_PARKED);
    worker->turn = (opp_turn){0};
    worker->has_served = false;
    switch (woken) {
    case OPP_WOKEN_TOKEN: worker_to(worker, OPP_WORKER_RUNNING); return OPP_PARKED_WORKS;
    case OPP_WOKEN_SPARE: worker_to(worker, OPP_WORKER_SPARE); return OPP_PARKED_SPARE;
    default: break;
    }
    worker->set = OPP_WORKER_IDLE;
    /* [idle] seq_cst: pairs with opp_worker_idle_version(), which takes an appointed worker for a busy one.
     * Before it parks again, the worker reads whether that was asked. */
    opp_store(&worker->word, worker->version, seq_cst);
    if (woken == OPP_WOKEN_TO_LEAD) worker->is_appointed = true;
    else if (woken != OPP_WOKEN_NOTHING) return OPP_PARKED_ENDS;
    return OPP_PARKED_AGAIN;
}

opp_parked opp_worker_begin_park(opp_worker *worker) {
    opp_pool *pool = worker->pool;
    uint32_t slot = worker_number(worker);
    OPP_ASSERT(worker->set == OPP_WORKER_IDLE);
    opp_pool_prepare_park(pool, slot);
    /* The last look at the queues, after the token was returned and the bit was set; see worker_park.c, "No
     * lost wake-up". */
    opp_woken woken = OPP_WOKEN_NOTHING;
    if (opp_has_ready(pool->core, opp_pool_takeable(pool))) {
        woken = opp_pool_cancel_park(pool, slot);
        /* Something waits for a token. Its pusher may have met a free token and no worker to give it to. */
        if (woken == OPP_WOKEN_NOTHING) opp_pool_watch(pool);
    }
    return woken == OPP_WOKEN_NOTHING ? OPP_PARKED_SLEEPS : worker_rises(worker, woken);
}

opp_parked opp_worker_end_park(opp_worker *worker, opp_harvest *harvest) {
    opp_pool *pool = worker->pool;
    uint32_t slot = worker_number(worker);
    opp_pool_lead(pool, slot, harvest);
    if (harvest->count == 0) return worker_rises(worker, opp_pool_park(pool, slot));
    /* The token before those that were waiting are resumed: their jobs wake nobody, then. Without one they
     * wait for one, as after any submission. So they do where a thread has chosen the worker and was stopped
     * before it said for what: they are resumed all the same, and this is called once more. */
    opp_woken woken;
    if (!opp_pool_try_rise(pool, slot, &woken)) return OPP_PARKED_SLEEPS;
    if (woken == OPP_WOKEN_NOTHING && opp_pool_enter(pool)) woken = OPP_WOKEN_TOKEN;
    return worker_rises(worker, woken);
}

opp_parked opp_worker_park(opp_worker *worker) {
    opp_harvest harvest;
    opp_parked parked = opp_worker_begin_park(worker);
    OPP_ASSERT(worker->pool->readiness == NULL);
    return parked == OPP_PARKED_SLEEPS ? opp_worker_end_park(worker, &harvest) : parked;
}

opp_wake opp_worker_passes_lead(opp_worker *worker) {
    bool owes = worker->is_appointed;
    worker->is_appointed = false;
    return opp_pool_appoint(worker->pool, owes);
}

uint32_t opp_worker_harvest(opp_worker *worker, uint64_t now, opp_harvest *harvest) {
    opp_pool *pool = worker->pool;
    harvest->count = 0;
    if (pool->readiness == NULL || opp_worker_read_state(worker) != OPP_WORKER_RUNNING) return 0;
    /* relaxed, all: a leader harvests by itself; one look more or less does no harm. */
    for (uint32_t i = 0; i < LEADERS; i++)
        if (is_led(opp_load(&pool->leaders[i], relaxed))) return 0;
    if (!opp_readiness_is_used(pool->readiness)) return 0;
    if (now - opp_load(&pool->harvested_at, relaxed) < OPP_HARVEST_NS) return 0;
    opp_store(&pool->harvested_at, now, relaxed);
    opp_readiness_harvest(pool->readiness, harvest);
    if (harvest->is_notified) (void)opp_pool_pass_notice(pool);
    return harvest->count;
}

/* --- Around a job --------------------------------------------------------------------------------- */

opp_wake opp_worker_to_demoted(opp_worker *worker, uint32_t depth) {
    opp_pool *pool = worker->pool;
    uint32_t word = worker->version | OPP_WORKER_RUNNING;
    OPP_ASSERT(depth > 0);
    if (worker->set != OPP_WORKER_RUNNING) return OPP_WAKE_NOTHING;
    if (!opp_pool_enter_demoted(pool, depth == 1 ? OPP_DEMOTION_ONCE : OPP_DEMOTION_KNOWN))
        return OPP_WAKE_NOTHING;
    /* The worker always holds something while it has a job. relaxed: what is returned is returned afterwards,
     * with a memory order of its own. */
    if (opp_cas(&worker->word, &word, worker->version | OPP_WORKER_DEMOTED, relaxed)) {
        worker->set = OPP_WORKER_DEMOTED;
        opp_pool_leave(pool);
        opp_consumer_set_group(worker->consumer, 0);
    } else {
        /* The monitor has handed the token to another worker, which may have found no room. The token
         * is returned at the job's end. */
        opp_pool_leave_demoted(pool);
    }
    return opp_pool_wake_if_ready(pool);
}

opp_worker_state opp_worker_job_ended(opp_worker *worker) {
    opp_worker_state state = opp_worker_read_state(worker);
    OPP_ASSERT(worker->set >= OPP_WORKER_RUNNING); /* W2: its thread set that state */
    OPP_ASSERT(state >= OPP_WORKER_RUNNING);
    if (state == OPP_WORKER_RUNNING) opp_pool_set_stalled(worker->pool, false);
    if (state == OPP_WORKER_HANDED_OFF || state == OPP_WORKER_SUNK) worker_to_idle(worker);
    if (opp_consumer_should_leave_app(worker->consumer)) opp_consumer_leave_app(worker->consumer);
    return state;
}

/* Whether the worker itself takes next what it has queued at `level` of `pool`, so that no worker need be
 * woken. */
static bool worker_takes_next(opp_worker *worker, const opp_pool *pool, unsigned level) {
    OPP_ASSERT(level < OPP_LEVELS);
    if (worker->pool != pool || worker->has_left) return false;
    /* relaxed: a thread that takes the token away looks at the queues itself. */
    opp_worker_state state = opp_worker_read_state(worker);
    bool may = state == OPP_WORKER_RUNNING ||
               (state == OPP_WORKER_DEMOTED && pool->demoted_levels & 1ull << level);
    if (may) worker->has_left = true;
    return may;
}

opp_submitted opp_submit(opp_producer *producer, opp_app *app, uint8_t rank, opp_job job, opp_worker *self) {
    /* the job may end before the push returns, and its app with it; the core remains */
    const opp_core *core = app->core;
    opp_submitted submitted = {.level = opp_push(producer, app, rank, job), .wake = OPP_WAKE_NOTHING};
    if (submitted.level < 0 || submitted.level == OPP_LEVEL_NONE) return submitted;
    opp_pool *pool = core->pool_of[submitted.level];
    if (pool == NULL) return submitted;
    if (self != NULL && worker_takes_next(self, pool, (unsigned)submitted.level)) return submitted;
    submitted.wake = opp_pool_wake(pool);
    return submitted;
}

opp_wake opp_worker_goes_on(opp_worker *worker) {
    OPP_ASSERT(worker->set >= OPP_WORKER_RUNNING);
    if (!worker->has_left) return OPP_WAKE_NOTHING;
    worker->has_left = false;
    return opp_pool_wake_if_ready(worker->pool);
}

/* --- A wait inside a job ------------------------------------------------------------------------- */

bool opp_worker_begin_wait(opp_worker *worker, opp_wake *wake) {
    opp_pool *pool = worker->pool;
    uint32_t word = worker->version | OPP_WORKER_RUNNING;
    *wake = OPP_WAKE_NOTHING;
    if (worker->set != OPP_WORKER_RUNNING) return false;
    /* relaxed: by W1 this thread returns the token, with an order of its own. The exchange fails where the
     * monitor has handed the token off; then there is nothing to return, and nothing to regain. */
    if (!opp_cas(&worker->word, &word, worker->version | OPP_WORKER_HANDED_OFF, relaxed)) return false;
    opp_pool_leave(pool);
    opp_consumer_set_group(worker->consumer, 0);
    /* What the slice has left for this worker is among what the look finds. */
    worker->has_left = false;
    *wake = opp_pool_wake_if_ready(pool);
    return true;
}

opp_wake opp_worker_end_wait(opp_worker *worker) {
    opp_pool *pool = worker->pool;
    uint32_t word = worker->version | OPP_WORKER_HANDED_OFF;
    OPP_ASSERT(worker->set == OPP_WORKER_RUNNING);
    if (!opp_pool_enter(pool)) return OPP_WAKE_NOTHING; /* the job goes on beside the tokens */
    /* [state] release: pairs with worker_take_place(), as in worker_to(). */
    if (opp_cas(&worker->word, &word, worker->version | OPP_WORKER_RUNNING, release)) {
        opp_consumer_set_group(worker->consumer, pool->group);
        return OPP_WAKE_NOTHING;
    }
    /* The monitor has counted the job among the demoted. Others may have found no token meanwhile. */
    OPP_ASSERT(state_of(word) == OPP_WORKER_SUNK);
    opp_pool_leave(pool);
    return opp_pool_wake_if_ready(pool);
}

/* --- Steps of the monitor ------------------------------------------------------------------------- */

/* From a token, or from the call of the spare worker, to `state`. */
static bool worker_take_place(opp_worker *worker, opp_worker_state state) {
    uint32_t word = opp_load(&worker->word, relaxed);
    OPP_ASSERT(state == OPP_WORKER_HANDED_OFF || state == OPP_WORKER_SUNK); /* W2 */
    do {
        if (state_of(word) != OPP_WORKER_RUNNING && state_of(word) != OPP_WORKER_SPARE) return false;
        /* [state] acquire: pairs with worker_to(). */
    } while (!opp_cas(&worker->word, &word, (word & ~STATE_MASK) | state, acquire));
    if (state_of(word) == OPP_WORKER_RUNNING) opp_pool_leave(worker->pool);
    else opp_pool_spare_parks(worker->pool);
    /* It may take effect only when the worker has a token again. That is harmless: a preference, until the
     * worker takes its next token. */
    opp_consumer_set_group(worker->consumer, 0);
    return true;
}

opp_handed opp_worker_hand_off(opp_worker *worker) {
    return worker_take_place(worker, OPP_WORKER_HANDED_OFF) ? OPP_HANDED_OFF : OPP_HANDED_NOT;
}

opp_handed opp_worker_sink(opp_worker *worker, opp_demotion why) {
    opp_worker_state state = opp_worker_read_state(worker);
    if (state != OPP_WORKER_RUNNING && state != OPP_WORKER_SPARE) return OPP_HANDED_NOT;
    if (!opp_pool_enter_demoted(worker->pool, why)) return OPP_HANDED_NOT;
    if (worker_take_place(worker, OPP_WORKER_SUNK)) return OPP_HANDED_OFF;
    opp_pool_leave_demoted(worker->pool);
    return OPP_HANDED_LATE;
}

opp_handed opp_worker_count(opp_worker *worker) {
    uint32_t word = opp_load(&worker->word, relaxed);
    if (state_of(word) != OPP_WORKER_HANDED_OFF) return OPP_HANDED_NOT;
    opp_pool_count_demoted(worker->pool);
    /* relaxed: by W1 the thread that steps from the state returns what was counted. */
    if (opp_cas(&worker->word, &word, (word & ~STATE_MASK) | OPP_WORKER_SUNK, relaxed)) return OPP_HANDED_OFF;
    opp_pool_leave_demoted(worker->pool);
    return OPP_HANDED_LATE;
}

opp_handed opp_worker_uncount(opp_worker *worker) {
    uint32_t word = opp_load(&worker->word, relaxed);
    if (state_of(word) != OPP_WORKER_DEMOTED && state_of(word) != OPP_WORKER_SUNK) return OPP_HANDED_NOT;
    /* relaxed: as above; the room is returned afterwards. */
    if (!opp_cas(&worker->word, &word, (word & ~STATE_MASK) | OPP_WORKER_HANDED_OFF, relaxed))
        return OPP_HANDED_NOT;
    opp_pool_leave_demoted(worker->pool);
    return OPP_HANDED_OFF;
}
