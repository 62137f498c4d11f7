/*
 * Two targets with a bug planted in each, which must be found within seconds: a stack whose push publishes with relaxed
 * order, and a reader that looks before it says that it sleeps, and not after. A fuzzer that finds neither is not
 * looking.
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
    uint32_t threads;
    bool sleeps;
} canary;

static const oppx_kind canary_kinds[] = {
    {.name = "push", .weight = 3, .threads = 0xFC}, {.name = "pop_all", .weight = 1, .threads = 2}};

static void canary_setup(const oppx_program *program) {
    history_begin();
    canary.top = oppx_allocate(sizeof(*canary.top), 16);
    canary.asleep = oppx_allocate(sizeof(*canary.asleep), 16);
    canary.threads = program->threads;
    canary.sleeps = false;
}

static void canary_setup_sleep(const oppx_program *program) {
    canary_setup(program);
    canary.sleeps = true;
}

static void canary_perform(uint32_t thread, const oppx_operation *operation) {
    (void)thread;
    if (operation->kind == 0) {
        uint32_t item = history_push_begins(0, 0);
        canary_node *node = oppx_allocate(sizeof(canary_node), 16);
        node->payload = history_payload(item);
        node->tag = item;
        canary_node *top = opp_load(canary.top, relaxed);
        do {
            node->next = top;
            /* The first bug: release is missing. */
        } while (!(canary.sleeps ? opp_cas(canary.top, &top, node, seq_cst)
                                 : opp_cas(canary.top, &top, node, relaxed)));
        history_push_ends(item, true);
        if (opp_load(canary.asleep, seq_cst) == 1) {
            opp_store(canary.asleep, 0, seq_cst);
            opp_futex_wake(canary.asleep, 1);
        }
        return;
    }
    if (canary.sleeps && opp_load(canary.top, seq_cst) == NULL) {
        opp_store(canary.asleep, 1, seq_cst); /* the second bug: nobody looks again after this */
        opp_futex_wait(canary.asleep, 1);
    }
    for (canary_node *node = opp_swap(canary.top, NULL, acq_rel); node != NULL; node = node->next) {
        uint32_t taking = history_take_begins(1);
        history_take_ends(taking, true, node->payload, node->tag);
    }
}

static void canary_quiet(void) {
    for (uint32_t t = 1; t <= canary.threads; t++)
        if (oppx_is_stopped(t)) return;
    if (opp_load(canary.top, seq_cst) != NULL) oppx_fail("a lost wake-up: a message waits while its reader sleeps");
}

static void canary_finish(void) {}

#define CANARY(name_, summary_, setup_)                                                                  \
    {                                                                                                    \
        .name = name_, .summary = summary_, .kinds = canary_kinds, .kind_count = 2, .threads_max = 3,    \
        .operations_max = 3, .hidden = true, .setup = setup_, .perform = canary_perform,                 \
        .quiet = canary_quiet, .finish = canary_finish                                                   \
    }
const oppx_target checked_canary =
    CANARY("canary", "A planted bug that must be found: a release is missing.", canary_setup);
const oppx_target checked_canary_sleep =
    CANARY("canary-sleep", "A planted bug that must be found: a lost wake-up.", canary_setup_sleep);
