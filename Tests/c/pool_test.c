/*
 * Pools and alarms: no lost wake-up, tokens, the spare worker, closing, one-shot alarms.
 * R-CARD-01, R-CARD-03, R-CPU-02
 *
 * OPPORTUNE_STRESS=N multiplies the length of the hunts.
 */
#include "opportune.h"

#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- One pool with a bare count as its queue --------------------------------------------------- */

#define WORKERS_MAX 8

static opp_pool *pool;
/* the queue: how many jobs it holds; seq_cst, as the run queue's tails are */
static _Atomic(int64_t) queued;
static _Atomic(int64_t) done;
static _Atomic(int) inside, inside_max;
static _Atomic(uint64_t) sleeps;

static bool pop(void) {
    int64_t count = atomic_load(&queued);
    while (count > 0)
        if (atomic_compare_exchange_weak(&queued, &count, count - 1)) return true;
    return false;
}

/* Works for as long as there is something. */
static void work(void) {
    int now = atomic_fetch_add(&inside, 1) + 1;
    int seen = atomic_load(&inside_max);
    while (seen < now && !atomic_compare_exchange_weak(&inside_max, &seen, now)) {}
    while (pop()) atomic_fetch_add(&done, 1);
    atomic_fetch_sub(&inside, 1);
}

static void *worker(void *context) {
    uint32_t slot = (uint32_t)(uintptr_t)context;
    for (;;) {
        if (opp_pool_enter(pool)) {
            work();
            opp_pool_leave(pool);
        }
        opp_pool_prepare_park(pool, slot);
        opp_woken woken = atomic_load(&queued) > 0 ? opp_pool_cancel_park(pool, slot) : OPP_WOKEN_NOTHING;
        if (woken == OPP_WOKEN_NOTHING) {
            atomic_fetch_add(&sleeps, 1);
            woken = opp_pool_park(pool, slot);
        }
        if (woken == OPP_WOKEN_CLOSED) return NULL;
        if (woken == OPP_WOKEN_TOKEN) {
            work();
            opp_pool_leave(pool);
        }
    }
}

/*
 * A submitter pushes one job, or a few, and waits until they are done: workers park as the next push
 * comes. A lost wake-up is a push after which nothing is done any more while a token is free; the wait then
 * has no end, and the alarm of main() ends the test.
 */
static void hunt(unsigned workers, unsigned width, unsigned rounds) {
    pool = opp_pool_create(width);
    CHECK(pool != NULL);
    atomic_store(&queued, 0);
    atomic_store(&done, 0);
    atomic_store(&inside_max, 0);
    atomic_store(&sleeps, 0);
    pthread_t threads[WORKERS_MAX];
    for (uintptr_t i = 0; i < workers; i++) CHECK(pthread_create(&threads[i], NULL, worker, (void *)i) == 0);
    int64_t wanted = 0;
    unsigned random = workers * 31 + width;
    for (unsigned round = 0; round < rounds; round++) {
        int burst = 1 + (int)(rand_r(&random) % 3);
        for (int i = 0; i < burst; i++) {
            atomic_fetch_add(&queued, 1);
            (void)opp_pool_notify(pool);
        }
        wanted += burst;
        /* Now and then nobody waits: the next push meets workers that are at it. */
        if (round % 8 == 7) continue;
        for (int spin = 0; atomic_load(&done) < wanted; spin++) {
            if (spin < 64) opp_pause();
            else sched_yield();
        }
        for (int pause = (int)(rand_r(&random) % 64); pause > 0; pause--) opp_pause();
    }
    while (atomic_load(&done) < wanted) sched_yield();
    CHECK(atomic_load(&queued) == 0);
    CHECK(atomic_load(&inside_max) <= (int)width);
    while (opp_pool_sleeping(pool) < workers) sched_yield();
    CHECK(opp_pool_working(pool) == 0);
    printf("%u workers, %u tokens: %lld jobs, %llu times asleep, %llu wake-ups\n", workers, width,
           (long long)wanted, (unsigned long long)atomic_load(&sleeps),
           (unsigned long long)opp_pool_wakeups(pool));
    opp_pool_close(pool);
    for (unsigned i = 0; i < workers; i++) pthread_join(threads[i], NULL);
    opp_pool_destroy(pool);
}

