/*
 * Pushing: an entry goes into the source's own queue, then the hints on its way up are set where they were not.
 *
 * A source mostly pushes where it pushed last, so it remembers that way (R3 to R5 in runq.h) and need not find it. The
 * steps are the same, in the same order, on either way; only what they go by has been worked out before.
 */
#include "lane.h"
#include "runq.h"

#include <stdlib.h>

static opp_bag *place_bag(opp_app *app, place *place, uint8_t rank) {
    /* [bag] acquire: pairs with the exchange below; the bag is initialised. */
    opp_bag *bag = opp_load(&place->bag[rank], acquire);
    if (bag != NULL) return bag;
    opp_bag *fresh = malloc(sizeof(opp_bag));
    if (fresh == NULL) return NULL;
    opp_bag_init(fresh, &app->core->pool);
    if (opp_cas(&place->bag[rank], &bag, fresh, release)) { /* [bag] release: see above */
        opp_add(&app->core->queue_bytes, sizeof(opp_bag), relaxed); /* statistics */
        return fresh;
    }
    free(fresh);
    return opp_load(&place->bag[rank], acquire); /* [bag] */
}

static uint32_t source_stamp(opp_source *source, opp_core *core) {
    /* relaxed, both: one object, whose values only grow. */
    if (++source->pushes % OPP_EPOCH_PUSHES == 0) opp_add(&core->epoch, 1, relaxed);
    return opp_load(&core->epoch, relaxed);
}

/* Queues `job`, sets its rank's hint, then reads the app's word. Returns the queue, or NULL: memory is short. */
static opp_fifo *place_insert(opp_source *source, opp_app *app, place *place, uint8_t rank, opp_job job,
                              uint64_t *state) {
    OPP_ASSERT(rank < OPP_RANKS);
    opp_core *core = app->core;
    opp_bag *bag = place_bag(app, place, rank);
    if (bag == NULL) return NULL;
    opp_fifo *fifo = opp_bag_fifo(bag, source);
    if (fifo == NULL || fifo_push(fifo, &core->pool, job, source_stamp(source, core)) < 0) return NULL;
    hint_set(hint_at(place->ranks, rank));
    *state = opp_load(&app->state, seq_cst); /* [hint] */
    return fifo;
}

int opp_app_give_back(opp_source *source, opp_app *app, int set, uint8_t rank, opp_job job) {
    uint64_t state;
    if (place_insert(source, app, &app->places[set][PLACE_FRONT], rank, job, &state) == NULL) return -ENOMEM;
    if (state & STATE_SUSPENDED) return OPP_LEVEL_NONE;
    uint8_t number = app->core->config.level_of[set_band(app->core, set, state)][rank];
    opp_app_show_at(app, number);
    return number;
}

/* The hints from the app up, once that of the rank is set and the app's word was found to be the way's. */
static inline int way_show(const opp_way *way) {
    hint_set(way->app_hint);
    hint_set(way->summary_hint);
    hint_set(way->level_hint);
    return way->level;
}

/* An entry is in `fifo`, its rank's hint is set, and then the app's word was `state`. Returns what opp_push() does. */
static __attribute__((noinline)) int way_find(opp_source *source, opp_app *app, int set, uint8_t rank, opp_fifo *fifo,
                                              uint64_t state) {
    if (state & STATE_SUSPENDED) return OPP_LEVEL_NONE;
    opp_core *core = app->core;
    uint8_t number = core->config.level_of[set_band(core, set, state)][rank];
    OPP_ASSERT(number < OPP_LEVELS);
    OPP_ASSERT(fifo->source == source);
    level *level = core_level(core, number);
    source->way = (opp_way){
        .app = app, .state = state, .fifo = fifo, .rank = rank, .set = (uint8_t)set, .level = number,
        .rank_hint = hint_at(app->places[set][PLACE_BACK].ranks, rank),
        .app_hint = hint_at(level->apps, app->index),
        .summary_hint = hint_at(level->summary, summary_of(core, app->index)),
        .level_hint = hint_at(core->ready, number)};
    return way_show(&source->way);
}

/* Where nothing is remembered that is right under `state`, or a segment is full. Apart, as way_find() is, so that the
 * short way calls nothing and saves no registers. */
static __attribute__((noinline)) int push_long(opp_source *source, opp_app *app, uint8_t rank, opp_job job,
                                               uint64_t state) {
    if (rank >= OPP_RANKS) return -EINVAL;
    int set = app->core->config.stay ? state_band(state) : 0;
    opp_fifo *fifo = place_insert(source, app, &app->places[set][PLACE_BACK], rank, job, &state);
    return fifo == NULL ? -ENOMEM : way_find(source, app, set, rank, fifo, state);
}

int opp_push(opp_source *source, opp_app *app, uint8_t rank, opp_job job) {
    const opp_way *way = &source->way;
    /* relaxed: with `stay` a job pushed while the band changes may land in either; else only the look below counts. */
    uint64_t state = opp_load(&app->state, relaxed);
    if (way->app != app || way->rank != rank || way->state != state) return push_long(source, app, rank, job, state);
    OPP_ASSERT(way->fifo->source == source); /* R5 */
    OPP_ASSERT(way->level < OPP_LEVELS);
    uint64_t tail = opp_load(&way->fifo->tail, relaxed); /* relaxed: the source's own */
    if (SLOT_OF(tail) == 0) return push_long(source, app, rank, job, state);
    fifo_put(way->fifo, tail, job, source_stamp(source, app->core));
    hint_set(way->rank_hint);
    state = opp_load(&app->state, seq_cst); /* [hint] */
    if (state != way->state) return way_find(source, app, way->set, rank, way->fifo, state);
    return way_show(way);
}

opp_submitted opp_submit(opp_source *source, opp_app *app, uint8_t rank, opp_job job, opp_worker *self) {
    const opp_core *core = app->core; /* the job may be over before the push returns, and its app gone; not the core */
    opp_submitted submitted = {.level = opp_push(source, app, rank, job), .wake = OPP_WAKE_NOTHING};
    if (submitted.level < 0 || submitted.level == OPP_LEVEL_NONE) return submitted;
    opp_lane *lane = core->lane_of[submitted.level];
    if (lane == NULL) return submitted;
    if (self != NULL && opp_worker_takes_next(self, lane, (unsigned)submitted.level)) return submitted;
    submitted.wake = opp_lane_wake(lane);
    return submitted;
}
