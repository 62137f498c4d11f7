/* The run queue: order, levels, suspension, conservation under stress. R-CARD-03, R-CARD-07, R-FTS-09 */
#include "opportune.h"

#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALL (~(uint64_t)0)
enum { BACKGROUND, FOREGROUND };

static opp_core_config config_make(void) {
    opp_core_config config;
    memset(&config, 0, sizeof(config));
    config.max_apps = 4096;
    for (int rank = 0; rank < OPP_RANKS; rank++) {
        config.level_of[0][rank] = (uint8_t)(rank < 20 ? 20 - rank : 0);
        config.level_of[1][rank] = (uint8_t)(rank < 30 ? 50 - rank : 20);
        config.level_of[2][rank] = (uint8_t)(rank < 12 ? 63 - rank : 51);
    }
    return config;
}

static opp_core *core_make(void) {
    opp_core_config config = config_make();
    opp_core *core;
    CHECK(opp_core_create(&config, &core) == 0);
    return core;
}

/* Of the test that runs: a run queue with one producer, which the consumer takes for its own. */
static opp_core *core;
static opp_producer *producer;
static opp_consumer *consumer;

static void begin(void) {
    core = core_make();
    producer = opp_producer_acquire(core, 0);
    consumer = opp_consumer_create(core, producer, NULL);
}

static void end(void) {
    opp_consumer_destroy(consumer);
    opp_core_destroy(core, NULL, NULL);
}

static opp_job job_of(uint64_t number) {
    opp_job job = {(void *)(uintptr_t)number, (uint32_t)number};
    return job;
}

static uint64_t number_of(opp_job job) {
    CHECK((uint32_t)(uintptr_t)job.ptr == job.tag);
    return (uint64_t)(uintptr_t)job.ptr;
}

static void test_bad_config(void) {
    opp_core_config config = config_make();
    opp_core *core;
    config.max_apps = 0;
    CHECK(opp_core_create(&config, &core) < 0 && core == NULL);
    config = config_make();
    config.level_of[1][3] = 64;
    CHECK(opp_core_create(&config, &core) < 0);
    config = config_make();
    config.level_of[1][3] = 51; /* rises with the rank */
    CHECK(opp_core_create(&config, &core) < 0);
}

static void test_order_and_levels(void) {
    begin();
    opp_app *back = opp_app_create(core, BACKGROUND, false), *fore = opp_app_create(core, FOREGROUND, false);
    opp_taken taken;
    CHECK(!opp_take(consumer, ALL, &taken));
    for (uint64_t i = 0; i < 1000; i++) {
        CHECK(opp_push(producer, back, 3, job_of(i)) == 17);
        CHECK(opp_push(producer, fore, 5, job_of(10000 + i)) == 45);
    }
    CHECK(opp_push(producer, fore, 4, job_of(7)) == 46);
    CHECK(opp_app_queued(fore) == 1001);
    CHECK(opp_take(consumer, ALL, &taken) && number_of(taken.job) == 7 && taken.level == 46 &&
          taken.app == fore);
    /* R-CPU-03: a mask is a pool; the background pool sees nothing of the foreground's. */
    CHECK(opp_take(consumer, (1ull << 21) - 1, &taken) && number_of(taken.job) == 0 && taken.app == back);
    for (uint64_t i = 0; i < 1000; i++)
        CHECK(opp_take(consumer, ALL, &taken) && number_of(taken.job) == 10000 + i);
    for (uint64_t i = 1; i < 1000; i++) CHECK(opp_take(consumer, ALL, &taken) && number_of(taken.job) == i);
    CHECK(!opp_take(consumer, ALL, &taken));
    CHECK(!opp_has_ready(core, ALL) && opp_ready_levels(core, ALL) == 0);
    end();
}

