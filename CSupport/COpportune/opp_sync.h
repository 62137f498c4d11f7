/*
 * All synchronisation of the C core: atomics, futex and clock. Nothing else in the core names
 * <stdatomic.h>, futex(2) or a clock, so that a checker can put its own versions in this one place.
 *
 * There are no stand-alone fences: ThreadSanitizer cannot follow them. Each access carries its order, and
 * the place that uses an order above relaxed says what it pairs with.
 */
#ifndef OPP_SYNC_H
#define OPP_SYNC_H

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define opp_relaxed memory_order_relaxed
#define opp_acquire memory_order_acquire
#define opp_release memory_order_release
#define opp_acq_rel memory_order_acq_rel
#define opp_seq_cst memory_order_seq_cst

#define opp_load(object, order) atomic_load_explicit(object, opp_##order)
#define opp_store(object, value, order) atomic_store_explicit(object, value, opp_##order)
#define opp_swap(object, value, order) atomic_exchange_explicit(object, value, opp_##order)
#define opp_add(object, value, order) atomic_fetch_add_explicit(object, value, opp_##order)
#define opp_sub(object, value, order) atomic_fetch_sub_explicit(object, value, opp_##order)
#define opp_or(object, value, order) atomic_fetch_or_explicit(object, value, opp_##order)
#define opp_and(object, value, order) atomic_fetch_and_explicit(object, value, opp_##order)
/* Strong; a failed exchange is as weak as the caller can bear: it only ever leads to another look. */
#define opp_cas(object, expected, desired, order)                                                        \
    atomic_compare_exchange_strong_explicit(object, expected, desired, opp_##order, opp_relaxed)

/* CLOCK_MONOTONIC in nanoseconds. */
static inline uint64_t opp_sync_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/*
 * Sleeps while *word == expected. Returns 0 when woken (or the word had changed), -ETIMEDOUT, or -EINTR;
 * the caller looks at its condition again in every case.
 */
static inline int opp_futex_wait(_Atomic(uint32_t) *word, uint32_t expected) {
    long result = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
    return result == 0 || errno == EAGAIN ? 0 : -errno;
}

/* Wakes up to `count` sleepers on `word`. Returns how many. */
static inline int opp_futex_wake(_Atomic(uint32_t) *word, int count) {
    long woken = syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
    return woken < 0 ? -errno : (int)woken;
}

#endif
