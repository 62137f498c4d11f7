/*
 * Alarms: one-shot timers and a notifier, for one thread that waits.
 *
 * An alarm's word is its number of expiries, doubled, plus one while it is armed. To arm, a thread sets the
 * timer first, and then the bit, if the word is still what it read. So a thread that is stopped in between
 * leaves the alarm unarmed, and others arm it again. A thread that continues late cannot mark an expired
 * timer as armed.
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