/* --- Tokens and wake-ups, one thread at a time -------------------------------------------------- */

static void test_tokens(void) {
    CHECK(opp_pool_create(0) == NULL);
    CHECK(opp_pool_create(OPP_POOL_WORKERS + 1) == NULL);
    opp_pool *one = opp_pool_create(2);
    CHECK(opp_pool_notify(one) == OPP_NOTIFIED_NOBODY);
    CHECK(opp_pool_working(one) == 0); /* the token was given back */
    CHECK(opp_pool_enter(one) && opp_pool_enter(one) && !opp_pool_enter(one));
    uint64_t before = opp_pool_wakeups(one);
    opp_pool_prepare_park(one, 5);
    CHECK(opp_pool_sleeping(one) == 1);
    /* All tokens in use: nobody is woken, and no system call is made. */
    CHECK(opp_pool_notify(one) == OPP_NOTIFIED_BUSY);
    CHECK(opp_pool_wakeups(one) == before && opp_pool_sleeping(one) == 1);
    CHECK(opp_pool_wake_spare(one));
    CHECK(!opp_pool_wake_spare(one));
    CHECK(opp_pool_park(one, 5) == OPP_WOKEN_SPARE);
    opp_pool_leave(one);
    opp_pool_prepare_park(one, 5);
    opp_pool_prepare_park(one, 700);
    CHECK(opp_pool_notify(one) == OPP_NOTIFIED_WOKEN); /* one token was free, one sleeper is woken */
    CHECK(opp_pool_sleeping(one) == 1 && opp_pool_working(one) == 2);
    /* Both tokens are in use: who is parked stays so, who was chosen does not. */
    CHECK(opp_pool_cancel_park(one, 700) == OPP_WOKEN_NOTHING && opp_pool_sleeping(one) == 1);
    CHECK(opp_pool_park(one, 5) == OPP_WOKEN_TOKEN);
    opp_pool_set_tokens(one, 3);
    CHECK(opp_pool_cancel_park(one, 700) == OPP_WOKEN_TOKEN);
    CHECK(opp_pool_sleeping(one) == 0 && opp_pool_working(one) == 3 && !opp_pool_enter(one));
    opp_pool_prepare_park(one, 5);
    CHECK(opp_pool_wake_spare(one));
    opp_pool_set_tokens(one, 4);
    CHECK(opp_pool_cancel_park(one, 5) == OPP_WOKEN_SPARE && opp_pool_working(one) == 3);
    opp_pool_set_tokens(one, 1);
    opp_pool_leave(one);
    CHECK(!opp_pool_enter(one)); /* two still at work, one token */
    opp_pool_leave(one);
    opp_pool_leave(one);
    CHECK(opp_pool_enter(one));
    opp_pool_destroy(one);
}

/* --- A worker from state to state, one thread at a time ---------------------------------------------- */

enum { FRESH = 10, HOG = 9 };

static void check_held(opp_pool *one, opp_worker *self, opp_worker_state state, uint32_t working, uint32_t demoted) {
    CHECK(opp_worker_read_state(self) == state);
    CHECK(opp_pool_working(one) == working);
    CHECK(opp_pool_demoted(one) == demoted);
    CHECK((opp_worker_idle_version(self) == 0) == (state > OPP_WORKER_PARKED));
}

