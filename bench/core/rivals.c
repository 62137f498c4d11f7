/* Rivals in C: a deque under a mutex, the work-stealing deque of Chase and Lev, and Concurrency Kit's
 * queues. */
#include "contender.h"

#include <ck_fifo.h>
#include <ck_ring.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LINE 64

static uint64_t power_of_two_above(uint64_t items) {
    uint64_t size = 64;
    while (size <= items) size *= 2;
    return size;
}

/* Touches all of it, so that no contender pays for page faults inside its time. */
static void *allocate(size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, LINE, bytes) != 0) return NULL;
    memset(memory, 0, bytes);
    return memory;
}

/* --- Deque under a mutex ----------------------------------------------------------------------- */

typedef struct mutex_queue {
    pthread_mutex_t mutex;
    uint64_t head, tail, mask;
    uint64_t slot[];
} mutex_queue;

static void *mutex_make(unsigned producers, uint64_t items) {
    uint64_t size = power_of_two_above(items * producers);
    mutex_queue *queue = allocate(sizeof(*queue) + size * sizeof(uint64_t));
    if (queue == NULL) return NULL;
    pthread_mutex_init(&queue->mutex, NULL);
    queue->mask = size - 1;
    return queue;
}

static void mutex_destroy(void *object) {
    mutex_queue *queue = object;
    pthread_mutex_destroy(&queue->mutex);
    free(queue);
}

static inline bool mutex_push(mutex_queue *queue, unsigned producer, uint64_t value) {
    (void)producer;
    pthread_mutex_lock(&queue->mutex);
    queue->slot[queue->tail++ & queue->mask] = value;
    pthread_mutex_unlock(&queue->mutex);
    return true;
}

static inline bool mutex_take(mutex_queue *queue, unsigned consumer, uint64_t *value) {
    (void)consumer;
    pthread_mutex_lock(&queue->mutex);
    bool found = queue->head != queue->tail;
    if (found) *value = queue->slot[queue->head++ & queue->mask];
    pthread_mutex_unlock(&queue->mutex);
    return found;
}

CONTENDER(mutex, mutex_queue, "mutex + deque", false, false, "a lock")

/* --- Chase and Lev's deque, with the orders of Le and others (PPoPP 2013), of a fixed size -------- */

typedef struct chase_lev {
    _Alignas(LINE) _Atomic(int64_t) top;
    _Alignas(LINE) _Atomic(int64_t) bottom;
    _Alignas(LINE) int64_t mask;
    _Atomic(uint64_t) slot[];
} chase_lev;

static void *chase_lev_make(unsigned producers, uint64_t items) {
    uint64_t size = power_of_two_above(items);
    if (producers != 1) return NULL;
    chase_lev *queue = allocate(sizeof(*queue) + size * sizeof(uint64_t));
    if (queue != NULL) queue->mask = (int64_t)size - 1;
    return queue;
}

static void chase_lev_destroy(void *object) {
    free(object);
}

static inline bool chase_lev_push(chase_lev *queue, unsigned producer, uint64_t value) {
    int64_t bottom = atomic_load_explicit(&queue->bottom, memory_order_relaxed);
    (void)producer;
    atomic_store_explicit(&queue->slot[bottom & queue->mask], value, memory_order_relaxed);
    atomic_store_explicit(&queue->bottom, bottom + 1, memory_order_release);
    return true;
}

