/*
 * The library of the C core alone: jobs, strands, suspension, bands, waits, the end of a scheduler, refusals.
 * R-CPU-01, R-CARD-01
 *
 * OPPORTUNE_STRESS=N multiplies the length of the hunts.
 */
#include "opportune-core.h"

#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static unsigned scaled(unsigned count) {
    return (SANITIZED ? count / 10 : count) * stress();
}

static oppc_scheduler *make(uint32_t foreground, uint32_t background) {
    oppc_options options = {.size = sizeof options, .foreground_workers = foreground,
                            .background_workers = background, .name = "test",
                            .max_apps = 8192}; /* more than any test has at once */
    oppc_scheduler *scheduler;
    CHECK_EQUAL(oppc_scheduler_create(&options, &scheduler), 0);
    CHECK(scheduler != NULL);
    return scheduler;
}

static oppc_app *make_app(oppc_scheduler *scheduler, int band) {
    oppc_app *app;
    CHECK_EQUAL(oppc_app_create(scheduler, "app", band, &app), 0);
    CHECK(app != NULL);
    return app;
}

static oppc_app_statistics figures(const oppc_app *app) {
    oppc_app_statistics statistics;
    CHECK_EQUAL(oppc_app_read_statistics(app, &statistics, sizeof statistics), 0);
    return statistics;
}

static void end(oppc_scheduler *scheduler) {
    CHECK_EQUAL(oppc_scheduler_destroy(scheduler), 0);
}

/* --- A gate: jobs that stand in it keep their workers until it opens ------------------------------- */

typedef struct gate {
    _Atomic(int) inside;
    _Atomic(bool) is_open;
} gate;

static void stand(void *context) {
    gate *own = context;
    atomic_fetch_add(&own->inside, 1);
    while (!atomic_load(&own->is_open)) sched_yield();
    atomic_fetch_sub(&own->inside, 1);
}

static void until_inside(gate *own, int count) {
    while (atomic_load(&own->inside) < count) sched_yield();
}

/* --- Each job runs once ------------------------------------------------------------------------------ */

enum { SUBMITTERS = 4 };

typedef struct mark {
    _Atomic(int) times;
    oppc_app *app;     /* where a second job of it goes, or NULL */
    struct mark *next;
} mark;

static void note(void *context) {
    mark *own = context;
    atomic_fetch_add(&own->times, 1);
    if (own->app != NULL) CHECK_EQUAL(oppc_submit(own->app, note, own->next), 0);
}

typedef struct submitter {
    oppc_app *apps[2];
    mark *marks;
    unsigned count;
} submitter;

static void *submit_all(void *context) {
    submitter *own = context;
    for (unsigned i = 0; i < own->count; i++)
        CHECK_EQUAL(oppc_submit_with(own->apps[i % 2], (int)(i % 3), note, NULL, &own->marks[2 * i]), 0);
    return NULL;
}

/* Threads outside submit to two bands, each job submits another to the other band, and a wait for the whole
 * scheduler sees them all. */
static void test_once(void) {
    unsigned count = scaled(20000);
    oppc_scheduler *scheduler = make(2, 2);
    oppc_app *front = make_app(scheduler, OPPC_FOREGROUND), *back = make_app(scheduler, OPPC_BACKGROUND);
    submitter submitters[SUBMITTERS];
    pthread_t threads[SUBMITTERS];
    for (int i = 0; i < SUBMITTERS; i++) {
        submitter *own = &submitters[i];
        *own = (submitter){.apps = {front, back}, .marks = calloc(2 * count, sizeof(mark)), .count = count};
        CHECK(own->marks != NULL);
        for (unsigned j = 0; j < count; j++) {
            own->marks[2 * j].app = own->apps[(j + 1) % 2];
            own->marks[2 * j].next = &own->marks[2 * j + 1];
        }
        CHECK(pthread_create(&threads[i], NULL, submit_all, own) == 0);
    }
    for (int i = 0; i < SUBMITTERS; i++) pthread_join(threads[i], NULL);
    CHECK_EQUAL(oppc_scheduler_wait(scheduler, -1), 0);
    for (int i = 0; i < SUBMITTERS; i++) {
        for (unsigned j = 0; j < 2 * count; j++) CHECK_EQUAL(atomic_load(&submitters[i].marks[j].times), 1);
        free(submitters[i].marks);
    }
    oppc_app_statistics a = figures(front), b = figures(back);
    CHECK_EQUAL(a.submitted + b.submitted, 2 * SUBMITTERS * count);
    CHECK_EQUAL(a.run + b.run, 2 * SUBMITTERS * count);
    CHECK(a.pending == 0 && a.running == 0 && a.cancelled == 0);
    CHECK(a.waiting.samples > 0 && a.waiting.samples < a.run);
    CHECK(a.waiting.p50 > 0 && a.waiting.p50 <= a.waiting.p90 && a.waiting.p90 <= a.waiting.p99 &&
          a.waiting.p99 <= a.waiting.max);
    oppc_pool_statistics pool[2];
    for (int band = 0; band < 2; band++) {
        CHECK_EQUAL(oppc_pool_read_statistics(scheduler, band, &pool[band], sizeof pool[band]), 0);
        CHECK_EQUAL(pool[band].workers, 2);
    }
    CHECK_EQUAL(pool[0].waiting.samples + pool[1].waiting.samples, a.waiting.samples + b.waiting.samples);
    printf("%u jobs; foreground waited p50 %llu, p99 %llu us, background p50 %llu, p99 %llu us\n",
           2 * SUBMITTERS * count, (unsigned long long)pool[1].waiting.p50 / 1000,
           (unsigned long long)pool[1].waiting.p99 / 1000, (unsigned long long)pool[0].waiting.p50 / 1000,
           (unsigned long long)pool[0].waiting.p99 / 1000);
    oppc_app_release(front);
    oppc_app_release(back);
    end(scheduler);
}

