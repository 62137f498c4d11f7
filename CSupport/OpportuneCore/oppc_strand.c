/*
 * Strands: jobs one after the other.
 *
 * The jobs wait in a queue of the core, with one fifo for each thread that submits. An entry in the app's run
 * queue, the *token*, says that the strand has something to do. A worker that takes a token becomes the
 * *runner*, unless the strand has one.
 *
 * Invariants, as of the Swift layer's Strand
 *  S1  At most one thread is the runner: the one that changed `state` to running.
 *  S2  After a push, a token is queued and will be taken later, or there is a runner, which looks at the
 *      queue once more after it has left. A pusher, or a leaving runner, relies on another thread's token
 *      only while that is in the run queue (`posted`). So a thread that is stopped in between hides no
 *      other's job. Tokens may therefore be queued twice; who finds nothing to do drops its token.
 *  S3  `holds` counts the handle, each token, and each submission in progress. The strand has a handle of its
 *      app until it is freed.
 */
#include "oppc.h"

#include <stdlib.h>

/* `state`: two flags, and above them a number that grows with each run. With it, a pusher that comes late
 * cannot set `posted` for a token that was taken already. */
enum { POSTED = 1, RUNNING = 2, RUN = 4 };

/* How long a strand keeps a worker before its token goes to the back of the queue. */
static const uint64_t turn_ns = 200000;

struct oppc_strand {
    oppc_app *app;
    opp_queue *queue;
    uint8_t rank;
    _Atomic(uint32_t) holds;
    _Alignas(64) _Atomic(uint64_t) state;
    _Atomic(uint64_t) runner; /* the number of the thread that runs it, or 0 */
};

/* --- Handles ---------------------------------------------------------------------------------------- */

int oppc_strand_create(oppc_app *app, int priority, oppc_strand **result) {
    if (result == NULL) return -EINVAL;
    *result = NULL;
    if (app == NULL || priority < 0 || priority >= PRIORITIES) return -EINVAL;
    if (oppc_is_closed(app->scheduler)) return -ESHUTDOWN;
    oppc_strand *strand = aligned_alloc(64, sizeof *strand);
    opp_queue *queue = strand == NULL ? NULL : opp_queue_create(app->scheduler->core);
    if (queue == NULL) {
        free(strand);
        return -ENOMEM;
    }
    if (!oppc_app_add_handle(app)) {
        opp_queue_destroy(queue, NULL, NULL);
        free(strand);
        return -ENOSPC;
    }
    strand->app = app;
    strand->queue = queue;
    strand->rank = (uint8_t)priority;
    atomic_init(&strand->holds, 1);
    atomic_init(&strand->state, 0);
    atomic_init(&strand->runner, 0);
    *result = strand;
    return 0;
}

static void strand_hold(oppc_strand *strand) {
    opp_add(&strand->holds, 1, relaxed); /* relaxed: the caller has a hold already */
}

static void strand_let_go(oppc_strand *strand) {
    /* [strand-holds] release: this thread's accesses come before its decrement. acquire: who takes the last
     * one sees all of them before it frees. Pairs with this operation in other threads. */
    uint32_t before = opp_sub(&strand->holds, 1, acq_rel);
    OPP_ASSERT(before > 0);
    if (before != 1) return;
    /* By S2 nothing is queued: a job has a token, or a runner, which has one. */
    OPP_ASSERT(opp_queue_is_empty(strand->queue));
    oppc_app *app = strand->app;
    opp_queue_destroy(strand->queue, NULL, NULL);
    free(strand);
    oppc_app_drop_handle(app);
}

void oppc_strand_release(oppc_strand *strand) {
    if (strand != NULL) strand_let_go(strand);
}

bool oppc_strand_is_current(const oppc_strand *strand) {
    /* relaxed: a thread reads its own number only where it stored it itself */
    return strand != NULL && opp_load(&strand->runner, relaxed) == opp_thread_number();
}

/* --- The runner ------------------------------------------------------------------------------------- */

/* Makes the caller the runner; false if there is one. `takes_own`: the caller has taken a token out of the
 * run queue. */
static bool strand_begin(oppc_strand *strand, bool takes_own) {
    uint64_t word = opp_load(&strand->state, relaxed);
    for (;;) {
        uint64_t kept = takes_own ? word & ~(uint64_t)POSTED : word;
        bool is_free = (word & RUNNING) == 0;
        uint64_t next = is_free ? (kept + RUN) | RUNNING : kept;
        if (next == word) return false;
        /* [run] seq_cst, which acquires what the last runner did: pairs with strand_leave(). Either that sees
         * that the token was taken, or this sees that the runner has left. */
        if (!opp_cas(&strand->state, &word, next, seq_cst)) continue;
        if (is_free) opp_store(&strand->runner, opp_thread_number(), relaxed); /* see ..._is_current() */
        return is_free;
    }
}

/* The caller is the runner no more. Returns the new state. */
static uint64_t strand_leave(oppc_strand *strand) {
    opp_store(&strand->runner, 0, relaxed);
    /* [run] seq_cst: precedes the caller's last look at the queue; a pusher's entry precedes its load of the
     * state. release: publishes what the jobs did to the next runner. */
    return opp_and(&strand->state, ~(uint64_t)RUNNING, seq_cst) & ~(uint64_t)RUNNING;
}