static void test_slots(void) {
    opp_core_config config = {.max_apps = 1};
    for (int rank = 0; rank < OPP_RANKS; rank++)
        for (int band = 0; band < OPP_BANDS; band++) config.level_of[band][rank] = rank == 0 ? FRESH : HOG;
    opp_core *core;
    CHECK(opp_core_create(&config, &core) == 0);
    opp_producer *producer = opp_producer_acquire(core, 0);
    opp_app *app = opp_app_create(core, 1, false);
    opp_consumer *consumer = opp_consumer_create(core, producer, NULL);
    opp_pool *one = opp_pool_create(1);
    CHECK(producer != NULL && app != NULL && consumer != NULL && one != NULL);
    opp_pool_set_levels(one, 1ull << FRESH | 1ull << HOG, 1ull << HOG, 0);
    opp_pool_set_demoted_limit(one, 1);
    opp_pool_serve(one, core, NULL, 0);
    opp_worker *self = opp_pool_worker(one, 3);
    opp_worker_begin(self, consumer);
    opp_taken taken;
    check_held(one, self, OPP_WORKER_IDLE, 0, 0);
    CHECK(opp_worker_next(self, 0, false, &taken) == OPP_NEXT_PARK);
    CHECK(opp_worker_next(self, 0, true, &taken) == OPP_NEXT_RAISE);
    uint64_t idle = opp_worker_idle_version(self);

    opp_job job = {&config, 0};
    opp_submitted submitted = opp_submit(producer, app, 0, job, NULL);
    CHECK(submitted.level == FRESH && submitted.wake == OPP_WAKE_START);
    CHECK(opp_worker_next(self, 0, false, &taken) == OPP_NEXT_JOB && taken.level == FRESH);
    check_held(one, self, OPP_WORKER_RUNNING, 1, 0);
    CHECK(opp_submit(producer, app, 0, job, self).wake == OPP_WAKE_NOTHING); /* it takes that next itself */
    CHECK(opp_worker_job_ended(self) == OPP_WORKER_RUNNING);

    /* The monitor gives its token to another, counts it, and no more; the job's end returns what is left. */
    CHECK(opp_worker_next(self, 0, false, &taken) == OPP_NEXT_JOB);
    CHECK(opp_worker_hand_off(self) == OPP_HANDED_OFF);
    check_held(one, self, OPP_WORKER_HANDED_OFF, 0, 0);
    CHECK(opp_worker_hand_off(self) == OPP_HANDED_NOT && opp_worker_uncount(self) == OPP_HANDED_NOT);
    CHECK(opp_worker_count(self) == OPP_HANDED_OFF);
    check_held(one, self, OPP_WORKER_SUNK, 0, 1);
    CHECK(opp_worker_uncount(self) == OPP_HANDED_OFF);
    check_held(one, self, OPP_WORKER_HANDED_OFF, 0, 0);
    CHECK(opp_worker_job_ended(self) != OPP_WORKER_RUNNING);
    check_held(one, self, OPP_WORKER_IDLE, 0, 0);
    CHECK(opp_worker_idle_version(self) != idle);

    /* Its job waits: the token is free for others, who are woken for what is queued, and comes back after. */
    opp_wake wake = OPP_WAKE_COUNT;
    CHECK(!opp_worker_begin_wait(self, &wake) && wake == OPP_WAKE_NOTHING);
    CHECK(opp_submit(producer, app, 0, job, NULL).wake == OPP_WAKE_START);
    CHECK(opp_worker_next(self, 0, false, &taken) == OPP_NEXT_JOB);
    CHECK(opp_worker_begin_wait(self, &wake) && wake == OPP_WAKE_NOTHING);
    check_held(one, self, OPP_WORKER_HANDED_OFF, 0, 0);
    CHECK(!opp_worker_begin_wait(self, &wake)); /* it has none to give a second time */
    CHECK(opp_worker_end_wait(self) == OPP_WAKE_NOTHING);
    check_held(one, self, OPP_WORKER_RUNNING, 1, 0);
    CHECK(opp_submit(producer, app, 0, job, self).wake == OPP_WAKE_NOTHING); /* left for itself, and yet: */
    CHECK(opp_worker_begin_wait(self, &wake) && wake == OPP_WAKE_START);
    CHECK(opp_pool_enter(one)); /* by that other */
    CHECK(opp_worker_end_wait(self) == OPP_WAKE_NOTHING);
    check_held(one, self, OPP_WORKER_HANDED_OFF, 1, 0);
    opp_pool_leave(one);
    CHECK(opp_worker_job_ended(self) != OPP_WORKER_RUNNING);
    /* Counted among the demoted meanwhile, it gives back what it would have regained. */
    CHECK(opp_worker_next(self, 0, false, &taken) == OPP_NEXT_JOB);
    CHECK(opp_worker_begin_wait(self, &wake));
    CHECK(opp_worker_count(self) == OPP_HANDED_OFF);
    CHECK(opp_worker_end_wait(self) == OPP_WAKE_NOTHING);
    check_held(one, self, OPP_WORKER_SUNK, 0, 1);
    CHECK(opp_worker_job_ended(self) != OPP_WORKER_RUNNING);
    check_held(one, self, OPP_WORKER_IDLE, 0, 0);

    /* A hog runs beside the tokens, and goes on with hogs alone; of others there is no room while it does. */
    CHECK(opp_submit(producer, app, 1, job, NULL).level == HOG);
    CHECK(opp_worker_next(self, 0, false, &taken) == OPP_NEXT_JOB && taken.level == HOG);
    CHECK(opp_worker_to_demoted(self, 2) == OPP_WAKE_NOTHING);
    check_held(one, self, OPP_WORKER_DEMOTED, 0, 1);
    CHECK(opp_pool_takeable(one) == 1ull << FRESH);
    CHECK(opp_worker_job_ended(self) != OPP_WORKER_RUNNING);
    check_held(one, self, OPP_WORKER_DEMOTED, 0, 1);
    CHECK(opp_worker_next(self, 0, false, &taken) == OPP_NEXT_PARK);
    check_held(one, self, OPP_WORKER_IDLE, 0, 0);

    /* What turns out to be a hog may be counted beyond the limit, a known one may not. */
    CHECK(opp_submit(producer, app, 0, job, NULL).wake == OPP_WAKE_START);
    CHECK(opp_pool_enter_demoted(one, OPP_DEMOTION_KNOWN));
    CHECK(opp_worker_next(self, 0, false, &taken) == OPP_NEXT_JOB);
    CHECK(opp_worker_sink(self, OPP_DEMOTION_KNOWN) == OPP_HANDED_NOT);
    CHECK(opp_worker_sink(self, OPP_DEMOTION_FOUND) == OPP_HANDED_OFF);
    check_held(one, self, OPP_WORKER_SUNK, 0, 2);
    CHECK(opp_worker_job_ended(self) != OPP_WORKER_RUNNING);
    opp_pool_leave_demoted(one);

    /* With the token another's it finds nothing to do, and a closed pool lets nobody sleep. */
    CHECK(opp_pool_enter(one));
    CHECK(opp_worker_next(self, 0, false, &taken) == OPP_NEXT_PARK);
    opp_pool_close(one);
    CHECK(opp_worker_park(self) == OPP_PARKED_ENDS);
    check_held(one, self, OPP_WORKER_IDLE, 1, 0);
    opp_pool_leave(one);
    opp_worker_end(self);
    opp_consumer_destroy(consumer);
    opp_producer_release(producer);
    opp_core_destroy(core, NULL, NULL);
    opp_pool_destroy(one);
}