/* --- A wait for all apps while jobs pass from one to the other --------------------------------------- */

enum { CHAINED = 400 };

typedef struct hop {
    oppc_app *apps[CHAINED];
    unsigned left;
    _Atomic(bool) is_over;
} hop;

static void go(void *context) {
    hop *own = context;
    if (own->left-- == 0) {
        atomic_store(&own->is_over, true);
        return;
    }
    CHECK_EQUAL(oppc_submit(own->apps[own->left % 2 == 0 ? 0 : CHAINED - 1], go, own), 0);
}

/* One chain between the first app and the last: at each moment one of them has a job, while the wait looks at
 * one app after the other. */
static void test_wait_for_a_chain(void) {
    oppc_scheduler *scheduler = make(2, 1);
    hop chain = {.left = 0};
    for (int i = 0; i < CHAINED; i++) chain.apps[i] = make_app(scheduler, OPPC_FOREGROUND);
    for (unsigned round = 0, rounds = scaled(300); round < rounds; round++) {
        chain.left = 1 + round % 100;
        atomic_store(&chain.is_over, false);
        CHECK_EQUAL(oppc_submit(chain.apps[0], go, &chain), 0);
        int result;
        while ((result = oppc_scheduler_wait(scheduler, round % 2 == 0 ? -1 : 0)) == -ETIMEDOUT) {}
        CHECK_EQUAL(result, 0);
        CHECK(atomic_load(&chain.is_over));
    }
    for (int i = 0; i < CHAINED; i++) oppc_app_release(chain.apps[i]);
    end(scheduler);
}

/* --- Strands ------------------------------------------------------------------------------------------ */

typedef struct line {
    oppc_strand *strand;
    _Atomic(int) inside;
    unsigned next[SUBMITTERS];   /* guarded by the strand */
    unsigned long ran;           /* likewise */
    bool is_sparse;
} line;

typedef struct entry {
    line *line;
    unsigned thread, number;
} entry;

static void in_line(void *context) {
    entry *own = context;
    line *all = own->line;
    CHECK_EQUAL(atomic_fetch_add(&all->inside, 1), 0);
    CHECK(oppc_strand_is_current(all->strand));
    CHECK_EQUAL(all->next[own->thread], own->number);
    all->next[own->thread]++;
    if (all->is_sparse) sched_yield();
    all->ran++;
    atomic_fetch_sub(&all->inside, 1);
}

typedef struct feeder {
    entry *entries;
    unsigned count;
} feeder;

static void *feed(void *context) {
    feeder *own = context;
    for (unsigned i = 0; i < own->count; i++) {
        line *all = own->entries[i].line;
        CHECK_EQUAL(oppc_strand_submit(all->strand, in_line, &own->entries[i]), 0);
        if (all->is_sparse) sched_yield();
    }
    return NULL;
}

/* The jobs of a strand run one at a time, those of each thread in its order, also while the app is suspended,
 * resumed and moved. `is_sparse`: the strand is often empty, so that it begins and ends again and again. */