static void test_steps(void) {
    begin();
    opp_app *app = opp_app_create(core, BACKGROUND, false), *other = opp_app_create(core, BACKGROUND, false);
    opp_taken taken;
    uint64_t generation = opp_app_state_read(app).generation;
    for (uint64_t i = 0; i < 300; i++) CHECK(opp_push(producer, app, 2, job_of(i)) == 18);
    CHECK(opp_app_suspend(app) && !opp_app_suspend(app));
    CHECK(opp_app_state_read(app).suspended && opp_app_state_read(app).generation > generation);
    CHECK(opp_push(producer, app, 2, job_of(300)) == OPP_LEVEL_NONE);
    CHECK(!opp_take(consumer, ALL, &taken));
    CHECK(opp_push(producer, other, 9, job_of(1)) == 11); /* R-FTS-09: the other app goes on */
    CHECK(opp_take(consumer, ALL, &taken) && taken.app == other);
    CHECK(opp_app_resume(app) && !opp_app_resume(app));
    CHECK(opp_take(consumer, ALL, &taken) && number_of(taken.job) == 0);
    CHECK(opp_app_running(app) == 1);
    CHECK(opp_app_set_band(app, FOREGROUND) && !opp_app_set_band(app, FOREGROUND));
    CHECK(opp_push(producer, app, 2, job_of(301)) == 48);
    CHECK(opp_take(consumer, ALL, &taken));
    CHECK(taken.level == 48 && taken.band == FOREGROUND && number_of(taken.job) == 1);
    for (uint64_t i = 2; i <= 301; i++)
        CHECK(opp_take(consumer, ALL, &taken) && number_of(taken.job) == i && taken.level == 48);
    opp_consumer_leave_app(consumer);
    CHECK(opp_app_running(app) == 0);
    end();
}

static opp_consumer *leaving;
static opp_app *left[4];
static int left_count;

static void leave(void *context, opp_app *app) {
    CHECK(context == &left_count && left_count < 4);
    CHECK(opp_consumer_current(leaving) == app && opp_app_running(app) == 1);
    left[left_count++] = app;
}

/* Who is told that a consumer leaves an app is told before others can see it. R-FTS-09 */
static void test_leaving(void) {
    opp_core_config config = config_make();
    config.on_leave = leave;
    config.context = &left_count;
    opp_core *core;
    CHECK(opp_core_create(&config, &core) == 0);
    opp_producer *producer = opp_producer_acquire(core, 0);
    opp_consumer *consumer = leaving = opp_consumer_create(core, producer, NULL);
    opp_app *app = opp_app_create(core, FOREGROUND, false), *other = opp_app_create(core, BACKGROUND, false);
    opp_taken taken;
    for (uint64_t i = 0; i < 3; i++) CHECK(opp_push(producer, i < 2 ? app : other, 2, job_of(i)) > 0);
    CHECK(opp_take(consumer, ALL, &taken) && opp_take(consumer, ALL, &taken) && taken.app == app);
    CHECK(left_count == 0);
    CHECK(opp_take(consumer, ALL, &taken) && taken.app == other);
    CHECK(left_count == 1 && left[0] == app);
    opp_consumer_leave_app(consumer);
    opp_consumer_leave_app(consumer);
    CHECK(left_count == 2 && left[1] == other && opp_app_running(other) == 0);
    opp_consumer_destroy(consumer);
    opp_core_destroy(core, NULL, NULL);
}

/* A producer that feeds itself must not starve an outside job. */
static void test_bypass(void) {
    opp_core *core = core_make();
    opp_producer *own = opp_producer_acquire(core, 0), *outside = opp_producer_acquire(core, 0);
    opp_consumer *consumer = opp_consumer_create(core, own, NULL);
    opp_app *app = opp_app_create(core, FOREGROUND, false);
    opp_taken taken;
    for (uint64_t i = 0; i < 200; i++) CHECK(opp_push(own, app, 5, job_of(i)) >= 0);
    for (int round = 0; round < 50; round++) {
        CHECK(opp_push(outside, app, 5, job_of(999999)) >= 0);
        uint64_t later = 0, first_later = 200 + (uint64_t)round * 1000000;
        for (;;) {
            CHECK(opp_take(consumer, ALL, &taken));
            uint64_t number = number_of(taken.job);
            if (number == 999999) break;
            if (number >= 1000000) later++;
            CHECK(later <= OPP_BYPASS_MAX);
            CHECK(opp_push(own, app, 5, job_of(1000000 + (first_later + later) % 1000)) >= 0);
        }
        while (opp_app_queued(app) > 0) CHECK(opp_take(consumer, ALL, &taken));
        for (uint64_t i = 0; i < (uint64_t)round * 3; i++) CHECK(opp_push(own, app, 5, job_of(i)) >= 0);
    }
    opp_consumer_destroy(consumer);
    opp_core_destroy(core, NULL, NULL);
}

