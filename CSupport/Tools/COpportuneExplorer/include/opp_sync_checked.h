/*
 * What opp_sync.h is to the checked build: the same names, each of them a step of the explorer. Memory, too,
 * comes from the explorer, which watches it.
 */
#ifndef OPP_SYNC_CHECKED_H
#define OPP_SYNC_CHECKED_H

#include "opp_explorer.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define opp_relaxed memory_order_relaxed
#define opp_acquire memory_order_acquire
#define opp_release memory_order_release
#define opp_acq_rel memory_order_acq_rel
#define opp_seq_cst memory_order_seq_cst

#define OPPX_SITE(what, object_, order_)                                                                 \
    static oppx_site oppx_here_ __attribute__((section("oppx_sites"), used)) = {                         \
        .file = __FILE__, .object = #object_, .line = __LINE__, .kind = what, .order = opp_##order_}

/* What an object holds, without _Atomic. */
#define OPPX_VALUE(object) __typeof__(atomic_load_explicit(object, memory_order_relaxed))

#define opp_load(object, order)                                                                          \
    __extension__({                                                                                      \
        OPPX_SITE(OPPX_LOAD, object, order);                                                             \
        (OPPX_VALUE(object))(uintptr_t)oppx_load(&oppx_here_, (object), sizeof(*(object)));              \
    })
#define opp_store(object, value, order)                                                                  \
    __extension__({                                                                                      \
        OPPX_SITE(OPPX_STORE, object, order);                                                            \
        OPPX_VALUE(object) oppx_value_ = (value);                                                        \
        oppx_store(&oppx_here_, (object), sizeof(*(object)), (uint64_t)(uintptr_t)oppx_value_);          \
    })
#define OPPX_RMW_AS(what, object, value, order)                                                          \
    __extension__({                                                                                      \
        OPPX_SITE(OPPX_RMW, object, order);                                                              \
        OPPX_VALUE(object) oppx_value_ = (value);                                                        \
        (OPPX_VALUE(object))(uintptr_t)oppx_rmw(&oppx_here_, (object), sizeof(*(object)), what,          \
                                                (uint64_t)(uintptr_t)oppx_value_);                       \
    })
#define opp_swap(object, value, order) OPPX_RMW_AS(OPPX_SWAP, object, value, order)
#define opp_add(object, value, order) OPPX_RMW_AS(OPPX_ADD, object, value, order)
#define opp_sub(object, value, order) OPPX_RMW_AS(OPPX_SUB, object, value, order)
#define opp_or(object, value, order) OPPX_RMW_AS(OPPX_OR, object, value, order)
#define opp_and(object, value, order) OPPX_RMW_AS(OPPX_AND, object, value, order)
#define opp_cas(object, expected, desired, order)                                                        \
    __extension__({                                                                                      \
        OPPX_SITE(OPPX_CAS, object, order);                                                              \
        __typeof__(expected) oppx_expected_ = (expected);                                                \
        OPPX_VALUE(object) oppx_desired_ = (desired);                                                    \
        uint64_t oppx_word_ = (uint64_t)(uintptr_t)*oppx_expected_;                                      \
        bool oppx_done_ = oppx_cas(&oppx_here_, (object), sizeof(*(object)), &oppx_word_,                \
                                   (uint64_t)(uintptr_t)oppx_desired_);                                  \
        if (!oppx_done_) *oppx_expected_ = (OPPX_VALUE(object))(uintptr_t)oppx_word_;                    \
        oppx_done_;                                                                                      \
    })

/* A thread that waits for another's store finishes by that alone: it sleeps until then. */
#define opp_spin_while(object, value, order)                                                             \
    while (opp_load(object, order) == (value)) oppx_futex_wait(object, value)
#define opp_spin_over(object) ((void)oppx_futex_wake(object, OPPX_THREADS))

static inline uint64_t opp_sync_now(void) {
    return oppx_now();
}

static inline uint64_t opp_sync_tick(void) {
    return oppx_tick();
}

static inline int opp_futex_wait(_Atomic(uint32_t) *word, uint32_t expected) {
    return oppx_futex_wait(word, expected);
}

static inline int opp_futex_wake(_Atomic(uint32_t) *word, int count) {
    return oppx_futex_wake(word, count);
}

static inline int opp_timer_open(void) {
    return oppx_timer_open();
}

static inline void opp_timer_close(int timer) {
    oppx_timer_close(timer);
}

static inline void opp_timer_set(int timer, bool absolute, uint64_t ns) {
    (void)absolute, (void)ns;
    oppx_timer_set(timer);
}

static inline void opp_timer_disarm(int timer) {
    oppx_timer_disarm(timer);
}

static inline int opp_notifier_open(void) {
    return oppx_timer_open();
}

static inline void opp_notifier_notify(int notifier) {
    oppx_notifier_ring(notifier);
}

static inline uint32_t opp_timer_wait(const int *timers, uint32_t count) {
    return oppx_timer_wait(timers, count);
}

static inline bool opp_timer_read(int timer) {
    return oppx_timer_read(timer);
}

/* An edge-triggered epoll whose descriptors are notifiers: an edge of each is taken once. None is removed: an
 * event of a removed one comes late. */
typedef struct opp_poller {
    int poller;
} opp_poller;

static inline int opp_poller_open(opp_poller *poller) {
    poller->poller = oppx_poller_open();
    return poller->poller < 0 ? poller->poller : 0;
}

static inline void opp_poller_close(opp_poller *poller) {
    (void)poller;
}

static inline int opp_poller_add(opp_poller *poller, int descriptor, uint32_t number) {
    return oppx_poller_add(poller->poller, descriptor, number);
}

static inline void opp_poller_remove(opp_poller *poller, int descriptor) {
    (void)poller, (void)descriptor;
}

static inline int opp_poller_wait(opp_poller *poller, uint32_t *numbers, int most, bool waits) {
    return oppx_poller_wait(poller->poller, numbers, most, waits);
}

/* --- Memory ---------------------------------------------------------------------------------- */

#define OPPX_GIVEN(size, alignment) (oppx_refuses() ? NULL : oppx_allocate(size, alignment))
#define malloc(size) OPPX_GIVEN(size, 16)
#define calloc(count, size) OPPX_GIVEN((size_t)(count) * (size), 16)
#define aligned_alloc(alignment, size) OPPX_GIVEN(size, alignment)
#define free(memory) oppx_free(memory)
#define opp_map(size) OPPX_GIVEN(size, 4096)
#define opp_unmap(memory, size) oppx_free(memory)

#endif
