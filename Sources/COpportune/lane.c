/*
 * A lane: permits, sleepers and wake-ups, places for demoted work, the spare worker. What a worker does with them
 * is in worker.c.
 *
 *   count    permits in use (low half) and permits there are (high half), in one word
 *   demoted  places for demoted work: how many are in use, the limit, and extra ones, in one word
 *   asleep   a bit for each worker that is parked; whoever clears a bit owes its worker a wake-up
 *   word     one a worker, a futex: its slot, PARKED or what it was woken for
 *   spare    whether a spare worker is awake (low two bits), and how often one was called
 *
 * Invariants
 *  L1  A worker's bit is cleared by exactly one thread, which then stores its word; the worker leaves
 *      opp_lane_sleep() or opp_lane_wake_up() with that, so no wake-up is lost or doubled.
 *  L2  A permit is handed over with OPP_WOKEN_PERMIT, taken before the sleeper was chosen; if there is no sleeper
 *      it is given back.
 *  L3  In `count` and in `demoted` nothing is given back that was not taken.
 *  L4  At most one spare worker is awake or being called, and one more for each caller that the monitor did not wait for.
 *
 * No lost wake-up. A pusher stores tail (seq_cst) and then reads count (seq_cst); a worker gives its permit back
 * (seq_cst) and then looks at the queues (seq_cst). In the one order of the four, either the pusher sees the free
 * permit, or the worker sees the job. The same holds with the bit in `asleep` for a free permit without a sleeper:
 * the worker sets its bit before its last look, so a pusher that finds no bit is seen by that look, unless no
 * worker was on its way to sleep at all; then opp_lane_notify() says NOBODY. On Arm too: of a sequentially consistent
 * store and a later load of another object neither is moved past the other.
 *
 * A stopped thread. A waker that is stopped between clearing a bit and storing the word holds back one sleeper and the
 * permit that it was about to give: who finds itself chosen waits for what it is given with no permit in its hand, since
 * it clears its bit before it takes one. The push that the waker is part of has not returned, and any later push chooses
 * another sleeper. One that is stopped while it calls the spare worker is waited for from one look of the monitor to the
 * next.
 */
#include "lane.h"
#include "mapping.h"
#include "runq.h"

#include <stdlib.h>
#include <string.h>

static uint32_t count_used(uint64_t count) {
    return (uint32_t)count;
}

static uint32_t count_permits(uint64_t count) {
    return (uint32_t)(count >> 32);
}

opp_lane *opp_lane_create(uint32_t permits) {
    if (permits < 1 || permits > OPP_LANE_WORKERS) return NULL;
    opp_lane *lane = opp_map(sizeof(opp_lane));
    if (lane == NULL) return NULL;
    for (uint32_t i = 0; i < OPP_LANE_WORKERS; i++) lane->workers[i].lane = lane;
    atomic_init(&lane->count, (uint64_t)permits << 32);
    return lane;
}

void opp_lane_destroy(opp_lane *lane) {
    opp_unmap(lane, sizeof(opp_lane));
}

void opp_lane_set_levels(opp_lane *lane, uint64_t levels, uint64_t demoted, uint64_t lowered_once) {
    OPP_ASSERT(lane->core == NULL);
    OPP_ASSERT((demoted & ~levels) == 0);
    OPP_ASSERT((lowered_once & ~demoted) == 0);
    lane->levels = levels;
    lane->demoted_levels = demoted;
    lane->once_levels = lowered_once;
}

void opp_lane_serve(opp_lane *lane, opp_core *core, opp_alarms *alarms, uint32_t alarm) {
    OPP_ASSERT(lane->core == NULL);
    OPP_ASSERT(lane->levels != 0);
    lane->core = core;
    lane->alarms = alarms;
    lane->alarm = alarm;
    lane->group = ++core->lane_count;
    for (unsigned number = 0; number < OPP_LEVELS; number++) {
        if (!(lane->levels & 1ull << number)) continue;
        OPP_ASSERT(core->lane_of[number] == NULL);
        core->lane_of[number] = lane;
    }
}

/* --- Permits and sleepers ----------------------------------------------------------------------- */

