/* The scheduler as a whole: creation, end, waits, and the figures of its pools. */
#include "oppc.h"
#include "mapping.h"
#include "runq.h"
#include "topology.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The levels of a band, three of them, by priority: the foreground's above the background's. The core knows a
 * third band, real time, in which no app is ever created here. */
static uint64_t levels_of(int band) {
    return ((1ull << PRIORITIES) - 1) << (PRIORITIES * band);
}

static uint8_t level_of_rank(int band, int rank) {
    int below_top = rank < PRIORITIES ? rank : PRIORITIES - 1;
    return (uint8_t)(PRIORITIES * ((band < POOLS ? band : POOLS - 1) + 1) - 1 - below_top);
}

uint32_t oppc_version(void) {
    return OPPC_VERSION;
}

/* --- Options ------------------------------------------------------------------------------------ */

static bool options_are_valid(const oppc_options *options) {
    return options->foreground_workers <= OPPC_WORKERS_MAX &&
        options->background_workers <= OPPC_WORKERS_MAX &&
        options->background_class <= OPPC_CLASS_NORMAL && options->max_apps <= OPPC_APPS_MAX &&
        options->reserved == 0 && options->stack_bytes <= SIZE_MAX / 2 &&
        (options->name == NULL || strnlen(options->name, OPPC_NAME_MAX + 1) <= OPPC_NAME_MAX);
}

/* How many jobs the CPUs can run at once; 1 where that cannot be read. */
static int read_width(uint32_t *width) {
    opp_topology *topology = malloc(sizeof *topology);
    if (topology == NULL) return -ENOMEM;
    *width = opp_topology_read(topology) == 0 ? opp_topology_width(topology) : 1;
    free(topology);
    return 0;
}

static uint32_t at_most(uint32_t value, uint32_t most) {
    return value < most ? value : most;
}

/* Copies as much as the caller's header knew of, checks it and fills in the defaults. */
static int options_read(const oppc_options *given, oppc_options *options) {
    *options = (oppc_options){.size = sizeof *options};
    if (given != NULL) {
        /* An older header's options are shorter. A newer one's may say what this library does not know. */
        if (given->size < sizeof given->size || given->size > sizeof *options) return -EINVAL;
        memcpy(options, given, given->size);
    }
    if (!options_are_valid(options)) return -EINVAL;
    if (options->foreground_workers == 0 || options->background_workers == 0) {
        uint32_t width = 1;
        if (read_width(&width) != 0) return -ENOMEM;
        if (options->foreground_workers == 0)
            options->foreground_workers = at_most(2 * width, OPPC_WORKERS_MAX);
        if (options->background_workers == 0) options->background_workers = at_most(width, OPPC_WORKERS_MAX);
    }
    if (options->max_apps == 0) options->max_apps = 1024;
    return 0;
}

/* --- Creation ----------------------------------------------------------------------------------- */

/* A take was overtaken by a step of its app, and has returned its job. */
static void is_ready(void *context, uint8_t level) {
    oppc_scheduler *scheduler = context;
    OPP_ASSERT(level < POOLS * PRIORITIES);
    (void)opp_pool_notify(scheduler->pool[level / PRIORITIES]); /* P1 */
}

/* The last worker has left a suspended app. */
static void is_quiet(void *context, opp_app *app) {
    (void)app;
    oppc_notify(context);
}

static int pools_create(oppc_scheduler *scheduler) {
    uint32_t workers[POOLS] = {[OPPC_BACKGROUND] = scheduler->options.background_workers,
                               [OPPC_FOREGROUND] = scheduler->options.foreground_workers};
    for (int band = 0; band < POOLS; band++) {
        opp_pool *pool = opp_pool_create(workers[band]);
        if (pool == NULL) return -ENOMEM;
        scheduler->pool[band] = pool;
        opp_pool_set_levels(pool, levels_of(band), 0, 0);
        opp_pool_serve(pool, scheduler->core, NULL, 0);
    }
    return 0;
}

/* Everything but the threads. What was made is freed by scheduler_free(). */
static int scheduler_fill(oppc_scheduler *scheduler) {
    const oppc_options *options = &scheduler->options;
    opp_core_config config = {.max_apps = options->max_apps, .context = scheduler, .on_ready = is_ready,
                              .on_quiet = is_quiet};
    for (int band = 0; band < OPP_BANDS; band++)
        for (int rank = 0; rank < OPP_RANKS; rank++) config.level_of[band][rank] = level_of_rank(band, rank);
    int result = opp_core_create(&config, &scheduler->core);
    if (result < 0) return result;
    if ((scheduler->apps = opp_map(options->max_apps * sizeof(oppc_app))) == NULL) return -ENOMEM;
    if ((scheduler->stats = opp_stats_create()) == NULL) return -ENOMEM;
    size_t workers = (size_t)options->foreground_workers + options->background_workers;
    if ((scheduler->workers = calloc(workers, sizeof(oppc_worker))) == NULL) return -ENOMEM;
    return pools_create(scheduler);
}

