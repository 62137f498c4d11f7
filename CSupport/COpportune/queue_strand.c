/* The queue of a strand, which belongs to no app and level. Its entries' stamps are tickets, so that their
 * order is exact. */
#include "runq.h"

#include <stdlib.h>

opp_queue *opp_queue_create(opp_core *core) {
    /* [queues] acquire: pairs with the exchange below. */
    for (opp_queue *queue = opp_load(&core->queues, acquire); queue != NULL; queue = queue->next) {
        uint32_t in_use = 0;
        /* [queue-reuse] acquire: pairs with opp_queue_destroy(). */
        if (opp_load(&queue->in_use, relaxed) != 0 || !opp_cas(&queue->in_use, &in_use, 1, acquire)) continue;
        OPP_ASSERT(queue->segments == &core->segments);
        return queue;
    }
    opp_queue *queue = malloc(sizeof(opp_queue));
    if (queue == NULL) return NULL;
    opp_queue_init(queue, &core->segments);
    atomic_init(&queue->in_use, 1);
    opp_queue *first = opp_load(&core->queues, relaxed);
    do {
        queue->next = first;
        /* [queues] release: the record is filled in. */
    } while (!opp_cas(&core->queues, &first, queue, release));
    return queue;
}

void opp_queue_destroy(opp_queue *queue, void (*drop)(opp_job, void *), void *context) {
    opp_queue_drain(queue, drop, context);
    opp_store(&queue->in_use, 0, release); /* [queue-reuse] release: the last owner is done. */
}

int opp_queue_push(opp_queue *queue, opp_producer *producer, opp_job job) {
    /* relaxed: if one push is over before another begins, the later one draws the larger ticket, by the
     * coherence of one object. */
    uint32_t ticket = opp_add(&queue->ticket, 1, relaxed);
    opp_fifo *fifo = opp_queue_fifo(queue, producer);
    OPP_ASSERT(fifo == NULL || fifo->producer == producer);
    return fifo == NULL ? -ENOMEM : fifo_push(fifo, queue->segments, job, ticket);
}

bool opp_queue_take(opp_queue *queue, opp_job *job) {
    bool stolen;
    return opp_queue_search(queue, NULL, NULL, NULL, 0, job, &stolen);
}

bool opp_queue_is_empty(const opp_queue *queue) {
    return opp_queue_count(queue) == 0;
}