/* Clears some sleeper's bit, the lowest (so that the same few stay warm), and returns its slot, or -1. */
static int lane_choose(opp_lane *lane) {
    /* [asleep] seq_cst: see "No lost wake-up". */
    uint32_t words = (opp_load(&lane->slot_end, seq_cst) + 63) / 64;
    for (uint32_t i = 0; i < words; i++) {
        uint64_t bits = opp_load(&lane->asleep[i], seq_cst);
        while (bits != 0) {
            uint64_t bit = bits & -bits;
            /* L1: the one who saw the bit set clears it. acquire: the worker is parked, which opp_lane_lie_down() releases. */
            if (opp_and(&lane->asleep[i], ~bit, acquire) & bit) return (int)(i * 64) + __builtin_ctzll(bit);
            bits &= ~bit;
        }
    }
    return -1;
}

/* The caller has cleared the worker's bit: nobody else writes to it until this has. */
static void lane_deliver(opp_lane *lane, int slot, opp_slot what) {
    opp_worker *worker = &lane->workers[slot];
    OPP_ASSERT(worker->held == OPP_SLOT_PARKED);
    OPP_ASSERT(what == OPP_SLOT_WOKEN || what == OPP_SLOT_CALLED || what == OPP_SLOT_CLOSED);
    opp_store(&worker->wakeups, ++worker->wakeups_told, relaxed); /* statistics; the bit's clearer alone writes them */
    /* [word] release: what the waker did is seen by the woken. Pairs with the acquire in lane_receive(). */
    opp_store(&worker->word, worker->turns | what, release);
    opp_futex_wake(&worker->word, 1);
}

bool opp_lane_enter(opp_lane *lane) {
    uint64_t count = opp_load(&lane->count, seq_cst); /* [count] see "No lost wake-up" */
    do {
        if (count_used(count) >= count_permits(count)) return false;
        /* relaxed: it only counts, and taking a permit hides nothing from anybody. A failed exchange reloads relaxed,
         * which can only see a later value of the same word. */
    } while (!opp_cas(&lane->count, &count, count + 1, relaxed));
    OPP_ASSERT(count_used(count) < count_permits(count));
    return true;
}

void opp_lane_leave(opp_lane *lane) {
    uint64_t before = opp_sub(&lane->count, 1, seq_cst); /* [count] before the look at the queues */
    OPP_ASSERT(count_used(before) > 0);                  /* L3 */
    (void)before;
}

opp_notified opp_lane_notify(opp_lane *lane) {
    if (!opp_lane_enter(lane)) return OPP_NOTIFIED_BUSY;
    int slot = lane_choose(lane);
    if (slot < 0) {
        opp_lane_leave(lane);
        /* Somebody may have lain down between the choice and the giving back, having seen no free permit. */
        slot = lane_choose(lane);
        if (slot < 0) return OPP_NOTIFIED_NOBODY;
        if (!opp_lane_enter(lane)) {
            lane_deliver(lane, slot, OPP_SLOT_CALLED);
            return OPP_NOTIFIED_WOKEN;
        }
    }
    lane_deliver(lane, slot, OPP_SLOT_WOKEN);
    return OPP_NOTIFIED_WOKEN;
}

void opp_lane_watch(opp_lane *lane) {
    if (lane->alarms == NULL) return;
    /* relaxed: a delay that is a little old does as well. */
    opp_alarms_arm(lane->alarms, lane->alarm, opp_load(&lane->watch_delay, relaxed));
}

opp_wake opp_lane_wake(opp_lane *lane) {
    switch (opp_lane_notify(lane)) {
    case OPP_NOTIFIED_WOKEN: return OPP_WAKE_COUNT;
    case OPP_NOTIFIED_NOBODY: return OPP_WAKE_START;
    case OPP_NOTIFIED_BUSY: break;
    }
    if (!opp_lane_is_stalled(lane) || !opp_lane_call_spare(lane)) opp_lane_watch(lane);
    return OPP_WAKE_NOTHING;
}

opp_wake opp_lane_wake_if_ready(opp_lane *lane) {
    return opp_has_ready(lane->core, opp_lane_takeable(lane)) ? opp_lane_wake(lane) : OPP_WAKE_NOTHING;
}