/*
 * A worker whose jobs each push the next serves an outside job after one of its own at most, if it ends its
 * turn before each take, as it does between long jobs; else it would serve dozens before.
 */
static void test_turns_of_producers(void) {
    opp_core *core = core_make();
    opp_producer *own = opp_producer_acquire(core, 0), *other = opp_producer_acquire(core, 0);
    opp_producer *outside[2] = {opp_producer_acquire(core, 0), opp_producer_acquire(core, 0)};
    opp_consumer *consumer = opp_consumer_create(core, own, NULL),
        *colleague = opp_consumer_create(core, other, NULL);
    opp_consumer_set_group(consumer, 1);
    opp_consumer_set_group(colleague, 1);
    opp_app *app = opp_app_create(core, FOREGROUND, false);
    opp_taken taken;
    opp_consumer *consumers[2] = {consumer, colleague};
    /* more than one job each before the outside's: where epochs passed fast the oldest goes first */
    int late = 0;
    for (uint64_t i = 0; i < 10; i++) CHECK(opp_push(i % 2 ? own : other, app, 5, job_of(1)) >= 0);
    for (int round = 0; round < 100; round++) {
        CHECK(opp_push(outside[round % 2], app, 5, job_of(999999)) >= 0);
        for (int before = 0;; before++) {
            opp_consumer_end_turn(consumers[before % 2]);
            CHECK(opp_take(consumers[before % 2], ALL, &taken));
            if (number_of(taken.job) == 999999) break;
            late += before == 2;
            CHECK(before < 10); /* never later than in the order of pushes */
            CHECK(opp_push(before % 2 ? other : own, app, 5, taken.job) >= 0);
        }
        for (int n = 0; n < round % 40; n++)
            CHECK(opp_take(consumers[n % 2], ALL, &taken) &&
                  opp_push(n % 2 ? other : own, app, 5, taken.job) >= 0);
    }
    CHECK(late <= 4);
    /* Turns of the own queue and of outside ones take turns; and so do those, as long as their jobs are as
     * old. */
    while (opp_app_queued(app) > 0) CHECK(opp_take(consumer, ALL, &taken));
    for (uint64_t i = 0; i < 8; i++) {
        CHECK(opp_push(own, app, 5, job_of(1)) >= 0);
        for (uint64_t n = 0; n < 2; n++) CHECK(opp_push(outside[n], app, 5, job_of(10 + n)) >= 0);
    }
    uint64_t served[3] = {0};
    for (uint64_t i = 0; i < 12; i++) {
        opp_consumer_end_turn(consumer);
        CHECK(opp_take(consumer, ALL, &taken));
        served[taken.stolen ? number_of(taken.job) - 9 : 0]++;
    }
    CHECK(served[0] == 6 && served[1] == 3 && served[2] == 3);
    /* Within a turn the own queue comes first. */
    while (opp_app_queued(app) > 0) CHECK(opp_take(consumer, ALL, &taken));
    opp_consumer_end_turn(consumer);
    /* the outside's turn, */
    CHECK(opp_push(outside[0], app, 5, job_of(3)) >= 0 && opp_take(consumer, ALL, &taken));
    opp_consumer_end_turn(consumer);                                                        /* hence ours */
    for (uint64_t i = 0; i < 5; i++) CHECK(opp_push(outside[0], app, 5, job_of(i)) >= 0);
    for (uint64_t i = 0; i < 5; i++) CHECK(opp_push(own, app, 5, job_of(100 + i)) >= 0);
    for (uint64_t i = 0; i < 5; i++)
        CHECK(opp_take(consumer, ALL, &taken) && number_of(taken.job) == 100 + i);
    while (opp_take(consumer, ALL, &taken)) {}
    /* A colleague's queue is left to it; who leaves the group leaves it to all. */
    for (int joined = 1; joined >= 0; joined--) {
        opp_consumer_set_group(colleague, (uint32_t)joined);
        /* ours was the last turn */
        CHECK(opp_push(own, app, 5, job_of(1)) >= 0 && opp_take(consumer, ALL, &taken));
        CHECK(opp_push(other, app, 5, job_of(2)) >= 0 && opp_push(own, app, 5, job_of(1)) >= 0);
        opp_consumer_end_turn(consumer);
        CHECK(opp_take(consumer, ALL, &taken) && taken.stolen == !joined);
        while (opp_take(consumer, ALL, &taken)) {}
    }
    opp_consumer_destroy(consumer);
    opp_consumer_destroy(colleague);
    opp_core_destroy(core, NULL, NULL);
}

