/*
 * Permits, sleepers and wake-ups of a lane.
 *
 *   count   permits in use (low half) and permits there are (high half), in one word
 *   asleep  a bit for each worker that lies down; whoever clears a bit owes its worker a wake-up
 *   cell    one word a worker, a futex: EMPTY, or what it was woken for
 *
 * Invariants
 *  L1  A worker's bit is cleared by exactly one thread, which then stores its cell; the worker leaves
 *      opp_lane_sleep() or opp_lane_wake_up() with that, so no wake-up is lost or doubled.
 *  L2  A permit is handed over with OPP_WOKEN_PERMIT, taken before the sleeper was chosen; if there is no sleeper
 *      it is given back.
 *
 * No lost wake-up. A pusher stores tail (seq_cst) and then reads count (seq_cst); a worker gives its permit back
 * (seq_cst) and then looks at the queues (seq_cst). In the one order of the four, either the pusher sees the free
 * permit, or the worker sees the job. The same holds with the bit in `asleep` for a free permit without a sleeper:
 * the worker sets its bit before its last look, so a pusher that finds no bit is seen by that look, unless no
 * worker was on its way to sleep at all; then opp_lane_notify() says NOBODY.
 *
 * A stopped thread. A waker that is stopped between clearing a bit and storing the cell holds back one sleeper and the
 * permit that it was about to give: who finds itself chosen waits for what it is given with no permit in its hand, since
 * it clears its bit before it takes one. The push that the waker is part of has not returned, and any later push chooses
 * another sleeper.
 */
#include "opp_lane.h"
#include "opp_sync.h"

#include <stdlib.h>
#include <string.h>

#define LINE 64
#define ASLEEP_WORDS (OPP_LANE_WORKERS / 64)

enum { CELL_EMPTY = 0, CELL_PERMIT = 1, CELL_RESERVE = 2, CELL_CLOSED = 3 };

typedef struct cell {
    _Alignas(LINE) _Atomic(uint32_t) word;
} cell;

struct opp_lane {
    _Alignas(LINE) _Atomic(uint64_t) count; /* permits << 32 | in use */
    _Atomic(uint32_t) closed;
    _Alignas(LINE) _Atomic(uint64_t) asleep[ASLEEP_WORDS];
    _Atomic(uint32_t) slot_end; /* no bit at or above it was ever set */
    _Alignas(LINE) _Atomic(uint64_t) wakeups;
    cell cells[OPP_LANE_WORKERS];
};

static uint32_t count_used(uint64_t count) {
    return (uint32_t)count;
}

static uint32_t count_permits(uint64_t count) {
    return (uint32_t)(count >> 32);
}

opp_lane *opp_lane_create(uint32_t permits) {
    if (permits < 1 || permits > OPP_LANE_WORKERS) return NULL;
    opp_lane *lane = aligned_alloc(LINE, sizeof(opp_lane));
    if (lane == NULL) return NULL;
    memset(lane, 0, sizeof(*lane));
    atomic_init(&lane->count, (uint64_t)permits << 32);
    return lane;
}

void opp_lane_destroy(opp_lane *lane) {
    free(lane);
}

/* Clears some sleeper's bit, the lowest (so that the same few stay warm), and returns its slot, or -1. */
static int lane_choose(opp_lane *lane) {
    /* [asleep] seq_cst: see "No lost wake-up". */
    uint32_t words = (opp_load(&lane->slot_end, seq_cst) + 63) / 64;
    for (uint32_t i = 0; i < words; i++) {
        uint64_t bits = opp_load(&lane->asleep[i], seq_cst);
        while (bits != 0) {
            uint64_t bit = bits & -bits;
            /* L1: the one who saw the bit set clears it. acquire: the cell is empty, which opp_lane_lie_down() releases. */
            if (opp_and(&lane->asleep[i], ~bit, acquire) & bit) return (int)(i * 64) + __builtin_ctzll(bit);
            bits &= ~bit;
        }
    }
    return -1;
}

static void lane_deliver(opp_lane *lane, int slot, uint32_t what) {
    _Atomic(uint32_t) *word = &lane->cells[slot].word;
    /* [cell] release: what the waker did is seen by the woken. Pairs with the acquire in opp_lane_sleep(). */
    opp_store(word, what, release);
    opp_futex_wake(word, 1);
    opp_add(&lane->wakeups, 1, relaxed); /* statistics */
}