static void scheduler_free(oppc_scheduler *scheduler) {
    /* No app is left, and so no job and no strand. */
    if (scheduler->core != NULL) opp_core_destroy(scheduler->core, NULL, NULL);
    for (int band = 0; band < POOLS; band++)
        if (scheduler->pool[band] != NULL) opp_pool_destroy(scheduler->pool[band]);
    if (scheduler->apps != NULL) opp_unmap(scheduler->apps, scheduler->options.max_apps * sizeof(oppc_app));
    if (scheduler->stats != NULL) opp_stats_destroy(scheduler->stats);
    free(scheduler->workers);
    free(scheduler);
}

static int all_are_ready(void *subject) {
    const oppc_scheduler *scheduler = subject;
    /* [ready] acquire: pairs with worker_main(); the error of each worker was stored. */
    return opp_load(&scheduler->ready, acquire) == scheduler->started ? 0 : 1;
}

/* Starts the workers, and waits until each has what it needs. */
static int workers_start(oppc_scheduler *scheduler) {
    const oppc_options *options = &scheduler->options;
    uint32_t count = options->foreground_workers + options->background_workers;
    int result = 0;
    for (uint32_t i = 0; i < count && result == 0; i++) {
        bool is_foreground = i < options->foreground_workers;
        uint32_t number = is_foreground ? i : i - options->foreground_workers;
        oppc_worker *worker = &scheduler->workers[i];
        *worker = (oppc_worker){.scheduler = scheduler, .number = (uint16_t)number,
                                .band = is_foreground ? OPPC_FOREGROUND : OPPC_BACKGROUND};
        worker->raw = opp_pool_worker(scheduler->pool[worker->band], number);
        result = oppc_worker_start(worker, options->stack_bytes);
        if (result == 0) scheduler->started++;
    }
    (void)oppc_wait(scheduler, all_are_ready, scheduler, -1);
    for (uint32_t i = 0; i < scheduler->started && result == 0; i++) result = scheduler->workers[i].error;
    return result;
}

/* Lets nothing begin any more, and waits for the end of all threads. */
static void scheduler_close(oppc_scheduler *scheduler) {
    opp_store(&scheduler->closed, 1, seq_cst); /* C1 */
    for (int band = 0; band < POOLS; band++) opp_pool_close(scheduler->pool[band]);
    for (uint32_t i = 0; i < scheduler->started; i++) pthread_join(scheduler->workers[i].thread, NULL);
}

int oppc_scheduler_create(const oppc_options *given, oppc_scheduler **result) {
    if (result == NULL) return -EINVAL;
    *result = NULL;
    oppc_options options;
    int error = options_read(given, &options);
    if (error < 0) return error;
    oppc_scheduler *scheduler = aligned_alloc(64, sizeof *scheduler);
    if (scheduler == NULL) return -ENOMEM;
    memset(scheduler, 0, sizeof *scheduler);
    strcpy(scheduler->name, options.name == NULL ? "opportune" : options.name);
    options.name = scheduler->name;
    scheduler->options = options;
    atomic_init(&scheduler->holds, 1);
    error = scheduler_fill(scheduler);
    if (error == 0 && (error = workers_start(scheduler)) < 0) scheduler_close(scheduler);
    if (error < 0) {
        scheduler_free(scheduler);
        return error;
    }
    *result = scheduler;
    return 0;
}

/* --- End ---------------------------------------------------------------------------------------- */

void oppc_scheduler_hold(oppc_scheduler *scheduler) {
    opp_add(&scheduler->holds, 1, relaxed); /* relaxed: the caller has a hold already */
}

void oppc_scheduler_let_go(oppc_scheduler *scheduler) {
    /* [holds] release: this thread's accesses come before its decrement. acquire: who takes the last one sees
     * all of them before it frees. Pairs with this operation in other threads. */
    uint32_t before = opp_sub(&scheduler->holds, 1, acq_rel);
    OPP_ASSERT(before > 0);
    if (before == 1) scheduler_free(scheduler);
}

static void drop(opp_job entry, void *unused) {
    (void)unused;
    if (entry.tag == ENTRY_STRAND) oppc_strand_cancel(entry.ptr);
    else oppc_job_cancel(entry.ptr);
}

void oppc_drain(oppc_scheduler *scheduler) {
    opp_core_drain(scheduler->core, drop, NULL);
}

