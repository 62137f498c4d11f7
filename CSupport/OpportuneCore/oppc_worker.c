/* A worker: the thread that takes jobs, runs them, and parks where there are none. */
#include "oppc.h"
#include "opp_system.h"
#include "thread_create.h"

#include <stdio.h>
#include <stdlib.h>

oppc_worker *oppc_worker_here(const oppc_scheduler *scheduler) {
    oppc_worker *worker = opp_thread_worker();
    return worker != NULL && worker->scheduler == scheduler ? worker : NULL;
}

/* --- Kernel priority ------------------------------------------------------------------------------ */

/* The foreground's: as the program's own threads, with the shortest slice, which is a hint. */
static void apply_foreground(void) {
    opp_sched_params params;
    if (opp_thread_get_sched(0, &params) < 0 || params.policy != OPP_CLASS_NORMAL) return;
    params.slice_ns = OPP_SLICE_NS_MIN;
    (void)opp_thread_set_sched(0, &params);
}

static int apply_background(uint32_t class) {
    opp_sched_params params = {.policy = OPP_CLASS_IDLE};
    if (class == OPPC_CLASS_NORMAL) return 0;
    if (class == OPPC_CLASS_NICE19)
        params = (opp_sched_params){.policy = OPP_CLASS_NORMAL, .nice = 19, .slice_ns = OPP_SLICE_NS_MAX};
    return opp_thread_set_sched(0, &params);
}

/* --- The thread ----------------------------------------------------------------------------------- */

static uint64_t execute(oppc_worker *worker, const opp_taken *taken, uint64_t last_end) {
    uint64_t begun = last_end != 0 ? last_end : opp_now_ns();
    if (taken->job.tag == ENTRY_STRAND) {
        uint64_t end = oppc_strand_run(taken->job.ptr, worker, taken, begun);
        (void)opp_worker_job_ended(worker->raw);
        return end;
    }
    oppc_job *job = taken->job.ptr;
    oppc_app *app = job->app;
    uint64_t end = oppc_job_run(job, taken->band, begun);
    /* First, so that who waits until a suspended app is quiet finds the job counted as run. The worker may
     * still announce the app, which was freed: that is for comparison only, and the core keeps its memory. */
    oppc_job_ended(app);
    (void)opp_worker_job_ended(worker->raw);
    return end;
}

static void work(oppc_worker *worker) {
    opp_taken taken;
    uint64_t last_end = 0;
    /* relaxed: oppc_scheduler_destroy() waits for this thread, which sees it sooner or later. */
    while (opp_load(&worker->scheduler->closed, relaxed) == 0) {
        switch (opp_worker_next(worker->raw, last_end, false, &taken)) {
        case OPP_NEXT_JOB: last_end = execute(worker, &taken, last_end); break;
        case OPP_NEXT_PARK:
            last_end = 0;
            if (opp_worker_park(worker->raw) == OPP_PARKED_ENDS) return;
            break;
        case OPP_NEXT_RAISE: OPP_ASSERT(false); break; /* only of a thread that was lowered */
        }
    }
    opp_worker_end(worker->raw);
}

static void *worker_main(void *argument) {
    oppc_worker *worker = argument;
    oppc_scheduler *scheduler = worker->scheduler;
    opp_thread_set_worker(worker);
    (void)opp_thread_set_timer_slack(1);
    int error = 0;
    if (worker->band == OPPC_FOREGROUND) apply_foreground();
    else error = apply_background(scheduler->options.background_class);
    opp_consumer *consumer = NULL;
    if (error == 0) worker->producer = opp_thread_producer(scheduler->core, 0, &error);
    if (error == 0 && (consumer = opp_consumer_create(scheduler->core, worker->producer, NULL)) == NULL)
        error = -ENOMEM;
    worker->error = error;
    /* [ready] release: pairs with all_are_ready(). seq_cst: before oppc_notify() looks for a waiter. */
    opp_add(&scheduler->ready, 1, seq_cst);
    oppc_notify(scheduler);
    if (consumer != NULL) {
        opp_worker_begin(worker->raw, consumer);
        work(worker);
        opp_consumer_destroy(consumer);
    }
    opp_thread_set_worker(NULL);
    return NULL;
}

int oppc_worker_start(oppc_worker *worker, uint64_t stack_bytes) {
    int result = opp_thread_create(&worker->thread, stack_bytes, worker_main, worker);
    if (result == 0) {
        char name[16]; /* what the kernel keeps */
        snprintf(name, sizeof name, "%.9s-%c%u", worker->scheduler->name,
                 worker->band == OPPC_FOREGROUND ? 'f' : 'b', worker->number % 10000u);
        pthread_setname_np(worker->thread, name);
    }
    return result;
}
