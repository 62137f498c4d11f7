/* One-shot timers and a notifier, for one thread that waits and any that arm; and their clock. */
#ifndef OPP_ALARMS_H
#define OPP_ALARMS_H

#include "opp_base.h"

OPP_BEGIN_DECLS

typedef struct opp_alarms opp_alarms;

#define OPP_ALARMS 6
#define OPP_NOTIFIER OPP_ALARMS /* its bit in what opp_alarms_wait() returns */

opp_alarms *_Nullable opp_alarms_create(void);
void opp_alarms_destroy(opp_alarms *_Nonnull alarms);

/*
 * Arms alarm `which` (0 to OPP_ALARMS - 1) to go off in `delay_ns`, unless it is armed. Any thread. One
 * system call if it was not armed, none if it was; no thread is woken now.
 */
void opp_alarms_arm(opp_alarms *_Nonnull alarms, uint32_t which, uint64_t delay_ns);

/*
 * The caller, any thread, is inside something from now on, or no more, for the sake of which alarm `which` is
 * armed. Enter before opp_alarms_arm(). If `disarms`, the last to leave disarms the alarm: one system call if
 * it was armed. If somebody enters meanwhile, it is armed again, to go off in `delay_ns`.
 */
void opp_alarms_enter(opp_alarms *_Nonnull alarms, uint32_t which);
void opp_alarms_leave(opp_alarms *_Nonnull alarms, uint32_t which, uint64_t delay_ns, bool disarms);

/* The waiting thread only: sets alarm `which` to go off at `at_ns` (CLOCK_MONOTONIC), whatever it was set
 * to. */
void opp_alarms_set(opp_alarms *_Nonnull alarms, uint32_t which, uint64_t at_ns);

/* Notifies: makes the waiting thread return at once. Any thread; about 0.4 us. */
void opp_alarms_notify(opp_alarms *_Nonnull alarms);

/*
 * Waits until at least one alarm goes off, or opp_alarms_notify() is called, and returns their mask. These
 * alarms are disarmed by then. So what the caller reads afterwards includes everything that was done before
 * they can be armed again.
 */
uint32_t opp_alarms_wait(opp_alarms *_Nonnull alarms);

/* Tells the processor that the caller waits for another thread's store. */
static inline void opp_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* CLOCK_MONOTONIC, nanoseconds. */
uint64_t opp_now_ns(void);

OPP_END_DECLS

#endif
