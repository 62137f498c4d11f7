/*
 * A lane's workers: who works, who sleeps, who is woken; and one-shot alarms for whoever watches them.
 *
 * A lane has as many permits as workers may take jobs at once. A worker holds a permit while it looks for jobs
 * and runs them. A monitor may take the permit from a worker that is stuck inside a job (it blocks, or was
 * demoted), so that another worker can do what is waiting.
 *
 * What is promised (see lane.c for why it holds):
 *  - No lost wake-up: when opp_lane_notify() comes after a push, and fewer workers than permits are at work, one
 *    is woken, or was already on its way and will look again.
 *  - No needless one: with all permits in use opp_lane_notify() makes no system call; each call wakes at most one.
 *  - A thread that is stopped inside any of these calls keeps no other from completing, but the one sleeper that it is
 *    about to wake, and keeps one permit at most.
 */
#ifndef OPP_LANE_H
#define OPP_LANE_H

#include "opp_base.h"

OPP_BEGIN_DECLS

#ifndef OPP_CHECKED
#define OPP_LANE_WORKERS 1024
#endif

typedef struct opp_lane opp_lane;

/* `permits` is 1 to OPP_LANE_WORKERS. NULL where memory is short. */
opp_lane *_Nullable opp_lane_create(uint32_t permits);
void opp_lane_destroy(opp_lane *_Nonnull lane);

/* --- Any thread ----------------------------------------------------------------------------- */

typedef enum OPP_CLOSED_ENUM opp_notified {
    OPP_NOTIFIED_WOKEN = 0,    /* a sleeper was woken, with a permit in its hand */
    OPP_NOTIFIED_BUSY = 1,     /* all permits are in use; their holders will look */
    OPP_NOTIFIED_NOBODY = 2,   /* a permit is free, but no worker sleeps: start one */
} opp_notified;

/* After a push: wakes one worker if a permit is free. */
opp_notified opp_lane_notify(opp_lane *_Nonnull lane);

/* Wakes one sleeper without a permit, to run one job in reserve. False when nobody sleeps. */
bool opp_lane_wake_reserve(opp_lane *_Nonnull lane);

/* Wakes everybody, for good: opp_lane_sleep() returns OPP_WOKEN_CLOSED from now on. */
void opp_lane_close(opp_lane *_Nonnull lane);

/* How many permits there are; may change at any time. Fewer take effect as workers give theirs back. */
void opp_lane_set_permits(opp_lane *_Nonnull lane, uint32_t permits);

uint32_t opp_lane_permits(const opp_lane *_Nonnull lane);

/* Whether more permits are in use than there are, so that a worker that holds one should give it back. */
bool opp_lane_is_over(const opp_lane *_Nonnull lane);

/* Permits in use. May be above the number of permits for a while after it was lowered. */
uint32_t opp_lane_working(const opp_lane *_Nonnull lane);
uint32_t opp_lane_sleeping(const opp_lane *_Nonnull lane);
/* Wake-ups so far: system calls made to wake somebody. */
uint64_t opp_lane_wakeups(const opp_lane *_Nonnull lane);

/* --- The worker in place `slot`, 0 to OPP_LANE_WORKERS - 1 ------------------------------------ */

/* Takes a permit if one is free. */
OPP_MUST_USE bool opp_lane_enter(opp_lane *_Nonnull lane);

/* Gives a permit back: the worker's own, or, by a monitor, that of a worker it takes out of the count. */
void opp_lane_leave(opp_lane *_Nonnull lane);

/*
 * Says that the worker is about to sleep. It must not hold a permit any more. After this it looks at the queues
 * once more; if it finds something it calls opp_lane_wake_up(), and opp_lane_sleep() if it found nothing or that says so.
 */
void opp_lane_lie_down(opp_lane *_Nonnull lane, uint32_t slot);

typedef enum OPP_CLOSED_ENUM opp_woken {
    OPP_WOKEN_PERMIT = 0,  /* it holds a permit */
    OPP_WOKEN_RESERVE = 1, /* it may run one job in reserve */
    OPP_WOKEN_CLOSED = 2,  /* the lane was closed */
    OPP_WOKEN_NOTHING = 3, /* opp_lane_wake_up() only: no permit is free, it still lies and is to sleep */
} opp_woken;

/*
 * Stays awake after all, if a permit is free, which it holds then: OPP_WOKEN_PERMIT. If somebody had just woken it, says for
 * what, and that must be honoured.
 */
OPP_MUST_USE opp_woken opp_lane_wake_up(opp_lane *_Nonnull lane, uint32_t slot);

/* Sleeps until woken. What the waker did before is seen after it, here and in opp_lane_wake_up(). */
OPP_MUST_USE opp_woken opp_lane_sleep(opp_lane *_Nonnull lane, uint32_t slot);

/* --- Alarms --------------------------------------------------------------------------------- */

/* One-shot timers and a bell, for one thread that waits and any that arm. */
typedef struct opp_alarms opp_alarms;

#define OPP_ALARMS 3
#define OPP_BELL OPP_ALARMS /* its bit in what opp_alarms_wait() returns */

opp_alarms *_Nullable opp_alarms_create(void);
void opp_alarms_destroy(opp_alarms *_Nonnull alarms);

/*
 * Arms alarm `which` (0 to OPP_ALARMS - 1) to go off in `delay_ns` unless it is armed already. Any thread; one
 * system call when it was not armed, none when it was; wakes nobody now.
 */
void opp_alarms_arm(opp_alarms *_Nonnull alarms, uint32_t which, uint64_t delay_ns);

/* The waiting thread only: sets alarm `which` to go off at `at_ns` (CLOCK_MONOTONIC), whatever it was set to. */
void opp_alarms_set(opp_alarms *_Nonnull alarms, uint32_t which, uint64_t at_ns);

/* Rings the bell: makes the waiting thread return at once. Any thread; about 0.4 us. */
void opp_alarms_ring(opp_alarms *_Nonnull alarms);

/*
 * Waits until at least one alarm goes off, or the bell rings, and returns their mask. Those are unarmed then: what the caller looks
 * at afterwards includes all that was done before the arming that it makes possible again.
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
