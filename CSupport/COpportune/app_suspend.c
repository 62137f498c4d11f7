/*
 * The state word of an app: suspending it, resuming it, and changing its band.
 *
 * The jobs of a suspended app wait where they were pushed, in its own queues. A take passes the app over
 * (app_take() in take.c); a job that was taken while the app was suspended returns to the front of its rank
 * (opp_app_give_back() in push.c). Resuming sets the ready bits above what is queued. Why a suspender sees
 * every consumer that goes on is said under "Suspension" in runq.h.
 */
#include "runq.h"

opp_app_state opp_app_state_read(const opp_app *app) {
    /* acquire: pairs with app_step(). A thread that sees the new state sees what happened before the
     * change. */
    uint64_t state = opp_load(&app->state, acquire);
    return (opp_app_state){.band = state_band(state), .suspended = state & STATE_SUSPENDED,
                           .generation = state / STATE_STEP};
}

bool opp_app_is_suspended(const opp_app *app) {
    /* seq_cst: after the caller's announcement. app_step() precedes the suspender's read of the
     * announcements. */
    return opp_load(&app->state, seq_cst) & STATE_SUSPENDED;
}

/* Sets the ready bits of every level at which `app` has jobs. Called after a step that may have made some
 * ready. */
static void app_show(opp_app *app) {
    for (uint64_t levels = opp_app_levels(app); levels != 0; levels &= levels - 1)
        opp_app_show_at(app, (unsigned)__builtin_ctzll(levels));
}

/* The only function that changes the word: (old & ~clear) | set, and the next generation. */
static bool app_step(opp_app *app, uint64_t clear, uint64_t set) {
    OPP_ASSERT((clear | set) < STATE_STEP);
    uint64_t state = opp_load(&app->state, relaxed);
    uint64_t next;
    do {
        next = (state & ~clear) | set;
        if (next == state) return false;
        next += STATE_STEP;
        OPP_ASSERT(next > state); /* the generation grows */
        OPP_ASSERT(state_band(next) < OPP_BANDS);
        /* [state] seq_cst: precedes this thread's reads of ready bits and announcements in the total order
         * of the essay in runq.h. release: a thread that acts on the new state sees what the caller did
         * before. */
    } while (!opp_cas(&app->state, &state, next, seq_cst));
    return true;
}

bool opp_app_suspend(opp_app *app) {
    return app_step(app, 0, STATE_SUSPENDED);
}

bool opp_app_resume(opp_app *app) {
    if (!app_step(app, STATE_SUSPENDED, 0)) return false;
    app_show(app);
    return true;
}

bool opp_app_set_band(opp_app *app, uint8_t band) {
    if (band >= OPP_BANDS || !app_step(app, STATE_BAND, band)) return false;
    app_show(app);
    return true;
}

uint32_t opp_app_running(const opp_app *app) {
    uint32_t count = 0;
    /* [consumers] acquire: pairs with opp_consumer_create(). seq_cst: a consumer that is not in this list yet
     * announces its app later in the total order, and then sees the suspension. */
    for (opp_consumer *consumer = opp_load(&app->core->consumers,
                                           seq_cst); consumer != NULL; consumer = consumer->next)
        count += opp_load(&consumer->current, seq_cst) == app; /* [announce] see "Suspension" */
    return count;
}
