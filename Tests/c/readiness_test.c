/*
 * Readiness: arming and claiming, edges, ends; and a pool whose parked workers wait in it.
 * R-NET-03, R-CARD-03
 *
 * OPPORTUNE_STRESS=N multiplies the length of the hunt.
 */
#include "opportune.h"

#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void pair(int ends[2]) {
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
}

static void put(int end) {
    CHECK(write(end, "x", 1) == 1);
}

static bool get(int end) {
    char byte;
    return read(end, &byte, 1) == 1;
}

static _Alignas(8) char waiters[4][8];

/* Arms, as a receiver does that has tried in vain. */
static opp_arming arm(opp_readiness *readiness, int end, int waiter) {
    opp_arming arming = opp_readiness_arm(readiness, end, waiters[waiter], 7);
    return arming == OPP_ARMING_READY ? opp_readiness_arm(readiness, end, waiters[waiter], 7) : arming;
}

static void words(void) {
    opp_readiness *readiness = opp_readiness_create();
    CHECK(readiness != NULL);
    int ends[2], others[2];
    pair(ends);
    pair(others);
    opp_harvest harvest;
    CHECK(!opp_readiness_is_used(readiness) && !opp_readiness_has(readiness, ends[0]));
    CHECK(opp_readiness_arm(readiness, ends[0], waiters[0], 7) == OPP_ARMING_REFUSED);
    CHECK(opp_readiness_add(readiness, ends[0]) == 0 && opp_readiness_add(readiness, ends[0]) == 0);
    CHECK(opp_readiness_is_used(readiness) && opp_readiness_has(readiness, ends[0]));
    /* Who arms first may have tried before the descriptor was watched. */
    CHECK(opp_readiness_arm(readiness, ends[0], waiters[0], 7) == OPP_ARMING_READY);
    CHECK(opp_readiness_arm(readiness, ends[0], waiters[0], 7) == OPP_ARMING_DONE);
    CHECK(opp_readiness_arm(readiness, ends[0], waiters[1], 7) == OPP_ARMING_REFUSED); /* one at a time */
    CHECK_EQUAL(opp_readiness_harvest(readiness, &harvest), 0);

    /* An event claims the waiter, once. */
    put(ends[1]);
    CHECK_EQUAL(opp_readiness_harvest(readiness, &harvest), 1);
    CHECK(opp_harvest_waiter(&harvest, 0) == waiters[0]);
    CHECK_EQUAL(opp_readiness_harvest(readiness, &harvest), 0);
    CHECK(!opp_readiness_disarm(readiness, ends[0], waiters[0], 7));
    CHECK(get(ends[0]) && !get(ends[0]));

    /* One that comes while nobody waits is kept until somebody is about to. */
    put(ends[1]);
    CHECK_EQUAL(opp_readiness_harvest(readiness, &harvest), 0);
    CHECK(opp_readiness_arm(readiness, ends[0], waiters[0], 7) == OPP_ARMING_READY);
    CHECK(get(ends[0]));
    CHECK(opp_readiness_arm(readiness, ends[0], waiters[0], 7) == OPP_ARMING_DONE);

    /* Claims for other reasons: by itself, by its tag, at the end of the file, at a removal. */
    CHECK(!opp_readiness_disarm(readiness, ends[0], waiters[1], 7));
    CHECK(opp_readiness_disarm(readiness, ends[0], waiters[0], 7));
    CHECK(arm(readiness, ends[0], 0) == OPP_ARMING_DONE);
    uint32_t cursor = 0;
    CHECK(opp_readiness_claim_tagged(readiness, 8, &cursor) == NULL);
    cursor = 0;
    CHECK(opp_readiness_claim_tagged(readiness, 7, &cursor) == waiters[0]);
    CHECK(opp_readiness_claim_tagged(readiness, 7, &cursor) == NULL);
    CHECK(arm(readiness, ends[0], 0) == OPP_ARMING_DONE);
    CHECK(opp_readiness_remove(readiness, ends[0]) == waiters[0]);
    CHECK(opp_readiness_remove(readiness, ends[0]) == NULL && !opp_readiness_is_used(readiness));
    CHECK(opp_readiness_arm(readiness, ends[0], waiters[0], 7) == OPP_ARMING_REFUSED);

    /* A peer that hangs up is an event too. */
    CHECK(opp_readiness_add(readiness, others[0]) == 0);
    CHECK(arm(readiness, others[0], 2) == OPP_ARMING_DONE);
    close(others[1]);
    CHECK_EQUAL(opp_readiness_harvest(readiness, &harvest), 1);
    CHECK(opp_harvest_waiter(&harvest, 0) == waiters[2]);

    /* What was there before the descriptor was added is an event as well. */
    put(ends[1]);
    CHECK(opp_readiness_add(readiness, ends[0]) == 0);
    CHECK(arm(readiness, ends[0], 1) == OPP_ARMING_DONE); /* it has not tried, for this test */
    CHECK_EQUAL(opp_readiness_harvest(readiness, &harvest), 1);
    CHECK(opp_harvest_waiter(&harvest, 0) == waiters[1]);

    /* The end of the scheduler. */
    CHECK(arm(readiness, ends[0], 1) == OPP_ARMING_DONE);
    opp_readiness_close(readiness);
    cursor = 0;
    CHECK(opp_readiness_claim_any(readiness, &cursor) == waiters[1]);
    CHECK(opp_readiness_claim_any(readiness, &cursor) == NULL);
    CHECK(arm(readiness, ends[0], 1) == OPP_ARMING_REFUSED);
    opp_readiness_destroy(readiness);
    for (int i = 0; i < 2; i++) close(ends[i]);
    close(others[0]);
}