/* With the turn's end another app of the level is served, after one job as after OPP_TURN. */
static void test_turns_of_apps(void) {
    begin();
    opp_app *apps[3];
    opp_taken taken;
    for (int i = 0; i < 3; i++) apps[i] = opp_app_create(core, FOREGROUND, false);
    for (int i = 0; i < 3; i++)
        for (uint64_t n = 0; n < 50; n++) CHECK(opp_push(producer, apps[i], 5, job_of(n)) >= 0);
    const opp_app *last = NULL;
    for (uint64_t n = 0; n < 60; n++) {
        opp_consumer_end_turn(consumer);
        CHECK(opp_take(consumer, ALL, &taken) && taken.app != last);
        last = taken.app;
    }
    end();
}

/* Apps at one level are served in turn. */
static void test_turns(void) {
    begin();
    opp_app *apps[100];
    opp_taken taken;
    for (int i = 0; i < 100; i++) apps[i] = opp_app_create(core, FOREGROUND, false);
    for (int i = 0; i < 100; i++)
        for (int n = 0; n < (i == 50 ? 10000 : 1); n++)
            CHECK(opp_push(producer, apps[i], 5, job_of((uint64_t)i)) >= 0);
    uint64_t others = 0, taken_count = 0;
    while (others < 99) {
        CHECK(opp_take(consumer, ALL, &taken));
        others += number_of(taken.job) != 50;
        taken_count++;
    }
    CHECK(taken_count <= 99 + 2 * OPP_TURN);
    end();
}

/* However much an app has, and though its consumer remembers where it took last, another at its level gets
 * its turn. */
static void test_turns_of_two(void) {
    begin();
    opp_app *first = opp_app_create(core, FOREGROUND, false),
        *second = opp_app_create(core, FOREGROUND, false);
    opp_taken taken;
    for (uint64_t i = 0; i < 1000; i++) CHECK(opp_push(producer, first, 5, job_of(i)) == 45);
    for (uint64_t i = 0; i < 10 * OPP_TURN + 3; i++)
        CHECK(opp_take(consumer, ALL, &taken) && taken.app == first && number_of(taken.job) == i &&
              taken.level == 45);
    for (uint64_t i = 0; i < 1000; i++) CHECK(opp_push(producer, second, 5, job_of(i)) == 45);
    unsigned row = 0;
    const opp_app *last = first;
    while (opp_app_queued(first) > 0 && opp_app_queued(second) > 0) {
        CHECK(opp_take(consumer, ALL, &taken));
        row = taken.app == last ? row + 1 : 1;
        last = taken.app;
        CHECK(row <= OPP_TURN);
    }
    end();
}

