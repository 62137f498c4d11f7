/*
 * Readiness of descriptors: which of them have something to receive, and who waits for that.
 *
 * A descriptor is added once, and watched until it is removed. Whoever waits for it arms its word; the thread
 * that harvests the event claims the word, and resumes whom it found there. A resume promises nothing: the
 * waiter tries to receive again. So any thread may claim a waiter, for any reason.
 *
 * Guarantees (readiness.c says why they hold):
 *  - An armed waiter is claimed once, by one thread.
 *  - No event is lost: what arrives after a waiter has tried in vain claims it, or keeps it from arming.
 *  - Arming and claiming are atomic words: no system call, and no lock. A thread that is stopped in one of
 *    them holds up nobody but the waiter that it has claimed.
 */
#ifndef OPP_READINESS_H
#define OPP_READINESS_H

#include "opp_base.h"

OPP_BEGIN_DECLS

#ifndef OPP_CHECKED
#define OPP_READINESS_DESCRIPTORS 65536 /* descriptors from this number on are not watched */
#endif
#define OPP_HARVEST_MAX 8               /* how many events one harvest takes */

typedef struct opp_readiness opp_readiness;

/* The waiters that a harvest has claimed; each is the caller's to resume. */
typedef struct opp_harvest {
    void *_Nullable waiters[OPP_HARVEST_MAX];
    uint32_t count;
    bool is_notified; /* a notification was taken, which may have been meant for another thread */
} opp_harvest;

/* Waiter number `index`, below `count`. */
void *_Nonnull opp_harvest_waiter(const opp_harvest *_Nonnull harvest, uint32_t index);

/* NULL where memory or descriptors are short. */
opp_readiness *_Nullable opp_readiness_create(void);
/* To be called when no waiter is armed any more, and no thread waits in it. */
void opp_readiness_destroy(opp_readiness *_Nonnull readiness);

/* --- Descriptors. Not by a thread of a background class: the kernel's lock of an epoll is a mutex ------ */

/*
 * Watches a descriptor from now on. Returns 0, or -errno: -EPERM for one that cannot be polled, -ERANGE above
 * the limit. After any error call opp_readiness_remove(): a waiter may have been armed meanwhile. Where the
 * same descriptor is added twice the second changes nothing.
 */
int opp_readiness_add(opp_readiness *_Nonnull readiness, int descriptor);

/* Watches it no more, before its close. Returns the waiter that was armed, which the caller has claimed, or
 * NULL. */
void *_Nullable opp_readiness_remove(opp_readiness *_Nonnull readiness, int descriptor);

/* Claims the waiters of events that have come, without waiting for any. Returns how many. */
uint32_t opp_readiness_harvest(opp_readiness *_Nonnull readiness, opp_harvest *_Nonnull harvest);

/* The same, but waits until there is an event or a notification; may return 0 at any time. Several threads
 * may wait: each event has one of them return. */
uint32_t opp_readiness_wait(opp_readiness *_Nonnull readiness, opp_harvest *_Nonnull harvest);

/* Has one thread return from opp_readiness_wait(), or the next harvest, with `is_notified`. Any thread. */
void opp_readiness_notify(opp_readiness *_Nonnull readiness);

/* --- Waiters. Any thread ------------------------------------------------------------------------------- */

/* Whether any descriptor is watched. seq_cst. */
bool opp_readiness_is_used(const opp_readiness *_Nonnull readiness);
bool opp_readiness_has(const opp_readiness *_Nonnull readiness, int descriptor);
/* Whether a waiter is armed for it now. */
bool opp_readiness_is_awaited(const opp_readiness *_Nonnull readiness, int descriptor);

typedef enum OPP_CLOSED_ENUM opp_arming {
    OPP_ARMING_DONE = 0,    /* armed: the caller sleeps until somebody has claimed the waiter */
    OPP_ARMING_READY = 1,   /* something has come since the last harvest: try again, and then arm again */
    OPP_ARMING_REFUSED = 2, /* not watched, or closed, or another waits for it */
} opp_arming;

/*
 * Arms `waiter`, an address below 2^48 and a multiple of 8, for a descriptor from which the caller has tried
 * to receive in vain. `tag` is the caller's: see opp_readiness_claim_tagged(). seq_cst.
 */
OPP_MUST_USE opp_arming opp_readiness_arm(opp_readiness *_Nonnull readiness, int descriptor,
                                          void *_Nonnull waiter, uint16_t tag);

/* Claims this waiter. False if it is not armed: somebody has claimed it, or it was not armed yet. */
OPP_MUST_USE bool opp_readiness_disarm(opp_readiness *_Nonnull readiness, int descriptor,
                                       void *_Nonnull waiter, uint16_t tag);

/*
 * Claims waiters with this tag, from descriptor *cursor on, which begins at 0; NULL when there is none left.
 * Who is armed meanwhile may be missed, and sees afterwards what the caller did before.
 */
void *_Nullable opp_readiness_claim_tagged(opp_readiness *_Nonnull readiness, uint16_t tag,
                                           uint32_t *_Nonnull cursor);

/* From now on arming is refused. Then claims waiters with any tag, as above. */
void opp_readiness_close(opp_readiness *_Nonnull readiness);
void *_Nullable opp_readiness_claim_any(opp_readiness *_Nonnull readiness, uint32_t *_Nonnull cursor);

OPP_END_DECLS

#endif