static void refusals(void) {
    opp_readiness *readiness = opp_readiness_create();
    CHECK(readiness != NULL);
    FILE *file = tmpfile(); /* a regular file cannot be polled */
    CHECK(file != NULL);
    int end = fileno(file);
    CHECK(opp_readiness_add(readiness, -1) == -ERANGE);
    CHECK(opp_readiness_add(readiness, OPP_READINESS_DESCRIPTORS) == -ERANGE);
    CHECK(opp_readiness_remove(readiness, -1) == NULL);
    CHECK(!opp_readiness_disarm(readiness, -1, waiters[0], 7));
    CHECK(opp_readiness_add(readiness, end) == -EPERM);
    CHECK(arm(readiness, end, 0) == OPP_ARMING_DONE); /* meanwhile */
    CHECK(opp_readiness_remove(readiness, end) == waiters[0]);
    CHECK(!opp_readiness_is_used(readiness));
    int ends[2];
    pair(ends);
    CHECK(opp_readiness_add(readiness, ends[0]) == 0);
    CHECK(opp_readiness_arm(readiness, ends[0], waiters[0] + 1, 7) == OPP_ARMING_REFUSED);
    CHECK(opp_readiness_arm(readiness, ends[0], (void *)(1ull << 48), 7) == OPP_ARMING_REFUSED);
    opp_readiness_destroy(readiness);
    fclose(file);
    for (int i = 0; i < 2; i++) close(ends[i]);
}

/* --- A pool that leads --------------------------------------------------------------------------- */

/* Two workers of a pool, which are stepped without threads, and a connection. */
typedef struct steps {
    opp_core *core;
    opp_pool *pool;
    opp_readiness *readiness;
    opp_consumer *consumers[2];
    opp_worker *one, *two;
    int ends[2];
} steps;

static steps steps_make(void) {
    opp_core_config config = {.max_apps = 1};
    steps made;
    CHECK(opp_core_create(&config, &made.core) == 0);
    made.pool = opp_pool_create(1);
    made.readiness = opp_readiness_create();
    CHECK(made.pool != NULL && made.readiness != NULL);
    opp_pool_set_levels(made.pool, ~0ull, 0, 0);
    opp_pool_set_readiness(made.pool, made.readiness);
    opp_pool_serve(made.pool, made.core, NULL, 0);
    int error = 0;
    opp_producer *producer = opp_thread_producer(made.core, 0, &error);
    for (int i = 0; i < 2; i++) made.consumers[i] = opp_consumer_create(made.core, producer, NULL);
    made.one = opp_pool_worker(made.pool, 0);
    made.two = opp_pool_worker(made.pool, 1);
    pair(made.ends);
    return made;
}

/* The second worker is parked, or has got up. */
static void steps_end(steps *all) {
    opp_pool_close(all->pool);
    opp_worker_end(all->one);
    for (int i = 0; i < 2; i++) opp_consumer_destroy(all->consumers[i]);
    opp_readiness_destroy(all->readiness);
    opp_pool_destroy(all->pool);
    opp_core_destroy(all->core, NULL, NULL);
    for (int i = 0; i < 2; i++) close(all->ends[i]);
}