/* The turn that is over is not forgotten over a job of another level. */
static void test_turns_beside_another_level(void) {
    begin();
    opp_app *first = opp_app_create(core, FOREGROUND, false),
        *second = opp_app_create(core, FOREGROUND, false);
    opp_taken taken;
    for (uint64_t i = 0; i < 2 * OPP_TURN; i++) CHECK(opp_push(producer, first, 5, job_of(i)) == 45);
    CHECK(opp_push(producer, second, 5, job_of(0)) == 45);
    for (int i = 0; i < OPP_TURN; i++)
        CHECK(opp_take(consumer, ALL, &taken) && taken.app == first && taken.level == 45);
    CHECK(opp_push(producer, first, 4, job_of(0)) == 46 && opp_take(consumer, ALL, &taken) &&
          taken.level == 46);
    CHECK(opp_take(consumer, ALL, &taken) && taken.app == second);
    end();
}

/* Of ranks that share a level none waits for all of another, whatever was taken last. Ranks from 30 on do
 * here. */
static void test_ranks_of_one_level(void) {
    begin();
    opp_app *app = opp_app_create(core, FOREGROUND, false);
    opp_taken taken;
    for (uint64_t i = 0; i < 10000; i++) CHECK(opp_push(producer, app, 30, job_of(i)) == 20);
    for (uint64_t i = 0; i < 100; i++) CHECK(opp_take(consumer, ALL, &taken) && taken.rank == 30);
    CHECK(opp_push(producer, app, 40, job_of(1)) == 20);
    unsigned waited = 0;
    do {
        CHECK(opp_take(consumer, ALL, &taken) && taken.level == 20);
        waited++;
    } while (taken.rank != 40);
    CHECK(waited <= OPP_TURN + OPP_RANKS);
    end();
}

/* What producer and consumer remember of an app counts no more after a step of it, nor for the next owner of
 * its place. */
static void test_memory_of_places(void) {
    begin();
    opp_taken taken;
    for (uint64_t i = 0; i < 200; i++) {
        opp_app *app = opp_app_create(core, (uint8_t)(i % 2), i % 5 == 0);
        bool suspended = i % 5 == 0;
        int level = i % 2 == BACKGROUND ? 17 : 47;
        for (uint64_t n = 0; n < 3; n++)
            CHECK(opp_push(producer, app, 3, job_of(n)) == (suspended ? OPP_LEVEL_NONE : level));
        CHECK(suspended == !opp_take(consumer, ALL, &taken));
        if (suspended) CHECK(opp_app_resume(app) && opp_take(consumer, ALL, &taken));
        CHECK(taken.app == app && taken.level == level && taken.band == i % 2 && number_of(taken.job) == 0);
        CHECK(opp_app_set_band(app, (uint8_t)(1 - i % 2)) &&
              opp_push(producer, app, 3, job_of(3)) == 64 - level);
        for (uint64_t n = 1; n < 4; n++)
            CHECK(opp_take(consumer, ALL, &taken) && number_of(taken.job) == n && taken.level == 64 - level);
        CHECK(opp_app_suspend(app) && opp_push(producer, app, 3, job_of(4)) == OPP_LEVEL_NONE);
        CHECK(!opp_take(consumer, ALL, &taken) && opp_app_resume(app) && opp_take(consumer, ALL, &taken));
        opp_consumer_leave_app(consumer);
        opp_app_destroy(app);
    }
    CHECK(!opp_take(consumer, ALL, &taken));
    end();
}

/* The next owner of a place may have the last one's word, and has its own jobs, levels and context all the
 * same. */