bool opp_lane_wake_reserve(opp_lane *lane) {
    int slot = lane_choose(lane);
    if (slot < 0) return false;
    lane_deliver(lane, slot, OPP_SLOT_CALLED);
    return true;
}

void opp_lane_close(opp_lane *lane) {
    opp_store(&lane->closed, 1, seq_cst); /* [closed] before the choice; a worker lies down before it reads this */
    for (int slot = lane_choose(lane); slot >= 0; slot = lane_choose(lane)) lane_deliver(lane, slot, OPP_SLOT_CLOSED);
}

void opp_lane_set_permits(opp_lane *lane, uint32_t permits) {
    if (permits < 1) permits = 1;
    if (permits > OPP_LANE_WORKERS) permits = OPP_LANE_WORKERS;
    uint64_t count = opp_load(&lane->count, relaxed);
    /* relaxed: nobody is owed a wake-up by it; the next push finds the permit, and who raises it wakes for what waits. */
    while (!opp_cas(&lane->count, &count, (uint64_t)permits << 32 | count_used(count), relaxed)) {}
}

uint32_t opp_lane_permits(const opp_lane *lane) {
    return count_permits(opp_load(&lane->count, relaxed)); /* relaxed: a number that may be old when it is read */
}

bool opp_lane_is_over(const opp_lane *lane) {
    uint64_t count = opp_load(&lane->count, relaxed); /* whoever acts on it gives a permit back, and then looks again */
    return count_used(count) > count_permits(count);
}

uint32_t opp_lane_working(const opp_lane *lane) {
    return count_used(opp_load(&lane->count, relaxed)); /* relaxed: a number that may be old when it is read */
}

uint32_t opp_lane_sleeping(const opp_lane *lane) {
    uint32_t sleeping = 0;
    for (int i = 0; i < ASLEEP_WORDS; i++) /* relaxed: a number that may be old when it is read */
        sleeping += (uint32_t)__builtin_popcountll(opp_load(&lane->asleep[i], relaxed));
    return sleeping;
}

uint64_t opp_lane_wakeups(const opp_lane *lane) {
    uint64_t wakeups = 0;
    /* relaxed: statistics */
    for (uint32_t i = 0, end = opp_load(&lane->slot_end, relaxed); i < end; i++)
        wakeups += opp_load(&lane->workers[i].wakeups, relaxed);
    return wakeups;
}

void opp_lane_lie_down(opp_lane *lane, uint32_t slot) {
    OPP_ASSERT(slot < OPP_LANE_WORKERS);
    opp_worker *worker = &lane->workers[slot];
    OPP_ASSERT(worker->held < OPP_SLOT_RUNNING);
    worker->held = OPP_SLOT_PARKED;
    opp_store(&worker->word, worker->turns | OPP_SLOT_PARKED, relaxed); /* published by the bit */
    uint32_t end = opp_load(&lane->slot_end, relaxed);
    while (end <= slot && !opp_cas(&lane->slot_end, &end, slot + 1, seq_cst)) {} /* [asleep] before the bit */
    /* [asleep] seq_cst: before the last look at the queues. release: the word says so before anybody fills it. */
    opp_or(&lane->asleep[slot / 64], 1ull << slot % 64, seq_cst);
}

static opp_woken woken_for(opp_slot slot) {
    switch (slot) {
    case OPP_SLOT_WOKEN: return OPP_WOKEN_PERMIT;
    case OPP_SLOT_CALLED: return OPP_WOKEN_RESERVE;
    default: OPP_ASSERT(slot == OPP_SLOT_CLOSED); return OPP_WOKEN_CLOSED;
    }
}

/* Waits for what another thread, which cleared our bit, has stored or is about to store. */
static opp_woken lane_receive(opp_lane *lane, uint32_t slot) {
    _Atomic(uint32_t) *word = &lane->workers[slot].word;
    for (;;) {
        uint32_t own = opp_load(word, acquire); /* [word] pairs with lane_deliver() */
        if (slot_of(own) != OPP_SLOT_PARKED) return woken_for(slot_of(own));
        opp_futex_wait(word, own);
    }
}

