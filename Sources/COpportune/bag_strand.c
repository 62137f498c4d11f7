/* A bag alone, the queue of a strand: its entries' stamps are tickets, so that the order is exact. */
#include "runq.h"

#include <stdlib.h>

opp_bag *opp_bag_create(opp_core *core) {
    /* [bags] acquire: pairs with the exchange below. */
    for (opp_bag *bag = opp_load(&core->bags, acquire); bag != NULL; bag = bag->next) {
        uint32_t in_use = 0;
        /* [bag-reuse] acquire: pairs with opp_bag_destroy(). */
        if (opp_load(&bag->in_use, relaxed) == 0 && opp_cas(&bag->in_use, &in_use, 1, acquire)) return bag;
    }
    opp_bag *bag = malloc(sizeof(opp_bag));
    if (bag == NULL) return NULL;
    opp_bag_init(bag, &core->pool);
    atomic_init(&bag->in_use, 1);
    opp_bag *first = opp_load(&core->bags, relaxed);
    do {
        bag->next = first;
        /* [bags] release: the record is filled in. */
    } while (!opp_cas(&core->bags, &first, bag, release));
    return bag;
}

void opp_bag_destroy(opp_bag *bag, void (*drop)(opp_job, void *), void *context) {
    opp_bag_drain(bag, drop, context);
    opp_store(&bag->in_use, 0, release); /* [bag-reuse] release: the last owner is done. */
}

int opp_bag_push(opp_bag *bag, opp_source *source, opp_job job) {
    /* relaxed: of two pushes, one of which is over before the other begins, the later reads the larger ticket, by
     * the coherence of one object. */
    uint32_t ticket = opp_add(&bag->ticket, 1, relaxed);
    opp_fifo *fifo = opp_bag_fifo(bag, source);
    return fifo == NULL ? -ENOMEM : fifo_push(fifo, bag->pool, job, ticket);
}

bool opp_bag_take(opp_bag *bag, opp_job *job) {
    bool stolen;
    return opp_bag_search(bag, NULL, NULL, NULL, 0, job, &stolen);
}

bool opp_bag_is_empty(const opp_bag *bag) {
    return opp_bag_count(bag) == 0;
}