static inline bool chase_lev_pop(chase_lev *queue, uint64_t *value) {
    int64_t bottom = atomic_load_explicit(&queue->bottom, memory_order_relaxed) - 1;
    atomic_store_explicit(&queue->bottom, bottom, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    int64_t top = atomic_load_explicit(&queue->top, memory_order_relaxed);
    bool found = top <= bottom;
    if (found) *value = atomic_load_explicit(&queue->slot[bottom & queue->mask], memory_order_relaxed);
    if (top == bottom)
        found = atomic_compare_exchange_strong_explicit(&queue->top, &top, top + 1, memory_order_seq_cst,
                                                        memory_order_relaxed);
    if (top >= bottom) atomic_store_explicit(&queue->bottom, bottom + 1, memory_order_relaxed);
    return found;
}

static inline bool chase_lev_steal(chase_lev *queue, uint64_t *value) {
    int64_t top = atomic_load_explicit(&queue->top, memory_order_acquire);
    atomic_thread_fence(memory_order_seq_cst);
    int64_t bottom = atomic_load_explicit(&queue->bottom, memory_order_acquire);
    if (top >= bottom) return false;
    *value = atomic_load_explicit(&queue->slot[top & queue->mask], memory_order_relaxed);
    return atomic_compare_exchange_strong_explicit(&queue->top, &top, top + 1, memory_order_seq_cst,
                                                   memory_order_relaxed);
}

static inline bool chase_lev_take(chase_lev *queue, unsigned consumer, uint64_t *value) {
    return consumer == OWNER ? chase_lev_pop(queue, value) : chase_lev_steal(queue, value);
}

CONTENDER(chase_lev, chase_lev, "Chase-Lev deque", false, true, "one producer; last in first out")

/* --- Concurrency Kit: queue of Michael and Scott ------------------------------------------------ */

/*
 * Nodes come from a stock, since a user must bring his own, and his own safe way to use them again: not
 * counted. The stock is one larger than what is queued at most, so that the node which an empty queue keeps
 * is not the next one.
 */
typedef struct ck_fifo {
    ck_fifo_mpmc_t fifo;
    uint64_t stock; /* nodes for each producer */
    struct {
        _Alignas(LINE) uint64_t used;
    } producer[PRODUCERS_MAX];
    _Alignas(LINE) ck_fifo_mpmc_entry_t entry[];
} ck_fifo;

static void *ck_fifo_make(unsigned producers, uint64_t items) {
    uint64_t count = (items + 1) * producers + 1;
    ck_fifo *queue = allocate(sizeof(*queue) + count * sizeof(ck_fifo_mpmc_entry_t));
    if (queue == NULL) return NULL;
    queue->stock = items + 1;
    ck_fifo_mpmc_init(&queue->fifo, &queue->entry[count - 1]);
    return queue;
}

static void ck_fifo_destroy(void *object) {
    free(object);
}

static inline bool ck_fifo_push(ck_fifo *queue, unsigned producer, uint64_t value) {
    ck_fifo_mpmc_entry_t *entry =
        &queue->entry[producer * queue->stock + queue->producer[producer].used++ % queue->stock];
    ck_fifo_mpmc_enqueue(&queue->fifo, entry, (void *)(uintptr_t)value);
    return true;
}

static inline bool ck_fifo_take(ck_fifo *queue, unsigned consumer, uint64_t *value) {
    void *taken;
    ck_fifo_mpmc_entry_t *garbage;
    (void)consumer;
    if (!ck_fifo_mpmc_dequeue(&queue->fifo, &taken, &garbage)) return false;
    *value = (uintptr_t)taken;
    return true;
}

CONTENDER(ck_fifo, ck_fifo, "ConcurrencyKit fifo_mpmc", false, true, "128-bit CAS; nodes from a stock")

/* --- Concurrency Kit: ring, many producers and one consumer ------------------------------------- */

typedef struct ck_ring_queue {
    ck_ring_t ring;
    _Alignas(LINE) ck_ring_buffer_t slot[];
} ck_ring_queue;

static void *ck_ring_make(unsigned producers, uint64_t items) {
    uint64_t size = power_of_two_above(items * producers);
    ck_ring_queue *queue = allocate(sizeof(*queue) + size * sizeof(ck_ring_buffer_t));
    if (queue != NULL) ck_ring_init(&queue->ring, (unsigned)size);
    return queue;
}

static void ck_ring_destroy(void *object) {
    free(object);
}

static inline bool ck_ring_push(ck_ring_queue *queue, unsigned producer, uint64_t value) {
    (void)producer;
    return ck_ring_enqueue_mpsc(&queue->ring, queue->slot, (void *)(uintptr_t)value);
}

static inline bool ck_ring_take(ck_ring_queue *queue, unsigned consumer, uint64_t *value) {
    void *taken;
    (void)consumer;
    if (!ck_ring_dequeue_mpsc(&queue->ring, queue->slot, &taken)) return false;
    *value = (uintptr_t)taken;
    return true;
}

CONTENDER_SPINS(ck_ring, ck_ring_queue, "ConcurrencyKit ring_mpsc", false, false,
                "bounded; spins for a stopped producer",
                true)
