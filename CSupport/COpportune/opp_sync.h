/*
 * The synchronisation primitives of the C core: atomics, futex(2), timers, notifiers, the monotonic clock.
 * They are all in this header so that a model checker can replace them. With OPP_CHECKED it includes
 * opp_sync_checked.h (CSupport/Tools/COpportuneExplorer), which defines the same names.
 *
 * By other means than these, which the checker does not see (scripts/lint compares this list with the code):
 *   ring_threads.c    mutex and condition variable of its work queue; ppoll(2)
 *   ring_polled.c     poll(2) with timeout 0
 *   thread.c          pthread_create, pthread_once
 *   probe.c           pthread_create, pthread_join
 *   ring_uring.c      io_uring, through liburing
 *   ring.c            creates the eventfd that opp_notifier_notify() writes to
 *   topology.c        a mutex around libnuma
 *   thread_local.c    pthread_once; a pthread key whose destructor runs at thread exit
 *   watch.c           a timerfd on CLOCK_REALTIME; poll(2)
 *   meter.c           a thread's CPU-time clock
 *   realtime_kit.c    a Unix socket, and poll(2)
 *
 * There are no stand-alone fences: ThreadSanitizer cannot follow them. Each access names its memory order. A
 * comment at each order stronger than relaxed names the access it pairs with. A tag in brackets, such as
 * [apps], marks all accesses of one pairing: grep for it.
 */
#ifndef OPP_SYNC_H
#define OPP_SYNC_H

#define OPP_LINE 64 /* bytes of a cache line: what different threads write stands in lines of its own */

#ifdef OPP_CHECKED
#include "opp_sync_checked.h"
#else

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
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
/* Strong compare-and-swap. The order on failure is relaxed: the caller only retries or gives up, and reloads
 * with acquire where it needs the order. */
#define opp_cas(object, expected, desired, order)                                                        \
    atomic_compare_exchange_strong_explicit(object, expected, desired, opp_##order, opp_relaxed)

/* Waits on the CPU while the object has that value. For a moment in which another thread runs that will
 * change it, and says opp_spin_over() then. (opp_pause() is in opp_alarms.h.) */
#define opp_spin_while(object, value, order)                                                             \
    while (opp_load(object, order) == (value)) opp_pause()
#define opp_spin_over(object) ((void)(object))

/* CLOCK_MONOTONIC in nanoseconds. */
static inline uint64_t opp_sync_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* CLOCK_MONOTONIC in nanoseconds, as of the kernel's last tick: behind by 1 to 10 ms, and cheaper. */
static inline uint64_t opp_sync_tick(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
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

/* A one-shot timer on CLOCK_MONOTONIC: a descriptor, or -errno. */
static inline int opp_timer_open(void) {
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    return timer < 0 ? -errno : timer;
}

static inline void opp_timer_close(int timer) {
    close(timer);
}

/* Sets it to go off at `ns`, or in `ns` from now. */
static inline void opp_timer_set(int timer, bool absolute, uint64_t ns) {
    if (ns == 0) ns = 1; /* 0 would disarm the timer */
    struct itimerspec when =
        {.it_value = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)}};
    timerfd_settime(timer, absolute ? TFD_TIMER_ABSTIME : 0, &when, NULL);
}

/* It goes off no more, until it is set again. */
static inline void opp_timer_disarm(int timer) {
    struct itimerspec never = {.it_value = {0}};
    timerfd_settime(timer, 0, &never, NULL);
}

/* Creates an eventfd. opp_timer_wait() takes it beside timers; opp_notifier_notify() makes it readable.
 * Returns the descriptor, or -errno. */
static inline int opp_notifier_open(void) {
    int notifier = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return notifier < 0 ? -errno : notifier;
}

static inline void opp_notifier_notify(int notifier) {
    uint64_t one = 1;
    /* Apart from EINTR, write fails only if the counter is full; the eventfd is readable already then. */
    while (write(notifier, &one, sizeof(one)) < 0 && errno == EINTR) {}
}

/* Waits until one of `timers`, at most 8, has gone off. Returns the mask of those that have. */
static inline uint32_t opp_timer_wait(const int *timers, uint32_t count) {
    struct pollfd polled[8];
    for (uint32_t i = 0; i < count; i++) polled[i] = (struct pollfd){.fd = timers[i], .events = POLLIN};
    while (poll(polled, count, -1) <= 0) {}
    uint32_t ready = 0;
    for (uint32_t i = 0; i < count; i++)
        if (polled[i].revents & POLLIN) ready |= 1u << i;
    return ready;
}

/* Whether the timer had expired, or the notifier been notified, since the last read. Does not arm a timer
 * again. */
static inline bool opp_timer_read(int timer) {
    uint64_t expiries;
    return read(timer, &expiries, sizeof(expiries)) == (ssize_t)sizeof(expiries);
}

/* An edge-triggered epoll. */
typedef struct opp_poller {
    int descriptor;
} opp_poller;

/* Returns 0, or -errno. */
static inline int opp_poller_open(opp_poller *poller) {
    poller->descriptor = epoll_create1(EPOLL_CLOEXEC);
    return poller->descriptor < 0 ? -errno : 0;
}

static inline void opp_poller_close(opp_poller *poller) {
    close(poller->descriptor);
}

/* From now on each edge of `descriptor`, of data or an end, is one event `number`. Returns 0, or -errno. */
static inline int opp_poller_add(opp_poller *poller, int descriptor, uint32_t number) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.u32 = number};
    if (epoll_ctl(poller->descriptor, EPOLL_CTL_ADD, descriptor, &event) == 0) return 0;
    /* A duplicate of a file that was closed may have kept its place; its state is looked at anew. */
    if (errno != EEXIST) return -errno;
    return epoll_ctl(poller->descriptor, EPOLL_CTL_MOD, descriptor, &event) == 0 ? 0 : -errno;
}

static inline void opp_poller_remove(opp_poller *poller, int descriptor) {
    /* It fails where the descriptor was closed before. */
    epoll_ctl(poller->descriptor, EPOLL_CTL_DEL, descriptor, NULL);
}

/* Takes up to `most` events, at most 16, and waits for the first one if it `waits`. Returns how many; 0 where
 * a signal came first. */
static inline int opp_poller_wait(opp_poller *poller, uint32_t *numbers, int most, bool waits) {
    struct epoll_event events[16];
    int count = epoll_wait(poller->descriptor, events, most, waits ? -1 : 0);
    for (int i = 0; i < count; i++) numbers[i] = events[i].data.u32;
    return count < 0 ? 0 : count;
}

#endif /* OPP_CHECKED */

#endif
