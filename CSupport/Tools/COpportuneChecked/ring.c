/*
 * Target ring: the messages to a ring's owner, what its threads have done, and its sleep. Promised: each
 * message and each completion is had once, those of one thread in order, all that were there before a wait
 * began; the owner does not sleep beside one, whichever thread is stopped.
 *
 * The kernel is left out: the owner waits for the explorer's notifier where threads_wait() has poll(2).
 */
#include "checked.h"
#include "history.h"

/* Here, so that what they declare is not made private with the core. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

CHECKED_CORE_BEGIN
#include "../../COpportune/ring.c"
#include "../../COpportune/ring_threads.c"
CHECKED_CORE_END

enum { RING_SLOTS = 64, RING_MESSAGES = 0, RING_COMPLETIONS = 1 };

typedef struct ring_run_state {
    opp_ring *ring;
    uint32_t slots_used;
    bool drained;
} ring_run_state;
static _Thread_local ring_run_state *ring_run_of_thread; /* see oppx_state() */
#define ring_run (*ring_run_of_thread)

enum { RING_POST, RING_COMPLETE, RING_WAIT };

static const oppx_kind ring_kinds[] = {
    {.name = "post", .weight = 4, .threads = 0xFC},
    {.name = "complete", .weight = 3, .threads = 0xFC},
    {.name = "wait", .weight = 2, .threads = 2},
};

static int checked_ring_wait(opp_ring *ring, opp_ring_completion *completions, uint32_t room, bool sleep,
                             uint64_t until_ns) {
    (void)until_ns;
    threads *state = ring->state;
    bool woken = false;
    take_done(state);
    while (sleep && !woken && state->ready_first == NONE) {
        opp_timer_wait(&ring->event, 1);
        woken = opp_timer_read(ring->event);
        take_done(state);
    }
    return (int)take_ready(state, completions, room);
}

static const ring_backend checked_backend = {.wait = checked_ring_wait};

static void ring_setup(const oppx_program *program) {
    (void)program;
    history_begin();
    ring_run_of_thread = oppx_state(OPPX_STATE_TARGET, sizeof(ring_run_state));
    memset(ring_run_of_thread, 0, sizeof(ring_run_state));
    threads *state = oppx_allocate(sizeof(threads), 64);
    state->slots = oppx_allocate(RING_SLOTS * sizeof(slot), 64);
    state->slot_count = RING_SLOTS;
    state->free = state->ready_first = state->ready_last = state->first = state->last = NONE;
    atomic_init(&state->done, NONE);
    ring_run.ring = oppx_allocate(sizeof(opp_ring), 64);
    state->ring = ring_run.ring;
    ring_run.ring->backend = &checked_backend;
    ring_run.ring->state = state;
    ring_run.ring->event = opp_notifier_open();
}

static void ring_complete(void) {
    threads *state = ring_run.ring->state;
    uint32_t index = ring_run.slots_used++;
    if (index == RING_SLOTS) oppx_fail("there are no slots left");
    uint32_t item = history_push_begins(OPPX_THREADS + oppx_thread(), RING_COMPLETIONS);
    slot *slot = &state->slots[index];
    slot->state = RUNNING;
    slot->op.tag = (uint64_t)(uintptr_t)history_payload(item);
    slot->result = (int32_t)item;
    push_done(state, index);
    history_push_ends(item, true);
}

static void ring_post(void) {
    uint32_t item = history_push_begins(oppx_thread(), RING_MESSAGES);
    opp_link *link = oppx_allocate(sizeof(opp_link), 16);
    link->owner = history_payload(item);
    opp_ring_post(ring_run.ring, link);
    history_push_ends(item, true);
}

static void ring_wait_once(void) {
    opp_ring_completion completions[RING_SLOTS];
    uint32_t taking = history_take_begins(1u << RING_MESSAGES | 1u << RING_COMPLETIONS);
    int count = opp_ring_wait(ring_run.ring, completions, RING_SLOTS, UINT64_MAX);
    opp_link *link = opp_ring_fetch(ring_run.ring);
    int last[2 * OPPX_THREADS];
    memset(last, -1, sizeof(last));
    if (count == 0 && link == NULL) history_take_ends(taking, false, NULL, 0);
    for (int i = 0; i < count || link != NULL; i++) {
        void *payload = i < count ? (void *)(uintptr_t)completions[i].tag : link->owner;
        uint32_t number = i < count ? (uint32_t)completions[i].result : *(volatile uint32_t *)payload;
        if (i >= count) link = link->next;
        history_take_ends(taking, true, payload, number);
        const item *item = &checked_history.items[number];
        if (last[item->class] > (int)number) oppx_fail("what is of one thread comes out of order");
        last[item->class] = (int)number;
    }
    checked_history.takings[taking].item = -1; /* it leaves nothing behind, whatever it found */
}

static void ring_perform(uint32_t thread, const oppx_operation *operation) {
    (void)thread;
    if (operation->kind == RING_POST) ring_post();
    else if (operation->kind == RING_COMPLETE) ring_complete();
    else ring_wait_once();
}

/* Takes out what is left. Where the owner sleeps nothing may be, but of who is stopped amid it. */
static void ring_drain(bool owner_sleeps) {
    if (ring_run.drained) return;
    ring_run.drained = true;
    opp_ring_completion completions[RING_SLOTS];
    threads *state = ring_run.ring->state;
    take_done(state);
    uint32_t count = take_ready(state, completions, RING_SLOTS);
    opp_link *link = opp_ring_fetch(ring_run.ring);
    for (uint32_t i = 0; i < count || link != NULL; i++) {
        void *payload = i < count ? (void *)(uintptr_t)completions[i].tag : link->owner;
        uint32_t number = i < count ? (uint32_t)completions[i].result : *(volatile uint32_t *)payload;
        if (i >= count) link = link->next;
        if (owner_sleeps && checked_history.items[number].push.over)
            oppx_fail("%s %u is left, and the owner sleeps", i < count ? "completion" : "message", number);
        history_drained(payload, number);
    }
}

static void ring_quiet(void) {
    if (!oppx_is_stopped(1) && oppx_is_asleep(1)) ring_drain(true);
}

static void ring_finish(void) {
    ring_drain(false);
    uint32_t stopped = 0; /* a stopped owner holds what it fetched */
    for (uint32_t i = 0; i < checked_history.taking_count; i++)
        stopped += !checked_history.takings[i].event.over;
    if (stopped == 0) history_check_conservation();
    history_check_order();
    history_check_levels(NULL);
    history_check_linear(RING_MESSAGES, false);
    history_check_linear(RING_COMPLETIONS, false);
}

const oppx_target checked_ring = {
    .name = "ring",
    .summary = "Messages and completions to the owner of a ring: each had once, in order; it never sleeps "
               "beside one.",
    .kinds = ring_kinds, .kind_count = 3, .threads_max = 4, .operations_max = 5, .stalls = 1,
    .setup = ring_setup, .perform = ring_perform, .quiet = ring_quiet, .finish = ring_finish,
};
