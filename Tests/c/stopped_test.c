/*
 * A thread that is stopped at any instruction keeps nobody from completing and hides nobody's jobs.
 *
 * Threads push and take in a loop. One is stopped by a signal at a random instant, its handler waits, for 100
 * ms, which are the subject of the test; meanwhile the others must go on. At the end nothing is lost and
 * nothing was taken twice. R-CARD-03, R-CPU-01
 */
#include "opportune.h"

#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, APPS = 4, STOPS = 30, SLOTS = 1 << 24 };

static opp_core *core;
static opp_app *apps[APPS];
static opp_queue *queue;
static _Atomic(uint8_t) seen[THREADS][SLOTS]; /* by pusher and the number of its push */
static _Atomic(uint64_t) pushed[THREADS], taken[THREADS], strand_pushed[THREADS], strand_taken[THREADS];
static _Atomic(int) go = 1;
static sem_t stopped, released;

static void stop_here(int number) {
    (void)number;
    int saved = errno;
    sem_post(&stopped);
    while (sem_wait(&released) != 0) {}
    errno = saved;
}

static void account(opp_job job) {
    uint64_t index = (uint64_t)(uintptr_t)job.ptr - 1;
    CHECK(job.tag < THREADS && index < SLOTS);
    CHECK(atomic_fetch_add(&seen[job.tag][index], 1) == 0);
}

static void *run(void *context) {
    uint32_t number = (uint32_t)(uintptr_t)context;
    opp_producer *producer = opp_producer_acquire(core, 0);
    opp_consumer *consumer = opp_consumer_create(core, producer, NULL);
    CHECK(producer != NULL && consumer != NULL);
    unsigned random = number + 1;
    uint64_t index = 0;
    opp_taken job;
    opp_job bagged;
    while (atomic_load_explicit(&go, memory_order_relaxed)) {
        if (index < SLOTS) {
            opp_job own = {(void *)(uintptr_t)(index + 1), number};
            index++;
            if (rand_r(&random) % 4 == 0) {
                CHECK(opp_queue_push(queue, producer, own) == 0);
                atomic_fetch_add(&strand_pushed[number], 1);
            } else {
                CHECK(opp_push(producer, apps[rand_r(&random) % APPS], (uint8_t)(rand_r(&random) % 3),
                               own) >= 0);
                atomic_fetch_add(&pushed[number], 1);
            }
        }
        if (opp_queue_take(queue, &bagged)) {
            account(bagged);
            atomic_fetch_add(&strand_taken[number], 1);
        }
        if (opp_take(consumer, ~(uint64_t)0, &job)) {
            account(job.job);
            atomic_fetch_add(&taken[number], 1);
        } else {
            opp_consumer_leave_app(consumer);
        }
        /* One app changes its state under everybody's hands. */
        if (index % 64 == 0) {
            opp_app *app = apps[0];
            if (rand_r(&random) % 2 == 0) opp_app_suspend(app);
            else opp_app_resume(app);
            opp_app_set_band(app, (uint8_t)(rand_r(&random) % OPP_BANDS));
        }
        /* Enough room for the whole test, without a clock. */
        if (index % 16 == 0) sched_yield();
    }
    opp_consumer_destroy(consumer);
    opp_producer_release(producer);
    return NULL;
}

static void nap(uint64_t ns) {
    struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (nanosleep(&time, &time) != 0) {}
}

static uint64_t others(_Atomic(uint64_t) *counts, int but) {
    uint64_t sum = 0;
    for (int i = 0; i < THREADS; i++)
        if (i != but) sum += atomic_load(&counts[i]);
    return sum;
}

static uint64_t sum(_Atomic(uint64_t) *counts) {
    return others(counts, -1);
}

static _Atomic(uint64_t) *const watched[] = {pushed, taken, strand_pushed, strand_taken};

int main(void) {
    alarm(300);
    sem_init(&stopped, 0, 0);
    sem_init(&released, 0, 0);
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = stop_here;
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);

    opp_core_config config;
    memset(&config, 0, sizeof(config));
    config.max_apps = 16;
    for (int rank = 0; rank < OPP_RANKS; rank++)
        for (int band = 0; band < OPP_BANDS; band++)
            config.level_of[band][rank] = (uint8_t)(rank < 20 ? 20 * (band + 1) - rank : 20 * band);
    CHECK(opp_core_create(&config, &core) == 0);
    queue = opp_queue_create(core);
    for (int i = 0; i < APPS; i++) apps[i] = opp_app_create(core, (uint8_t)(i % OPP_BANDS), false);

    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
    unsigned random = 20;
    uint64_t least[4] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    bool exhausted = false;
    int stops = 0;
    for (; stops < STOPS && !exhausted; stops++) {
        int victim = (int)(rand_r(&random) % THREADS);
        nap(rand_r(&random) % 2000000);
        CHECK(pthread_kill(threads[victim], SIGUSR2) == 0);
        while (sem_wait(&stopped) != 0) {}
        /* A machine so quick that the numbers run out has been tested enough by then. */
        uint64_t most = 0, before[4];
        for (int i = 0; i < 4; i++) before[i] = others(watched[i], victim);
        /* On a loaded machine the others may need more than that to get a CPU. */
        uint64_t progress[4] = {0};
        bool all_go_on = false;
        for (int naps = 0; naps < 100 && !exhausted && !all_go_on; naps++) {
            nap(100000000);
            for (int i = 0; i < THREADS; i++) {
                uint64_t all = atomic_load(&pushed[i]) + atomic_load(&strand_pushed[i]);
                if (all > most) most = all;
            }
            exhausted = most >= SLOTS;
            all_go_on = true;
            for (int i = 0; i < 4; i++) {
                progress[i] = others(watched[i], victim) - before[i];
                all_go_on = all_go_on && progress[i] > 0;
            }
        }
        for (int i = 0; i < 4; i++)
            if (progress[i] < least[i]) least[i] = progress[i];
        sem_post(&released);
    }
    printf("%d stops; least progress of the others in 100 ms or more: %llu pushed, %llu taken, %llu pushed "
           "to the strand, %llu taken\n",
           stops, (unsigned long long)least[0], (unsigned long long)least[1], (unsigned long long)least[2],
           (unsigned long long)least[3]);
    for (int i = 0; i < 4; i++) CHECK(least[i] > 0);
    CHECK(stops > 3);
    atomic_store(&go, 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);

    for (int i = 0; i < APPS; i++) opp_app_resume(apps[i]);
    opp_producer *producer = opp_producer_acquire(core, 0);
    opp_consumer *consumer = opp_consumer_create(core, producer, NULL);
    opp_taken job;
    opp_job bagged;
    uint64_t rest = 0, strand_rest = 0;
    while (opp_take(consumer, ~(uint64_t)0, &job)) {
        account(job.job);
        rest++;
    }
    while (opp_queue_take(queue, &bagged)) {
        account(bagged);
        strand_rest++;
    }
    CHECK(sum(pushed) == sum(taken) + rest);
    CHECK(sum(strand_pushed) == sum(strand_taken) + strand_rest);
    for (int i = 0; i < THREADS; i++) {
        uint64_t all = atomic_load(&pushed[i]) + atomic_load(&strand_pushed[i]);
        for (uint64_t index = 0; index < all; index++) CHECK(atomic_load(&seen[i][index]) == 1);
    }
    opp_consumer_destroy(consumer);
    opp_producer_release(producer);
    opp_queue_destroy(queue, NULL, NULL);
    opp_core_destroy(core, NULL, NULL);
    return 0;
}
