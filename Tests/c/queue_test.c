/*
 * A queue, the queue of a strand: a push that was over before another began is taken before it, whichever
 * threads they were on; every entry is taken once. R-CARD-03, R-CPU-02
 *
 * OPPORTUNE_STRESS=N multiplies the length.
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

enum { PRODUCERS = 4, CONSUMERS = 3 };

static opp_core *core;
static opp_queue *queue;
static uint64_t jobs = 50000;

/* For each job the clock at the start and at the end of its push; a plain counter that all share. */
static _Atomic(uint64_t) clock_now;
static uint64_t *begun[PRODUCERS], *ended[PRODUCERS];
static _Atomic(uint8_t) *taken[PRODUCERS];
static _Atomic(uint64_t) taken_count;

static opp_job job_of(uint64_t producer, uint64_t index) {
    opp_job job = {(void *)(uintptr_t)(index + 1), (uint32_t)producer};
    return job;
}

static void *push(void *context) {
    uint64_t number = (uint64_t)(uintptr_t)context;
    opp_producer *producer = opp_producer_acquire(core, 0);
    CHECK(producer != NULL);
    for (uint64_t i = 0; i < jobs; i++) {
        begun[number][i] = atomic_fetch_add(&clock_now, 1);
        CHECK(opp_queue_push(queue, producer, job_of(number, i)) == 0);
        ended[number][i] = atomic_fetch_add(&clock_now, 1);
        if (i % 1000 == 999) sched_yield();
    }
    opp_producer_release(producer);
    return NULL;
}

static void start(pthread_t *producers) {
    opp_core_config config;
    memset(&config, 0, sizeof(config));
    config.max_apps = 16;
    CHECK(opp_core_create(&config, &core) == 0);
    queue = opp_queue_create(core);
    CHECK(queue != NULL);
    atomic_store(&clock_now, 1);
    atomic_store(&taken_count, 0);
    for (int p = 0; p < PRODUCERS; p++) {
        begun[p] = calloc(jobs, sizeof(uint64_t));
        ended[p] = calloc(jobs, sizeof(uint64_t));
        taken[p] = calloc(jobs, 1);
    }
    for (uintptr_t p = 0; p < PRODUCERS; p++)
        CHECK(pthread_create(&producers[p], NULL, push, (void *)p) == 0);
}

static void finish(void) {
    opp_job job;
    CHECK(opp_queue_is_empty(queue) && !opp_queue_take(queue, &job));
    opp_queue_destroy(queue, NULL, NULL);
    opp_core_destroy(core, NULL, NULL);
    for (int p = 0; p < PRODUCERS; p++) {
        free(begun[p]);
        free(ended[p]);
        free((void *)taken[p]);
    }
}

/* One consumer at a time, as a strand has. What it takes is checked when all is over: no push that ended
 * before another began comes out after it. */
static void test_order(void) {
    pthread_t producers[PRODUCERS];
    start(producers);
    uint64_t total = PRODUCERS * jobs, count = 0, next[PRODUCERS] = {0};
    opp_job *order = calloc(total, sizeof(opp_job));
    while (count < total) {
        if (!opp_queue_take(queue, &order[count])) {
            sched_yield();
            continue;
        }
        uint64_t producer = order[count].tag, index = (uint64_t)(uintptr_t)order[count].ptr - 1;
        /* each producer's own in its order, none lost, none twice */
        CHECK(producer < PRODUCERS && index == next[producer]);
        next[producer]++;
        count++;
    }
    for (int p = 0; p < PRODUCERS; p++) pthread_join(producers[p], NULL);
    /* From the last taken to the first: no earlier one began after a later one had ended. */
    uint64_t least_end = UINT64_MAX, overtaken = 0;
    for (uint64_t i = total; i-- > 0;) {
        uint64_t producer = order[i].tag, index = (uint64_t)(uintptr_t)order[i].ptr - 1;
        if (begun[producer][index] > least_end) overtaken++;
        if (ended[producer][index] < least_end) least_end = ended[producer][index];
    }
    if (overtaken > 0) fprintf(stderr, "%llu of %llu were taken too early\n", (unsigned long long)overtaken,
                               (unsigned long long)total);
    CHECK(overtaken == 0);
    free(order);
    finish();
}