static _Atomic(int) closed_count;

static void *sleeper(void *context) {
    uint32_t slot = (uint32_t)(uintptr_t)context;
    opp_pool_prepare_park(pool, slot);
    CHECK(opp_pool_park(pool, slot) == OPP_WOKEN_CLOSED);
    atomic_fetch_add(&closed_count, 1);
    return NULL;
}

/* Closing wakes who sleeps, and who parks while it happens or afterwards. */
static void test_close(void) {
    for (unsigned round = 0; round < 300; round++) {
        enum { SLEEPERS = 6 };
        pthread_t threads[SLEEPERS];
        pool = opp_pool_create(1);
        atomic_store(&closed_count, 0);
        for (uintptr_t i = 0; i < SLEEPERS; i++)
            CHECK(pthread_create(&threads[i], NULL, sleeper, (void *)(i * 67)) == 0);
        while (opp_pool_sleeping(pool) < round % SLEEPERS) sched_yield();
        opp_pool_close(pool);
        for (int i = 0; i < SLEEPERS; i++) pthread_join(threads[i], NULL);
        CHECK(atomic_load(&closed_count) == SLEEPERS);
        opp_pool_destroy(pool);
    }
}

/* --- Alarms ----------------------------------------------------------------------------------- */

static opp_alarms *alarms;
static _Atomic(uint64_t) posted, answered;

