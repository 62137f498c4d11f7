/* Jobs: accepting, running and cancelling them. */
#include "oppc.h"

#include <stdlib.h>

oppc_job *oppc_job_make(oppc_app *app, oppc_function run, oppc_function cancelled, void *context) {
    oppc_job *job = malloc(sizeof *job);
    if (job == NULL) return NULL;
    *job = (oppc_job){.run = run, .cancelled = cancelled, .context = context, .app = app,
                      .queued_at = opp_stats_is_sample() ? opp_now_ns() : 0};
    /* A2, see is_idle(). */
    uint64_t before = opp_add(&app->holds, ONE_JOB, seq_cst);
    OPP_ASSERT((before & HANDLES_MAX) > 0);
    (void)before;
    opp_add(&app->accepted, 1, seq_cst);
    return job;
}

void oppc_job_refuse(oppc_job *job) {
    oppc_app *app = job->app;
    opp_add(&app->refused, 1, relaxed);
    free(job);
    oppc_job_ended(app);
}

void oppc_job_ended(oppc_app *app) {
    oppc_scheduler *scheduler = app->scheduler;
    /* seq_cst: before the look for waiters in oppc_notify(). release and acquire: as in
     * oppc_app_drop_handle(); and who has waited sees what the job did. */
    uint64_t before = opp_sub(&app->holds, ONE_JOB, seq_cst);
    OPP_ASSERT(before >= ONE_JOB);
    if (before >= 2 * ONE_JOB) return;
    /* From here on the app is another's, unless nothing holds it: then oppc_app_drop_handle() has left it to
     * this thread. The scheduler stays: this is one of its threads, or a caller with a handle. */
    if (before == ONE_JOB) oppc_app_free(app);
    oppc_notify(scheduler);
}

static void count_waiting(const oppc_job *job, uint8_t band, uint64_t begun) {
    uint64_t waited = begun > job->queued_at ? (begun - job->queued_at) / 1000 : 0;
    opp_stats_waited(job->app->stats, band, waited);
    opp_stats_waited(job->app->scheduler->stats, band, waited);
}

uint64_t oppc_job_run(oppc_job *job, uint8_t band, uint64_t begun) {
    oppc_job own = *job;
    free(job);
    if (own.queued_at != 0) count_waiting(&own, band, begun);
    own.run(own.context);
    uint64_t end = opp_now_ns();
    opp_add(&own.app->busy, end - begun, relaxed);
    return end;
}

void oppc_job_cancel(oppc_job *job) {
    oppc_job own = *job;
    free(job);
    opp_add(&own.app->cancelled, 1, relaxed);
    if (own.cancelled != NULL) own.cancelled(own.context);
    oppc_job_ended(own.app);
}

int oppc_submit_with(oppc_app *app, int priority, oppc_function run, oppc_function cancelled, void *context) {
    if (app == NULL || run == NULL || priority < 0 || priority >= PRIORITIES) return -EINVAL;
    oppc_scheduler *scheduler = app->scheduler;
    if (oppc_is_closed(scheduler)) return -ESHUTDOWN;
    int error = 0;
    opp_producer *producer = opp_thread_producer(scheduler->core, 0, &error);
    if (producer == NULL) return error;
    oppc_job *job = oppc_job_make(app, run, cancelled, context);
    if (job == NULL) return -ENOMEM;
    /* From here on the job may run, and may have released the app. */
    opp_submitted submitted =
        opp_submit(producer, app->raw, (uint8_t)priority, (opp_job){.ptr = job, .tag = ENTRY_JOB}, NULL);
    if (submitted.level < 0) {
        oppc_job_refuse(job);
        return submitted.level;
    }
    if (oppc_is_closed(scheduler)) oppc_drain(scheduler); /* C1 */
    return 0;
}

int oppc_submit(oppc_app *app, oppc_function run, void *context) {
    return oppc_submit_with(app, OPPC_PRIORITY_NORMAL, run, NULL, context);
}
