/*
 * RealtimeKit (Debian's rtkit): a service that lets an ordinary user's thread into SCHED_RR, asked over
 * D-Bus; and the limit that it demands.
 */
#ifndef OPP_REALTIME_KIT_H
#define OPP_REALTIME_KIT_H

#include "opp_base.h"

OPP_BEGIN_DECLS

/* What it answered. */
typedef enum OPP_CLOSED_ENUM opp_kit_answer {
    OPP_KIT_GRANTED = 0,
    OPP_KIT_NO_BUS = 1,  /* there is no system bus, or it does not let this user in */
    OPP_KIT_SILENT = 2,  /* no answer in time, or one that is none */
    OPP_KIT_ABSENT = 3,  /* there is a bus, and nobody of that name */
    OPP_KIT_REFUSED = 4, /* the service refuses, or the bus does */
} opp_kit_answer;

enum { OPP_KIT_REASON = 128 };

/*
 * Asks for SCHED_RR with `priority`, and reset on fork, for thread `tid` of this process. `path` is that of
 * the bus's socket; NULL is the system bus (DBUS_SYSTEM_BUS_ADDRESS, or its usual place). `reason` gets the
 * error's name, or is empty. Waits for up to `timeout_ms` in all: the bus may have to start the service. Any
 * thread. Opens and closes one socket.
 */
opp_kit_answer opp_realtime_kit_ask(const char *_Nullable path, int32_t tid, uint32_t priority,
                                    int timeout_ms, char reason[_Nonnull OPP_KIT_REASON]);

/* Whether the service is known to the system bus: it runs, or would be started. The same terms. */
opp_kit_answer opp_realtime_kit_look(const char *_Nullable path, int timeout_ms,
                                     char reason[_Nonnull OPP_KIT_REASON]);

/*
 * The limit of CPU time that a thread may use in a real-time class without sleeping (RLIMIT_RTTIME), in
 * microseconds; UINT64_MAX is none. The kernel ends the process of a thread that exceeds it.
 */
uint64_t opp_rt_time_limit_us(void);

/* Lowers it to `limit_us`, for good; leaves a lower one. Returns 0 or -errno. */
int opp_rt_time_limit_lower(uint64_t limit_us);

OPP_END_DECLS

#endif
