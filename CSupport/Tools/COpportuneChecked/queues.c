/* The run queue, its queues, and their targets. */
#include "checked.h"
#include "history.h"

CHECKED_CORE_BEGIN
#include "../../COpportune/app.c"
#include "../../COpportune/app_suspend.c"
#include "../../COpportune/queue.c"
#include "../../COpportune/queue_strand.c"
#include "../../COpportune/core.c"
#include "../../COpportune/fifo.c"
#include "../../COpportune/segments.c"
#include "../../COpportune/push.c"
#include "../../COpportune/producer.c"

/* The judges learn what takes give back. */
static int checked_give_back(opp_producer *producer, opp_app *app, uint8_t rank, opp_job job) {
    history_back_begins(job.tag);
    int result = opp_app_give_back(producer, app, rank, job);
    history_back_ends(job.tag, result);
    return result;
}

#define opp_app_give_back checked_give_back
#include "../../COpportune/take.c"
#undef opp_app_give_back
#include "../../COpportune/consumer.c"

#include "../../COpportune/alarms.c"
#include "../../COpportune/worker_pool.h"

/* Workers take from a run queue, or, in target pool, from a number of jobs; the judge learns when they
 * park and wake. */
static bool checked_has_ready(opp_core *core, uint64_t levels);
static uint64_t checked_ready_levels(const opp_core *core, uint64_t levels);
static bool checked_take(opp_consumer *consumer, uint64_t levels, opp_taken *taken);
static void checked_prepare_park(opp_pool *pool, uint32_t slot);
static opp_woken checked_cancel_park(opp_pool *pool, uint32_t slot);
static opp_woken checked_park(opp_pool *pool, uint32_t slot);
static bool checked_try_rise(opp_pool *pool, uint32_t slot, opp_woken *woken);
#define opp_has_ready checked_has_ready
#include "../../COpportune/readiness.c"
#include "../../COpportune/worker_pool.c"
#include "../../COpportune/worker_park.c"
#define opp_ready_levels checked_ready_levels
#define opp_take checked_take
#define opp_pool_prepare_park checked_prepare_park
#define opp_pool_cancel_park checked_cancel_park
#define opp_pool_park checked_park
#define opp_pool_try_rise checked_try_rise
#define opp_consumer_leave_app(consumer) ((consumer) != NULL ? opp_consumer_leave_app(consumer) : (void)0)
#define opp_consumer_set_group(consumer, group) \
    ((consumer) != NULL ? opp_consumer_set_group(consumer, group) : (void)0)
#define opp_consumer_end_turn(consumer) ((consumer) != NULL ? opp_consumer_end_turn(consumer) : (void)0)
#define opp_consumer_should_leave_app(consumer) \
    ((consumer) != NULL && opp_consumer_should_leave_app(consumer))
#include "../../COpportune/worker.c"
#undef opp_has_ready
#undef opp_ready_levels
#undef opp_take
#undef opp_pool_prepare_park
#undef opp_pool_cancel_park
#undef opp_pool_park
#undef opp_pool_try_rise
#undef opp_consumer_leave_app
#undef opp_consumer_set_group
#undef opp_consumer_end_turn
#undef opp_consumer_should_leave_app
CHECKED_CORE_END

#define ALL_LEVELS (~0ull)

/* Ranks 0 to 2 of each band stand at levels of their own, as far apart as the tests need. */
static const opp_core_config *core_config(void (*on_ready)(void *, uint8_t),
                                          void (*on_quiet)(void *, opp_app *)) {
    static _Thread_local opp_core_config config;
    config = (opp_core_config){.max_apps = 3, .on_ready = on_ready, .on_quiet = on_quiet};
    for (int band = 0; band < OPP_BANDS; band++)
        for (int rank = 0; rank < OPP_RANKS; rank++)
            config.level_of[band][rank] = (uint8_t)(band * 20 + (rank < 2 ? 2 - rank : 0));
    return &config;
}

static opp_core *core_of(const opp_core_config *config) {
    opp_core *core;
    if (opp_core_create(config, &core) != 0) oppx_fail("the core cannot be made");
    return core;
}

/* Nobody can go on without: asks again. */
static opp_producer *producer_of(opp_core *core) {
    opp_producer *producer;
    uint32_t refusals = oppx_refusals();
    for (; (producer = opp_producer_acquire(core, 0)) == NULL; refusals = oppx_refusals())
        if (oppx_refusals() == refusals) oppx_fail("there is no producer, and memory was not short");
    return producer;
}

static opp_consumer *consumer_of(opp_core *core, opp_producer *own, const uint8_t *distance) {
    opp_consumer *consumer;
    uint32_t refusals = oppx_refusals();
    for (; (consumer = opp_consumer_create(core, own, distance)) == NULL; refusals = oppx_refusals())
        if (oppx_refusals() == refusals) oppx_fail("there is no consumer, and memory was not short");
    return consumer;
}

#include "queues_strand.h"
#include "queues_runq.h"
#include "queues_runq_judge.h"
#include "queues_pool.h"
#include "queues_pool_judge.h"
#include "queues_records.h"
