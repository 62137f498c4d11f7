/*
 * Targets with a bug planted in each, which must be found within seconds: a stack whose push publishes with
 * relaxed order; a reader that looks before it says that it sleeps, and not after; one that looks again, but
 * may still see what was there before, as may who pushes; and a push that leaves it to another to wake the
 * reader, who may be stopped. A fuzzer that does not find them all is not looking.
 */
#include "checked.h"
#include "history.h"

typedef struct canary_node {
    struct canary_node *next;
    void *payload;
    uint32_t tag;
} canary_node;

static _Thread_local struct {
    _Atomic(canary_node *) *top;
    _Atomic(uint32_t) *asleep;
    bool pushed[HISTORY_ITEMS]; /* its push is over */
    enum { CANARY_RELAXED, CANARY_SLEEP, CANARY_OLD, CANARY_STOPPED } bug;
} canary;

static const oppx_kind canary_kinds[] = {
    {.name = "push", .weight = 3, .threads = 0xFC}, {.name = "pop_all", .weight = 1, .threads = 2}};

static void canary_setup(const oppx_program *program) {
    (void)program;
    history_begin();
    canary.top = oppx_allocate(sizeof(*canary.top), 16);
    canary.asleep = oppx_allocate(sizeof(*canary.asleep), 16);
    memset(canary.pushed, 0, sizeof(canary.pushed));
    canary.bug = CANARY_RELAXED;
}

static void canary_setup_sleep(const oppx_program *program) {
    canary_setup(program);
    canary.bug = CANARY_SLEEP;
}

static void canary_setup_old(const oppx_program *program) {
    canary_setup(program);
    canary.bug = CANARY_OLD;
}

static void canary_setup_stopped(const oppx_program *program) {
    canary_setup(program);
    canary.bug = CANARY_STOPPED;
}

static void canary_push(void) {
    uint32_t item = history_push_begins(0, 0);
    canary_node *node = oppx_allocate(sizeof(canary_node), 16);
    node->payload = history_payload(item);
    node->tag = item;
    canary_node *top = opp_load(canary.top, relaxed);
    do {
        node->next = top;
        /* The first bug: release is missing. */
    } while (!(canary.bug == CANARY_RELAXED ? opp_cas(canary.top, &top, node, relaxed)
               : canary.bug == CANARY_OLD   ? opp_cas(canary.top, &top, node, acq_rel)
                                            : opp_cas(canary.top, &top, node, seq_cst)));
    history_push_ends(item, true);
    /* The fourth: who found the stack empty wakes the reader, unless he is stopped before. */
    bool relies = canary.bug == CANARY_STOPPED && top != NULL;
    if (!relies &&
        (canary.bug == CANARY_OLD ? opp_load(canary.asleep, acquire) : opp_load(canary.asleep, seq_cst)) ==
        1) {
        opp_store(canary.asleep, 0, seq_cst);
        opp_futex_wake(canary.asleep, 1);
    }
    canary.pushed[item] = true;
}

static void canary_sleep(void) {
    if (opp_load(canary.top, seq_cst) != NULL) return;
    if (canary.bug == CANARY_OLD) opp_store(canary.asleep, 1, release);
    else opp_store(canary.asleep, 1, seq_cst);
    /* The second: nobody looks again after this. The third: who looks again may see what was there before. */
    bool is_empty = canary.bug == CANARY_SLEEP ? true
                    : canary.bug == CANARY_OLD ? opp_load(canary.top, acquire) == NULL
                                               : opp_load(canary.top, seq_cst) == NULL;
    if (is_empty) opp_futex_wait(canary.asleep, 1);
    else opp_store(canary.asleep, 0, seq_cst);
}

static void canary_perform(uint32_t thread, const oppx_operation *operation) {
    (void)thread;
    if (operation->kind == 0) {
        canary_push();
        return;
    }
    if (canary.bug != CANARY_RELAXED) canary_sleep();
    for (canary_node *node = opp_swap(canary.top, NULL, acq_rel); node != NULL; node = node->next) {
        uint32_t taking = history_take_begins(1);
        history_take_ends(taking, true, node->payload, node->tag);
    }
}

/* The reader, the first thread, sleeps beside what somebody has pushed. */
static void canary_quiet(void) {
    for (canary_node *node = opp_load(canary.top, seq_cst); node != NULL &&
         !oppx_is_stopped(1); node = node->next)
        if (canary.pushed[node->tag]) oppx_fail("a lost wake-up: a message waits while its reader sleeps");
}

static void canary_finish(void) {}

#define CANARY(name_, summary_, setup_, stalls_)                                                         \
    {                                                                                                    \
        .name = name_, .summary = summary_, .kinds = canary_kinds, .kind_count = 2, .threads_max = 3,    \
        .operations_max = 3, .stalls = stalls_, .hidden = true, .setup = setup_,                         \
        .perform = canary_perform, .quiet = canary_quiet, .finish = canary_finish                        \
    }
const oppx_target checked_canary =
    CANARY("canary", "A planted bug that must be found: a release is missing.", canary_setup, 0);
const oppx_target checked_canary_sleep =
    CANARY("canary-sleep", "A planted bug that must be found: a lost wake-up.", canary_setup_sleep, 0);
const oppx_target checked_canary_old =
    CANARY("canary-old",
           "A planted bug that must be found: a wake-up is lost where two threads read old values.",
           canary_setup_old, 0);
const oppx_target checked_canary_stopped =
    CANARY("canary-stopped",
           "A planted bug that must be found: a wake-up is lost where another thread is stopped.",
           canary_setup_stopped, 1);
