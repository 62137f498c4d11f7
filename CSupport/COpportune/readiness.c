/*
 * Readiness: one edge-triggered epoll, and a word for each descriptor in it.
 *
 *     word     UNWATCHED, QUIET, READY, or the waiter with its tag
 *     watched  how many descriptors are watched
 *     end      no descriptor at or above it was ever watched
 *     closed   arming is refused
 *
 *     UNWATCHED ---> READY <---- QUIET <----> waiter      from each of them to UNWATCHED, at a removal
 *                      |           ^
 *                      +-----------+
 *
 * Invariants
 *  E1  A waiter is armed by a step from QUIET, and claimed by the step from it. The thread that made this
 *      step resumes it, and no other. A waiter's address is not looked at before.
 *  E2  A word is watched, that is, not UNWATCHED, only between opp_readiness_add() and
 *      opp_readiness_remove(). These two are called by one thread at a time for a descriptor.
 *  E3  The epoll is used only by threads that add, remove or harvest. They are of a foreground class, and not
 *      inside a job, so none of them is lowered while it holds the epoll's mutex.
 *
 * No event is lost. An edge is an event of the epoll once. Its harvester steps from QUIET to READY, or claims
 * the waiter; in READY it leaves the word, and who arms steps to QUIET first and tries to receive after that.
 * Of what came before the descriptor was added, READY tells: the word is READY before the descriptor is in
 * the epoll. So after a vain try either the event's step comes first, and arming fails, or arming comes
 * first, and the step claims the waiter.
 *
 * The kernel's order. Who takes an event of a descriptor sees what was done before that was added to the
 * epoll: the kernel holds the epoll's mutex to add it, and to return its event. No manual says so, and
 * without it the harvester might read what the word was before, and drop the event.
 *
 * A late event. An event of a descriptor that was removed meanwhile finds UNWATCHED, or the word of the next
 * descriptor of that number. There it resumes a waiter for nothing, or keeps one from arming once.
 *
 * Against an end. Who arms looks afterwards (seq_cst) at what may have ended: the pool, its app. Who ends it
 * publishes the end (seq_cst) and then looks at the words. In the total order of the four, either the waiter
 * sees the end, and disarms itself, or it is found.
 *
 * A stopped thread. In the steps of a word nobody waits for another. A harvester that is stopped keeps the
 * waiters that it has claimed, and the events that it has taken from the kernel: at most OPP_HARVEST_MAX.
 */
#include "opp_readiness.h"
#include "mapping.h"
#include "opp_assert.h"
#include "opp_sync.h"

#include <errno.h>
#include <stdlib.h>

enum { UNWATCHED = 0, QUIET = 1, READY = 2 };

#define WAITER_BITS 48
#define NOTIFIER OPP_READINESS_DESCRIPTORS /* its number among the events */

struct opp_readiness {
    opp_poller poller;
    int notifier;
    _Alignas(OPP_LINE) _Atomic(uint32_t) watched;
    _Atomic(uint32_t) end;
    _Atomic(bool) closed;
    _Alignas(OPP_LINE) _Atomic(uint64_t) words[OPP_READINESS_DESCRIPTORS];
};

_Static_assert(READY < 8, "no waiter has such an address");

static bool is_waiter(uint64_t word) {
    return word > READY;
}

static void *waiter_of(uint64_t word) {
    OPP_ASSERT(is_waiter(word));
    return (void *)(uintptr_t)(word & ((1ull << WAITER_BITS) - 1));
}

static uint64_t word_of(const void *waiter, uint16_t tag) {
    return (uint64_t)tag << WAITER_BITS | (uint64_t)(uintptr_t)waiter;
}

void *opp_harvest_waiter(const opp_harvest *harvest, uint32_t index) {
    OPP_ASSERT(index < harvest->count);
    return harvest->waiters[index];
}

opp_readiness *opp_readiness_create(void) {
    opp_readiness *readiness = opp_map(sizeof(opp_readiness));
    if (readiness == NULL) return NULL;
    readiness->notifier = opp_notifier_open();
    if (readiness->notifier >= 0) {
        if (opp_poller_open(&readiness->poller) == 0) {
            if (opp_poller_add(&readiness->poller, readiness->notifier, NOTIFIER) == 0) return readiness;
            opp_poller_close(&readiness->poller);
        }
        opp_timer_close(readiness->notifier);
    }
    opp_unmap(readiness, sizeof(opp_readiness));
    return NULL;
}

