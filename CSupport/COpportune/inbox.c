/*
 * A stack that is pushed by compare-and-swap and taken as a whole by exchange. No node is popped alone, so
 * there is no ABA. Invariant: each message is taken by exactly one fetch. A pusher that is stopped before its
 * exchange affects no other thread.
 */
#include "links.h"
#include "opp_assert.h"
#include "opp_inbox.h"
#include "opp_sync.h"

#include <stdlib.h>

/* The owner of a link is the message. */
struct opp_inbox {
    _Atomic(opp_link *) top;
};

opp_inbox *opp_inbox_create(void) {
    return calloc(1, sizeof(opp_inbox));
}

void opp_inbox_destroy(opp_inbox *inbox, void (*drop)(void *)) {
    for (opp_link *link = opp_load(&inbox->top, relaxed), *next; link != NULL; link = next) {
        next = link->next;
        if (drop != NULL) drop(link->owner);
        free(link);
    }
    free(inbox);
}

int opp_inbox_push(opp_inbox *inbox, void *message) {
    OPP_ASSERT(message != NULL);
    opp_link *fresh = malloc(sizeof(opp_link));
    if (fresh == NULL) return -ENOMEM;
    fresh->owner = message;
    opp_link *top = opp_load(&inbox->top, relaxed);
    do {
        fresh->next = top;
        /* [inbox] release: the link and the message are seen by who fetches them. acquire: a fetch that was
         * too early for this message is known by it, and what its thread did before, such as unarming the
         * alarm that the caller arms next. */
    } while (!opp_cas(&inbox->top, &top, fresh, acq_rel));
    return 0;
}

void opp_inbox_fetch(opp_inbox *inbox, void (*each)(void *, void *), void *context) {
    opp_link *taken = opp_swap(&inbox->top, NULL, acq_rel); /* [inbox] see opp_inbox_push() */
    for (opp_link *link = links_oldest_first(taken), *next; link != NULL; link = next) {
        next = link->next;
        OPP_ASSERT(link->owner != NULL);
        each(link->owner, context);
        free(link);
    }
}