/* The steps of one worker and of a second one. */
static void leading(void) {
    steps all = steps_make();
    opp_pool *pool = all.pool;
    opp_readiness *readiness = all.readiness;
    opp_worker *one = all.one, *two = all.two;
    const int *ends = all.ends;
    opp_worker_begin(one, all.consumers[0]);
    opp_worker_begin(two, all.consumers[1]);

    CHECK(opp_pool_needs_leader(pool) == OPP_WAKE_NOTHING); /* nothing is watched */
    CHECK(opp_readiness_add(readiness, ends[0]) == 0);
    CHECK(opp_pool_needs_leader(pool) == OPP_WAKE_START);   /* nobody is parked */
    CHECK(opp_pool_needs_leader(pool) == OPP_WAKE_NOTHING); /* one is coming */

    /* Who parks leads, and gets up with a token for what it has harvested. */
    opp_harvest harvest;
    CHECK(arm(readiness, ends[0], 0) == OPP_ARMING_DONE);
    put(ends[1]);
    CHECK(opp_worker_begin_park(one) == OPP_PARKED_SLEEPS);
    CHECK(opp_worker_end_park(one, &harvest) == OPP_PARKED_WORKS);
    CHECK(harvest.count == 1 && opp_harvest_waiter(&harvest, 0) == waiters[0]);
    CHECK(opp_worker_read_state(one) == OPP_WORKER_RUNNING && opp_pool_working(pool) == 1);

    /* Then it has the other one lead, which parks once more for that. */
    CHECK(opp_worker_begin_park(two) == OPP_PARKED_SLEEPS);
    CHECK(opp_worker_passes_lead(one) == OPP_WAKE_NOTHING);
    CHECK(opp_worker_read_state(two) == OPP_WORKER_APPOINTED);
    CHECK(opp_pool_park(pool, 1) == OPP_WOKEN_TO_LEAD);
    steps_end(&all);
}

/* A worker that was to be started to lead is not, or does something else: another leads. R-NET-03 */
static void leaders_that_do_not_come(void) {
    steps all = steps_make();
    opp_pool *pool = all.pool;
    opp_readiness *readiness = all.readiness;
    opp_worker *one = all.one, *two = all.two;
    CHECK(opp_readiness_add(readiness, all.ends[0]) == 0);
    CHECK(!opp_pool_awaits_leader(pool));
    CHECK(opp_pool_needs_leader_still(pool) == OPP_WAKE_NOTHING); /* nobody was to come */
    CHECK(opp_pool_needs_leader(pool) == OPP_WAKE_START);
    CHECK(opp_pool_awaits_leader(pool));
    CHECK(opp_pool_needs_leader_still(pool) == OPP_WAKE_START); /* it could not be started */

    /* It is started, and works instead. */
    opp_worker_begin(one, all.consumers[0]);
    CHECK(opp_worker_passes_lead(one) == OPP_WAKE_START);
    CHECK(opp_worker_passes_lead(one) == OPP_WAKE_NOTHING); /* told once */

    /* Another has parked meanwhile. */
    opp_worker_begin(two, all.consumers[1]);
    CHECK(opp_worker_begin_park(two) == OPP_PARKED_SLEEPS);
    CHECK(opp_pool_needs_leader_still(pool) == OPP_WAKE_NOTHING);
    CHECK(opp_worker_read_state(two) == OPP_WORKER_APPOINTED);
    CHECK(opp_pool_park(pool, 1) == OPP_WOKEN_TO_LEAD);

    steps_end(&all);
}

/* --- Threads: each byte is received, whoever waits --------------------------------------------------- */

#define WORKERS 3
#define CONNECTIONS 4

/* A connection is a job that a worker runs: it reads all there is, then arms. */
typedef struct connection {
    _Alignas(8) int end, peer, number;
    uint64_t received;
    _Atomic(uint32_t) queued; /* at most once: one resume each */
} connection;

static connection connections[CONNECTIONS];
static opp_core *core;
static opp_app *app;
static opp_pool *pool;
static opp_readiness *readiness;
static uint64_t wanted;
static _Atomic(uint64_t) finished;

static void resume(connection *which, opp_producer *producer, opp_worker *self) {
    CHECK(atomic_fetch_add(&which->queued, 1) == 0);
    opp_submitted submitted = opp_submit(producer, app, 0, (opp_job){which, 0}, self);
    CHECK(submitted.level >= 0);
}

static void serve(connection *which) {
    atomic_fetch_sub(&which->queued, 1);
    for (;;) {
        char bytes[64];
        ssize_t count = read(which->end, bytes, sizeof(bytes));
        if (count > 0) {
            which->received += (uint64_t)count;
            continue;
        }
        if (count == 0) {
            CHECK_EQUAL(which->received, wanted);
            atomic_fetch_add(&finished, 1);
            return;
        }
        opp_arming arming = opp_readiness_arm(readiness, which->end, which, (uint16_t)which->number);
        CHECK(arming != OPP_ARMING_REFUSED);
        if (arming == OPP_ARMING_DONE) return;
    }
}

