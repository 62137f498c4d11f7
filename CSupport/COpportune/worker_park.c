/*
 * Parking: how a worker of a pool goes to sleep, and which one a waker wakes for what.
 *
 *     asleep   one bit for each parked worker; the thread that clears a bit owes its worker a wake-up
 *     leaders  the parked workers, at most LEADERS, that wait in the pool's readiness, and not on their words
 *     word     one for each worker, a futex: its state, PARKED or what it was woken for
 *
 * Invariants
 *  L1  A worker's bit is cleared by exactly one thread, which then stores the worker's word. The worker
 *      leaves opp_pool_park() or opp_pool_cancel_park() with that word, so no wake-up is lost or doubled.
 *  L2  A token that is handed over with OPP_WOKEN_TOKEN was taken before the parked worker was chosen. If
 *      there is no parked worker, it is returned.
 *  L5  While a descriptor is watched and a worker sleeps on its word, there is a leader, or one is coming, or
 *      a thread that has led or was to lead owes opp_pool_appoint().
 *  L6  While a leader is woken and its readiness has not told it, there is a notification that no thread has
 *      taken, or a thread that has taken it owes opp_pool_pass_notice().
 *
 * No lost wake-up. A pusher stores tail (seq_cst) and then reads count (seq_cst). A worker returns its token
 * (seq_cst) and then looks at the queues (seq_cst). In the total order of the four, either the pusher sees
 * the free token, or the worker sees the job.
 *
 * The same holds with the bit in `asleep`, for a free token without a parked worker. The worker sets its bit
 * before its last look at the queues, so that look sees the job of a pusher that found no bit. If no worker
 * was about to park at all, opp_pool_notify() returns NOBODY. This holds on Arm too: a seq_cst store and a
 * later seq_cst load of another object are not reordered.
 *
 * Leaders. Who leads sets its seat in `leaders` (seq_cst) and then reads its word (seq_cst); its waker
 * stores the word (seq_cst) and then reads `leaders` (seq_cst). So either the leader sees that it is woken,
 * or the waker sees that the word is not what it sleeps on, and notifies the readiness. Who leads no more
 * clears its seat (seq_cst), then looks for other leaders, and for sleepers to appoint one (seq_cst); a
 * worker sets its bit (seq_cst) before it finds no seat in `leaders` (seq_cst) and sleeps on its word. So
 * either it leads, or it is found by the last who leaves. The same with `watched` in the place of
 * `leaders`, against the thread that adds the first descriptor. Wakers choose leaders last: where another
 * sleeps, nobody need be appointed. Who is awaited (LEADER_COMING) keeps others from appointing one, so
 * whoever sees that it may not come appoints anew: a worker that works first, and the monitor where one was
 * not started, or has ended.
 *
 * Several leaders, so that who takes an event finds another leading, and wakes nobody before it begins with
 * its job. The kernel has one of them return for each event, the one that came last, and so perhaps not the
 * one that a notification is for. Whoever takes it sees that another leader's word says woken, since the
 * waker had stored that before; it leads no more, notifies once more, and sleeps on its word (L6). It must
 * not lead at once, or it might take the second one too. The other leader is in its seat after that, and
 * so looks for a sleeper when it leaves.
 *
 * A stopped thread. One that was appointed and is stopped before it leads keeps events waiting, until it
 * goes on or another worker parks or is between two jobs (opp_worker_harvest()). One that the kernel has
 * woken for an event or a notification keeps that until it goes on. A waker that is stopped between
 * clearing a bit and storing the word holds back one parked worker and the token for it. A worker that
 * finds itself chosen waits for its word without a token, since it clears its bit before it takes one, and
 * without what it has harvested: those whom it has claimed it resumes first. The push that the waker is part
 * of has not returned, and any later push chooses another worker.
 */
#include "worker_pool.h"
#include "runq.h"

/* --- Waking ------------------------------------------------------------------------------------ */

/* [leaders] seq_cst: see "Leaders". */
static bool pool_is_leader(opp_pool *pool, uint32_t slot) {
    for (uint32_t i = 0; i < LEADERS; i++)
        if (opp_load(&pool->leaders[i], seq_cst) == slot + 1) return true;
    return false;
}

/* Clears the lowest set bit of a parked worker, so that the same few stay warm. Returns the worker's slot, or
 * -1. */