static void test_a_word_that_comes_back(void) {
    opp_core *core = core_make();
    opp_producer *producer = opp_producer_acquire(core, 0), *other = opp_producer_acquire(core, 0);
    opp_consumer *consumer = opp_consumer_create(core, producer, NULL);
    opp_taken taken;
    const opp_app *place = NULL;
    for (uint64_t i = 0; i < 200; i++) {
        opp_app *app = opp_app_create(core, FOREGROUND, false);
        CHECK((place == NULL || app == place) && opp_app_context(app) == NULL);
        CHECK(opp_app_state_read(app).generation == 0 && opp_app_queued(app) == 0);
        opp_app_set_context(app, &taken.job + i % 2);
        place = app;
        for (uint64_t n = 0; n < 3 * OPP_TURN; n++) {
            CHECK(opp_push(producer, app, 3, job_of(2 * n)) == 47 &&
                  opp_push(other, app, 3, job_of(2 * n + 1)) == 47);
            if (n % 5 == 4) opp_producer_release(other), other = opp_producer_acquire(core, 0);
        }
        uint64_t sum = 0;
        for (uint64_t n = 0; n < 6 * OPP_TURN; n++) {
            CHECK(opp_take(consumer, ALL, &taken) && taken.app == app && taken.level == 47 &&
                  taken.band == FOREGROUND);
            CHECK(taken.context == &taken.job + i % 2);
            sum += number_of(taken.job);
        }
        CHECK(sum == 6 * OPP_TURN * (6 * OPP_TURN - 1) / 2 && !opp_take(consumer, ALL, &taken));
        /* Its consumer has not rested: it says that it is inside of the place still, which nobody minds. */
        opp_app_destroy(app);
    }
    opp_consumer_destroy(consumer);
    opp_core_destroy(core, NULL, NULL);
}

/* The place of an app that has gone is the next one's, so that memory is bounded by the apps that live at
 * once. */
static void test_places(void) {
    opp_core *core = core_make();
    opp_app *apps[20];
    for (int i = 0; i < 20; i++) apps[i] = opp_app_create(core, FOREGROUND, false);
    opp_app_destroy(apps[12]);
    opp_app_destroy(apps[3]);
    CHECK(opp_app_create(core, FOREGROUND, false) == apps[3]);
    CHECK(opp_app_create(core, FOREGROUND, false) == apps[12]);
    uint64_t bytes = opp_core_memory(core);
    for (int i = 0; i < 1000; i++) opp_app_destroy(opp_app_create(core, FOREGROUND, false));
    CHECK(opp_core_memory(core) - bytes < bytes / 10);
    opp_core_destroy(core, NULL, NULL);
}

/* A level's ready bits are looked through as far as apps ever were, whichever of them has something. */
static void test_many_apps(void) {
    enum { MANY = 1000 };
    begin();
    opp_app *apps[MANY];
    opp_taken taken;
    CHECK(!opp_take(consumer, ALL, &taken)); /* without any */
    for (int i = 0; i < MANY; i++) {
        apps[i] = opp_app_create(core, FOREGROUND, false);
        CHECK(opp_push(producer, apps[i], 5, job_of((uint64_t)i)) == 45);
        CHECK(opp_take(consumer, ALL, &taken) && taken.app == apps[i]);
        CHECK(!opp_take(consumer, ALL, &taken) && opp_ready_levels(core, ALL) == 0);
    }
    /* However far it is from the one that was served last. */
    for (int i = 0; i < MANY; i++)
        for (int step = 0; step < 2; step++) {
            opp_app *app = apps[step == 0 ? MANY / 2 : i];
            CHECK(opp_push(producer, app, 5, job_of((uint64_t)i)) == 45 && opp_has_ready(core, ALL));
            CHECK(opp_take(consumer, ALL, &taken) && taken.app == app);
            CHECK(!opp_take(consumer, ALL, &taken) && opp_ready_levels(core, ALL) == 0);
        }
    for (int i = MANY - 1; i >= 0; i--) CHECK(opp_push(producer, apps[i], 5, job_of((uint64_t)i)) == 45);
    for (int i = 0; i < MANY; i++) {
        CHECK(opp_has_ready(core, ALL) && opp_take(consumer, ALL, &taken));
        uint64_t number = number_of(taken.job);
        CHECK(taken.app == apps[number] && opp_app_queued(apps[number]) == 0);
    }
    CHECK(!opp_take(consumer, ALL, &taken) && opp_ready_levels(core, ALL) == 0);
    end();
}