static void test_strand(bool is_sparse) {
    unsigned count = scaled(20000);
    oppc_scheduler *scheduler = make(3, 2);
    oppc_app *app = make_app(scheduler, OPPC_FOREGROUND);
    line all = {.is_sparse = is_sparse};
    CHECK_EQUAL(oppc_strand_create(app, OPPC_PRIORITY_NORMAL, &all.strand), 0);
    CHECK(!oppc_strand_is_current(all.strand));
    pthread_t threads[SUBMITTERS];
    feeder feeders[SUBMITTERS];
    for (unsigned i = 0; i < SUBMITTERS; i++) {
        feeders[i] = (feeder){.entries = calloc(count, sizeof(entry)), .count = count};
        CHECK(feeders[i].entries != NULL);
        for (unsigned j = 0; j < count; j++) feeders[i].entries[j] = (entry){&all, i, j};
        CHECK(pthread_create(&threads[i], NULL, feed, &feeders[i]) == 0);
    }
    for (unsigned i = 0; i < scaled(300); i++) {
        CHECK_EQUAL(oppc_app_suspend(app), 0);
        CHECK_EQUAL(oppc_app_set_band(app, i % 2), 0);
        sched_yield();
        CHECK_EQUAL(oppc_app_resume(app), 0);
        sched_yield();
    }
    for (int i = 0; i < SUBMITTERS; i++) pthread_join(threads[i], NULL);
    CHECK_EQUAL(oppc_app_wait(app, -1), 0);
    CHECK_EQUAL(all.ran, (unsigned long)SUBMITTERS * count);
    CHECK_EQUAL(figures(app).run, SUBMITTERS * count);
    for (int i = 0; i < SUBMITTERS; i++) free(feeders[i].entries);
    oppc_strand_release(all.strand);
    oppc_app_release(app);
    end(scheduler);
}

static void release_strand(void *context) {
    oppc_strand_release(context);
}

static void release_app(void *context) {
    oppc_app_release(context);
}

static void count_one(void *context) {
    atomic_fetch_add((_Atomic(int) *)context, 1);
}

/* Handles that are released with jobs queued, or by the job that was submitted with them. */
static void test_released_early(void) {
    oppc_scheduler *scheduler = make(2, 1);
    _Atomic(int) ran = 0;
    unsigned rounds = 5000; /* under a sanitizer too, which alone sees a use after free */
    for (unsigned i = 0; i < rounds; i++) {
        oppc_app *app = make_app(scheduler, OPPC_FOREGROUND);
        oppc_strand *strand;
        CHECK_EQUAL(oppc_strand_create(app, OPPC_PRIORITY_LOW, &strand), 0);
        CHECK_EQUAL(oppc_strand_submit(strand, count_one, &ran), 0);
        CHECK_EQUAL(oppc_submit(app, count_one, &ran), 0);
        CHECK_EQUAL(oppc_strand_submit(strand, release_strand, strand), 0);
        CHECK_EQUAL(oppc_submit(app, release_app, app), 0);
    }
    CHECK_EQUAL(oppc_scheduler_wait(scheduler, -1), 0);
    CHECK_EQUAL(atomic_load(&ran), 2 * rounds);
    end(scheduler);
}

/* --- Suspension ---------------------------------------------------------------------------------------- */

static void test_suspension(void) {
    oppc_scheduler *scheduler = make(2, 2);
    for (int band = 0; band < 2; band++) {
        oppc_app *app = make_app(scheduler, band), *other = make_app(scheduler, band);
        oppc_strand *strand;
        CHECK_EQUAL(oppc_strand_create(app, OPPC_PRIORITY_HIGH, &strand), 0);
        _Atomic(int) ran = 0;
        gate held = {0};
        CHECK_EQUAL(oppc_submit(app, stand, &held), 0);
        until_inside(&held, 1);
        CHECK_EQUAL(oppc_app_wait_quiet(app, 0), -EAGAIN);
        CHECK(!oppc_app_is_suspended(app));
        CHECK_EQUAL(oppc_app_suspend(app), 0);
        CHECK_EQUAL(oppc_app_suspend(app), 0);
        CHECK(oppc_app_is_suspended(app));
        /* What runs goes on. */
        CHECK_EQUAL(oppc_app_wait_quiet(app, 1000000), -ETIMEDOUT);
        CHECK_EQUAL(figures(app).running, 1);
        for (int i = 0; i < 50; i++) {
            CHECK_EQUAL(oppc_submit(app, count_one, &ran), 0);
            CHECK_EQUAL(oppc_strand_submit(strand, count_one, &ran), 0);
        }
        atomic_store(&held.is_open, true);
        CHECK_EQUAL(oppc_app_wait_quiet(app, -1), 0);
        /* Another app's jobs, submitted later, run past it. */
        _Atomic(int) passed = 0;
        for (int i = 0; i < 100; i++) CHECK_EQUAL(oppc_submit(other, count_one, &passed), 0);
        CHECK_EQUAL(oppc_app_wait(other, -1), 0);
        CHECK_EQUAL(atomic_load(&passed), 100);
        CHECK_EQUAL(atomic_load(&ran), 0);
        CHECK_EQUAL(figures(app).pending, 100);
        CHECK_EQUAL(oppc_scheduler_wait(scheduler, 0), -ETIMEDOUT);
        CHECK_EQUAL(oppc_app_resume(app), 0);
        CHECK_EQUAL(oppc_app_wait(app, -1), 0);
        CHECK_EQUAL(atomic_load(&ran), 100);
        CHECK_EQUAL(oppc_scheduler_wait(scheduler, -1), 0);
        oppc_strand_release(strand);
        oppc_app_release(app);
        oppc_app_release(other);
    }
    end(scheduler);
}

