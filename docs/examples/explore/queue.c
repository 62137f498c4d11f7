/* A queue of one's own in the explorer: every order of two threads in it, within bounds.
 *     scripts/explore-own docs/examples/explore/queue.c */
#include "opp_sync_checked.h" /* the C11 atomics by other names, each a step of the explorer */
#include "opp_own.h"

/* --- The queue: one thread pushes, another takes --------------------------------------------------- */

enum { ROOM = 2 };

typedef struct queue {
    _Atomic(uint32_t) pushed, taken; /* counts; only their owner writes them */
    uint32_t slot[ROOM];
} queue;

static bool push(queue *queue, uint32_t value) {
    uint32_t at = opp_load(&queue->pushed, relaxed);
    if (at - opp_load(&queue->taken, acquire) == ROOM) return false;
    queue->slot[at % ROOM] = value;
    opp_store(&queue->pushed, at + 1, release); /* with the load in take() */
    return true;
}

static bool take(queue *queue, uint32_t *value) {
    uint32_t at = opp_load(&queue->taken, relaxed);
    if (opp_load(&queue->pushed, acquire) == at) return false;
    *value = queue->slot[at % ROOM];
    opp_store(&queue->taken, at + 1, release); /* with the load in push() */
    return true;
}

/* --- What its users may do, and what they are promised --------------------------------------------- */

static queue *tried; /* in memory of the explorer, which watches it */
static uint32_t sent, received;

static void setup(const oppx_program *program) {
    (void)program;
    tried = oppx_allocate(sizeof(queue), _Alignof(queue));
    sent = received = 0;
}

static void perform(uint32_t thread, const oppx_operation *operation) {
    (void)thread;
    uint32_t value;
    if (operation->kind == 0) {
        if (push(tried, sent)) sent++;
    } else if (take(tried, &value)) {
        if (value != received) oppx_fail("%u was taken, where %u was next", value, received);
        oppx_remember(++received);
    }
}

static void finish(void) {
    for (uint32_t value; take(tried, &value); received++)
        if (value != received) oppx_fail("%u is left, where %u was next", value, received);
    if (received != sent) oppx_fail("%u were pushed, and %u came out", sent, received);
}

static const oppx_kind kinds[] = {
    {.name = "push", .weight = 1, .threads = 2},  /* the first thread */
    {.name = "take", .weight = 1, .threads = 4}}; /* the second */

const oppx_target own_target = {
    .name = "queue", .summary = "What is pushed is taken once, in order.", .kinds = kinds, .kind_count = 2,
    .threads_max = 2, .operations_max = 6, .setup = setup, .perform = perform, .finish = finish};

const oppx_world own_worlds[] = {
    {.name = "full", .program = "push; push; push; push | take; take; take; take",
     .preemptions = OPPX_UNBOUNDED, .stale = OPPX_UNBOUNDED},
    {0}};