static int pool_choose_of(opp_pool *pool, bool also_leaders) {
    /* [asleep] seq_cst: see "No lost wake-up". */
    uint32_t words = (opp_load(&pool->slot_end, seq_cst) + 63) / 64;
    OPP_ASSERT(words <= ASLEEP_WORDS);
    for (uint32_t i = 0; i < words; i++) {
        uint64_t bits = opp_load(&pool->asleep[i], seq_cst);
        while (bits != 0) {
            uint64_t bit = bits & -bits;
            uint32_t slot = i * 64 + (uint32_t)__builtin_ctzll(bit);
            bits &= ~bit;
            if (!also_leaders && pool_is_leader(pool, slot)) continue; /* only a preference */
            /* L1: the thread that saw the bit set clears it. acquire: pairs with opp_pool_prepare_park(); the
             * worker is parked. */
            if (opp_and(&pool->asleep[i], ~bit, acquire) & bit) return (int)slot;
        }
    }
    return -1;
}

static int pool_choose(opp_pool *pool) {
    if (pool->readiness == NULL) return pool_choose_of(pool, true);
    int slot = pool_choose_of(pool, false);
    return slot >= 0 ? slot : pool_choose_of(pool, true);
}

/* The caller has cleared the worker's bit: until this store no other thread writes the worker's word. */
static void pool_deliver(opp_pool *pool, int slot, opp_worker_state what) {
    opp_worker *worker = &pool->workers[slot];
    OPP_ASSERT(worker->set == OPP_WORKER_PARKED);
    OPP_ASSERT(what > OPP_WORKER_PARKED);
    OPP_ASSERT(what < OPP_WORKER_RUNNING);
    /* statistics; written only by the thread that has cleared the bit */
    opp_store(&worker->wakeups, ++worker->wakeups_told, relaxed);
    /* [word] release: pairs with the acquire in pool_receive(). The woken worker sees what the waker did.
     * seq_cst, both: see "Leaders". */
    opp_store(&worker->word, worker->version | what, seq_cst);
    if (pool->readiness != NULL && pool_is_leader(pool, (uint32_t)slot))
        return opp_readiness_notify(pool->readiness);
    opp_futex_wake(&worker->word, 1);
}

opp_notified opp_pool_notify(opp_pool *pool) {
    if (!opp_pool_enter(pool)) return OPP_NOTIFIED_BUSY;
    int slot = pool_choose(pool);
    if (slot < 0) {
        opp_pool_leave(pool);
        /* A worker may have parked between the choice and the return of the token, having seen no free
         * token. */
        slot = pool_choose(pool);
        if (slot < 0) return OPP_NOTIFIED_NOBODY;
        if (!opp_pool_enter(pool)) {
            pool_deliver(pool, slot, OPP_WORKER_CALLED);
            return OPP_NOTIFIED_WOKEN;
        }
    }
    pool_deliver(pool, slot, OPP_WORKER_WOKEN);
    return OPP_NOTIFIED_WOKEN;
}

void opp_pool_watch(opp_pool *pool) {
    if (pool->alarms == NULL) return;
    /* relaxed: a slightly old delay is good enough. */
    opp_alarms_arm(pool->alarms, pool->alarm, opp_load(&pool->watch_delay, relaxed));
}

opp_wake opp_pool_wake(opp_pool *pool) {
    switch (opp_pool_notify(pool)) {
    case OPP_NOTIFIED_WOKEN: return OPP_WAKE_COUNT;
    case OPP_NOTIFIED_NOBODY: return OPP_WAKE_START;
    case OPP_NOTIFIED_BUSY: break;
    }
    if (!opp_pool_is_stalled(pool) || !opp_pool_call_spare(pool)) opp_pool_watch(pool);
    return OPP_WAKE_NOTHING;
}

opp_wake opp_pool_wake_if_ready(opp_pool *pool) {
    return opp_has_ready(pool->core, opp_pool_takeable(pool)) ? opp_pool_wake(pool) : OPP_WAKE_NOTHING;
}

bool opp_pool_wake_spare(opp_pool *pool) {
    int slot = pool_choose(pool);
    if (slot < 0) return false;
    pool_deliver(pool, slot, OPP_WORKER_CALLED);
    return true;
}

bool opp_pool_call_spare(opp_pool *pool) {
    uint32_t waking = opp_pool_begin_call(pool);
    if (waking == 0) return true;
    bool is_woken = opp_pool_wake_spare(pool);
    opp_pool_end_call(pool, waking, is_woken);
    return is_woken;
}

void opp_pool_close(opp_pool *pool) {
    /* [closed] before the choice; a worker parks before it reads this */
    opp_store(&pool->closed, 1, seq_cst);
    for (int slot = pool_choose(pool); slot >= 0; slot = pool_choose(pool))
        pool_deliver(pool, slot, OPP_WORKER_CLOSED);
}

uint32_t opp_pool_sleeping(const opp_pool *pool) {
    uint32_t sleeping = 0;
    for (int i = 0; i < ASLEEP_WORDS; i++) /* relaxed: may be out of date at once */
        sleeping += (uint32_t)__builtin_popcountll(opp_load(&pool->asleep[i], relaxed));
    return sleeping;
}

