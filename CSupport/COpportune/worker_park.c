/*
 * Parking: how a worker of a pool goes to sleep, and which one a waker wakes for what.
 *
 *     asleep   one bit for each parked worker; the thread that clears a bit owes its worker a wake-up
 *     leader   the parked worker that waits in the pool's readiness, and not on its word
 *     word     one for each worker, a futex: its state, PARKED or what it was woken for
 *
 * Invariants
 *  L1  A worker's bit is cleared by exactly one thread, which then stores the worker's word. The worker
 *      leaves opp_pool_park() or opp_pool_cancel_park() with that word, so no wake-up is lost or doubled.
 *  L2  A token that is handed over with OPP_WOKEN_TOKEN was taken before the parked worker was chosen. If
 *      there is no parked worker, it is returned.
 *  L5  While a descriptor is watched and a worker sleeps on its word, there is a leader, or one is coming, or
 *      a thread that has led or was to lead owes opp_pool_appoint().
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
 * The leader. It sets `leader` (seq_cst) and then reads its word (seq_cst); its waker stores the word
 * (seq_cst) and then reads `leader` (seq_cst). So either the leader sees that it is woken, or the waker sees
 * that the word is not what it sleeps on, and notifies the readiness. Who leads no more clears `leader`
 * (seq_cst), then looks for sleepers (seq_cst) to appoint one; a worker sets its bit (seq_cst) before it
 * reads `leader` (seq_cst) and sleeps on its word. So either it leads, or it is found. The same with
 * `watched` in the place of `leader`, against the thread that adds the first descriptor. Wakers choose the
 * leader last: where another sleeps, nobody need be appointed.
 *
 * A stopped thread. One that was appointed and is stopped before it leads keeps events waiting, until it
 * goes on or another worker parks or is between two jobs (opp_worker_harvest()). A waker that is stopped
 * between clearing a bit and storing the word holds back one parked worker and the token for it. A worker
 * that finds itself chosen waits for its word without a token, since it clears its bit before it takes one.
 * The push that the waker is part of has not returned, and any later push chooses another worker.
 */
#include "worker_pool.h"
#include "runq.h"

/* --- Waking ------------------------------------------------------------------------------------ */

/* Clears the lowest set bit of a parked worker, so that the same few stay warm. Returns the worker's slot, or
 * -1. */
