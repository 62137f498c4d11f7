/*
 * Alarms: one-shot timers and a notifier, for one thread that waits.
 *
 * An alarm's word is its number of expiries, doubled, plus one while it is armed. To arm, a thread sets the
 * timer first, and then the bit, if the word is still what it read. So a thread that is stopped in between
 * leaves the alarm unarmed, and others arm it again. A thread that continues late cannot mark an expired
 * timer as armed.
 *
 * An alarm that is only for as long as somebody is inside something is disarmed by the last who leaves it,
 * for else it would wake the waiter for nothing. Invariant, while nobody is inside opp_alarms_leave(): where
 * somebody has entered and found the alarm armed, it is set. Whoever is stopped inside that call may leave it
 * unset although it is armed, so the waiter needs another reason to look, now and then.
 */
#include "opp_alarms.h"
#include "opp_assert.h"
#include "opp_sync.h"

#include <stdlib.h>
#include <string.h>

struct opp_alarms {
    /* timers, and an eventfd for the notifier, since setting a timer costs far more */
    int descriptor[OPP_ALARMS + 1];
    _Alignas(OPP_LINE) _Atomic(uint64_t) word[OPP_ALARMS];
    _Alignas(OPP_LINE) _Atomic(uint32_t) inside[OPP_ALARMS];
    _Atomic(uint32_t) disarming[OPP_ALARMS]; /* 1 while somebody disarms it */
};

opp_alarms *opp_alarms_create(void) {
    opp_alarms *alarms = aligned_alloc(OPP_LINE, sizeof(opp_alarms));
    if (alarms == NULL) return NULL;
    memset(alarms, 0, sizeof(*alarms));
    for (int i = 0; i <= OPP_ALARMS; i++) {
        alarms->descriptor[i] = i == OPP_NOTIFIER ? opp_notifier_open() : opp_timer_open();
        if (alarms->descriptor[i] >= 0) continue;
        while (i-- > 0) opp_timer_close(alarms->descriptor[i]);
        free(alarms);
        return NULL;
    }
    return alarms;
}

void opp_alarms_destroy(opp_alarms *alarms) {
    for (int i = 0; i <= OPP_ALARMS; i++) opp_timer_close(alarms->descriptor[i]);
    free(alarms);
}

void opp_alarms_arm(opp_alarms *alarms, uint32_t which, uint64_t delay_ns) {
    /* [alarm] seq_cst: pairs with opp_alarms_wait(), which disarms (seq_cst) before the waiter looks. It
     * follows whatever the caller did that the waiter must see, if the alarm is found armed. */
    OPP_ASSERT(which < OPP_ALARMS);
    uint64_t word = opp_load(&alarms->word[which], seq_cst);
    if (word & 1) return;
    opp_timer_set(alarms->descriptor[which], false, delay_ns);
    opp_cas(&alarms->word[which], &word, word | 1, relaxed); /* relaxed: a hint that saves others the call */
}

void opp_alarms_enter(opp_alarms *alarms, uint32_t which) {
    OPP_ASSERT(which < OPP_ALARMS);
    /* [inside] seq_cst: precedes the caller's look at the word; see disarm(). */
    opp_add(&alarms->inside[which], 1, seq_cst);
}

/* Called by one thread at a time. */
static void disarm(opp_alarms *alarms, uint32_t which, uint64_t delay_ns) {
    uint64_t word = opp_load(&alarms->word[which], relaxed); /* relaxed: checked by the exchange */
    if (!(word & 1) || !opp_cas(&alarms->word[which], &word, word + 1, seq_cst)) return;
    word += 1;
    /* relaxed, both: a number that is too old costs a system call; the word is a hint. */
    if (opp_load(&alarms->inside[which], relaxed) > 0) {
        /* Still set. If the word has changed, somebody has armed it anew, or it has gone off. */
        opp_cas(&alarms->word[which], &word, word | 1, relaxed);
        return;
    }
    opp_timer_disarm(alarms->descriptor[which]);
    /* Somebody may have set the timer before, or have found it armed: who did is inside, or has left since,
     * having changed the word if it set the timer. seq_cst: who enters adds before it reads the word, and
     * here the word was changed before this number is read, so if the one finds the alarm armed, the other
     * finds it inside. And who reads of a departure knows what came before it, so the word is read next. */
    uint32_t inside = opp_load(&alarms->inside[which], seq_cst);
    uint64_t now = opp_load(&alarms->word[which], relaxed);
    if (inside == 0 && now == word) return;
    opp_timer_set(alarms->descriptor[which], false, delay_ns);
    if (!(now & 1)) opp_cas(&alarms->word[which], &now, now | 1, relaxed); /* relaxed: a hint, as above */
}

void opp_alarms_leave(opp_alarms *alarms, uint32_t which, uint64_t delay_ns, bool disarms) {
    OPP_ASSERT(which < OPP_ALARMS);
    /* release: disarm() of another reads the word afterwards, see there. */
    uint32_t before = opp_sub(&alarms->inside[which], 1, release);
    OPP_ASSERT(before > 0);
    if (before > 1 || !disarms) return;
    /* Two at once could each undo what the other has mended. acquire, release: of what the one before has
     * read the next reads nothing older. */
    if (opp_swap(&alarms->disarming[which], 1, acquire)) return;
    disarm(alarms, which, delay_ns);
    opp_store(&alarms->disarming[which], 0, release);
}

void opp_alarms_set(opp_alarms *alarms, uint32_t which, uint64_t at_ns) {
    OPP_ASSERT(which < OPP_ALARMS);
    opp_timer_set(alarms->descriptor[which], true, at_ns);
}

void opp_alarms_notify(opp_alarms *alarms) {
    opp_notifier_notify(alarms->descriptor[OPP_NOTIFIER]);
}

uint32_t opp_alarms_wait(opp_alarms *alarms) {
    uint32_t ready = opp_timer_wait(alarms->descriptor, OPP_ALARMS + 1);
    uint32_t fired = 0;
    OPP_ASSERT(ready >> (OPP_ALARMS + 1) == 0);
    for (uint32_t i = 0; i <= OPP_ALARMS; i++) {
        if (!(ready & 1u << i) || !opp_timer_read(alarms->descriptor[i])) continue;
        fired |= 1u << i;
        if (i == OPP_NOTIFIER) continue;
        uint64_t word = opp_load(&alarms->word[i], relaxed);
        /* [alarm] seq_cst: pairs with opp_alarms_arm(). From odd or even to the next even number. */
        while (!opp_cas(&alarms->word[i], &word, (word | 1) + 1, seq_cst)) {}
    }
    return fired;
}

uint64_t opp_now_ns(void) {
    return opp_sync_now();
}
