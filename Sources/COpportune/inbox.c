/*
 * A stack that is pushed by compare-and-swap and taken as a whole by exchange. No node is popped alone, so
 * there is no ABA. Invariant: each message is taken by exactly one fetch. A pusher that is stopped before its
 * exchange affects no other thread.
 */
#include "opp_assert.h"
#include "opp_inbox.h"
#include "opp_sync.h"

#include <stdlib.h>

typedef struct node {
    struct node *next;
    void *message;
} node;

struct opp_inbox {
    _Atomic(node *) top;
};

opp_inbox *opp_inbox_create(void) {
    return calloc(1, sizeof(opp_inbox));
}

void opp_inbox_destroy(opp_inbox *inbox, void (*drop)(void *)) {
    for (node *entry = opp_load(&inbox->top, relaxed), *next; entry != NULL; entry = next) {
        next = entry->next;
        if (drop != NULL) drop(entry->message);
        free(entry);
    }
    free(inbox);
}

int opp_inbox_push(opp_inbox *inbox, void *message) {
    OPP_ASSERT(message != NULL);
    node *fresh = malloc(sizeof(node));
    if (fresh == NULL) return -ENOMEM;
    fresh->message = message;
    node *top = opp_load(&inbox->top, relaxed);
    do {
        fresh->next = top;
        /* [inbox] release: pairs with opp_inbox_fetch(), which sees the node and the message. acquire: if a
         * fetch came too early for this message, the pusher sees what the fetching thread did before it, such
         * as disarming the alarm that the caller arms next. */
    } while (!opp_cas(&inbox->top, &top, fresh, acq_rel));
    return 0;
}

void opp_inbox_fetch(opp_inbox *inbox, void (*each)(void *, void *), void *context) {
    node *taken = opp_swap(&inbox->top, NULL, acq_rel); /* [inbox] see opp_inbox_push() */
    node *oldest = NULL;
    while (taken != NULL) {
        node *next = taken->next;
        taken->next = oldest;
        oldest = taken;
        taken = next;
    }
    while (oldest != NULL) {
        node *next = oldest->next;
        each(oldest->message, context);
        free(oldest);
        oldest = next;
    }
}