static void suspend_app(void *context) {
    CHECK_EQUAL(oppc_app_suspend(context), 0);
}

/* A strand that is in the middle of its jobs stops between two of them. */
static void test_suspended_by_itself(void) {
    oppc_scheduler *scheduler = make(1, 1);
    oppc_app *app = make_app(scheduler, OPPC_FOREGROUND);
    oppc_strand *strand;
    CHECK_EQUAL(oppc_strand_create(app, OPPC_PRIORITY_NORMAL, &strand), 0);
    for (unsigned round = 0; round < scaled(100); round++) {
        _Atomic(int) ran = 0;
        CHECK_EQUAL(oppc_app_suspend(app), 0);
        CHECK_EQUAL(oppc_strand_submit(strand, count_one, &ran), 0);
        CHECK_EQUAL(oppc_strand_submit(strand, suspend_app, app), 0);
        CHECK_EQUAL(oppc_strand_submit(strand, count_one, &ran), 0);
        CHECK_EQUAL(oppc_app_resume(app), 0);
        while (figures(app).pending != 1) sched_yield();
        CHECK_EQUAL(oppc_app_wait_quiet(app, -1), 0);
        CHECK_EQUAL(atomic_load(&ran), 1);
        CHECK_EQUAL(oppc_app_resume(app), 0);
        CHECK_EQUAL(oppc_app_wait(app, -1), 0);
        CHECK_EQUAL(atomic_load(&ran), 2);
    }
    oppc_strand_release(strand);
    oppc_app_release(app);
    end(scheduler);
}

typedef struct waiter {
    oppc_app *app;
    _Atomic(bool) has_begun;
    int result;
} waiter;

static void *wait_quiet(void *context) {
    waiter *own = context;
    atomic_store(&own->has_begun, true);
    own->result = oppc_app_wait_quiet(own->app, -1);
    return NULL;
}

/* Who waits for an app to be quiet learns that it was resumed instead. */
static void test_resumed_meanwhile(void) {
    oppc_scheduler *scheduler = make(1, 1);
    oppc_app *app = make_app(scheduler, OPPC_BACKGROUND);
    for (unsigned round = 0; round < scaled(200); round++) {
        gate held = {0};
        CHECK_EQUAL(oppc_submit(app, stand, &held), 0);
        until_inside(&held, 1);
        CHECK_EQUAL(oppc_app_suspend(app), 0);
        waiter own = {.app = app};
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, wait_quiet, &own) == 0);
        while (!atomic_load(&own.has_begun)) sched_yield();
        for (unsigned i = 0; i < round; i++) sched_yield();
        CHECK_EQUAL(oppc_app_resume(app), 0);
        pthread_join(thread, NULL);
        CHECK_EQUAL(own.result, -EAGAIN);
        atomic_store(&held.is_open, true);
        CHECK_EQUAL(oppc_app_wait(app, -1), 0);
    }
    oppc_app_release(app);
    end(scheduler);
}

/* --- Bands --------------------------------------------------------------------------------------------- */

typedef struct order {
    _Atomic(int) count;
    int band[400];
} order;

static void note_background(void *context) {
    order *own = context;
    own->band[atomic_fetch_add(&own->count, 1)] = OPPC_BACKGROUND;
}

static void note_foreground(void *context) {
    order *own = context;
    own->band[atomic_fetch_add(&own->count, 1)] = OPPC_FOREGROUND;
}

/* R-CPU-01: with the background's one worker held, all of the foreground's jobs run, and none of the
 * background's, whenever those were queued. Moved to the foreground they run too. */
static void test_foreground_first(void) {
    oppc_scheduler *scheduler = make(1, 1);
    oppc_app *front = make_app(scheduler, OPPC_FOREGROUND), *back = make_app(scheduler, OPPC_BACKGROUND);
    oppc_app *other = make_app(scheduler, OPPC_BACKGROUND);
    order all = {0};
    gate held = {0};
    CHECK_EQUAL(oppc_submit(other, stand, &held), 0);
    until_inside(&held, 1);
    for (int i = 0; i < 100; i++) CHECK_EQUAL(oppc_submit(back, note_background, &all), 0);
    for (int i = 0; i < 100; i++) CHECK_EQUAL(oppc_submit(front, note_foreground, &all), 0);
    CHECK_EQUAL(oppc_app_wait(front, -1), 0);
    CHECK_EQUAL(atomic_load(&all.count), 100);
    for (int i = 0; i < 100; i++) CHECK_EQUAL(all.band[i], OPPC_FOREGROUND);
    CHECK_EQUAL(oppc_app_band(back), OPPC_BACKGROUND);
    CHECK_EQUAL(oppc_app_set_band(back, OPPC_FOREGROUND), 0);
    CHECK_EQUAL(oppc_app_band(back), OPPC_FOREGROUND);
    CHECK_EQUAL(oppc_app_wait(back, -1), 0);
    CHECK_EQUAL(atomic_load(&all.count), 200);
    CHECK_EQUAL(atomic_load(&held.inside), 1);
    atomic_store(&held.is_open, true);
    oppc_app_release(front);
    oppc_app_release(back);
    oppc_app_release(other);
    end(scheduler);
}