/* NUMA: near producers first, where the order allows. */
static void test_near_first(void) {
    opp_core *core = core_make();
    uint8_t distance[64];
    memset(distance, 30, sizeof(distance));
    distance[3] = 10;
    opp_producer *own = opp_producer_acquire(core, 3), *far = opp_producer_acquire(core, 0),
        *near = opp_producer_acquire(core, 3);
    opp_consumer *consumer = opp_consumer_create(core, own, distance);
    opp_app *app = opp_app_create(core, FOREGROUND, false);
    opp_taken taken;
    CHECK(opp_push(far, app, 5, job_of(1)) >= 0);
    CHECK(opp_push(near, app, 5, job_of(2)) >= 0);
    CHECK(opp_push(own, app, 5, job_of(3)) >= 0);
    CHECK(opp_take(consumer, ALL, &taken) && number_of(taken.job) == 3 && !taken.stolen);
    CHECK(opp_take(consumer, ALL, &taken) && number_of(taken.job) == 2 && taken.stolen);
    CHECK(opp_take(consumer, ALL, &taken) && number_of(taken.job) == 1);
    opp_consumer_destroy(consumer);
    opp_core_destroy(core, NULL, NULL);
}

/* A finished thread's producer is adopted with what it left. */
static void test_adoption(void) {
    opp_core *core = core_make();
    opp_producer *producer = opp_producer_acquire(core, 0);
    opp_app *app = opp_app_create(core, FOREGROUND, false);
    CHECK(opp_push(producer, app, 5, job_of(1)) >= 0);
    opp_producer_release(producer);
    opp_producer *heir = opp_producer_acquire(core, 0);
    CHECK(heir == producer);
    CHECK(opp_push(heir, app, 5, job_of(2)) >= 0);
    opp_consumer *consumer = opp_consumer_create(core, heir, NULL);
    opp_taken taken;
    CHECK(opp_take(consumer, ALL, &taken) && number_of(taken.job) == 1);
    CHECK(opp_take(consumer, ALL, &taken) && number_of(taken.job) == 2);
    opp_consumer_destroy(consumer);
    opp_core_destroy(core, NULL, NULL);
}

/* Memory: a long queue's segments go back and are used again. */
static void test_memory(void) {
    begin();
    opp_app *app = opp_app_create(core, FOREGROUND, false);
    opp_taken taken;
    uint64_t after_first = 0;
    for (int round = 0; round < 5; round++) {
        for (uint64_t i = 0; i < 10000; i++)
            CHECK(opp_push(producer, app, (uint8_t)(5 + round), job_of(i)) >= 0);
        for (uint64_t i = 0; i < 10000; i++)
            CHECK(opp_take(consumer, ALL, &taken) && number_of(taken.job) == i);
        if (round == 0) after_first = opp_core_memory(core);
    }
    CHECK(opp_core_memory(core) <= after_first + 32768);
    end();
}

/* Stress: every job is taken exactly once, in order by producer, apps suspended and moved meanwhile. */
enum { PRODUCERS = 3, CONSUMERS = 3, APPS = 5, JOBS = 60000 };
static _Atomic(uint8_t) seen[PRODUCERS][JOBS];
static _Atomic(uint64_t) taken_total;
static _Atomic(int) steppers_go;
static opp_core *stress_core;
static opp_app *stress_apps[APPS];

static void *stress_push(void *context) {
    uint64_t me = (uint64_t)(uintptr_t)context;
    opp_producer *producer = opp_producer_acquire(stress_core, (uint8_t)me);
    for (uint64_t i = 0; i < JOBS; i++)
        CHECK(opp_push(producer, stress_apps[(i * 7 + me) % APPS], (uint8_t)(i % 11),
                       job_of(me << 24 | i)) >= 0);
    opp_producer_release(producer);
    return NULL;
}