/* Cancels what is queued, once the scheduler is closed. Where there is a runner, that does it as it
 * leaves. */
static void strand_abandon(oppc_strand *strand) {
    while (!opp_queue_is_empty(strand->queue) && strand_begin(strand, false)) {
        opp_job entry;
        while (opp_queue_take(strand->queue, &entry)) oppc_job_cancel(entry.ptr);
        (void)strand_leave(strand);
    }
}

/* Queues a token; the caller has a hold of its own. False where memory is short. */
static bool strand_post(oppc_strand *strand, opp_producer *producer, uint64_t seen) {
    oppc_scheduler *scheduler = strand->app->scheduler;
    strand_hold(strand); /* the token's */
    opp_job token = {.ptr = strand, .tag = ENTRY_STRAND};
    if (opp_submit(producer, strand->app->raw, strand->rank, token, NULL).level < 0) {
        strand_let_go(strand);
        return false;
    }
    /* A hint for later pushers, unless the strand has run meanwhile. release: the token is queued before. */
    if (!(seen & (POSTED | RUNNING))) opp_cas(&strand->state, &seen, seen | POSTED, release);
    if (oppc_is_closed(scheduler)) oppc_drain(scheduler); /* C1 */
    return true;
}

/* After a turn: sees to it that what remains is run. False where there is no memory for a token: then the
 * caller is the runner again, and goes on. */
static bool strand_settle(oppc_strand *strand, opp_producer *producer) {
    uint64_t word = strand_leave(strand);
    if (word & POSTED || opp_queue_is_empty(strand->queue)) return true;
    if (oppc_is_closed(strand->app->scheduler)) {
        strand_abandon(strand);
        return true;
    }
    return strand_post(strand, producer, word) || !strand_begin(strand, false);
}

/* Whether the strand must not go on here: its app is suspended, or has moved to the other pool. */
static bool must_leave(const oppc_strand *strand, const opp_taken *taken) {
    opp_app_state state = opp_app_state_read(strand->app->raw);
    /* relaxed: the worker sees it sooner or later; see work() */
    return state.suspended || state.band != taken->band ||
        opp_load(&strand->app->scheduler->closed, relaxed) != 0;
}

static uint64_t strand_turn(oppc_strand *strand, const opp_taken *taken, uint64_t begun) {
    uint64_t until = begun + turn_ns;
    opp_job entry;
    while (opp_queue_take(strand->queue, &entry)) {
        begun = oppc_job_run(entry.ptr, taken->band, begun);
        oppc_job_ended(strand->app);
        if (begun > until || must_leave(strand, taken)) break;
    }
    return begun;
}

uint64_t oppc_strand_run(oppc_strand *strand, oppc_worker *worker, const opp_taken *taken, uint64_t begun) {
    if (strand_begin(strand, true)) {
        do {
            begun = strand_turn(strand, taken, begun);
            /* Where there is no memory the strand runs on, even if its app was suspended: late is better than
             * never, as in opp_take(). */
        } while (!strand_settle(strand, worker->producer));
    }
    strand_let_go(strand); /* the token's */
    return begun;
}

void oppc_strand_cancel(oppc_strand *strand) {
    if (strand_begin(strand, true)) {
        opp_job entry;
        while (opp_queue_take(strand->queue, &entry)) oppc_job_cancel(entry.ptr);
        (void)strand_leave(strand);
        strand_abandon(strand);
    }
    strand_let_go(strand); /* the token's */
}

/* --- Submitting ------------------------------------------------------------------------------------- */

/* An entry was pushed: see S2. */
static void strand_show(oppc_strand *strand, opp_producer *producer) {
    oppc_scheduler *scheduler = strand->app->scheduler;
    for (;;) {
        /* [run] seq_cst: the push precedes this load. A runner looks at the queue after it has left, so one
         * of the two sees the other. */
        uint64_t word = opp_load(&strand->state, seq_cst);
        if (word & (POSTED | RUNNING) || strand_post(strand, producer, word)) break;
        if (oppc_is_closed(scheduler)) {
            strand_abandon(strand); /* C1: there is no token for the drain to find */
            break;
        }
        /* The job cannot be taken back, and must not be lost: wait for memory, a millisecond at a time. */
        struct timespec pause = {.tv_nsec = 1000000};
        nanosleep(&pause, NULL);
    }
}

int oppc_strand_submit_with(oppc_strand *strand, oppc_function run, oppc_function cancelled, void *context) {
    if (strand == NULL || run == NULL) return -EINVAL;
    oppc_app *app = strand->app;
    if (oppc_is_closed(app->scheduler)) return -ESHUTDOWN;
    int error = 0;
    opp_producer *producer = opp_thread_producer(app->scheduler->core, 0, &error);
    if (producer == NULL) return error;
    oppc_job *job = oppc_job_make(app, run, cancelled, context);
    if (job == NULL) return -ENOMEM;
    strand_hold(strand); /* the job may release the handle before this call returns */
    int result = opp_queue_push(strand->queue, producer, (opp_job){.ptr = job, .tag = ENTRY_JOB});
    if (result < 0) oppc_job_refuse(job);
    else strand_show(strand, producer);
    strand_let_go(strand);
    return result;
}

int oppc_strand_submit(oppc_strand *strand, oppc_function run, void *context) {
    return oppc_strand_submit_with(strand, run, NULL, context);
}