uint64_t opp_pool_wakeups(const opp_pool *pool) {
    uint64_t wakeups = 0;
    /* relaxed: statistics */
    for (uint32_t i = 0, end = opp_load(&pool->slot_end, relaxed); i < end; i++)
        wakeups += opp_load(&pool->workers[i].wakeups, relaxed);
    return wakeups;
}

/* --- Parking ----------------------------------------------------------------------------------- */

void opp_pool_prepare_park(opp_pool *pool, uint32_t slot) {
    OPP_ASSERT(slot < OPP_POOL_WORKERS);
    opp_worker *worker = &pool->workers[slot];
    OPP_ASSERT(worker->set < OPP_WORKER_RUNNING);
    worker->set = OPP_WORKER_PARKED;
    opp_store(&worker->word, worker->version | OPP_WORKER_PARKED, relaxed); /* published by the bit */
    uint32_t end = opp_load(&pool->slot_end, relaxed);
    while (end <= slot && !opp_cas(&pool->slot_end, &end, slot + 1, seq_cst)) {} /* [asleep] before the bit */
    /* [asleep] seq_cst: precedes the last look at the queues. release: the word says PARKED before another
     * thread changes it. */
    opp_or(&pool->asleep[slot / 64], 1ull << slot % 64, seq_cst);
}

static opp_woken woken_for(opp_worker_state state) {
    switch (state) {
    case OPP_WORKER_WOKEN: return OPP_WOKEN_TOKEN;
    case OPP_WORKER_CALLED: return OPP_WOKEN_SPARE;
    case OPP_WORKER_APPOINTED: return OPP_WOKEN_TO_LEAD;
    default: OPP_ASSERT(state == OPP_WORKER_CLOSED); return OPP_WOKEN_CLOSED;
    }
}

/* Waits for the word that another thread, which cleared this worker's bit, has stored or is about to
 * store. */
static opp_woken pool_receive(opp_pool *pool, uint32_t slot) {
    _Atomic(uint32_t) *word = &pool->workers[slot].word;
    for (;;) {
        uint32_t own = opp_load(word, acquire); /* [word] pairs with pool_deliver() */
        if (state_of(own) != OPP_WORKER_PARKED) return woken_for(state_of(own));
        opp_futex_wait(word, own);
    }
}

/* L1: either this worker clears its bit, and no thread wakes it, or another thread has cleared it. */
bool opp_pool_try_rise(opp_pool *pool, uint32_t slot, opp_woken *woken) {
    uint64_t bit = 1ull << slot % 64;
    OPP_ASSERT(slot < OPP_POOL_WORKERS);
    OPP_ASSERT(pool->workers[slot].set == OPP_WORKER_PARKED);
    *woken = OPP_WOKEN_NOTHING;
    /* relaxed: if the bit was set, this worker had set it. */
    if (opp_and(&pool->asleep[slot / 64], ~bit, relaxed) & bit) return true;
    opp_worker_state state = state_of(opp_load(&pool->workers[slot].word, acquire)); /* [word] */
    if (state == OPP_WORKER_PARKED) return false;
    *woken = woken_for(state);
    return true;
}

/* The same, and waits for the word where another thread has cleared the bit and not stored it yet. */
static opp_woken pool_rise(opp_pool *pool, uint32_t slot) {
    opp_woken woken;
    return opp_pool_try_rise(pool, slot, &woken) ? woken : pool_receive(pool, slot);
}

opp_woken opp_pool_cancel_park(opp_pool *pool, uint32_t slot) {
    for (;;) {
        OPP_ASSERT(pool->workers[slot].set == OPP_WORKER_PARKED);
        /* [count] seq_cst: after the bit was set. Otherwise a notifier that held the last token for a moment
         * might find no parked worker, and this worker no token. */
        uint64_t count = opp_load(&pool->count, seq_cst);
        if (count_used(count) >= count_tokens(count)) return OPP_WOKEN_NOTHING;
        opp_woken woken = pool_rise(pool, slot);
        if (woken != OPP_WOKEN_NOTHING) return woken;
        if (opp_pool_enter(pool)) return OPP_WOKEN_TOKEN;
        /* Another thread was faster, and will look at the queues. While this worker's bit was clear, a
         * notifier may have found no parked worker: try once more. */
        opp_pool_prepare_park(pool, slot);
    }
}

opp_woken opp_pool_park(opp_pool *pool, uint32_t slot) {
    OPP_ASSERT(pool->workers[slot].set == OPP_WORKER_PARKED);
    if (opp_load(&pool->closed, seq_cst)) { /* [closed] */
        opp_woken woken = pool_rise(pool, slot);
        return woken == OPP_WOKEN_NOTHING ? OPP_WOKEN_CLOSED : woken;
    }
    return pool_receive(pool, slot);
}

