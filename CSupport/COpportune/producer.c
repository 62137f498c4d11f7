/* Producers: each belongs to one thread at a time, and is reused by another with its queued jobs. */
#include "runq.h"

#include <stdlib.h>

opp_producer *opp_producer_acquire(opp_core *core, uint8_t node) {
    OPP_ASSERT(node < 64);
    /* [producers] acquire: pairs with the exchange below; the record is filled in. */
    for (opp_producer *producer = opp_load(&core->producers,
                                           acquire); producer != NULL; producer = producer->next) {
        uint32_t owned = 0;
        /* [adopt] acquire: pairs with the release in opp_producer_release(). The last owner's pushes are
         * over, and this thread may use the private fields. */
        if (producer->node == node && opp_load(&producer->owned, relaxed) == 0 &&
            opp_cas(&producer->owned, &owned, 1, acquire))
            return producer;
    }
    opp_producer *producer = calloc(1, sizeof(opp_producer));
    if (producer == NULL) return NULL;
    producer->node = node;
    atomic_init(&producer->owned, 1);
    opp_producer *first = opp_load(&core->producers, relaxed);
    do {
        producer->next = first;
        /* [producers] release: see above. */
    } while (!opp_cas(&core->producers, &first, producer, release));
    opp_add(&core->queue_bytes, sizeof(opp_producer), relaxed); /* statistics */
    return producer;
}

void opp_producer_release(opp_producer *producer) {
    opp_store(&producer->owned, 0, release); /* [adopt] release: see opp_producer_acquire(). */
}