static void note_class(void *context) {
    *(int *)context = sched_getscheduler(0);
}

static void note_nice(void *context) {
    *(int *)context = nice(0);
}

/* The background's workers are in the class that was asked for, the foreground's in the program's. */
static void test_kernel_class(void) {
    static const int classes[] = {OPPC_CLASS_IDLE, OPPC_CLASS_NICE19, OPPC_CLASS_NORMAL};
    for (int i = 0; i < 3; i++) {
        oppc_options options = {.size = sizeof options, .foreground_workers = 1, .background_workers = 1,
                                .background_class = (uint32_t)classes[i]};
        oppc_scheduler *scheduler;
        CHECK_EQUAL(oppc_scheduler_create(&options, &scheduler), 0);
        int class[2] = {-1, -1}, niceness[2] = {-100, -100};
        for (int band = 0; band < 2; band++) {
            oppc_app *app = make_app(scheduler, band);
            CHECK_EQUAL(oppc_submit(app, note_class, &class[band]), 0);
            CHECK_EQUAL(oppc_submit(app, note_nice, &niceness[band]), 0);
            CHECK_EQUAL(oppc_app_wait(app, -1), 0);
            oppc_app_release(app);
        }
        CHECK_EQUAL(class[OPPC_FOREGROUND], sched_getscheduler(0));
        CHECK_EQUAL(niceness[OPPC_FOREGROUND], nice(0));
        CHECK_EQUAL(class[OPPC_BACKGROUND],
                    classes[i] == OPPC_CLASS_IDLE ? SCHED_IDLE
                        : classes[i] == OPPC_CLASS_NICE19 ? SCHED_OTHER : sched_getscheduler(0));
        if (classes[i] == OPPC_CLASS_NICE19) CHECK_EQUAL(niceness[OPPC_BACKGROUND], 19);
        end(scheduler);
    }
}

/* With one worker, held meanwhile: higher priorities first, and each in its order; but every sixteenth take
 * may begin with another priority. */
static void test_priorities(void) {
    enum { EACH = 8 };
    oppc_scheduler *scheduler = make(1, 1);
    oppc_app *app = make_app(scheduler, OPPC_FOREGROUND), *other = make_app(scheduler, OPPC_FOREGROUND);
    order all = {0};
    gate held = {0};
    CHECK_EQUAL(oppc_submit(other, stand, &held), 0);
    until_inside(&held, 1);
    for (int i = 0; i < EACH; i++)
        CHECK_EQUAL(oppc_submit_with(app, OPPC_PRIORITY_LOW, note_background, NULL, &all), 0);
    for (int i = 0; i < EACH; i++)
        CHECK_EQUAL(oppc_submit_with(app, OPPC_PRIORITY_HIGH, note_foreground, NULL, &all), 0);
    atomic_store(&held.is_open, true);
    CHECK_EQUAL(oppc_app_wait(app, -1), 0);
    int early = 0;
    for (int i = 0; i < EACH; i++) early += all.band[i] == OPPC_FOREGROUND;
    CHECK(early >= EACH - 1);
    oppc_app_release(app);
    oppc_app_release(other);
    end(scheduler);
}

/* --- The end -------------------------------------------------------------------------------------------- */

typedef struct tally {
    _Atomic(int) ran, cancelled;
} tally;

static void run_tally(void *context) {
    atomic_fetch_add(&((tally *)context)->ran, 1);
}

static void cancel_tally(void *context) {
    atomic_fetch_add(&((tally *)context)->cancelled, 1);
}

static void *destroy(void *context) {
    end(context);
    return NULL;
}

/* What has not begun is cancelled once, also in strands and suspended apps; what runs is waited for; and the
 * handles outlive the scheduler. */
