/* Sources: each belongs to one thread at a time, and is left to another, with what it has queued. */
#include "runq.h"

#include <stdlib.h>

opp_source *opp_source_acquire(opp_core *core, uint8_t node) {
    OPP_ASSERT(node < 64);
    /* [sources] acquire: pairs with the exchange below; the record is filled in. */
    for (opp_source *source = opp_load(&core->sources, acquire); source != NULL; source = source->next) {
        uint32_t owned = 0;
        /* [adopt] acquire: pairs with the release in opp_source_release(); the last owner's pushes are over, and
         * its private fields are ours. */
        if (source->node == node && opp_load(&source->owned, relaxed) == 0 &&
            opp_cas(&source->owned, &owned, 1, acquire))
            return source;
    }
    opp_source *source = calloc(1, sizeof(opp_source));
    if (source == NULL) return NULL;
    source->node = node;
    atomic_init(&source->owned, 1);
    opp_source *first = opp_load(&core->sources, relaxed);
    do {
        source->next = first;
        /* [sources] release: see above. */
    } while (!opp_cas(&core->sources, &first, source, release));
    opp_add(&core->queue_bytes, sizeof(opp_source), relaxed); /* statistics */
    return source;
}

void opp_source_release(opp_source *source) {
    opp_store(&source->owned, 0, release); /* [adopt] release: see opp_source_acquire(). */
}