static void *take(void *context) {
    (void)context;
    opp_job job;
    uint64_t last[PRODUCERS] = {0};
    while (atomic_load(&taken_count) < PRODUCERS * jobs) {
        if (!opp_queue_take(queue, &job)) {
            sched_yield();
            continue;
        }
        uint64_t index = (uint64_t)(uintptr_t)job.ptr;
        CHECK(atomic_fetch_add(&taken[job.tag][index - 1], 1) == 0);
        CHECK(index > last[job.tag]);
        last[job.tag] = index;
        atomic_fetch_add(&taken_count, 1);
    }
    return NULL;
}

static void test_many_consumers(void) {
    pthread_t producers[PRODUCERS], consumers[CONSUMERS];
    start(producers);
    for (int i = 0; i < CONSUMERS; i++) CHECK(pthread_create(&consumers[i], NULL, take, NULL) == 0);
    for (int i = 0; i < PRODUCERS; i++) pthread_join(producers[i], NULL);
    for (int i = 0; i < CONSUMERS; i++) pthread_join(consumers[i], NULL);
    for (int p = 0; p < PRODUCERS; p++)
        for (uint64_t i = 0; i < jobs; i++) CHECK(atomic_load(&taken[p][i]) == 1);
    finish();
}

/* CPU time of some pushes, each of which is taken, in nanoseconds. */
static uint64_t time_of(opp_queue *busy, opp_producer *producer, int count) {
    struct timespec begun_at, ended_at;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun_at);
    for (int i = 0; i < count; i++) {
        opp_job job;
        CHECK(opp_queue_push(busy, producer, job_of(0, (uint64_t)i)) == 0);
        CHECK(opp_queue_take(busy, &job) && job.ptr == job_of(0, (uint64_t)i).ptr);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended_at);
    int64_t seconds = ended_at.tv_sec - begun_at.tv_sec;
    return (uint64_t)(seconds * 1000000000 + ended_at.tv_nsec - begun_at.tv_nsec);
}

/* Threads that have pushed once and are gone cost those that come later nothing; one that comes back is
 * served. */
static void test_burst(void) {
    enum { BURST = 1000, JOBS = 2000 };
    opp_core_config config;
    memset(&config, 0, sizeof(config));
    config.max_apps = 1;
    opp_core *own = NULL;
    CHECK(opp_core_create(&config, &own) == 0);
    opp_queue *busy = opp_queue_create(own);
    opp_producer *producer = opp_producer_acquire(own, 0), *burst[BURST];
    uint64_t before = time_of(busy, producer, JOBS);
    opp_job job;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BURST; i++) burst[i] = opp_producer_acquire(own, 0);
        for (int i = 0; i < BURST; i++) CHECK(opp_queue_push(busy, burst[i], job_of(1, (uint64_t)i)) == 0);
        for (int i = 0; i < BURST; i++) {
            CHECK(opp_queue_take(busy, &job) && job.ptr == job_of(1, (uint64_t)i).ptr);
            opp_producer_release(burst[i]);
        }
        time_of(busy, producer, 200);
        uint64_t after = time_of(busy, producer, JOBS);
        /* Without the sweep it is some hundreds of times. */
        if (after > 30 * before) {
            fprintf(stderr, "%d pushes and takes: %llu ns before the burst, %llu after\n", JOBS,
                    (unsigned long long)before, (unsigned long long)after);
            exit(1);
        }
    }
    CHECK(!opp_queue_take(busy, &job));
    opp_producer_release(producer);
    opp_queue_destroy(busy, NULL, NULL);
    opp_core_destroy(own, NULL, NULL);
}

int main(void) {
    alarm(300);
    jobs *= stress();
    for (int round = 0; round < 5; round++) {
        test_order();
        test_many_consumers();
    }
    test_burst();
    return 0;
}
