/* Waking a sleeper and being woken: the pool's way, a bare futex, a condition variable. */
#include "park.h"
#include "check.h"
#include "opportune.h"
#include "sample.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

const char *const park_name[PARK_KINDS] = {"opportune pool", "bare futex", "mutex + condition"};

/* One side's bed. Its owner waits until `rung` is set; the other side sets it. */
typedef struct bed {
    opp_pool *pool;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    _Alignas(64) _Atomic(uint32_t) rung;
} bed;

static void pool_wait(bed *bed) {
    while (!atomic_exchange(&bed->rung, 0)) {
        /* As a worker does: gives its token back, lies down, looks once more, sleeps. */
        opp_pool_leave(bed->pool);
        opp_pool_prepare_park(bed->pool, 0);
        opp_woken woken = atomic_load(&bed->rung) ? opp_pool_cancel_park(bed->pool, 0) : OPP_WOKEN_NOTHING;
        if (woken == OPP_WOKEN_NOTHING) woken = opp_pool_park(bed->pool, 0);
        CHECK(woken == OPP_WOKEN_TOKEN);
    }
}

static void pool_ring(bed *bed) {
    atomic_store(&bed->rung, 1);
    (void)opp_pool_notify(bed->pool);
}

static void futex_wait(bed *bed) {
    while (!atomic_exchange(&bed->rung, 0))
        syscall(SYS_futex, &bed->rung, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static void futex_ring(bed *bed) {
    atomic_store(&bed->rung, 1);
    syscall(SYS_futex, &bed->rung, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void condition_wait(bed *bed) {
    pthread_mutex_lock(&bed->mutex);
    while (!atomic_exchange(&bed->rung, 0)) pthread_cond_wait(&bed->condition, &bed->mutex);
    pthread_mutex_unlock(&bed->mutex);
}

static void condition_ring(bed *bed) {
    pthread_mutex_lock(&bed->mutex);
    atomic_store(&bed->rung, 1);
    pthread_mutex_unlock(&bed->mutex);
    pthread_cond_signal(&bed->condition);
}

static const struct {
    void (*wait)(bed *);
    void (*ring)(bed *);
} ways[PARK_KINDS] = {{pool_wait, pool_ring}, {futex_wait, futex_ring}, {condition_wait, condition_ring}};

typedef struct pair {
    bed here, there;
    park_kind kind;
    uint64_t n;
} pair;

static void bed_make(bed *bed) {
    bed->pool = CHECKED(opp_pool_create(1));
    CHECK(opp_pool_enter(bed->pool));
    CHECK(pthread_mutex_init(&bed->mutex, NULL) == 0 && pthread_cond_init(&bed->condition, NULL) == 0);
    atomic_init(&bed->rung, 0);
}

static void bed_destroy(bed *bed) {
    opp_pool_destroy(bed->pool);
    pthread_cond_destroy(&bed->condition);
    pthread_mutex_destroy(&bed->mutex);
}

static void *there_main(void *object) {
    pair *pair = object;
    for (uint64_t i = 0; i < pair->n; i++) {
        ways[pair->kind].wait(&pair->there);
        ways[pair->kind].ring(&pair->here);
    }
    return NULL;
}

double park_round_trip(park_kind kind, uint64_t n) {
    pair pair = {.kind = kind, .n = n};
    pthread_t thread;
    bed_make(&pair.here);
    bed_make(&pair.there);
    CHECK(pthread_create(&thread, NULL, there_main, &pair) == 0);
    uint64_t start = now_ns();
    for (uint64_t i = 0; i < n; i++) {
        ways[kind].ring(&pair.there);
        ways[kind].wait(&pair.here);
    }
    uint64_t end = now_ns();
    CHECK(pthread_join(thread, NULL) == 0);
    bed_destroy(&pair.here);
    bed_destroy(&pair.there);
    return (double)(end - start) / (double)n;
}

double park_busy_notify(uint64_t n) {
    opp_pool *pool = CHECKED(opp_pool_create(1));
    CHECK(opp_pool_enter(pool));
    uint64_t start = now_ns(), busy = 0;
    for (uint64_t i = 0; i < n; i++) busy += opp_pool_notify(pool) == OPP_NOTIFIED_BUSY;
    uint64_t end = now_ns();
    CHECK(busy == n && opp_pool_wakeups(pool) == 0);
    opp_pool_destroy(pool);
    return (double)(end - start) / (double)n;
}