/* L1: either we clear our bit, and nobody wakes us, or somebody has. */
static opp_woken lane_rise(opp_lane *lane, uint32_t slot) {
    uint64_t bit = 1ull << slot % 64;
    /* relaxed: if it was there it was ours. */
    if (opp_and(&lane->asleep[slot / 64], ~bit, relaxed) & bit) return OPP_WOKEN_NOTHING;
    return lane_receive(lane, slot);
}

opp_woken opp_lane_wake_up(opp_lane *lane, uint32_t slot) {
    for (;;) {
        OPP_ASSERT(lane->workers[slot].held == OPP_SLOT_PARKED);
        /* [count] seq_cst: after the bit was set, or else a notifier that had the last permit in its hand for a moment
         * might find nobody, and we no permit. */
        uint64_t count = opp_load(&lane->count, seq_cst);
        if (count_used(count) >= count_permits(count)) return OPP_WOKEN_NOTHING;
        opp_woken woken = lane_rise(lane, slot);
        if (woken != OPP_WOKEN_NOTHING) return woken;
        if (opp_lane_enter(lane)) return OPP_WOKEN_PERMIT;
        /* Another was faster, and will look. While our bit was clear a notifier may have found nobody: once more. */
        opp_lane_lie_down(lane, slot);
    }
}

opp_woken opp_lane_sleep(opp_lane *lane, uint32_t slot) {
    OPP_ASSERT(lane->workers[slot].held == OPP_SLOT_PARKED);
    if (opp_load(&lane->closed, seq_cst)) { /* [closed] */
        opp_woken woken = lane_rise(lane, slot);
        return woken == OPP_WOKEN_NOTHING ? OPP_WOKEN_CLOSED : woken;
    }
    return lane_receive(lane, slot);
}

/* relaxed, both: it orders nothing. Who is stopped while it searches keeps others from searching, not from parking. */
bool opp_lane_begin_search(opp_lane *lane) {
    return !opp_swap(&lane->searching, true, relaxed);
}

void opp_lane_end_search(opp_lane *lane) {
    opp_store(&lane->searching, false, relaxed);
}

/* --- Places for demoted work -------------------------------------------------------------------- */

#define PLACES_BITS 21u
#define PLACES_MASK ((1u << PLACES_BITS) - 1)

static uint32_t places_used(uint64_t demoted) {
    return (uint32_t)demoted & PLACES_MASK;
}

static uint32_t places_limit(uint64_t demoted) {
    return (uint32_t)(demoted >> PLACES_BITS) & PLACES_MASK;
}

static uint32_t places_extra(uint64_t demoted) {
    return (uint32_t)(demoted >> 2 * PLACES_BITS);
}

/* The one rule: so many times the limit, and for what may be no hog the extra places as well. */
static uint32_t places_room(uint64_t demoted, opp_demotion why) {
    static const uint8_t times[] = {
        [OPP_DEMOTION_KNOWN] = 1, [OPP_DEMOTION_ONCE] = 1, [OPP_DEMOTION_FOUND] = 2, [OPP_DEMOTION_STARVES] = 16};
    return times[why] * places_limit(demoted) + (why == OPP_DEMOTION_ONCE ? places_extra(demoted) : 0);
}

uint64_t opp_lane_takeable(const opp_lane *lane) {
    if (lane->demoted_levels == 0) return lane->levels;
    /* [demoted] seq_cst: a worker that leaves its place does so before its last look at the queues. */
    uint64_t demoted = opp_load(&lane->demoted, seq_cst);
    uint32_t used = places_used(demoted);
    if (used < places_room(demoted, OPP_DEMOTION_KNOWN)) return lane->levels;
    uint64_t fresh = lane->levels & ~lane->demoted_levels;
    return used < places_room(demoted, OPP_DEMOTION_ONCE) ? fresh | lane->once_levels : fresh;
}

bool opp_lane_enter_demoted(opp_lane *lane, opp_demotion why) {
    uint64_t demoted = opp_load(&lane->demoted, relaxed); /* relaxed: the exchange has the newest */
    do {
        if (places_used(demoted) >= places_room(demoted, why)) return false;
    } while (!opp_cas(&lane->demoted, &demoted, demoted + 1, relaxed)); /* relaxed: it only counts, as a permit does */
    OPP_ASSERT(places_used(demoted) < places_room(demoted, why));
    return true;
}