static void test_destroyed_with_jobs(void) {
    oppc_scheduler *scheduler = make(1, 1);
    oppc_app *app = make_app(scheduler, OPPC_FOREGROUND), *still = make_app(scheduler, OPPC_BACKGROUND);
    oppc_app *other = make_app(scheduler, OPPC_FOREGROUND);
    oppc_strand *strand;
    CHECK_EQUAL(oppc_strand_create(app, OPPC_PRIORITY_NORMAL, &strand), 0);
    CHECK_EQUAL(oppc_app_suspend(still), 0);
    gate held = {0};
    tally all = {0};
    CHECK_EQUAL(oppc_submit(other, stand, &held), 0);
    until_inside(&held, 1);
    for (int i = 0; i < 100; i++) {
        CHECK_EQUAL(oppc_submit_with(app, OPPC_PRIORITY_HIGH, run_tally, cancel_tally, &all), 0);
        CHECK_EQUAL(oppc_submit_with(still, OPPC_PRIORITY_LOW, run_tally, cancel_tally, &all), 0);
        CHECK_EQUAL(oppc_strand_submit_with(strand, run_tally, cancel_tally, &all), 0);
        CHECK_EQUAL(oppc_submit(still, run_tally, &all), 0); /* dropped without a word */
    }
    oppc_app_release(other);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, destroy, scheduler) == 0);
    int result;
    /* Until it is closed: each of these is accepted, and then run or cancelled. */
    int more = 0;
    while ((result = oppc_submit_with(app, OPPC_PRIORITY_LOW, run_tally, cancel_tally, &all)) == 0) {
        more++;
        sched_yield();
    }
    CHECK_EQUAL(result, -ESHUTDOWN);
    CHECK_EQUAL(atomic_load(&held.inside), 1);
    CHECK_EQUAL(atomic_load(&all.ran), 0);
    atomic_store(&held.is_open, true);
    pthread_join(thread, NULL);
    CHECK_EQUAL(atomic_load(&all.ran), 0);
    CHECK_EQUAL(atomic_load(&all.cancelled), 300 + more);
    CHECK_EQUAL(figures(app).cancelled, 200 + more);
    CHECK_EQUAL(figures(still).cancelled, 200);
    CHECK_EQUAL(oppc_strand_submit(strand, run_tally, &all), -ESHUTDOWN);
    oppc_strand *late;
    CHECK_EQUAL(oppc_strand_create(app, 0, &late), -ESHUTDOWN);
    CHECK(late == NULL);
    CHECK_EQUAL(oppc_app_wait(app, -1), 0);
    CHECK_EQUAL(oppc_app_resume(still), 0);
    CHECK_EQUAL(oppc_app_set_band(still, OPPC_FOREGROUND), 0);
    oppc_app_release(still);
    oppc_app_release(app);
    oppc_strand_release(strand);
}

typedef struct flood {
    oppc_app *app;
    oppc_strand *strand;
    tally *all;
    int accepted; /* read once the thread was joined */
} flood;

static void *submit_until_closed(void *context) {
    flood *own = context;
    for (;;) {
        int result = own->accepted % 2 == 0
            ? oppc_submit_with(own->app, OPPC_PRIORITY_NORMAL, run_tally, cancel_tally, own->all)
            : oppc_strand_submit_with(own->strand, run_tally, cancel_tally, own->all);
        if (result == -ESHUTDOWN) return NULL;
        CHECK_EQUAL(result, 0);
        own->accepted++;
    }
}

/* Each job that was accepted while the scheduler was being destroyed is run or cancelled, and none twice. */
static void test_destroyed_meanwhile(void) {
    for (unsigned round = 0; round < scaled(200) + 5; round++) {
        oppc_scheduler *scheduler = make(2, 1);
        oppc_app *apps[2] = {make_app(scheduler, OPPC_FOREGROUND), make_app(scheduler, OPPC_BACKGROUND)};
        oppc_strand *strands[2];
        tally all = {0};
        flood floods[SUBMITTERS];
        pthread_t threads[SUBMITTERS];
        for (int i = 0; i < 2; i++) CHECK_EQUAL(oppc_strand_create(apps[i], i, &strands[i]), 0);
        for (int i = 0; i < SUBMITTERS; i++) {
            floods[i] = (flood){apps[i % 2], strands[i % 2], &all, 0};
            CHECK(pthread_create(&threads[i], NULL, submit_until_closed, &floods[i]) == 0);
        }
        while (atomic_load(&all.ran) < (int)(round % 50)) sched_yield();
        end(scheduler);
        int accepted = 0;
        for (int i = 0; i < SUBMITTERS; i++) {
            pthread_join(threads[i], NULL);
            accepted += floods[i].accepted;
        }
        CHECK_EQUAL(atomic_load(&all.ran) + atomic_load(&all.cancelled), accepted);
        for (int i = 0; i < 2; i++) {
            oppc_app_statistics app = figures(apps[i]);
            CHECK_EQUAL(app.run + app.cancelled, app.submitted);
            oppc_app_release(apps[i]);
            oppc_strand_release(strands[i]);
        }
    }
}

/* --- Refusals ------------------------------------------------------------------------------------------- */

typedef struct inside {
    oppc_scheduler *scheduler;
    oppc_app *app;
    int results[4];
} inside;

static void wait_inside(void *context) {
    inside *own = context;
    own->results[0] = oppc_scheduler_wait(own->scheduler, -1);
    own->results[1] = oppc_app_wait(own->app, -1);
    own->results[2] = oppc_app_wait_quiet(own->app, -1);
    own->results[3] = oppc_scheduler_destroy(own->scheduler);
}

