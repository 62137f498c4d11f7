/*
 * Waiting for memory pressure: a notifier that any thread may write to, and the kernel's stall alarm, in one
 * wait. Also the kernel's alarm for changes of the wall clock.
 */
#ifndef OPP_WATCH_H
#define OPP_WATCH_H

#include "opp_base.h"

OPP_BEGIN_DECLS

#define OPP_WATCH_NOTIFIED 1u
#define OPP_WATCH_STALL 2u

/* Opens a notifier. Returns a descriptor, to be closed with opp_watch_close(), or -errno. */
int opp_watch_open(void);

/*
 * Opens an alarm on a pressure file (/proc/pressure/memory, or memory.pressure of a cgroup). It goes off when
 * tasks have stalled for `stall_us` of any `window_us`, at most once a window. A window is 500 ms to 10 s,
 * and without CAP_SYS_RESOURCE a multiple of 2 s. Returns a descriptor, or -errno: -ENOENT where the kernel
 * has no such files, -EINVAL for times that it refuses.
 */
int opp_watch_stall(const char *_Nonnull path, uint32_t stall_us, uint32_t window_us);

/*
 * Opens an alarm on the wall clock. It is readable once each time that the clock was set, or has advanced
 * while the machine slept. Such a read fails with ECANCELED; none blocks. Returns a descriptor, or -errno.
 */
int opp_watch_clock(void);

void opp_watch_close(int descriptor);

/* Any thread; never blocks. */
void opp_watch_notify(int notifier);

/*
 * Sleeps until the notifier is written to, the alarm (-1: none) goes off, or `timeout_ms` have passed (-1:
 * for ever). Returns the cause as OPP_WATCH_ bits, or 0, and resets the notifier. A signal may end it early,
 * with 0.
 */
uint32_t opp_watch_wait(int notifier, int alarm, int timeout_ms);

OPP_END_DECLS

#endif