void opp_lane_count_demoted(opp_lane *lane) {
    opp_add(&lane->demoted, 1, relaxed); /* relaxed: as above */
}

void opp_lane_leave_demoted(opp_lane *lane) {
    uint64_t before = opp_sub(&lane->demoted, 1, seq_cst); /* [demoted] before the next look at the queues */
    OPP_ASSERT(places_used(before) > 0);                   /* L3 */
    (void)before;
}

void opp_lane_set_demoted_limit(opp_lane *lane, uint32_t limit) {
    if (limit > PLACES_MASK / 16) limit = PLACES_MASK / 16; /* far more than there can be workers */
    uint64_t demoted = opp_load(&lane->demoted, relaxed), mask = (uint64_t)PLACES_MASK << PLACES_BITS;
    /* relaxed: as opp_lane_set_permits() */
    while (!opp_cas(&lane->demoted, &demoted, (demoted & ~mask) | (uint64_t)limit << PLACES_BITS, relaxed)) {}
}

/* relaxed, these three: numbers that may be old when they are read */
uint32_t opp_lane_demoted_limit(const opp_lane *lane) {
    return places_limit(opp_load(&lane->demoted, relaxed));
}

uint32_t opp_lane_demoted(const opp_lane *lane) {
    return places_used(opp_load(&lane->demoted, relaxed));
}

uint32_t opp_lane_room(const opp_lane *lane, opp_demotion why) {
    return places_room(opp_load(&lane->demoted, relaxed), why);
}

bool opp_lane_add_room(opp_lane *lane) {
    uint64_t demoted = opp_load(&lane->demoted, relaxed);
    do {
        uint32_t room = places_room(demoted, OPP_DEMOTION_ONCE);
        if (places_used(demoted) < room || room >= places_room(demoted, OPP_DEMOTION_STARVES)) return false;
        /* relaxed: the caller's look at the queues begins with this word, seq_cst, in opp_lane_takeable(): a worker that parks
         * before that look sees what it has seen, or lies there for it to be found. */
    } while (!opp_cas(&lane->demoted, &demoted, demoted + (1ull << 2 * PLACES_BITS), relaxed));
    return true;
}

void opp_lane_take_room(opp_lane *lane) {
    uint64_t demoted = opp_load(&lane->demoted, relaxed);
    /* relaxed: it only counts. */
    while (places_extra(demoted) > 0 &&
           !opp_cas(&lane->demoted, &demoted, demoted - (1ull << 2 * PLACES_BITS), relaxed)) {}
}

/* --- The spare worker --------------------------------------------------------------------------- */

enum { SPARE_RESTS = 0, SPARE_WAKING = 1, SPARE_AWAKE = 2, SPARE_MASK = 3, SPARE_CALL = 4 };

void opp_lane_set_stalled(opp_lane *lane, bool stalled) {
    /* relaxed: a hint to pushers; the monitor looks again as long as something waits. */
    if (opp_load(&lane->stalled, relaxed) != stalled) opp_store(&lane->stalled, stalled, relaxed);
}

bool opp_lane_is_stalled(const opp_lane *lane) {
    return opp_load(&lane->stalled, relaxed);
}

uint32_t opp_lane_begin_call(opp_lane *lane) {
    uint32_t spare = opp_load(&lane->spare, relaxed);
    if ((spare & SPARE_MASK) != SPARE_RESTS) return 0;
    uint32_t waking = spare + SPARE_CALL + SPARE_WAKING;
    OPP_ASSERT((waking & SPARE_MASK) == SPARE_WAKING);
    /* [spare] acquire: pairs with opp_lane_spare_rests(): what the last spare worker did is over. */
    return opp_cas(&lane->spare, &spare, waking, acquire) ? waking : 0;
}

bool opp_lane_call_spare(opp_lane *lane) {
    uint32_t waking = opp_lane_begin_call(lane);
    if (waking == 0) return true;
    bool is_woken = opp_lane_wake_reserve(lane);
    /* relaxed: a hint. Not where it rests again already, or the monitor has not waited for this thread. */
    opp_cas(&lane->spare, &waking, (waking & ~(uint32_t)SPARE_MASK) | (is_woken ? SPARE_AWAKE : SPARE_RESTS), relaxed);
    return is_woken;
}

