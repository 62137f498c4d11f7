/*
 * Run queue and pool together on real threads, as a scheduler's workers use them, at 1, 2, 4 and 16 of them:
 * each job runs once, whichever thread takes it, while apps are suspended, resumed and moved; nobody sleeps
 * beside work. R-CARD-03
 *
 * OPPORTUNE_STRESS_SECONDS is how long each takes, a quarter of a second by default. For an hour under
 * ThreadSanitizer:
 *   OPPORTUNE_STRESS_SECONDS=900 OPPORTUNE_TEST_SECONDS=7200 scripts/test-c --sanitize thread --compiler
 *   clang stress
 */
#include "check.h"
#include "opportune.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#define ALL (~(uint64_t)0)
enum { WORKERS_MAX = 16, PRODUCERS = 2, APPS = 5, BATCH = 64 };

/* Plain, so that ThreadSanitizer sees whoever runs a job beside another, or before what was put into it. */
typedef struct job {
    int runs;
    bool has_child;
    struct job *child;
    _Atomic(int) *left; /* of the batch */
} job;

static opp_core *core;
static opp_pool *pool;
static opp_app *apps[APPS];
static unsigned workers;
static _Atomic(bool) is_over;
static _Atomic(uint64_t) pushed, taken_from_others, sleeps;

static void push(opp_producer *producer, job *job, unsigned number) {
    job->runs = 0;
    int level = opp_push(producer, apps[number % APPS], (uint8_t)(number % 7), (opp_job){job, number});
    CHECK(level >= 0);
    atomic_fetch_add_explicit(&pushed, 1, memory_order_relaxed);
    if (level != OPP_LEVEL_NONE) (void)opp_pool_notify(pool);
}

static void work(opp_producer *producer, opp_consumer *consumer) {
    opp_taken taken;
    while (opp_take(consumer, ALL, &taken)) {
        job *job = taken.job.ptr;
        job->runs++;
        if (job->has_child) push(producer, job->child, taken.job.tag + 1);
        if (taken.stolen) atomic_fetch_add_explicit(&taken_from_others, 1, memory_order_relaxed);
        atomic_fetch_sub(job->left, 1);
        if (opp_consumer_should_leave_app(consumer)) opp_consumer_leave_app(consumer);
    }
    opp_consumer_leave_app(consumer);
}

static void *worker(void *context) {
    uint32_t slot = (uint32_t)(uintptr_t)context;
    opp_producer *producer = opp_producer_acquire(core, 0);
    opp_consumer *consumer = opp_consumer_create(core, producer, NULL);
    CHECK(producer != NULL && consumer != NULL);
    opp_woken woken = OPP_WOKEN_NOTHING;
    while (woken != OPP_WOKEN_CLOSED) {
        if (opp_pool_enter(pool)) {
            work(producer, consumer);
            opp_pool_leave(pool);
        }
        opp_pool_prepare_park(pool, slot);
        woken = opp_has_ready(core, ALL) ? opp_pool_cancel_park(pool, slot) : OPP_WOKEN_NOTHING;
        if (woken == OPP_WOKEN_NOTHING) {
            atomic_fetch_add_explicit(&sleeps, 1, memory_order_relaxed);
            woken = opp_pool_park(pool, slot);
        }
        if (woken != OPP_WOKEN_TOKEN) continue;
        work(producer, consumer);
        opp_pool_leave(pool);
    }
    opp_consumer_destroy(consumer);
    opp_producer_release(producer);
    return NULL;
}

/* Pushes batches, and waits for each: the workers park as the next one comes. */
static void *produce(void *context) {
    unsigned random = 1 + (unsigned)(uintptr_t)context;
    opp_producer *producer = opp_producer_acquire(core, 0);
    CHECK(producer != NULL);
    static job jobs[PRODUCERS][2 * BATCH];
    job *own = jobs[(uintptr_t)context];
    _Atomic(int) left;
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
        int count = 1 + (int)((unsigned)rand_r(&random) % BATCH), children = 0;
        for (int i = 0; i < count; i++) {
            own[i] = (job){.has_child = i % 8 == 0, .child = &own[BATCH + i], .left = &left};
            own[BATCH + i] = (job){.left = &left};
            children += own[i].has_child;
        }
        atomic_store(&left, count + children);
        for (int i = 0; i < count; i++) push(producer, &own[i], (unsigned)rand_r(&random) >> 8);
        while (atomic_load(&left) > 0) sched_yield();
        for (int i = 0; i < count; i++) {
            CHECK_EQUAL(own[i].runs, 1);
            CHECK_EQUAL(own[BATCH + i].runs, own[i].has_child);
        }
    }
    opp_producer_release(producer);
    return NULL;
}

