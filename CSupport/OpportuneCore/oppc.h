/*
 * The library's own definitions: a scheduler, its apps, their jobs, its workers. Private; what is public is
 * in opportune-core.h, the protocol of queues and pools in the core's opp_runq.h and opp_pool.h.
 *
 * Invariants
 *  A1  An app's `holds` counts its handles (its own, and one for each strand) and its jobs that are accepted
 *      and have not ended. Who takes the last one frees the app. Its record in the table stays, and is zeroed
 *      memory or a former app's before the core gives its index to an app.
 *  A2  A job is counted in `holds` first, then in `accepted`, and then queued. `accepted` only grows, also
 *      from app to app: see oppc_scheduler_wait().
 *  C1  Each entry that is queued once the scheduler is closed is found by the drain of who closed it, or its
 *      pusher sees `closed` (seq_cst, both) and drains itself.
 *  P1  Each pool has as many threads as run tokens, and all begin before oppc_scheduler_create() returns. So
 *      where a push finds a free token and nobody parked, one of the threads is awake and will look at the
 *      queues; OPP_WAKE_START needs no answer.
 */
#ifndef OPPC_H
#define OPPC_H

#include "opportune-core.h"

#include "opp_assert.h"
#include "opp_pool.h"
#include "opp_stats.h"
#include "opp_sync.h"
#include "opp_thread.h"

#include <pthread.h>

enum { POOLS = 2, PRIORITIES = 3 };

/* What the tag of an entry in the run queue says of its pointer. */
enum { ENTRY_JOB = 0, ENTRY_STRAND = 1 };

typedef struct oppc_job {
    oppc_function run;
    oppc_function cancelled;
    void *context;
    oppc_app *app;
    uint64_t queued_at; /* 0: its waiting is not measured */
} oppc_job;

typedef struct oppc_worker {
    oppc_scheduler *scheduler;
    opp_worker *raw;
    opp_producer *producer;
    pthread_t thread;
    uint16_t number; /* in its pool */
    uint8_t band;
    int error; /* of its start; read once it is counted in `ready` */
} oppc_worker;

#define HANDLE_BITS 24u
#define ONE_JOB (1ull << HANDLE_BITS)
#define HANDLES_MAX (ONE_JOB - 1)

struct oppc_app {
    /* Written by who creates the app, before anyone else has its handle. */
    oppc_scheduler *scheduler;
    opp_app *raw;
    opp_stats *stats; /* of waiting alone */
    char *name;
    uint64_t accepted_before; /* by former apps of this record */
    _Alignas(64) _Atomic(uint64_t) holds; /* jobs << HANDLE_BITS | handles */
    _Atomic(uint64_t) accepted;
    /* Statistics: every access is relaxed. */
    _Atomic(uint64_t) refused; /* accepted, and then there was no memory to queue it */
    _Atomic(uint64_t) cancelled;
    _Atomic(uint64_t) busy;
};

struct oppc_scheduler {
    opp_core *core;
    opp_pool *pool[POOLS]; /* by band */
    opp_stats *stats;      /* of waiting alone */
    oppc_app *apps;        /* by the core's index of the app */
    oppc_worker *workers;
    oppc_options options;  /* with the defaults filled in */
    char name[OPPC_NAME_MAX + 1];
    uint32_t started;          /* how many threads there are to join */
    _Atomic(uint32_t) ready;   /* how many of them have begun, or failed to */
    _Atomic(uint32_t) holds;   /* its own handle, and one for each app */
    _Atomic(uint32_t) app_count;
    _Atomic(uint32_t) closed;
    _Alignas(64) _Atomic(uint32_t) waiters;
    _Atomic(uint32_t) event; /* a futex, changed where a waiter may find what it waits for */
};

/* --- oppc_scheduler.c ------------------------------------------------------------------------- */

void oppc_scheduler_hold(oppc_scheduler *scheduler);
void oppc_scheduler_let_go(oppc_scheduler *scheduler);

/* The caller has changed, seq_cst, what somebody may wait for. */
void oppc_notify(oppc_scheduler *scheduler);

/* What a wait looks at: 0 or -errno ends it, 1 goes on. */
typedef int (*oppc_look)(void *subject);
int oppc_wait(oppc_scheduler *scheduler, oppc_look look, void *subject, int64_t timeout);

/* The worker of `scheduler` that the caller is, or NULL. */
oppc_worker *oppc_worker_here(const oppc_scheduler *scheduler);

static inline bool oppc_is_closed(const oppc_scheduler *scheduler) {
    return opp_load(&scheduler->closed, seq_cst) != 0; /* C1 */
}

/* Cancels what is queued. */
void oppc_drain(oppc_scheduler *scheduler);

/* The main function of a worker's thread, and its start. */
int oppc_worker_start(oppc_worker *worker, uint64_t stack_bytes);

/* Wakes as many workers as there are tokens for what is queued at `levels`. */
void oppc_wake_for(oppc_scheduler *scheduler, uint64_t levels);

/* --- oppc_app.c ------------------------------------------------------------------------------- */

bool oppc_app_add_handle(oppc_app *app);
void oppc_app_drop_handle(oppc_app *app);
/* Nothing holds it any more. */
void oppc_app_free(oppc_app *app);

/* --- oppc_job.c ------------------------------------------------------------------------------- */

/* Makes a job and counts it as accepted; NULL where memory is short. The caller queues it next, or refuses
 * it. */
oppc_job *oppc_job_make(oppc_app *app, oppc_function run, oppc_function cancelled, void *context);
void oppc_job_refuse(oppc_job *job);

/* Runs the job and frees it; returns when it ended. The app still counts it: oppc_job_ended() comes last. */
uint64_t oppc_job_run(oppc_job *job, uint8_t band, uint64_t begun);
void oppc_job_cancel(oppc_job *job);

/* The job is over. The app may be gone when this returns. */
void oppc_job_ended(oppc_app *app);

/* --- oppc_strand.c ---------------------------------------------------------------------------- */

/* The worker has taken an entry of the strand. Returns when its turn ended. */
uint64_t oppc_strand_run(oppc_strand *strand, oppc_worker *worker, const opp_taken *taken, uint64_t begun);
/* An entry of the strand was drained. */
void oppc_strand_cancel(oppc_strand *strand);

#endif