static void resume_all(opp_harvest *harvest, opp_producer *producer, opp_worker *self) {
    for (uint32_t i = 0; i < harvest->count; i++) resume(opp_harvest_waiter(harvest, i), producer, self);
}

static void *work(void *context) {
    uint32_t slot = (uint32_t)(uintptr_t)context;
    int error = 0;
    opp_producer *producer = opp_thread_producer(core, 0, &error);
    opp_consumer *consumer = opp_consumer_create(core, producer, NULL);
    opp_worker *self = opp_pool_worker(pool, slot);
    opp_worker_begin(self, consumer);
    opp_parked parked = OPP_PARKED_WORKS;
    while (parked != OPP_PARKED_ENDS) {
        opp_taken taken;
        opp_harvest harvest;
        if (opp_worker_next(self, 0, false, &taken) == OPP_NEXT_JOB) {
            serve((connection *)taken.job.ptr);
            opp_worker_job_ended(self);
            if (opp_worker_harvest(self, opp_now_ns(), &harvest)) resume_all(&harvest, producer, self);
            continue;
        }
        do {
            parked = opp_worker_begin_park(self);
            while (parked == OPP_PARKED_SLEEPS) {
                parked = opp_worker_end_park(self, &harvest);
                resume_all(&harvest, producer, self);
            }
        } while (parked == OPP_PARKED_AGAIN);
        /* A thread cannot be started here: those that there are must do. */
        opp_wake wake = opp_worker_passes_lead(self);
        (void)wake;
    }
    opp_worker_end(self);
    opp_consumer_destroy(consumer);
    return NULL;
}

/* Disturbs: claims waiters that nothing has come for, and resumes them. */
static void *disturb(void *context) {
    (void)context;
    int error = 0;
    opp_producer *producer = opp_thread_producer(core, 0, &error);
    while (atomic_load(&finished) < CONNECTIONS) {
        for (int i = 0; i < CONNECTIONS; i++) {
            connection *which = &connections[i];
            if (opp_readiness_disarm(readiness, which->end, which, (uint16_t)i))
                resume(which, producer, NULL);
        }
        sched_yield();
    }
    return NULL;
}

static void *feed(void *context) {
    connection *which = context;
    for (uint64_t i = 0; i < wanted; i++) {
        while (write(which->peer, "x", 1) != 1) sched_yield();
        if (i % 7 == 0) sched_yield();
    }
    close(which->peer);
    return NULL;
}

static void hunt(uint32_t tokens) {
    opp_core_config config = {.max_apps = 2};
    wanted = 5000ull * stress();
    atomic_store(&finished, 0);
    CHECK(opp_core_create(&config, &core) == 0);
    app = opp_app_create(core, 0, false);
    pool = opp_pool_create(tokens);
    readiness = opp_readiness_create();
    opp_pool_set_levels(pool, ~0ull, 0, 0);
    opp_pool_set_readiness(pool, readiness);
    opp_pool_serve(pool, core, NULL, 0);
    pthread_t threads[WORKERS], feeders[CONNECTIONS], other;
    for (uint32_t i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i) == 0);
    int error = 0;
    opp_producer *producer = opp_thread_producer(core, 0, &error);
    for (int i = 0; i < CONNECTIONS; i++) {
        int ends[2];
        pair(ends);
        connections[i] = (connection){.end = ends[0], .peer = ends[1], .number = i};
        CHECK(opp_readiness_add(readiness, ends[0]) == 0);
        opp_wake wake = opp_pool_needs_leader(pool); /* as below, nobody can be started here */
        (void)wake;
        resume(&connections[i], producer, NULL);
        CHECK(pthread_create(&feeders[i], NULL, feed, &connections[i]) == 0);
    }
    CHECK(pthread_create(&other, NULL, disturb, NULL) == 0);
    for (int i = 0; i < CONNECTIONS; i++) CHECK(pthread_join(feeders[i], NULL) == 0);
    CHECK(pthread_join(other, NULL) == 0); /* ends when each byte was received */
    for (int i = 0; i < CONNECTIONS; i++) {
        CHECK(opp_readiness_remove(readiness, connections[i].end) == NULL);
        close(connections[i].end);
    }
    opp_pool_close(pool);
    for (uint32_t i = 0; i < WORKERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    opp_readiness_destroy(readiness);
    opp_pool_destroy(pool);
    opp_app_destroy(app);
    opp_core_destroy(core, NULL, NULL);
}

int main(void) {
    words();
    refusals();
    leading();
    leaders_that_do_not_come();
    hunt(1);
    hunt(2);
    hunt(WORKERS + 1);
    return 0;
}