static void *stepper(void *context) {
    (void)context;
    unsigned random = 7;
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
        opp_app *app = apps[(unsigned)rand_r(&random) % APPS];
        bool suspends = rand_r(&random) & 64;
        if (suspends) opp_app_suspend(app);
        else opp_app_set_band(app, (uint8_t)((unsigned)rand_r(&random) % OPP_BANDS));
        usleep(50);
        opp_app_resume(app);
        for (unsigned i = 0; i < workers && opp_has_ready(core, ALL); i++) (void)opp_pool_notify(pool);
    }
    return NULL;
}

static void press(unsigned count, unsigned microseconds) {
    opp_core_config config = {.max_apps = 16};
    for (int band = 0; band < OPP_BANDS; band++)
        for (int rank = 0; rank < OPP_RANKS; rank++)
            config.level_of[band][rank] = (uint8_t)(20 * band + (rank < 10 ? 10 - rank : 0));
    CHECK(opp_core_create(&config, &core) == 0);
    pool = opp_pool_create(count);
    CHECK(pool != NULL);
    workers = count;
    atomic_store(&is_over, false);
    atomic_store(&pushed, 0);
    atomic_store(&taken_from_others, 0);
    atomic_store(&sleeps, 0);
    for (int i = 0; i < APPS; i++) apps[i] = opp_app_create(core, (uint8_t)(i % OPP_BANDS), false);
    pthread_t threads[WORKERS_MAX], producers[PRODUCERS], other;
    for (uintptr_t i = 0; i < count; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, worker, (void *)i), 0);
    for (uintptr_t i = 0; i < PRODUCERS; i++)
        CHECK_EQUAL(pthread_create(&producers[i], NULL, produce, (void *)i), 0);
    CHECK_EQUAL(pthread_create(&other, NULL, stepper, NULL), 0);
    struct timespec end; /* absolute: many short sleeps would add up to more than the alarm allows for */
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += microseconds / 1000000;
    end.tv_nsec += (long)(microseconds % 1000000) * 1000;
    if (end.tv_nsec >= 1000000000) end.tv_sec++, end.tv_nsec -= 1000000000;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) != 0) {}
    atomic_store(&is_over, true);
    pthread_join(other, NULL); /* it has resumed all */
    for (int i = 0; i < PRODUCERS; i++) pthread_join(producers[i], NULL);
    CHECK(!opp_has_ready(core, ALL));
    while (opp_pool_sleeping(pool) < count) sched_yield();
    opp_pool_close(pool);
    for (unsigned i = 0; i < count; i++) pthread_join(threads[i], NULL);
    printf("%u workers: %llu jobs pushed and each run once, %llu of them taken from another thread's "
           "queue, %llu times "
           "asleep, %llu wake-ups\n", count, (unsigned long long)atomic_load(&pushed),
           (unsigned long long)atomic_load(&taken_from_others), (unsigned long long)atomic_load(&sleeps),
           (unsigned long long)opp_pool_wakeups(pool));
    fflush(stdout);
    opp_pool_destroy(pool);
    opp_core_destroy(core, NULL, NULL);
}

int main(void) {
    const char *text = getenv("OPPORTUNE_STRESS_SECONDS");
    unsigned seconds = text == NULL ? 0 : (unsigned)atoi(text);
    CHECK(seconds <= 4000);
    static const unsigned counts[] = {1, 2, 4, WORKERS_MAX};
    for (int i = 0; i < 4; i++) {
        alarm(seconds + 120); /* what is lost is waited for without end */
        press(counts[i], seconds == 0 ? 250000 : seconds * 1000000);
    }
    return 0;
}
