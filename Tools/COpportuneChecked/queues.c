/* The run queue, its bags, and their targets. */
#include "checked.h"
#include "history.h"

CHECKED_CORE_BEGIN
#include "../../Sources/COpportune/app.c"
#include "../../Sources/COpportune/bag.c"
#include "../../Sources/COpportune/bag_strand.c"
#include "../../Sources/COpportune/core.c"
#include "../../Sources/COpportune/fifo.c"
#include "../../Sources/COpportune/pool.c"
#include "../../Sources/COpportune/push.c"
#include "../../Sources/COpportune/source.c"

/* The judges learn what takes give back. */
static int checked_give_back(opp_source *source, opp_app *app, int set, uint8_t rank, opp_job job) {
    history_back_begins(job.tag);
    int result = opp_app_give_back(source, app, set, rank, job);
    history_back_ends(job.tag, result);
    return result;
}

#define opp_app_give_back checked_give_back
#include "../../Sources/COpportune/take.c"
#undef opp_app_give_back
#include "../../Sources/COpportune/taker.c"

/* Workers take from a run queue, or, in target lane, from a number of jobs; the judge learns when they lie down and wake. */
static bool checked_has_ready(opp_core *core, uint64_t levels);
static uint64_t checked_ready_levels(const opp_core *core, uint64_t levels);
static bool checked_take(opp_taker *taker, uint64_t levels, opp_taken *taken);
static void checked_lie_down(opp_lane *lane, uint32_t slot);
static opp_woken checked_wake_up(opp_lane *lane, uint32_t slot);
static opp_woken checked_sleep(opp_lane *lane, uint32_t slot);
#define opp_has_ready checked_has_ready
#include "../../Sources/COpportune/lane.c"
#define opp_ready_levels checked_ready_levels
#define opp_take checked_take
#define opp_lane_lie_down checked_lie_down
#define opp_lane_wake_up checked_wake_up
#define opp_lane_sleep checked_sleep
#define opp_taker_rest(taker) ((taker) != NULL ? opp_taker_rest(taker) : (void)0)
#define opp_taker_join(taker, group) ((taker) != NULL ? opp_taker_join(taker, group) : (void)0)
#define opp_taker_end_turn(taker) ((taker) != NULL ? opp_taker_end_turn(taker) : (void)0)
#define opp_taker_should_rest(taker) ((taker) != NULL && opp_taker_should_rest(taker))
#include "../../Sources/COpportune/worker.c"
#undef opp_has_ready
#undef opp_ready_levels
#undef opp_take
#undef opp_lane_lie_down
#undef opp_lane_wake_up
#undef opp_lane_sleep
#undef opp_taker_rest
#undef opp_taker_join
#undef opp_taker_end_turn
#undef opp_taker_should_rest
CHECKED_CORE_END

#define ALL_LEVELS (~0ull)

/* Ranks 0 to 2 of each band stand at levels of their own, as far apart as the tests need. */
static const opp_core_config *core_config(bool stay, void (*on_ready)(void *, uint8_t),
                                          void (*on_quiet)(void *, opp_app *)) {
    static _Thread_local opp_core_config config;
    config = (opp_core_config){.max_apps = 3, .stay = stay, .on_ready = on_ready, .on_quiet = on_quiet};
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
static opp_source *source_of(opp_core *core) {
    opp_source *source;
    uint32_t refusals = oppx_refusals();
    for (; (source = opp_source_acquire(core, 0)) == NULL; refusals = oppx_refusals())
        if (oppx_refusals() == refusals) oppx_fail("there is no source, and memory was not short");
    return source;
}

static opp_taker *taker_of(opp_core *core, opp_source *own, const uint8_t *distance) {
    opp_taker *taker;
    uint32_t refusals = oppx_refusals();
    for (; (taker = opp_taker_create(core, own, distance)) == NULL; refusals = oppx_refusals())
        if (oppx_refusals() == refusals) oppx_fail("there is no taker, and memory was not short");
    return taker;
}

#include "queues_bag.h"
#include "queues_runq.h"
#include "queues_runq_judge.h"
#include "queues_lane.h"
#include "queues_lane_judge.h"
#include "queues_records.h"