static void check_refused(oppc_options options) {
    oppc_scheduler *scheduler = (oppc_scheduler *)&options;
    CHECK_EQUAL(oppc_scheduler_create(&options, &scheduler), -EINVAL);
    CHECK(scheduler == NULL);
}

static void test_refusals(void) {
    const uint32_t size = sizeof(oppc_options);
    char long_name[OPPC_NAME_MAX + 2];
    memset(long_name, 'x', sizeof long_name);
    long_name[OPPC_NAME_MAX + 1] = 0;
    check_refused((oppc_options){0});
    check_refused((oppc_options){.size = size + 8});
    check_refused((oppc_options){.size = size, .foreground_workers = OPPC_WORKERS_MAX + 1});
    check_refused((oppc_options){.size = size, .background_workers = OPPC_WORKERS_MAX + 1});
    check_refused((oppc_options){.size = size, .background_class = OPPC_CLASS_NORMAL + 1});
    check_refused((oppc_options){.size = size, .max_apps = OPPC_APPS_MAX + 1});
    check_refused((oppc_options){.size = size, .reserved = 1});
    check_refused((oppc_options){.size = size, .name = long_name});
    CHECK_EQUAL(oppc_scheduler_create(NULL, NULL), -EINVAL);
    CHECK_EQUAL(oppc_version(), OPPC_VERSION);

    long_name[OPPC_NAME_MAX] = 0;
    oppc_options options = {.size = size, .foreground_workers = 1, .background_workers = 1, .max_apps = 2,
                            .name = long_name, .stack_bytes = 1};
    oppc_scheduler *scheduler;
    CHECK_EQUAL(oppc_scheduler_create(&options, &scheduler), 0);
    oppc_app *app, *second, *third = (oppc_app *)&options;
    CHECK_EQUAL(oppc_app_create(NULL, "a", OPPC_FOREGROUND, &third), -EINVAL);
    CHECK(third == NULL);
    CHECK_EQUAL(oppc_app_create(scheduler, "a", OPPC_FOREGROUND, NULL), -EINVAL);
    CHECK_EQUAL(oppc_app_create(scheduler, "a", -1, &third), -EINVAL);
    CHECK_EQUAL(oppc_app_create(scheduler, "a", OPPC_FOREGROUND + 1, &third), -EINVAL);
    long_name[OPPC_NAME_MAX] = 'x';
    CHECK_EQUAL(oppc_app_create(scheduler, long_name, OPPC_FOREGROUND, &third), -EINVAL);
    CHECK_EQUAL(oppc_app_create(scheduler, NULL, OPPC_FOREGROUND, &app), 0);
    CHECK(strcmp(oppc_app_name(app), "") == 0);
    CHECK_EQUAL(oppc_app_create(scheduler, "second", OPPC_BACKGROUND, &second), 0);
    CHECK(strcmp(oppc_app_name(second), "second") == 0);
    CHECK_EQUAL(oppc_app_create(scheduler, "third", OPPC_FOREGROUND, &third), -ENOSPC);
    CHECK(third == NULL);
    oppc_app_release(second);
    CHECK_EQUAL(oppc_app_create(scheduler, "third", OPPC_FOREGROUND, &third), 0);
    CHECK_EQUAL(figures(third).submitted, 0); /* nothing of the app that had its place */
    oppc_app_release(third);

    _Atomic(int) ran = 0;
    CHECK_EQUAL(oppc_submit(NULL, count_one, &ran), -EINVAL);
    CHECK_EQUAL(oppc_submit(app, NULL, &ran), -EINVAL);
    CHECK_EQUAL(oppc_submit_with(app, -1, count_one, NULL, &ran), -EINVAL);
    CHECK_EQUAL(oppc_submit_with(app, OPPC_PRIORITY_LOW + 1, count_one, NULL, &ran), -EINVAL);
    oppc_strand *strand;
    CHECK_EQUAL(oppc_strand_create(NULL, 0, &strand), -EINVAL);
    CHECK_EQUAL(oppc_strand_create(app, 0, NULL), -EINVAL);
    CHECK_EQUAL(oppc_strand_create(app, 3, &strand), -EINVAL);
    CHECK(strand == NULL);
    CHECK_EQUAL(oppc_strand_submit(NULL, count_one, &ran), -EINVAL);
    CHECK_EQUAL(oppc_strand_create(app, 0, &strand), 0);
    CHECK_EQUAL(oppc_strand_submit(strand, NULL, &ran), -EINVAL);
    oppc_strand_release(strand);
    CHECK_EQUAL(oppc_app_set_band(NULL, 0), -EINVAL);
    CHECK_EQUAL(oppc_app_set_band(app, 2), -EINVAL);
    CHECK_EQUAL(oppc_app_band(NULL), -EINVAL);
    CHECK_EQUAL(oppc_app_suspend(NULL), -EINVAL);
    CHECK_EQUAL(oppc_app_resume(NULL), -EINVAL);
    CHECK_EQUAL(oppc_app_wait(NULL, 0), -EINVAL);
    CHECK_EQUAL(oppc_app_wait_quiet(NULL, 0), -EINVAL);
    CHECK_EQUAL(oppc_scheduler_wait(NULL, 0), -EINVAL);
    oppc_app_statistics statistics;
    oppc_pool_statistics pool;
    CHECK_EQUAL(oppc_app_read_statistics(app, &statistics, 0), -EINVAL);
    CHECK_EQUAL(oppc_app_read_statistics(app, NULL, sizeof statistics), -EINVAL);
    CHECK_EQUAL(oppc_app_read_statistics(NULL, &statistics, sizeof statistics), -EINVAL);
    CHECK_EQUAL(oppc_pool_read_statistics(scheduler, 2, &pool, sizeof pool), -EINVAL);
    CHECK_EQUAL(oppc_pool_read_statistics(NULL, 0, &pool, sizeof pool), -EINVAL);
    CHECK_EQUAL(oppc_pool_read_statistics(scheduler, 0, &pool, sizeof pool.workers), 0);
    CHECK_EQUAL(pool.workers, 1);
    CHECK_EQUAL(atomic_load(&ran), 0);

    inside own = {.scheduler = scheduler, .app = app};
    CHECK_EQUAL(oppc_submit(app, wait_inside, &own), 0);
    CHECK_EQUAL(oppc_app_wait(app, -1), 0);
    for (int i = 0; i < 4; i++) CHECK_EQUAL(own.results[i], -EDEADLK);
    oppc_app_release(NULL);
    oppc_strand_release(NULL);
    CHECK_EQUAL(oppc_scheduler_destroy(NULL), 0);
    oppc_app_release(app);
    end(scheduler);

    /* No address space is large enough for the stack: what was begun is undone. */
    options = (oppc_options){.size = size, .foreground_workers = 3, .stack_bytes = 1ull << 47};
    CHECK_EQUAL(oppc_scheduler_create(&options, &scheduler), -EAGAIN);
    CHECK(scheduler == NULL);

    /* The defaults; and options of a header that knew of fewer. */
    CHECK_EQUAL(oppc_scheduler_create(NULL, &scheduler), 0);
    end(scheduler);
    options = (oppc_options){.size = offsetof(oppc_options, max_apps), .foreground_workers = 3,
                             .max_apps = OPPC_APPS_MAX + 1, .reserved = 1};
    CHECK_EQUAL(oppc_scheduler_create(&options, &scheduler), 0);
    CHECK_EQUAL(oppc_pool_read_statistics(scheduler, OPPC_FOREGROUND, &pool, sizeof pool), 0);
    CHECK_EQUAL(pool.workers, 3);
    end(scheduler);
}