/* --- Leading -------------------------------------------------------------------------------------- */

/* [leaders] seq_cst, all: see "Leaders". */

/* Where the worker leads from now on, or LEADERS. */
static uint32_t pool_begin_lead(opp_pool *pool, uint32_t slot) {
    if (pool->readiness == NULL || !opp_readiness_is_used(pool->readiness)) return LEADERS;
    for (uint32_t seat = 0; seat < LEADERS; seat++) {
        uint32_t leader = opp_load(&pool->leaders[seat], seq_cst);
        while (leader == LEADER_NONE || leader == LEADER_COMING)
            if (opp_cas(&pool->leaders[seat], &leader, slot + 1, seq_cst)) return seat;
    }
    return LEADERS;
}

static bool pool_is_woken(opp_pool *pool, uint32_t slot) {
    return state_of(opp_load(&pool->workers[slot].word, seq_cst)) != OPP_WORKER_PARKED;
}

/* Whether a leader is woken, who may not have been told of it. */
static bool pool_owes_notice(opp_pool *pool) {
    for (uint32_t i = 0; i < LEADERS; i++) {
        uint32_t leader = opp_load(&pool->leaders[i], seq_cst);
        if (is_led(leader) && pool_is_woken(pool, leader - 1)) return true;
    }
    return false;
}

bool opp_pool_pass_notice(opp_pool *pool) {
    if (!pool_owes_notice(pool)) return false;
    opp_readiness_notify(pool->readiness);
    return true;
}

void opp_pool_lead(opp_pool *pool, uint32_t slot, opp_harvest *harvest) {
    OPP_ASSERT(pool->workers[slot].set == OPP_WORKER_PARKED);
    harvest->count = 0;
    for (;;) {
        uint32_t seat = pool_begin_lead(pool, slot);
        if (seat == LEADERS) return;
        pool->workers[slot].is_appointed = false;
        bool is_notified = false, is_done = false;
        for (;;) {
            /* [closed] who closes wakes those that are parked by then; this one parked before. */
            is_done = harvest->count > 0 || pool_is_woken(pool, slot) || opp_load(&pool->closed, seq_cst);
            if (is_done || (is_notified && pool_owes_notice(pool))) break;
            opp_readiness_wait(pool->readiness, harvest);
            is_notified |= harvest->is_notified;
        }
        OPP_ASSERT(opp_load(&pool->leaders[seat], relaxed) == slot + 1);
        opp_store(&pool->leaders[seat], LEADER_NONE, seq_cst);
        /* L6. Where the other is about to leave by itself, nobody may lead now: once more (L5). */
        if ((is_notified && opp_pool_pass_notice(pool)) || is_done) return;
    }
}

opp_wake opp_pool_appoint(opp_pool *pool, bool again) {
    if (pool->readiness == NULL || !opp_readiness_is_used(pool->readiness)) return OPP_WAKE_NOTHING;
    uint32_t first = LEADER_COMING;
    if (again) (void)opp_cas(&pool->leaders[0], &first, LEADER_NONE, seq_cst);
    for (uint32_t i = 0; i < LEADERS; i++)
        if (opp_load(&pool->leaders[i], seq_cst) != LEADER_NONE) return OPP_WAKE_NOTHING;
    /* relaxed: a closed pool wakes all. */
    if (opp_load(&pool->closed, relaxed)) return OPP_WAKE_NOTHING;
    /* It fails where another leads by now, or has appointed. */
    first = LEADER_NONE;
    if (!opp_cas(&pool->leaders[0], &first, LEADER_COMING, seq_cst)) return OPP_WAKE_NOTHING;
    int slot = pool_choose(pool);
    if (slot < 0) return OPP_WAKE_START;
    pool_deliver(pool, slot, OPP_WORKER_APPOINTED);
    return OPP_WAKE_NOTHING;
}

opp_wake opp_pool_needs_leader(opp_pool *pool) {
    return opp_pool_appoint(pool, false);
}

bool opp_pool_awaits_leader(const opp_pool *pool) {
    return opp_load(&pool->leaders[0], seq_cst) == LEADER_COMING;
}

opp_wake opp_pool_needs_leader_still(opp_pool *pool) {
    return opp_pool_awaits_leader(pool) ? opp_pool_appoint(pool, true) : OPP_WAKE_NOTHING;
}

/* relaxed, both: it orders nothing. A thread that is stopped while it searches keeps others from searching,
 * not from parking. */
bool opp_pool_begin_search(opp_pool *pool) {
    return !opp_swap(&pool->searching, true, relaxed);
}

void opp_pool_end_search(opp_pool *pool) {
    opp_store(&pool->searching, false, relaxed);
}
