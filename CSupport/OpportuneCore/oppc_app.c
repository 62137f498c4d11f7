/* Apps: their records, bands, suspension, waits and figures. */
#include "oppc.h"
#include "runq.h"

#include <stdlib.h>
#include <string.h>

/* --- Records -------------------------------------------------------------------------------------- */

/* Takes one of the places for apps. */
static bool place_take(oppc_scheduler *scheduler) {
    uint32_t count = opp_load(&scheduler->app_count, relaxed);
    do {
        if (count >= scheduler->options.max_apps) return false;
        /* relaxed: only a count */
    } while (!opp_cas(&scheduler->app_count, &count, count + 1, relaxed));
    return true;
}

static void place_return(oppc_scheduler *scheduler) {
    opp_sub(&scheduler->app_count, 1, relaxed); /* relaxed: only a count */
}

static int app_fill(oppc_scheduler *scheduler, const char *name, int band, oppc_app **result) {
    char *copy = strdup(name == NULL ? "" : name);
    opp_stats *stats = opp_stats_create();
    opp_app *raw = NULL;
    if (copy != NULL && stats != NULL) raw = opp_app_create(scheduler->core, (uint8_t)band, false);
    if (raw == NULL) {
        free(copy);
        if (stats != NULL) opp_stats_destroy(stats);
        return -ENOMEM;
    }
    /* The core has made the index ours with acquire, and so the record. */
    oppc_app *app = &scheduler->apps[raw->index];
    app->scheduler = scheduler;
    app->raw = raw;
    app->stats = stats;
    app->name = copy;
    /* relaxed, all of these: nobody else counts here yet. */
    app->accepted_before = opp_load(&app->accepted, relaxed);
    opp_store(&app->refused, 0, relaxed);
    opp_store(&app->cancelled, 0, relaxed);
    opp_store(&app->busy, 0, relaxed);
    opp_store(&app->holds, 1, relaxed);
    *result = app;
    return 0;
}

int oppc_app_create(oppc_scheduler *scheduler, const char *name, int band, oppc_app **app) {
    if (app == NULL) return -EINVAL;
    *app = NULL;
    if (scheduler == NULL || band < 0 || band >= POOLS) return -EINVAL;
    if (name != NULL && strnlen(name, OPPC_NAME_MAX + 1) > OPPC_NAME_MAX) return -EINVAL;
    if (oppc_is_closed(scheduler)) return -ESHUTDOWN;
    if (!place_take(scheduler)) return -ENOSPC;
    int result = app_fill(scheduler, name, band, app);
    if (result < 0) place_return(scheduler);
    else oppc_scheduler_hold(scheduler);
    return result;
}

void oppc_app_free(oppc_app *app) {
    oppc_scheduler *scheduler = app->scheduler;
    free(app->name);
    opp_stats_destroy(app->stats);
    opp_app_destroy(app->raw); /* from here on the record may be another app's */
    place_return(scheduler);
    oppc_scheduler_let_go(scheduler);
}

bool oppc_app_add_handle(oppc_app *app) {
    uint64_t holds = opp_load(&app->holds, relaxed);
    do {
        OPP_ASSERT((holds & HANDLES_MAX) > 0);
        if ((holds & HANDLES_MAX) == HANDLES_MAX) return false;
        /* relaxed: the caller has a handle already */
    } while (!opp_cas(&app->holds, &holds, holds + 1, relaxed));
    return true;
}

void oppc_app_drop_handle(oppc_app *app) {
    /* [app-holds] release: this thread's accesses come before its decrement. acquire: who takes the last hold
     * sees all of them before it frees. Pairs with this operation and oppc_job_ended() in other threads. */
    uint64_t before = opp_sub(&app->holds, 1, acq_rel);
    OPP_ASSERT((before & HANDLES_MAX) > 0);
    if (before == 1) oppc_app_free(app);
}

void oppc_app_release(oppc_app *app) {
    if (app != NULL) oppc_app_drop_handle(app);
}

const char *oppc_app_name(const oppc_app *app) {
    return app == NULL ? "" : app->name;
}

/* --- Band and suspension ---------------------------------------------------------------------------- */

int oppc_app_set_band(oppc_app *app, int band) {
    if (app == NULL || band < 0 || band >= POOLS) return -EINVAL;
    if (opp_app_set_band(app->raw, (uint8_t)band)) oppc_wake_for(app->scheduler, opp_app_levels(app->raw));
    return 0;
}

int oppc_app_band(const oppc_app *app) {
    return app == NULL ? -EINVAL : opp_app_state_read(app->raw).band;
}

int oppc_app_suspend(oppc_app *app) {
    if (app == NULL) return -EINVAL;
    (void)opp_app_suspend(app->raw);
    return 0;
}

int oppc_app_resume(oppc_app *app) {
    if (app == NULL) return -EINVAL;
    if (!opp_app_resume(app->raw)) return 0;
    oppc_wake_for(app->scheduler, opp_app_levels(app->raw));
    oppc_notify(app->scheduler); /* who waits for it to be quiet waits in vain */
    return 0;
}

bool oppc_app_is_suspended(const oppc_app *app) {
    return app != NULL && opp_app_is_suspended(app->raw);
}

/* --- Waits ------------------------------------------------------------------------------------------ */

static int is_quiet(void *subject) {
    const oppc_app *app = subject;
    if (!opp_app_is_suspended(app->raw)) return -EAGAIN;
    return opp_app_running(app->raw) == 0 ? 0 : 1;
}

int oppc_app_wait_quiet(oppc_app *app, int64_t timeout) {
    if (app == NULL) return -EINVAL;
    if (oppc_worker_here(app->scheduler) != NULL) return -EDEADLK;
    return oppc_wait(app->scheduler, is_quiet, app, timeout);
}

static int is_idle(void *subject) {
    const oppc_app *app = subject;
    return opp_load(&app->holds, seq_cst) < ONE_JOB ? 0 : 1; /* see oppc_job_ended() */
}

int oppc_app_wait(oppc_app *app, int64_t timeout) {
    if (app == NULL) return -EINVAL;
    if (oppc_worker_here(app->scheduler) != NULL) return -EDEADLK;
    return oppc_wait(app->scheduler, is_idle, app, timeout);
}
