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

/* One side. Its owner waits until `called` is set; the other side sets it. */
typedef struct side {
    opp_pool *pool;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    _Alignas(64) _Atomic(uint32_t) called;
} side;

static void pool_wait(side *side) {
    while (!atomic_exchange(&side->called, 0)) {
        /* As a worker does: gives its token back, parks, looks once more, sleeps. */
        opp_pool_leave(side->pool);
        opp_pool_prepare_park(side->pool, 0);
        opp_woken woken = OPP_WOKEN_NOTHING;
        if (atomic_load(&side->called)) woken = opp_pool_cancel_park(side->pool, 0);
        if (woken == OPP_WOKEN_NOTHING) woken = opp_pool_park(side->pool, 0);
        CHECK(woken == OPP_WOKEN_TOKEN);
    }
}

static void pool_call(side *side) {
    atomic_store(&side->called, 1);
    (void)opp_pool_notify(side->pool);
}

static void futex_wait(side *side) {
    while (!atomic_exchange(&side->called, 0))
        syscall(SYS_futex, &side->called, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static void futex_call(side *side) {
    atomic_store(&side->called, 1);
    syscall(SYS_futex, &side->called, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void condition_wait(side *side) {
    pthread_mutex_lock(&side->mutex);
    while (!atomic_exchange(&side->called, 0)) pthread_cond_wait(&side->condition, &side->mutex);
    pthread_mutex_unlock(&side->mutex);
}

static void condition_call(side *side) {
    pthread_mutex_lock(&side->mutex);
    atomic_store(&side->called, 1);
    pthread_mutex_unlock(&side->mutex);
    pthread_cond_signal(&side->condition);
}

static const struct {
    void (*wait)(side *);
    void (*call)(side *);
} ways[PARK_KINDS] = {{pool_wait, pool_call}, {futex_wait, futex_call}, {condition_wait, condition_call}};

typedef struct pair {
    side here, there;
    park_kind kind;
    uint64_t n;
} pair;

static void side_make(side *side) {
    side->pool = CHECKED(opp_pool_create(1));
    CHECK(opp_pool_enter(side->pool));
    CHECK(pthread_mutex_init(&side->mutex, NULL) == 0 && pthread_cond_init(&side->condition, NULL) == 0);
    atomic_init(&side->called, 0);
}

static void side_destroy(side *side) {
    opp_pool_destroy(side->pool);
    pthread_cond_destroy(&side->condition);
    pthread_mutex_destroy(&side->mutex);
}

static void *there_main(void *object) {
    pair *pair = object;
    for (uint64_t i = 0; i < pair->n; i++) {
        ways[pair->kind].wait(&pair->there);
        ways[pair->kind].call(&pair->here);
    }
    return NULL;
}

double park_round_trip(park_kind kind, uint64_t n) {
    pair pair = {.kind = kind, .n = n};
    pthread_t thread;
    side_make(&pair.here);
    side_make(&pair.there);
    CHECK(pthread_create(&thread, NULL, there_main, &pair) == 0);
    uint64_t start = now_ns();
    for (uint64_t i = 0; i < n; i++) {
        ways[kind].call(&pair.there);
        ways[kind].wait(&pair.here);
    }
    uint64_t end = now_ns();
    CHECK(pthread_join(thread, NULL) == 0);
    side_destroy(&pair.here);
    side_destroy(&pair.there);
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