void opp_readiness_destroy(opp_readiness *readiness) {
    opp_poller_close(&readiness->poller);
    opp_timer_close(readiness->notifier);
    opp_unmap(readiness, sizeof(opp_readiness));
}

static _Atomic(uint64_t) *word_at(opp_readiness *readiness, int descriptor) {
    bool is_known = descriptor >= 0 && descriptor < OPP_READINESS_DESCRIPTORS;
    return is_known ? &readiness->words[descriptor] : NULL;
}

/* --- Descriptors -------------------------------------------------------------------------------- */

int opp_readiness_add(opp_readiness *readiness, int descriptor) {
    _Atomic(uint64_t) *word = word_at(readiness, descriptor);
    if (word == NULL) return -ERANGE;
    if (opp_load(word, relaxed) != UNWATCHED) return 0; /* relaxed: by E2 no other thread watches it now */
    uint32_t end = opp_load(&readiness->end, relaxed);
    while (end <= (uint32_t)descriptor && /* [end] before the word: who finds a waiter finds its number */
           !opp_cas(&readiness->end, &end, (uint32_t)descriptor + 1, seq_cst)) {}
    opp_add(&readiness->watched, 1, seq_cst); /* [watched] before the caller looks for a leader */
    /* [word] release: pairs with opp_readiness_arm(). Who arms sees what was done to the last file of this
     * number. First the word: an event that comes at once must not find it unwatched. */
    opp_store(word, READY, release);
    return opp_poller_add(&readiness->poller, descriptor, (uint32_t)descriptor);
}

void *opp_readiness_remove(opp_readiness *readiness, int descriptor) {
    _Atomic(uint64_t) *word = word_at(readiness, descriptor);
    if (word == NULL || opp_load(word, relaxed) == UNWATCHED) return NULL; /* relaxed: E2 */
    /* First the word: who arms later finds it unwatched. [waiter] acquire: pairs with opp_readiness_arm(). */
    uint64_t left = opp_swap(word, UNWATCHED, acquire);
    opp_poller_remove(&readiness->poller, descriptor);
    opp_sub(&readiness->watched, 1, relaxed); /* relaxed: one too many for a moment costs a look */
    return is_waiter(left) ? waiter_of(left) : NULL;
}

/* An event of the descriptor has come. Returns the waiter that this thread has claimed, or NULL. */
static void *readiness_came(_Atomic(uint64_t) *word) {
    uint64_t seen = opp_load(word, relaxed); /* relaxed: the exchange reads the latest value */
    for (;;) {
        if (seen == UNWATCHED) return NULL; /* removed: by the kernel's order it is not what was before */
        /* [ready] In READY as well, by an exchange: who takes it back to QUIET later reads this one, and so
         * receives what came with this event. release: pairs with the exchange there; [waiter] acquire. */
        if (opp_cas(word, &seen, is_waiter(seen) ? QUIET : READY, acq_rel))
            return is_waiter(seen) ? waiter_of(seen) : NULL;
    }
}

static uint32_t readiness_take(opp_readiness *readiness, opp_harvest *harvest, bool waits) {
    uint32_t numbers[OPP_HARVEST_MAX];
    int count = opp_poller_wait(&readiness->poller, numbers, OPP_HARVEST_MAX, waits);
    harvest->count = 0;
    harvest->is_notified = false;
    for (int i = 0; i < count; i++) {
        if (numbers[i] == NOTIFIER) { /* its edge alone counts; it is never read */
            harvest->is_notified = true;
            continue;
        }
        void *waiter = readiness_came(&readiness->words[numbers[i]]);
        if (waiter != NULL) harvest->waiters[harvest->count++] = waiter;
    }
    return harvest->count;
}

uint32_t opp_readiness_harvest(opp_readiness *readiness, opp_harvest *harvest) {
    return readiness_take(readiness, harvest, false);
}