int oppc_scheduler_destroy(oppc_scheduler *scheduler) {
    if (scheduler == NULL) return 0;
    if (oppc_worker_here(scheduler) != NULL) return -EDEADLK;
    scheduler_close(scheduler);
    oppc_drain(scheduler);
    oppc_scheduler_let_go(scheduler);
    return 0;
}

/* --- Waits -------------------------------------------------------------------------------------- */

void oppc_notify(oppc_scheduler *scheduler) {
    /* [waiters] seq_cst: after the caller's change. Either this sees the waiter, or the waiter's look, which
     * follows its announcement, sees the change. */
    if (opp_load(&scheduler->waiters, seq_cst) == 0) return;
    opp_add(&scheduler->event, 1, seq_cst); /* [event] before the wake-up; a waiter read it before its look */
    opp_futex_wake(&scheduler->event, INT_MAX);
}

/* Sleeps while the event is `seen`, until `deadline` at the latest; UINT64_MAX is never. False: it is
 * over. */
static bool event_sleep(oppc_scheduler *scheduler, uint32_t seen, uint64_t deadline) {
    struct timespec at = {.tv_sec = (time_t)(deadline / 1000000000u),
                          .tv_nsec = (long)(deadline % 1000000000u)};
    const struct timespec *until = deadline == UINT64_MAX ? NULL : &at;
    long result = syscall(SYS_futex, &scheduler->event, FUTEX_WAIT_BITSET_PRIVATE, seen, until, NULL,
                          FUTEX_BITSET_MATCH_ANY);
    return result == 0 || errno != ETIMEDOUT;
}

static uint64_t deadline_in(int64_t timeout) {
    return timeout < 0 ? UINT64_MAX : opp_now_ns() + (uint64_t)timeout;
}

int oppc_wait(oppc_scheduler *scheduler, oppc_look look, void *subject, int64_t timeout) {
    uint64_t deadline = timeout == 0 ? 0 : deadline_in(timeout);
    opp_add(&scheduler->waiters, 1, seq_cst); /* [waiters] before the look: see oppc_notify() */
    int result;
    for (bool goes_on = timeout != 0;;) {
        uint32_t seen = opp_load(&scheduler->event, seq_cst); /* [event] before the look */
        result = look(subject);
        if (result <= 0) break;
        result = -ETIMEDOUT;
        if (!goes_on) break;
        goes_on = event_sleep(scheduler, seen, deadline);
    }
    opp_sub(&scheduler->waiters, 1, relaxed); /* relaxed: a notifier that still sees it makes a vain call */
    return result;
}

/* The sum of `accepted` of all records. */
static uint64_t accepted_by_all(const oppc_scheduler *scheduler, uint32_t end) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < end; i++) sum += opp_load(&scheduler->apps[i].accepted, seq_cst);
    return sum;
}

/*
 * Whether no job waits or runs. The apps are looked at one by one, while a job of one may submit to another
 * and end. That one submission is counted in `holds`, then in `accepted`, before the job ends (A2). So if the
 * look at the other app came too early for `holds`, and the look at the job's own app too late, `accepted`
 * has grown in between, and the sums differ: they only grow. Likewise for an app that the job has created,
 * which raises `app_end`. seq_cst, all of these.
 *
 * Where a sum has grown, what was accepted ends after the caller of this has read the event, and notifies.
 */
static int is_idle(void *subject) {
    oppc_scheduler *scheduler = subject;
    for (uint32_t end = 0, seen = opp_load(&scheduler->core->app_end, seq_cst);;) {
        end = seen;
        uint64_t before = accepted_by_all(scheduler, end);
        for (uint32_t i = 0; i < end; i++)
            if (opp_load(&scheduler->apps[i].holds, seq_cst) >= ONE_JOB) return 1;
        seen = opp_load(&scheduler->core->app_end, seq_cst);
        if (seen == end) return accepted_by_all(scheduler, end) == before ? 0 : 1;
    }
}

int oppc_scheduler_wait(oppc_scheduler *scheduler, int64_t timeout) {
    if (scheduler == NULL) return -EINVAL;
    if (oppc_worker_here(scheduler) != NULL) return -EDEADLK;
    return oppc_wait(scheduler, is_idle, scheduler, timeout);
}

/* --- Wake-ups ----------------------------------------------------------------------------------- */

void oppc_wake_for(oppc_scheduler *scheduler, uint64_t levels) {
    for (int band = 0; band < POOLS; band++) {
        opp_pool *pool = scheduler->pool[band];
        uint64_t own = levels & levels_of(band);
        /* Many jobs may wait, and each worker that is woken takes another one. */
        for (uint32_t i = opp_pool_tokens(pool); own != 0 && i > 0; i--) {
            if (!opp_has_ready(scheduler->core, own)) break;
            (void)opp_pool_notify(pool); /* P1 */
        }
    }
}
