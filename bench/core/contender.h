/*
 * A queue as the benchmarks see it: the loops around it, so that no call through a pointer falls on one
 * operation.
 *
 * A contender's file defines a type, ID_make and ID_destroy, ID_push and ID_take, and lets CONTENDER() write
 * the loops, the same for all.
 */
#ifndef BENCH_CONTENDER_H
#define BENCH_CONTENDER_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Producer 0 is the owner: it is the thread of consumer 0. Consumer 1 is another thread, a thief or the only
 * consumer. */
enum { OWNER = 0, THIEF = 1, CONSUMERS = 2, PRODUCERS_MAX = 4 };

typedef struct contender {
    const char *name;
    bool is_ours;
    bool is_lock_free; /* a thread stopped at any instruction keeps nobody from completing */
    const char *why;   /* a remark on that, or "" */
    /* waits for other threads by spinning: pointless where there are more of them than processors */
    bool spins;
    /* `items` is the most that one producer will have queued. NULL where memory is short. */
    void *(*make)(unsigned producers, uint64_t items);
    void (*destroy)(void *queue);
    /* Pushes the values from + 1 to from + n. */
    void (*push)(void *queue, unsigned producer, uint64_t from, uint64_t n);
    /* Takes n values, waiting for them if `waits`, else as many as there are. Adds them to *sum; returns how
     * many. */
    uint64_t (*take)(void *queue, unsigned consumer, uint64_t n, bool waits, uint64_t *sum);
    /* On one thread: n / batch times, pushes `batch` values and takes them. Returns the sum of those
     * taken. */
    uint64_t (*cycle)(void *queue, uint64_t n, uint64_t batch);
} contender;

/* After a look that found nothing: a moment's pause at first, then let others run, of whom there may be more
 * than processors. */
static inline void contender_idle(unsigned *looks) {
    if (++*looks < 32) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    } else {
        *looks = 0;
        sched_yield();
    }
}

/* Writes the loops around bool ID_push(queue *, producer, value) and bool ID_take(queue *, consumer,
 * &value). */
#define CONTENDER_LOOPS(id, type)                                                                        \
    static void id##_push_loop(void *object, unsigned producer, uint64_t from, uint64_t n) {             \
        type *self = (type *)object;                                                                     \
        unsigned looks = 0;                                                                              \
        for (uint64_t i = 1; i <= n; i++)                                                                \
            while (!id##_push(self, producer, from + i)) contender_idle(&looks);                        \
    }                                                                                                    \
    static uint64_t id##_take_loop(void *object, unsigned consumer, uint64_t n, bool waits, uint64_t *sum) { \
        type *self = (type *)object;                                                                     \
        unsigned looks = 0;                                                                              \
        uint64_t taken = 0, value = 0;                                                                   \
        while (taken < n) {                                                                              \
            if (id##_take(self, consumer, &value)) {                                                       \
                *sum += value;                                                                           \
                taken++;                                                                                 \
            } else if (waits) {                                                                          \
                contender_idle(&looks);                                                                  \
            } else {                                                                                     \
                break;                                                                                   \
            }                                                                                            \
        }                                                                                                \
        return taken;                                                                                    \
    }                                                                                                    \
    static uint64_t id##_cycle_loop(void *object, uint64_t n, uint64_t batch) {                          \
        type *self = (type *)object;                                                                     \
        uint64_t sum = 0, value = 0;                                                                     \
        for (uint64_t i = 0; i < n; i += batch) {                                                        \
            for (uint64_t k = 1; k <= batch; k++) (void)id##_push(self, OWNER, i + k);                  \
            for (uint64_t k = 1; k <= batch; k++)                                                        \
                if (id##_take(self, OWNER, &value)) sum += value;                                       \
        }                                                                                                \
        return sum;                                                                                      \
    }

#define CONTENDER(id, type, name, ours, lock_free, why)                                                  \
    CONTENDER_SPINS(id, type, name, ours, lock_free, why, false)

#define CONTENDER_SPINS(id, type, name, ours, lock_free, why, spins)                                      \
    CONTENDER_LOOPS(id, type)                                                                            \
    const contender id##_contender = {name,          ours,           lock_free,      why,           spins, \
                                      id##_make,     id##_destroy,   id##_push_loop, id##_take_loop,       \
                                      id##_cycle_loop};

extern const contender runq_contender, runq_notify_contender, queue_contender, inbox_contender;
extern const contender mutex_contender, chase_lev_contender;
extern const contender ck_fifo_contender, ck_ring_contender, boost_contender, moodycamel_contender;

#ifdef __cplusplus
}
#endif

#endif
