/* The core's own queues: the run queue, alone and with the look for a sleeper that a scheduler adds, a
 * strand's queue and the inbox. */
#include "contender.h"
#include "setup.h"

#include <stdlib.h>

typedef struct queue {
    opp_core *core;
    opp_app *app;
    opp_queue *queue;
    opp_pool *pool;
    opp_producer *producer[PRODUCERS_MAX + 1]; /* the last is the thief's own */
    opp_consumer *consumer[CONSUMERS];
    unsigned producers;
} queue;

static void queue_destroy(void *object) {
    queue *queue = object;
    for (unsigned i = 0; i < CONSUMERS; i++)
        if (queue->consumer[i] != NULL) opp_consumer_destroy(queue->consumer[i]);
    if (queue->queue != NULL) opp_queue_destroy(queue->queue, NULL, NULL);
    if (queue->pool != NULL) opp_pool_destroy(queue->pool);
    if (queue->core != NULL) opp_core_destroy(queue->core, NULL, NULL);
    free(queue);
}

static void *queue_make(unsigned producers, uint64_t items) {
    (void)items;
    queue *queue = calloc(1, sizeof(*queue));
    if (queue == NULL) return NULL;
    queue->producers = producers;
    queue->core = setup_core();
    queue->pool = opp_pool_create(1);
    bool complete = queue->core != NULL && queue->pool != NULL;
    if (complete) {
        queue->app = opp_app_create(queue->core, SETUP_FOREGROUND, false);
        queue->queue = opp_queue_create(queue->core);
        for (unsigned i = 0; i <= producers; i++) {
            queue->producer[i] = opp_producer_acquire(queue->core, 0);
            complete &= queue->producer[i] != NULL;
        }
        if (complete) queue->consumer[OWNER] = opp_consumer_create(queue->core, queue->producer[0], NULL);
        if (complete)
            queue->consumer[THIEF] = opp_consumer_create(queue->core, queue->producer[producers], NULL);
        complete &= queue->app != NULL && queue->queue != NULL && queue->consumer[OWNER] != NULL &&
                    queue->consumer[THIEF] != NULL;
        /* All tokens in use, as in a busy pool. */
        complete &= opp_pool_enter(queue->pool);
    }
    if (complete) return queue;
    queue_destroy(queue);
    return NULL;
}

static inline bool runq_push(queue *queue, unsigned producer, uint64_t value) {
    opp_job job = {(void *)(uintptr_t)value, 0};
    return opp_push(queue->producer[producer], queue->app, SETUP_RANK, job) >= 0;
}

static inline bool runq_take(queue *queue, unsigned consumer, uint64_t *value) {
    opp_taken taken;
    if (!opp_take(queue->consumer[consumer], ~(uint64_t)0, &taken)) return false;
    *value = (uintptr_t)taken.job.ptr;
    return true;
}

#define runq_make queue_make
#define runq_destroy queue_destroy
CONTENDER(runq, queue, "opportune run queue", true, true, "")

static inline bool runq_notify_push(queue *queue, unsigned producer, uint64_t value) {
    return runq_push(queue, producer, value) && opp_pool_notify(queue->pool) == OPP_NOTIFIED_BUSY;
}

#define runq_notify_take runq_take
#define runq_notify_make queue_make
#define runq_notify_destroy queue_destroy
CONTENDER(runq_notify, queue, "opportune + wake check", true, true, "")

static inline bool queue_push(queue *queue, unsigned producer, uint64_t value) {
    opp_job job = {(void *)(uintptr_t)value, 0};
    return opp_queue_push(queue->queue, queue->producer[producer], job) == 0;
}

static inline bool queue_take(queue *queue, unsigned consumer, uint64_t *value) {
    opp_job job;
    (void)consumer;
    if (!opp_queue_take(queue->queue, &job)) return false;
    *value = (uintptr_t)job.ptr;
    return true;
}

#define queue_make queue_make
#define queue_destroy queue_destroy
CONTENDER(queue, queue, "opportune strand", true, true, "")

/* --- The inbox, whose reader fetches all there is at once -------------------------------------- */

static void *inbox_make(unsigned producers, uint64_t items) {
    (void)producers;
    (void)items;
    return opp_inbox_create();
}

static void inbox_destroy(void *object) {
    opp_inbox_destroy(object, NULL);
}

static void inbox_push_loop(void *object, unsigned producer, uint64_t from, uint64_t n) {
    unsigned looks = 0;
    (void)producer;
    for (uint64_t i = 1; i <= n; i++)
        while (opp_inbox_push(object, (void *)(uintptr_t)(from + i)) != 0) contender_idle(&looks);
}

typedef struct tally {
    uint64_t count, sum;
} tally;

static void inbox_each(void *message, void *context) {
    tally *tally = context;
    tally->count++;
    tally->sum += (uintptr_t)message;
}

static uint64_t inbox_take_loop(void *object, unsigned consumer, uint64_t n, bool waits, uint64_t *sum) {
    unsigned looks = 0;
    tally tally = {0, 0};
    (void)consumer;
    for (;;) {
        uint64_t before = tally.count;
        opp_inbox_fetch(object, inbox_each, &tally);
        if (tally.count >= n || (!waits && tally.count == before)) break;
        if (tally.count == before) contender_idle(&looks);
    }
    *sum += tally.sum;
    return tally.count;
}

static uint64_t inbox_cycle_loop(void *object, uint64_t n, uint64_t batch) {
    tally tally = {0, 0};
    for (uint64_t i = 0; i < n; i += batch) {
        inbox_push_loop(object, OWNER, i, batch);
        opp_inbox_fetch(object, inbox_each, &tally);
    }
    return tally.sum;
}

const contender inbox_contender = {
    "opportune inbox", true, true, "one reader; allocates", false, inbox_make, inbox_destroy, inbox_push_loop,
    inbox_take_loop, inbox_cycle_loop};