static void *ringer(void *rounds) {
    for (uintptr_t i = 0; i < (uintptr_t)rounds; i++) {
        atomic_fetch_add(&posted, 1);
        if (i % 2 == 0) opp_alarms_notify(alarms);
        else opp_alarms_arm(alarms, 0, 1000);
        while (atomic_load(&answered) <= i) sched_yield();
    }
    return NULL;
}

static void test_alarms(unsigned rounds) {
    alarms = opp_alarms_create();
    CHECK(alarms != NULL);
    opp_alarms_notify(alarms);
    CHECK(opp_alarms_wait(alarms) == 1u << OPP_NOTIFIER);
    /* Armed already: arming again does not put it off. */
    uint64_t before = opp_now_ns();
    opp_alarms_arm(alarms, 1, 2000000);
    opp_alarms_arm(alarms, 1, 3600000000000u);
    CHECK(opp_alarms_wait(alarms) == 1u << 1);
    CHECK(opp_now_ns() - before >= 2000000);
    /* Gone off once, it is unarmed; and setting replaces what was set. */
    opp_alarms_set(alarms, 1, opp_now_ns() + 3600000000000u);
    opp_alarms_set(alarms, 1, opp_now_ns() + 1000000);
    opp_alarms_set(alarms, 0, opp_now_ns() + 3600000000000u);
    CHECK(opp_alarms_wait(alarms) == 1u << 1);
    opp_alarms_set(alarms, 0, 1); /* in the past */
    CHECK(opp_alarms_wait(alarms) == 1u << 0);
    /* The last to leave disarms it, gone off or not; who leaves before does not. */
    opp_alarms_enter(alarms, 1);
    opp_alarms_enter(alarms, 1);
    opp_alarms_arm(alarms, 1, 1000000);
    opp_alarms_leave(alarms, 1, 1000000, true);
    CHECK(opp_alarms_wait(alarms) == 1u << 1);
    opp_alarms_arm(alarms, 1, 1000000);
    opp_alarms_leave(alarms, 1, 1000000, true);
    opp_alarms_set(alarms, 0, opp_now_ns() + 3000000);
    CHECK(opp_alarms_wait(alarms) == 1u << 0);
    opp_alarms_enter(alarms, 1);
    opp_alarms_arm(alarms, 1, 1000000);
    opp_alarms_leave(alarms, 1, 1000000, false);
    CHECK(opp_alarms_wait(alarms) == 1u << 1);
    /* What was done before an arming is seen after the wait that it ends. */
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, ringer, (void *)(uintptr_t)rounds) == 0);
    while (atomic_load(&answered) < rounds) {
        CHECK(opp_alarms_wait(alarms) != 0);
        atomic_store(&answered, atomic_load(&posted));
    }
    pthread_join(thread, NULL);
    opp_alarms_destroy(alarms);
}

int main(void) {
    alarm(300 * stress()); /* a lost wake-up ends here */
    test_tokens();
    test_slots();
    test_close();
    test_alarms(5000 * stress());
    unsigned rounds = (SANITIZED ? 10000 : 100000) * stress();
    hunt(1, 1, rounds);
    hunt(2, 1, rounds);
    hunt(2, 2, rounds);
    hunt(3, 2, rounds);
    hunt(4, 4, rounds);
    hunt(4, 2, rounds);
    return 0;
}
