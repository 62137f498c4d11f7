/*
 * Pushing: an entry goes into the producer's own fifo. Then the ready bits on its path are set where they
 * were not.
 *
 * A producer mostly pushes where it pushed last. So it caches that path (R3 to R5 in runq.h) and need not
 * look it up. The steps are the same in the same order on both paths; only their operands are known in
 * advance.
 */
#include "runq.h"

#include <stdlib.h>

static opp_queue *rank_queue(opp_app *app, rank_queues *queues, uint8_t rank) {
    /* [queue] acquire: pairs with the exchange below; the queue is initialised. */
    opp_queue *queue = opp_load(&queues->queue[rank], acquire);
    if (queue != NULL) return queue;
    opp_queue *fresh = malloc(sizeof(opp_queue));
    if (fresh == NULL) return NULL;
    opp_queue_init(fresh, &app->core->segments);
    if (opp_cas(&queues->queue[rank], &queue, fresh, release)) { /* [queue] release: see above */
        opp_add(&app->core->queue_bytes, sizeof(opp_queue), relaxed); /* statistics */
        return fresh;
    }
    free(fresh);
    return opp_load(&queues->queue[rank], acquire); /* [queue] */
}

static uint32_t producer_stamp(opp_producer *producer, opp_core *core) {
    /* relaxed, both: one object, whose values only grow. */
    if (++producer->pushes % OPP_EPOCH_PUSHES == 0) opp_add(&core->epoch, 1, relaxed);
    return opp_load(&core->epoch, relaxed);
}

/* Queues `job`, sets its rank's ready bit, then reads the app's word. Returns the fifo, or NULL: memory is
 * short. */
static opp_fifo *rank_insert(opp_producer *producer, opp_app *app, rank_queues *queues, uint8_t rank,
                             opp_job job, uint64_t *state) {
    OPP_ASSERT(rank < OPP_RANKS);
    opp_core *core = app->core;
    opp_queue *queue = rank_queue(app, queues, rank);
    if (queue == NULL) return NULL;
    opp_fifo *fifo = opp_queue_fifo(queue, producer);
    if (fifo == NULL || fifo_push(fifo, &core->segments, job, producer_stamp(producer, core)) < 0)
        return NULL;
    ready_bit_set(ready_bit_at(queues->ranks, rank));
    *state = opp_load(&app->state, seq_cst); /* [ready] */
    return fifo;
}

int opp_app_give_back(opp_producer *producer, opp_app *app, uint8_t rank, opp_job job) {
    uint64_t state;
    if (rank_insert(producer, app, &app->queues[QUEUES_FRONT], rank, job, &state) == NULL) return -ENOMEM;
    if (state & STATE_SUSPENDED) return OPP_LEVEL_NONE;
    uint8_t number = level_of(app->core, state, rank);
    opp_app_show_at(app, number);
    return number;
}

/* The ready bits from the app up, once that of the rank is set and the app's word was found to be the
 * path's. */
static inline int path_show(const opp_path *path) {
    ready_bit_set(path->app_ready);
    ready_bit_set(path->level_ready);
    return path->level;
}

/* An entry is in `fifo`, its rank's ready bit is set, and then the app's word was `state`. Returns what
 * opp_push() does. */
static __attribute__((noinline)) int path_find(opp_producer *producer, opp_app *app, uint8_t rank,
                                               opp_fifo *fifo, uint64_t state) {
    if (state & STATE_SUSPENDED) return OPP_LEVEL_NONE;
    opp_core *core = app->core;
    uint8_t number = level_of(core, state, rank);
    OPP_ASSERT(fifo->producer == producer); /* R5 */
    producer->path = (opp_path){
        .app = app, .state = state, .fifo = fifo, .rank = rank, .level = number,
        .rank_ready = ready_bit_at(app->queues[QUEUES_BACK].ranks, rank),
        .app_ready = level_app_bit(core, number, app->index),
        .level_ready = ready_bit_at(core->ready, number)};
    return path_show(&producer->path);
}

/* For a push without a cached path that is valid under `state`, or with a full segment. A separate function,
 * like path_find(), so that the short path makes no calls and saves no registers. */
static __attribute__((noinline)) int push_long(opp_producer *producer, opp_app *app, uint8_t rank,
                                               opp_job job) {
    if (rank >= OPP_RANKS) return -EINVAL;
    uint64_t state;
    opp_fifo *fifo = rank_insert(producer, app, &app->queues[QUEUES_BACK], rank, job, &state);
    return fifo == NULL ? -ENOMEM : path_find(producer, app, rank, fifo, state);
}

int opp_push(opp_producer *producer, opp_app *app, uint8_t rank, opp_job job) {
    const opp_path *path = &producer->path;
    uint64_t state = opp_load(&app->state, relaxed); /* relaxed: the look below counts */
    if (path->app != app || path->rank != rank || path->state != state)
        return push_long(producer, app, rank, job);
    OPP_ASSERT(path->fifo->producer == producer); /* R5 */
    OPP_ASSERT(path->level < OPP_LEVELS);
    uint64_t tail = opp_load(&path->fifo->tail, relaxed); /* relaxed: the producer's own */
    if (SLOT_OF(tail) == 0) return push_long(producer, app, rank, job);
    fifo_put(path->fifo, tail, job, producer_stamp(producer, app->core));
    ready_bit_set(path->rank_ready);
    state = opp_load(&app->state, seq_cst); /* [ready] */
    if (state != path->state) return path_find(producer, app, rank, path->fifo, state);
    return path_show(path);
}