/* An idle scheduler's threads sleep: nothing is woken while nothing is submitted. */
static void test_idle(void) {
    oppc_scheduler *scheduler = make(2, 2);
    oppc_app *app = make_app(scheduler, OPPC_FOREGROUND);
    _Atomic(int) ran = 0;
    CHECK_EQUAL(oppc_submit(app, count_one, &ran), 0);
    CHECK_EQUAL(oppc_scheduler_wait(scheduler, -1), 0);
    oppc_pool_statistics pool;
    uint64_t wakeups[2];
    for (int band = 0; band < 2; band++) {
        do {
            CHECK_EQUAL(oppc_pool_read_statistics(scheduler, band, &pool, sizeof pool), 0);
            sched_yield();
        } while (pool.working > 0);
        wakeups[band] = pool.wakeups;
    }
    for (int i = 0; i < 1000; i++) {
        CHECK_EQUAL(oppc_scheduler_wait(scheduler, 0), 0);
        CHECK_EQUAL(oppc_app_suspend(app), 0);
        CHECK_EQUAL(oppc_app_resume(app), 0);
    }
    for (int band = 0; band < 2; band++) {
        CHECK_EQUAL(oppc_pool_read_statistics(scheduler, band, &pool, sizeof pool), 0);
        CHECK_EQUAL(pool.wakeups, wakeups[band]);
        CHECK_EQUAL(pool.working, 0);
    }
    oppc_app_release(app);
    end(scheduler);
}

int main(void) {
    alarm(250); /* a wait without an end ends the test */
    test_refusals();
    test_once();
    test_wait_for_a_chain();
    test_strand(false);
    test_strand(true);
    test_released_early();
    test_suspension();
    test_suspended_by_itself();
    test_resumed_meanwhile();
    test_foreground_first();
    test_kernel_class();
    test_priorities();
    test_destroyed_with_jobs();
    test_destroyed_meanwhile();
    test_idle();
    return 0;
}