uint32_t opp_readiness_wait(opp_readiness *readiness, opp_harvest *harvest) {
    return readiness_take(readiness, harvest, true);
}

void opp_readiness_notify(opp_readiness *readiness) {
    opp_notifier_notify(readiness->notifier);
}

/* --- Waiters -------------------------------------------------------------------------------------- */

bool opp_readiness_is_used(const opp_readiness *readiness) {
    return opp_load(&readiness->watched, seq_cst) != 0; /* [watched] */
}

bool opp_readiness_has(const opp_readiness *readiness, int descriptor) {
    const _Atomic(uint64_t) *word = word_at((opp_readiness *)readiness, descriptor);
    return word != NULL && opp_load(word, relaxed) != UNWATCHED; /* relaxed: arming decides */
}

bool opp_readiness_is_awaited(const opp_readiness *readiness, int descriptor) {
    const _Atomic(uint64_t) *word = word_at((opp_readiness *)readiness, descriptor);
    return word != NULL && is_waiter(opp_load(word, relaxed)); /* relaxed: may be out of date at once */
}

opp_arming opp_readiness_arm(opp_readiness *readiness, int descriptor, void *waiter, uint16_t tag) {
    _Atomic(uint64_t) *word = word_at(readiness, descriptor);
    uint64_t armed = word_of(waiter, tag);
    if (word == NULL || ((uintptr_t)waiter & 7) != 0 || (uintptr_t)waiter >> WAITER_BITS != 0)
        return OPP_ARMING_REFUSED;
    uint64_t seen = QUIET;
    /* [waiter] release: who claims the waiter sees it. seq_cst: see "Against an end". [word] acquire. */
    while (!opp_cas(word, &seen, armed, seq_cst)) {
        if (seen == UNWATCHED || is_waiter(seen)) return OPP_ARMING_REFUSED;
        /* [ready] acquire: pairs with readiness_came(). */
        if (seen == READY && opp_cas(word, &seen, QUIET, acquire)) return OPP_ARMING_READY;
        seen = QUIET;
    }
    if (!opp_load(&readiness->closed, seq_cst)) return OPP_ARMING_DONE; /* [closed] */
    /* Either this thread takes it back, or it was claimed and is resumed. */
    return opp_readiness_disarm(readiness, descriptor, waiter, tag) ? OPP_ARMING_REFUSED : OPP_ARMING_DONE;
}

bool opp_readiness_disarm(opp_readiness *readiness, int descriptor, void *waiter, uint16_t tag) {
    _Atomic(uint64_t) *word = word_at(readiness, descriptor);
    uint64_t armed = word_of(waiter, tag);
    /* [end] seq_cst: a cancellation is published before; see "Against an end". An exchange that fails says
     * nothing of an order: it might read what the word was before it was armed. */
    if (word == NULL || opp_load(word, seq_cst) != armed) return false;
    return opp_cas(word, &armed, QUIET, acquire); /* [waiter] acquire */
}

static void *claim_next(opp_readiness *readiness, int tag, uint32_t *cursor) {
    /* [end] seq_cst, both: see "Against an end". */
    for (uint32_t end = opp_load(&readiness->end, seq_cst); *cursor < end; ++*cursor) {
        _Atomic(uint64_t) *word = &readiness->words[*cursor];
        uint64_t seen = opp_load(word, seq_cst);
        if (!is_waiter(seen) || (tag >= 0 && (int)(seen >> WAITER_BITS) != tag)) continue;
        if (opp_cas(word, &seen, QUIET, acquire)) return waiter_of(seen); /* [waiter] acquire */
        --*cursor; /* it has changed: once more */
    }
    return NULL;
}

void *opp_readiness_claim_tagged(opp_readiness *readiness, uint16_t tag, uint32_t *cursor) {
    return claim_next(readiness, tag, cursor);
}

void opp_readiness_close(opp_readiness *readiness) {
    opp_store(&readiness->closed, true, seq_cst); /* [closed] before the words are looked at */
}

void *opp_readiness_claim_any(opp_readiness *readiness, uint32_t *cursor) {
    return claim_next(readiness, -1, cursor);
}