static void *stress_take(void *context) {
    opp_producer *producer = opp_producer_acquire(stress_core, (uint8_t)(uintptr_t)context);
    opp_consumer *consumer = opp_consumer_create(stress_core, producer, NULL);
    opp_taken taken;
    while (atomic_load(&taken_total) < (uint64_t)PRODUCERS * JOBS) {
        if (!opp_take(consumer, ALL, &taken)) {
            opp_consumer_leave_app(consumer);
            usleep(0);
            continue;
        }
        uint64_t number = number_of(taken.job);
        CHECK(atomic_fetch_add(&seen[number >> 24][number & 0xffffff], 1) == 0);
        atomic_fetch_add(&taken_total, 1);
    }
    opp_consumer_destroy(consumer);
    opp_producer_release(producer);
    return NULL;
}

static void *stress_step(void *context) {
    (void)context;
    unsigned random = 12345;
    while (atomic_load(&steppers_go)) {
        opp_app *app = stress_apps[rand_r(&random) % APPS];
        switch (rand_r(&random) % 3) {
        case 0: opp_app_suspend(app); break;
        case 1: opp_app_set_band(app, (uint8_t)(rand_r(&random) % OPP_BANDS)); break;
        default: break;
        }
        usleep(20);
        opp_app_resume(app);
    }
    for (int i = 0; i < APPS; i++) opp_app_resume(stress_apps[i]);
    return NULL;
}

static void test_stress(void) {
    stress_core = core_make();
    memset((void *)seen, 0, sizeof(seen));
    atomic_store(&taken_total, 0);
    atomic_store(&steppers_go, 1);
    for (int i = 0; i < APPS; i++)
        stress_apps[i] = opp_app_create(stress_core, (uint8_t)(i % OPP_BANDS), false);
    pthread_t producers[PRODUCERS], consumers[CONSUMERS], stepper;
    pthread_create(&stepper, NULL, stress_step, NULL);
    for (uintptr_t i = 0; i < CONSUMERS; i++) pthread_create(&consumers[i], NULL, stress_take, (void *)i);
    for (uintptr_t i = 0; i < PRODUCERS; i++) pthread_create(&producers[i], NULL, stress_push, (void *)i);
    for (int i = 0; i < PRODUCERS; i++) pthread_join(producers[i], NULL);
    for (int i = 0; i < CONSUMERS; i++) pthread_join(consumers[i], NULL);
    atomic_store(&steppers_go, 0);
    pthread_join(stepper, NULL);
    for (int p = 0; p < PRODUCERS; p++)
        for (int i = 0; i < JOBS; i++) CHECK(atomic_load(&seen[p][i]) == 1);
    CHECK(!opp_has_ready(stress_core, ALL));
    opp_core_destroy(stress_core, NULL, NULL);
}

static _Atomic(int) dropped;
static void drop(opp_job job, void *context) {
    (void)job;
    (void)context;
    atomic_fetch_add(&dropped, 1);
}

static void test_drop(void) {
    opp_core *core = core_make();
    opp_producer *producer = opp_producer_acquire(core, 0);
    opp_app *app = opp_app_create(core, FOREGROUND, true);
    for (uint64_t i = 0; i < 100; i++)
        CHECK(opp_push(producer, app, (uint8_t)(i % 64), job_of(i)) == OPP_LEVEL_NONE);
    opp_queue *queue = opp_queue_create(core);
    for (uint64_t i = 0; i < 100; i++) CHECK(opp_queue_push(queue, producer, job_of(i)) == 0);
    opp_core_destroy(core, drop, NULL);
    CHECK(atomic_load(&dropped) == 200);
}

int main(void) {
    test_bad_config();
    test_order_and_levels();
    test_steps();
    test_leaving();
    test_bypass();
    test_turns_of_producers();
    test_turns_of_apps();
    test_turns();
    test_turns_of_two();
    test_turns_beside_another_level();
    test_ranks_of_one_level();
    test_memory_of_places();
    test_a_word_that_comes_back();
    test_places();
    test_many_apps();
    test_near_first();
    test_adoption();
    test_memory();
    test_drop();
    test_stress();
    return 0;
}