static int pool_choose(opp_pool *pool) {
    /* [asleep] seq_cst: see "No lost wake-up". */
    uint32_t words = (opp_load(&pool->slot_end, seq_cst) + 63) / 64;
    /* relaxed: only a preference. */
    int last = pool->readiness == NULL ? -1 : (int)opp_load(&pool->leader, relaxed) - 1;
    bool is_last = false;
    OPP_ASSERT(words <= ASLEEP_WORDS);
    for (uint32_t i = 0; i < words; i++) {
        uint64_t bits = opp_load(&pool->asleep[i], seq_cst);
        while (bits != 0) {
            uint64_t bit = bits & -bits;
            if ((int)(i * 64) + __builtin_ctzll(bit) == last) {
                is_last = true;
                bits &= ~bit;
                continue;
            }
            /* L1: the thread that saw the bit set clears it. acquire: pairs with opp_pool_prepare_park(); the
             * worker is parked. */
            if (opp_and(&pool->asleep[i], ~bit, acquire) & bit) return (int)(i * 64) + __builtin_ctzll(bit);
            bits &= ~bit;
        }
    }
    /* acquire: as above */
    uint64_t bit = 1ull << (unsigned)last % 64;
    return is_last && opp_and(&pool->asleep[last / 64], ~bit, acquire) & bit ? last : -1;
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
     * seq_cst, both: see "The leader". */
    opp_store(&worker->word, worker->version | what, seq_cst);
    if (pool->readiness != NULL && opp_load(&pool->leader, seq_cst) == (uint32_t)slot + 1)
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
opp_woken opp_pool_rise(opp_pool *pool, uint32_t slot) {
    uint64_t bit = 1ull << slot % 64;
    OPP_ASSERT(slot < OPP_POOL_WORKERS);
    OPP_ASSERT(pool->workers[slot].set == OPP_WORKER_PARKED);
    /* relaxed: if the bit was set, this worker had set it. */
    if (opp_and(&pool->asleep[slot / 64], ~bit, relaxed) & bit) return OPP_WOKEN_NOTHING;
    return pool_receive(pool, slot);
}

opp_woken opp_pool_cancel_park(opp_pool *pool, uint32_t slot) {
    for (;;) {
        OPP_ASSERT(pool->workers[slot].set == OPP_WORKER_PARKED);
        /* [count] seq_cst: after the bit was set. Otherwise a notifier that held the last token for a moment
         * might find no parked worker, and this worker no token. */
        uint64_t count = opp_load(&pool->count, seq_cst);
        if (count_used(count) >= count_tokens(count)) return OPP_WOKEN_NOTHING;
        opp_woken woken = opp_pool_rise(pool, slot);
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
        opp_woken woken = opp_pool_rise(pool, slot);
        return woken == OPP_WOKEN_NOTHING ? OPP_WOKEN_CLOSED : woken;
    }
    return pool_receive(pool, slot);
}

/* --- Leading -------------------------------------------------------------------------------------- */

static bool pool_begin_lead(opp_pool *pool, uint32_t slot) {
    if (pool->readiness == NULL || !opp_readiness_is_used(pool->readiness)) return false;
    /* [leader] seq_cst, all: see "The leader". */
    uint32_t leader = opp_load(&pool->leader, seq_cst);
    while (leader == LEADER_NONE || leader == LEADER_COMING)
        if (opp_cas(&pool->leader, &leader, slot + 1, seq_cst)) return true;
    return false;
}

void opp_pool_lead(opp_pool *pool, uint32_t slot, opp_harvest *harvest) {
    opp_worker *worker = &pool->workers[slot];
    OPP_ASSERT(worker->set == OPP_WORKER_PARKED);
    harvest->count = 0;
    if (!pool_begin_lead(pool, slot)) return;
    worker->is_appointed = false;
    /* [closed] who closes wakes those that are parked by then; this one parked before. */
    while (harvest->count == 0 && state_of(opp_load(&worker->word, seq_cst)) == OPP_WORKER_PARKED &&
           !opp_load(&pool->closed, seq_cst))
        opp_readiness_wait(pool->readiness, harvest);
    OPP_ASSERT(opp_load(&pool->leader, relaxed) == slot + 1);
    opp_store(&pool->leader, LEADER_NONE, seq_cst);
}

opp_wake opp_pool_appoint(opp_pool *pool, bool again) {
    if (pool->readiness == NULL || !opp_readiness_is_used(pool->readiness)) return OPP_WAKE_NOTHING;
    uint32_t leader = opp_load(&pool->leader, seq_cst); /* [leader] */
    /* relaxed: a closed pool wakes all. */
    if ((leader == LEADER_COMING ? !again : leader != LEADER_NONE) || opp_load(&pool->closed, relaxed))
        return OPP_WAKE_NOTHING;
    /* It fails where another leads by now, or has appointed. */
    if (leader == LEADER_NONE && !opp_cas(&pool->leader, &leader, LEADER_COMING, seq_cst))
        return OPP_WAKE_NOTHING;
    int slot = pool_choose(pool);
    if (slot < 0) return OPP_WAKE_START;
    pool_deliver(pool, slot, OPP_WORKER_APPOINTED);
    return OPP_WAKE_NOTHING;
}

opp_wake opp_pool_needs_leader(opp_pool *pool) {
    return opp_pool_appoint(pool, false);
}

/* relaxed, both: it orders nothing. A thread that is stopped while it searches keeps others from searching,
 * not from parking. */
bool opp_pool_begin_search(opp_pool *pool) {
    return !opp_swap(&pool->searching, true, relaxed);
}

void opp_pool_end_search(opp_pool *pool) {
    opp_store(&pool->searching, false, relaxed);
}
