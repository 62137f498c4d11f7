/*
 * Target closers: the threads that close files for a ring. Promised: a close is refused only where all
 * threads have one; each that is not is answered once, after it was made, with what it gave; the owner does
 * not sleep beside one that is done, whichever thread is stopped; in the end all threads have left the memory
 * before it is freed.
 *
 * The kernel is left out: closing is a word of plain memory that the thread writes, and the owner waits for
 * the explorer's notifier where uring_wait() has the ring. A thread of ours is a thread of the program that
 * does `serve`.
 */
#include "checked.h"
#include "history.h"

/* Here, so that what they declare is not made private with the core. */
#include <sys/eventfd.h>

#define ring_call checked_ring_call
#define opp_thread_start checked_thread_start
CHECKED_CORE_BEGIN
#include "../../COpportune/ring.c"
#include "../../COpportune/ring_closers.c"
CHECKED_CORE_END

enum { CLOSERS_ASK, CLOSERS_WAIT, CLOSERS_END, CLOSERS_SERVE };

static const oppx_kind closers_kinds[] = {
    {.name = "ask", .weight = 5, .threads = 2},
    {.name = "wait", .weight = 3, .threads = 2}, /* if there is something to wait for */
    {.name = "end", .weight = 1, .threads = 2},  /* waits for all there is; nothing comes after it */
    {.name = "serve", .weight = 1, .threads = 0xFC},
};

typedef struct closers_state {
    opp_ring *ring;
    ring_closers *all; /* NULL: they are gone */
    uint32_t *closed[HISTORY_ITEMS]; /* plain memory that is written when it is closed */
    void (*body[OPPX_THREADS])(void *);
    void *context[OPPX_THREADS];
    uint32_t started, outstanding;
    bool serves[OPPX_THREADS], is_ending;
} closers_state;
static _Thread_local closers_state *closers_of_thread; /* see oppx_state() */
#define closers (*closers_of_thread)

int checked_thread_start(const char *name, size_t stack_bytes, void (*body)(void *), void *context) {
    (void)name, (void)stack_bytes;
    for (uint32_t t = 1; t < OPPX_THREADS; t++) {
        if (!closers.serves[t] || closers.body[t] != NULL) continue;
        closers.body[t] = body;
        closers.context[t] = context;
        closers.started++;
        return 0;
    }
    return -EAGAIN;
}

int32_t checked_ring_call(const opp_ring_op *op) {
    uint32_t item = (uint32_t)op->second;
    if (*(volatile uint32_t *)(uintptr_t)op->address != item) oppx_fail("the close of another is made");
    *closers.closed[item] = 1;
    return (int32_t)item;
}

static int checked_closers_wait(opp_ring *ring, opp_ring_completion *completions, uint32_t room, bool sleep,
                                uint64_t until_ns) {
    (void)until_ns;
    bool woken = false;
    uint32_t taken = ring_closers_take(closers.all, completions, room);
    while (sleep && !woken && taken == 0) {
        opp_timer_wait(&ring->event, 1);
        woken = opp_timer_read(ring->event);
        taken = ring_closers_take(closers.all, completions, room);
    }
    return (int)taken;
}

static const ring_backend checked_closers_backend = {.wait = checked_closers_wait};

static void closers_setup(const oppx_program *program) {
    history_begin();
    closers_of_thread = oppx_state(OPPX_STATE_TARGET, sizeof(closers_state));
    memset(closers_of_thread, 0, sizeof(closers_state));
    uint32_t count = 0;
    for (uint32_t t = 1; t <= program->threads; t++) {
        for (uint32_t i = 0; i < program->count[t - 1]; i++)
            closers.serves[t] |= program->operation[t - 1][i].kind == CLOSERS_SERVE;
        count += closers.serves[t];
    }
    closers.ring = oppx_allocate(sizeof(opp_ring), 64);
    closers.ring->backend = &checked_closers_backend;
    closers.ring->event = opp_notifier_open();
    closers.all = ring_closers_create(closers.ring, count + 1); /* one more than the system lets it start */
    ring_closers_start(closers.all);
}

static void closers_ask(void) {
    uint32_t item = history_push_begins(0, 0);
    closers.closed[item] = oppx_allocate(sizeof(uint32_t), 16);
    opp_ring_op op = {.code = OPP_RING_CLOSE, .tag = 100 + item, .second = item,
                      .address = (uint64_t)(uintptr_t)history_payload(item)};
    bool accepted = ring_closers_ask(closers.all, &op);
    if (accepted != (closers.outstanding < closers.started))
        oppx_fail("%u of %u threads have a close, and another is %s", closers.outstanding, closers.started,
                  accepted ? "taken" : "refused");
    closers.outstanding += accepted;
    if (accepted) history_push_ends(item, true);
    else history_push_is_refused(item);
}

static void closers_answered(const opp_ring_completion *completions, int count) {
    for (int i = 0; i < count; i++) {
        uint32_t item = (uint32_t)completions[i].result;
        if (completions[i].tag != 100u + item) oppx_fail("a close is answered with another's result");
        uint32_t taking = history_take_begins(0);
        history_take_ends(taking, true, history_payload(item), item);
        if (*(volatile uint32_t *)closers.closed[item] != 1)
            oppx_fail("close %u is answered before it is made", item);
        closers.outstanding--;
    }
}

static void closers_wait_once(void) {
    opp_ring_completion completions[2];
    closers_answered(completions, opp_ring_wait(closers.ring, completions, 2, UINT64_MAX));
}

static void closers_perform(uint32_t thread, const oppx_operation *operation) {
    if (operation->kind == CLOSERS_SERVE) {
        void (*body)(void *) = closers.body[thread];
        closers.body[thread] = NULL;
        if (body != NULL) body(closers.context[thread]);
        return;
    }
    if (closers.all == NULL) return;
    switch (operation->kind) {
    case CLOSERS_ASK: closers_ask(); break;
    case CLOSERS_WAIT:
        if (closers.outstanding > 0) closers_wait_once();
        break;
    default:
        while (closers.outstanding > 0) closers_wait_once();
        closers.is_ending = true;
        ring_closers_destroy(closers.all);
        closers.all = NULL;
    }
}

/* All threads that are left sleep: of those that are not stopped none has a close in its hand. */
static void closers_quiet(void) {
    uint32_t stopped = 0;
    for (uint32_t t = 2; t < OPPX_THREADS; t++) stopped += oppx_is_stopped(t);
    if (oppx_is_stopped(1) || !oppx_is_asleep(1)) return;
    if (closers.is_ending && stopped == 0) oppx_fail("the owner waits for threads that have left");
    if (closers.outstanding > stopped)
        oppx_fail("%u closes are asked for, and the owner and all threads sleep", closers.outstanding);
}

static void closers_finish(void) {
    for (uint32_t t = 1; t < OPPX_THREADS; t++)
        if (oppx_is_stopped(t)) return; /* it holds what it holds */
    opp_ring_completion completion;
    while (closers.all != NULL && ring_closers_take(closers.all, &completion, 1) == 1)
        closers_answered(&completion, 1);
    history_check_conservation();
}

const oppx_target checked_closers = {
    .name = "closers",
    .summary = "Closes of files on threads: each answered once, after it was made; nobody sleeps beside one, "
               "all leave.",
    .kinds = closers_kinds, .kind_count = sizeof(closers_kinds) / sizeof(closers_kinds[0]),
    .threads_max = 4, .operations_max = 8, .stalls = 1,
    .setup = closers_setup, .perform = closers_perform, .quiet = closers_quiet, .finish = closers_finish,
};