void opp_lane_look_at_spare(opp_lane *lane) {
    uint32_t spare = opp_load(&lane->spare, relaxed);
    if (spare == lane->spare_seen && (spare & SPARE_MASK) == SPARE_WAKING) {
        uint32_t rests = spare & ~(uint32_t)SPARE_MASK;
        opp_cas(&lane->spare, &spare, rests, relaxed); /* relaxed: as in opp_lane_call_spare() */
    }
    lane->spare_seen = spare;
}

void opp_lane_spare_rests(opp_lane *lane) {
    opp_and(&lane->spare, ~(uint32_t)SPARE_MASK, release); /* [spare] release: see opp_lane_begin_call() */
}

void opp_lane_set_watch_delay(opp_lane *lane, uint64_t delay_ns) {
    opp_store(&lane->watch_delay, delay_ns, relaxed); /* relaxed: see opp_lane_watch() */
}

/* --- Alarms ---------------------------------------------------------------------------------- */

/*
 * An alarm's word is its number of expiries, doubled, plus one while it is armed. To arm, a thread sets the timer
 * first and then says so, if the word is still what it read; so a thread that is stopped in between leaves the
 * alarm unarmed and others arm it again, and one that goes on late cannot pretend that a spent timer is armed.
 */
struct opp_alarms {
    int descriptor[OPP_ALARMS + 1]; /* timers, and an event counter for the bell: setting a timer costs far more */
    _Alignas(LANE_LINE) _Atomic(uint64_t) word[OPP_ALARMS];
};

opp_alarms *opp_alarms_create(void) {
    opp_alarms *alarms = aligned_alloc(LANE_LINE, sizeof(opp_alarms));
    if (alarms == NULL) return NULL;
    memset(alarms, 0, sizeof(*alarms));
    for (int i = 0; i <= OPP_ALARMS; i++) {
        alarms->descriptor[i] = i == OPP_BELL ? opp_bell_open() : opp_timer_open();
        if (alarms->descriptor[i] >= 0) continue;
        while (i-- > 0) opp_timer_close(alarms->descriptor[i]);
        free(alarms);
        return NULL;
    }
    return alarms;
}

void opp_alarms_destroy(opp_alarms *alarms) {
    for (int i = 0; i <= OPP_ALARMS; i++) opp_timer_close(alarms->descriptor[i]);
    free(alarms);
}

void opp_alarms_arm(opp_alarms *alarms, uint32_t which, uint64_t delay_ns) {
    /* [alarm] seq_cst: after whatever the caller did that the waiter must see, if it finds the alarm armed; the
     * waiter unarms (seq_cst) before it looks. */
    OPP_ASSERT(which < OPP_ALARMS);
    uint64_t word = opp_load(&alarms->word[which], seq_cst);
    if (word & 1) return;
    opp_timer_set(alarms->descriptor[which], false, delay_ns);
    opp_cas(&alarms->word[which], &word, word | 1, relaxed); /* relaxed: a note to others not to bother */
}

void opp_alarms_set(opp_alarms *alarms, uint32_t which, uint64_t at_ns) {
    OPP_ASSERT(which < OPP_ALARMS);
    opp_timer_set(alarms->descriptor[which], true, at_ns);
}

void opp_alarms_ring(opp_alarms *alarms) {
    opp_bell_ring(alarms->descriptor[OPP_BELL]);
}

uint32_t opp_alarms_wait(opp_alarms *alarms) {
    uint32_t ready = opp_timer_wait(alarms->descriptor, OPP_ALARMS + 1);
    uint32_t rung = 0;
    for (uint32_t i = 0; i <= OPP_ALARMS; i++) {
        if (!(ready & 1u << i) || !opp_timer_read(alarms->descriptor[i])) continue;
        rung |= 1u << i;
        if (i == OPP_BELL) continue;
        uint64_t word = opp_load(&alarms->word[i], relaxed);
        /* [alarm] seq_cst: see opp_alarms_arm(). Odd or even, the next even number. */
        while (!opp_cas(&alarms->word[i], &word, (word | 1) + 1, seq_cst)) {}
    }
    return rung;
}

uint64_t opp_now_ns(void) {
    return opp_sync_now();
}
