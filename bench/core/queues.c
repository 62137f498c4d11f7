/* What is measured of queues: on one thread, taken by a thief, and pushed by several at once. */
#include "queues.h"
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static uint64_t sum_to(uint64_t n) {
    return n * (n + 1) / 2;
}

double queue_cycle(const contender *contender, void *queue, uint64_t n, uint64_t batch) {
    n = n / batch * batch;
    uint64_t start = now_ns();
    uint64_t sum = contender->cycle(queue, n, batch);
    uint64_t end = now_ns();
    CHECK(sum == sum_to(n));
    return (double)(end - start) / (double)n;
}

/*
 * Threads stay where they are put: threads this short would else often share one processor, one after the
 * other, and nothing would be measured of what they do to each other.
 */
static cpu_set_t usable;
static pthread_once_t usable_once = PTHREAD_ONCE_INIT;

static void usable_find(void) {
    CHECK(sched_getaffinity(getpid(), sizeof(usable), &usable) == 0);
}

static void stay_on(unsigned number) {
    cpu_set_t chosen;
    pthread_once(&usable_once, usable_find);
    CPU_ZERO(&chosen);
    number %= (unsigned)CPU_COUNT(&usable);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &usable) && number-- == 0) CPU_SET(cpu, &chosen);
    CHECK(pthread_setaffinity_np(pthread_self(), sizeof(chosen), &chosen) == 0);
}

static void stay_anywhere(void) {
    CHECK(pthread_setaffinity_np(pthread_self(), sizeof(usable), &usable) == 0);
}

typedef struct gate {
    _Atomic(unsigned) waiting;
    _Atomic(bool) open;
} gate;

static void gate_pass(gate *gate) {
    atomic_fetch_add(&gate->waiting, 1);
    while (!atomic_load(&gate->open)) sched_yield();
}

static void gate_open(gate *gate, unsigned waiting) {
    while (atomic_load(&gate->waiting) < waiting) sched_yield();
    atomic_store(&gate->open, true);
}

typedef struct thief {
    const contender *contender;
    void *queue;
    gate *gate;
    uint64_t n, taken, sum, time;
} thief;

static void *thief_main(void *object) {
    thief *thief = object;
    stay_on(1);
    gate_pass(thief->gate);
    uint64_t start = now_ns();
    thief->taken = thief->contender->take(thief->queue, THIEF, thief->n, false, &thief->sum);
    thief->time = now_ns() - start;
    return NULL;
}

double queue_steal(const contender *contender, void *queue, uint64_t n, bool together) {
    gate gate = {0, false};
    thief thief = {contender, queue, &gate, n, 0, 0, 0};
    pthread_t thread;
    stay_on(0);
    CHECK(pthread_create(&thread, NULL, thief_main, &thief) == 0);
    contender->push(queue, OWNER, 0, n);
    gate_open(&gate, 1);
    uint64_t sum = 0, taken = 0, start = now_ns(), time = 0;
    if (together) {
        taken = contender->take(queue, OWNER, n, false, &sum);
        time = now_ns() - start;
    }
    CHECK(pthread_join(thread, NULL) == 0);
    stay_anywhere();
    /* Where a take may fail because another was faster, a consumer stops early: the rest is taken here. */
    uint64_t rest = contender->take(queue, OWNER, n, false, &sum);
    CHECK(taken + thief.taken + rest == n && sum + thief.sum == sum_to(n));
    if (thief.time > time) time = thief.time;
    uint64_t done = taken + thief.taken;
    /* Alone: what a thief pays for one. Together: what the two of them get through. */
    return (double)time / (double)(done > 0 ? done : 1);
}

typedef struct producer {
    const contender *contender;
    void *queue;
    gate *gate;
    unsigned number;
    uint64_t n;
} producer;

static void *producer_main(void *object) {
    producer *producer = object;
    stay_on(producer->number);
    gate_pass(producer->gate);
    producer->contender->push(producer->queue, producer->number, producer->number * producer->n, producer->n);
    return NULL;
}

double queue_inject(const contender *contender, void *queue, unsigned producers, uint64_t each,
                    bool consumed) {
    gate gate = {0, false};
    uint64_t total = each * producers, sum = 0, taken = 0;
    pthread_t thread[PRODUCERS_MAX];
    producer producer[PRODUCERS_MAX];
    stay_on(producers);
    for (unsigned i = 0; i < producers; i++) {
        producer[i] = (struct producer){contender, queue, &gate, i, each};
        CHECK(pthread_create(&thread[i], NULL, producer_main, &producer[i]) == 0);
    }
    gate_open(&gate, producers);
    uint64_t start = now_ns(), end = 0;
    if (consumed) {
        taken = contender->take(queue, THIEF, total, true, &sum);
        end = now_ns();
    }
    for (unsigned i = 0; i < producers; i++) CHECK(pthread_join(thread[i], NULL) == 0);
    if (!consumed) {
        end = now_ns();
        taken = contender->take(queue, THIEF, total, true, &sum);
    }
    stay_anywhere();
    CHECK(taken == total && sum == sum_to(total));
    return (double)(end - start) / (double)total;
}