bool opp_lane_enter(opp_lane *lane) {
    uint64_t count = opp_load(&lane->count, seq_cst); /* [count] see "No lost wake-up" */
    do {
        if (count_used(count) >= count_permits(count)) return false;
        /* relaxed: it only counts, and taking a permit hides nothing from anybody. A failed exchange reloads relaxed,
         * which can only see a later value of the same word. */
    } while (!opp_cas(&lane->count, &count, count + 1, relaxed));
    return true;
}

void opp_lane_leave(opp_lane *lane) {
    opp_sub(&lane->count, 1, seq_cst); /* [count] before the look at the queues */
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
            lane_deliver(lane, slot, CELL_RESERVE);
            return OPP_NOTIFIED_WOKEN;
        }
    }
    lane_deliver(lane, slot, CELL_PERMIT);
    return OPP_NOTIFIED_WOKEN;
}

bool opp_lane_wake_reserve(opp_lane *lane) {
    int slot = lane_choose(lane);
    if (slot < 0) return false;
    lane_deliver(lane, slot, CELL_RESERVE);
    return true;
}

void opp_lane_close(opp_lane *lane) {
    opp_store(&lane->closed, 1, seq_cst); /* [closed] before the choice; a worker lies down before it reads this */
    for (int slot = lane_choose(lane); slot >= 0; slot = lane_choose(lane)) lane_deliver(lane, slot, CELL_CLOSED);
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
    return opp_load(&lane->wakeups, relaxed); /* statistics */
}

void opp_lane_lie_down(opp_lane *lane, uint32_t slot) {
    opp_store(&lane->cells[slot].word, CELL_EMPTY, relaxed); /* published by the bit */
    uint32_t end = opp_load(&lane->slot_end, relaxed);
    while (end <= slot && !opp_cas(&lane->slot_end, &end, slot + 1, seq_cst)) {} /* [asleep] before the bit */
    /* [asleep] seq_cst: before the last look at the queues. release: the cell is empty before anybody fills it. */
    opp_or(&lane->asleep[slot / 64], 1ull << slot % 64, seq_cst);
}

static opp_woken woken_for(uint32_t cell) {
    switch (cell) {
    case CELL_PERMIT: return OPP_WOKEN_PERMIT;
    case CELL_RESERVE: return OPP_WOKEN_RESERVE;
    default: return OPP_WOKEN_CLOSED;
    }
}

/* Waits for what another thread, which cleared our bit, has stored or is about to store. */
static opp_woken lane_receive(opp_lane *lane, uint32_t slot) {
    _Atomic(uint32_t) *word = &lane->cells[slot].word;
    for (;;) {
        uint32_t cell = opp_load(word, acquire); /* [cell] */
        if (cell != CELL_EMPTY) return woken_for(cell);
        opp_futex_wait(word, CELL_EMPTY);
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
    if (opp_load(&lane->closed, seq_cst)) { /* [closed] */
        opp_woken woken = lane_rise(lane, slot);
        return woken == OPP_WOKEN_NOTHING ? OPP_WOKEN_CLOSED : woken;
    }
    return lane_receive(lane, slot);
}

/* --- Alarms ---------------------------------------------------------------------------------- */

/*
 * An alarm's word is its number of expiries, doubled, plus one while it is armed. To arm, a thread sets the timer
 * first and then says so, if the word is still what it read; so a thread that is stopped in between leaves the
 * alarm unarmed and others arm it again, and one that goes on late cannot pretend that a spent timer is armed.
 */
struct opp_alarms {
    int descriptor[OPP_ALARMS + 1]; /* timers, and an event counter for the bell: setting a timer costs far more */
    _Alignas(LINE) _Atomic(uint64_t) word[OPP_ALARMS];
};

opp_alarms *opp_alarms_create(void) {
    opp_alarms *alarms = aligned_alloc(LINE, sizeof(opp_alarms));
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
    uint64_t word = opp_load(&alarms->word[which], seq_cst);
    if (word & 1) return;
    opp_timer_set(alarms->descriptor[which], false, delay_ns);
    opp_cas(&alarms->word[which], &word, word | 1, relaxed); /* relaxed: a note to others not to bother */
}

void opp_alarms_set(opp_alarms *alarms, uint32_t which, uint64_t at_ns) {
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
