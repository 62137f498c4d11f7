/*
 * A queue is a list of fifos, one for each producer that has ever pushed to it. A producer outlives its
 * thread, to be adopted by another. A fifo that is empty, and whose producer has no thread, is removed from
 * the list by an occasional sweep. It stays aside until its producer pushes to the queue again.
 *
 * Invariants (those of one fifo are in fifo.h)
 *  B6  Segments, directories, fifos, producers and queues keep their type and address until the core is
 *      destroyed.
 *  B7  Stamps in one fifo do not decrease (as unsigned differences). The exception is a producer that was
 *      adopted, or stopped inside a push; then an entry's stamp is older than necessary, which only favours
 *      the entry.
 *  B8  A fifo that is not in the list is empty, and its producer has no cached pointer to it. Only the holder
 *      of `sweeping` removes a fifo, rests it or restores it. Its `next` is kept, so a reader that is at this
 *      fifo continues to all that followed it in the list. If the fifo is restored to the front meanwhile,
 *      the reader looks at the list once more.
 *
 * Bypass. Entries carry the core's epoch, which each producer advances after every 25 pushes; so a producer
 * stamps at most 25 entries with one epoch. The *low-water mark* is the smallest front that a consumer saw
 * when it last looked at all fifos. A consumer takes from a fifo only while its front's epoch is at most one
 * above that mark. Then it must look again, and take from the fifo with the smallest front. Hence at most two
 * epochs of a producer's later entries pass before that look, and two after.
 *
 * Turns. Within that bound a consumer prefers its own fifo. Since 50 jobs may be long, a worker ends its turn
 * by time. The next turn is that of the *outside* fifos: those of producers that no consumer of its group has
 * as its own, so that no other consumer prefers them. Of these it takes the oldest front; of several equally
 * old, the one behind the fifo that it served last. So an outside entry waits for one turn of the own fifo
 * and for the entries of other outside fifos. An outside entry may be taken
 * although it is one epoch younger than the own front: several workers advance epochs faster than one
 * takes jobs.
 *
 * A stopped thread. In a push, before tail is stored: its entry is not there yet, and other threads are not
 * affected. In a sweep: this queue has no other sweep meanwhile, and one resting producer is not adopted; a
 * push makes a new fifo where it cannot restore its old one. In a take, before the claim: nothing has
 * happened. After the claim: it holds one entry and, by B4, at most one segment.
 */
#include "queue.h"

#include <stdlib.h>
#include <string.h>

/* --- Queues ------------------------------------------------------------------------------------ */

void opp_queue_init(opp_queue *queue, opp_segments *segments) {
    memset(queue, 0, sizeof(*queue));
    queue->segments = segments;
}

void opp_queue_drain(opp_queue *queue, void (*drop)(opp_job, void *), void *context) {
    opp_job job;
    bool stolen;
    while (opp_queue_search(queue, NULL, NULL, NULL, 0, &job, &stolen))
        if (drop != NULL) drop(job, context);
}

void opp_queue_free(opp_queue *queue) {
    /* relaxed: no other thread uses the queue any more. */
    for (opp_fifo *fifo = opp_load(&queue->fifos, relaxed), *next; fifo != NULL; fifo = next) {
        next = opp_load(&fifo->next, relaxed);
        opp_fifo_free(fifo);
    }
    for (opp_fifo *fifo = queue->resting, *next; fifo != NULL; fifo = next) {
        next = fifo->resting;
        opp_fifo_free(fifo);
    }
    free(queue);
}

static opp_fifo *fifo_next(const opp_fifo *fifo) {
    /* [next] acquire: pairs with the releases in queue_sweep() and opp_queue_fifo(), by which `next` may have
     * changed since the list was entered. The original successor was acquired with `fifos`. */
    return opp_load(&fifo->next, acquire);
}

/* --- Sweeps ---------------------------------------------------------------------------------- */

static bool queue_try_sweeping(opp_queue *queue) {
    /* [sweeping] acquire: pairs with queue_end_sweeping(). */
    return !opp_load(&queue->sweeping, relaxed) && !opp_swap(&queue->sweeping, true, acquire);
}

static void queue_end_sweeping(opp_queue *queue) {
    /* [sweeping] release: the next holder sees the resting fifos */
    opp_store(&queue->sweeping, false, release);
}

static size_t cache_index(const opp_queue *queue) {
    return ((uintptr_t)queue >> 4 ^ (uintptr_t)queue >> 10) % OPP_PRODUCER_CACHE;
}

/* Removes fifos that are empty and whose producer has no owner. Not the first in the list, which pushers
 * change. */
static void queue_sweep(opp_queue *queue) {
    if (!queue_try_sweeping(queue)) return;
    size_t index = cache_index(queue);
    OPP_ASSERT(index < OPP_PRODUCER_CACHE);
    opp_fifo *before = opp_load(&queue->fifos, acquire); /* [fifos] */
    OPP_ASSERT(before != NULL); /* the caller has met it */
    for (opp_fifo *fifo = fifo_next(before); fifo != NULL; fifo = fifo_next(before)) {
        opp_producer *producer = fifo->producer;
        uint32_t owned = 0;
        /* [adopt] acquire: pairs with opp_producer_release(). The last owner's pushes are over, and this
         * thread may use the private fields. */
        bool ours = opp_load(&producer->owned, relaxed) == 0 && opp_cas(&producer->owned, &owned, 1, acquire);
        /* relaxed: this thread owns the tail; an old head only makes the fifo stay. */
        bool rests = ours && opp_load(&fifo->head, relaxed) == opp_load(&fifo->tail, relaxed);
        if (rests) {
            if (producer->cache[index].queue == queue) producer->cache[index].queue = NULL;
            if (producer->path.fifo == fifo) producer->path.app = NULL;
            OPP_ASSERT(before != fifo);
            /* [next] release: passes on what was acquired of the following fifo. */
            opp_store(&before->next, fifo_next(fifo), release);
            fifo->resting = queue->resting;
            queue->resting = fifo;
        } else {
            before = fifo;
        }
        if (ours) opp_store(&producer->owned, 0, release); /* [adopt] */
    }
    queue_end_sweeping(queue);
}

/* Restores the producer's resting fifo; NULL if there is none. */
static opp_fifo *queue_have_back(opp_queue *queue, const opp_producer *producer) {
    if (!queue_try_sweeping(queue)) return NULL;
    opp_fifo **link = &queue->resting;
    while (*link != NULL && (*link)->producer != producer) link = &(*link)->resting;
    opp_fifo *fifo = *link;
    OPP_ASSERT(fifo == NULL || fifo->producer == producer); /* B8 */
    if (fifo != NULL) *link = fifo->resting;
    queue_end_sweeping(queue);
    return fifo;
}

opp_fifo *opp_queue_fifo(opp_queue *queue, opp_producer *producer) {
    size_t index = cache_index(queue);
    if (producer->cache[index].queue == queue) {
        OPP_ASSERT(producer->cache[index].fifo->producer == producer);
        return producer->cache[index].fifo;
    }
    /* [fifos] acquire: pairs with the exchange below; `next` and `producer` are set. */
    opp_fifo *fifo = opp_load(&queue->fifos, acquire);
    while (fifo != NULL && fifo->producer != producer) fifo = fifo_next(fifo);
    if (fifo == NULL) {
        fifo = queue_have_back(queue, producer);
        if (fifo == NULL) fifo = opp_fifo_create(producer);
        if (fifo == NULL) return NULL;
        opp_fifo *first;
        do {
            first = opp_load(&queue->fifos, acquire); /* [fifos] */
            /* [next] release: a reader may still be at this fifo, from when it was in the list before; see
             * B8. */
            opp_store(&fifo->next, first, release);
            /* [fifos] release: see above. seq_cst: precedes the tail of the first push in the total order
             * that fifo_put() describes. */
        } while (!opp_cas(&queue->fifos, &first, fifo, seq_cst));
    }
    OPP_ASSERT(fifo->producer == producer);
    producer->cache[index].queue = queue;
    producer->cache[index].fifo = fifo;
    return fifo;
}

/* A look at all fifos has met many empty ones. relaxed: only a counter, of which exactness does not
 * matter. */
static void queue_met_empty(opp_queue *queue) {
    uint32_t looks = opp_load(&queue->looks, relaxed) + 1;
    opp_store(&queue->looks, looks, relaxed);
    if (looks % OPP_SWEEP_LOOKS == 0) queue_sweep(queue);
}

/* Looks at every fifo. False if all were empty. Otherwise sets `oldest`, and `choice` if it may be taken. */
static bool queue_look_round(opp_queue *queue, const opp_producer *own, const uint8_t *distance,
                             uint32_t slack, uint32_t *low_water, peek *choice) {
    bool found = false;
    uint32_t empty = 0;
    peek oldest = {0}, near = {0};
    /* [fifos] acquire; not seq_cst, for the same reason as tail in fifo_peek(). */
    for (opp_fifo *fifo = opp_load(&queue->fifos, acquire); fifo != NULL; fifo = fifo_next(fifo)) {
        peek front;
        if (!fifo_peek(fifo, &front)) {
            empty++;
            continue;
        }
        if (!found || older(stamp_of(&front), stamp_of(&oldest))) oldest = front;
        found = true;
        if (fifo->producer == own) near = front;
    }
    if (empty >= OPP_SWEEP_EMPTY) queue_met_empty(queue);
    if (!found) return false;
    OPP_ASSERT(oldest.fifo != NULL);
    *low_water = stamp_of(&oldest);
    uint32_t limit = *low_water + slack;
    OPP_ASSERT(near.fifo == NULL || near.fifo->producer == own);
    OPP_ASSERT(near.fifo == NULL || !older(stamp_of(&near), *low_water));
    *choice = oldest;
    if (near.fifo != NULL && !older(limit, stamp_of(&near))) {
        *choice = near;
    } else if (distance != NULL) {
        uint8_t best = distance[oldest.fifo->producer->node];
        opp_fifo *fifo = opp_load(&queue->fifos, acquire); /* [fifos] */
        for (; fifo != NULL; fifo = fifo_next(fifo)) {
            peek front;
            if (distance[fifo->producer->node] >= best || !fifo_peek(fifo, &front)) continue;
            if (older(limit, stamp_of(&front))) continue;
            best = distance[fifo->producer->node];
            *choice = front;
        }
    }
    return true;
}

static bool producer_is_outside(const opp_producer *producer, const opp_producer *own) {
    /* relaxed, both: a preference. */
    uint32_t group = opp_load(&producer->group, relaxed);
    return producer != own && (group == 0 || group != opp_load(&own->group, relaxed));
}

/* The outside fifo to serve after `served`, unless its front is younger than `limit`. Otherwise leaves
 * `choice` unchanged. */
static void queue_choose_outside(opp_queue *queue, const opp_producer *own, uint32_t limit,
                                 const opp_fifo *served, peek *choice) {
    bool found = false, found_behind = false, is_behind = false;
    opp_fifo *fifo = opp_load(&queue->fifos, acquire); /* [fifos] */
    for (; fifo != NULL; fifo = fifo_next(fifo)) {
        peek front;
        if (producer_is_outside(fifo->producer, own) && fifo_peek(fifo, &front) &&
            !older(limit, stamp_of(&front))) {
            bool is_older = !found || older(stamp_of(&front), stamp_of(choice));
            bool is_next = is_behind && !found_behind && stamp_of(&front) == stamp_of(choice);
            if (is_older || is_next) {
                *choice = front;
                found_behind = is_behind;
            }
            found = true;
        }
        is_behind |= fifo == served;
    }
}

/*
 * Where the order is exact (no slack), one look is not enough. A fifo that was empty when it was looked at
 * may have received an entry since. Another entry, pushed after that one, may then be found in a fifo that is
 * looked at later. So the choice must be found a second time. By then every entry that was pushed before it
 * is seen, because the tail of the choice was acquired. If the second look chooses another entry, another
 * thread has pushed or taken.
 */
static bool queue_look_twice(opp_queue *queue, peek *choice) {
    uint32_t low_water;
    peek again;
    for (;;) {
        /* The choice's tail was acquired, so a fifo that was added before the choice was pushed would be
         * seen; there is none. relaxed: both values are compared, not dereferenced. */
        if (opp_load(&choice->fifo->next, relaxed) == NULL &&
            opp_load(&queue->fifos, relaxed) == choice->fifo)
            return true;
        if (!queue_look_round(queue, NULL, NULL, 0, &low_water, &again)) return false;
        if (again.fifo == choice->fifo && again.head == choice->head) return true;
        *choice = again;
    }
}

bool opp_queue_search(opp_queue *queue, opp_queue_memory *memory, const opp_producer *own,
                      const uint8_t *distance,
                      uint32_t slack, opp_job *job, bool *stolen) {
    peek front;
    do {
        uint32_t low_water;
        if (!queue_look_round(queue, own, distance, slack, &low_water, &front)) return false;
        if (slack == 0 && !queue_look_twice(queue, &front)) return false;
        OPP_ASSERT(front.fifo != NULL);
        if (memory == NULL) continue; /* go to the claim */
        opp_fifo *served = memory->queue == queue ? memory->outside : NULL;
        if (memory->is_outside)
            queue_choose_outside(queue, own, low_water + OPP_OUTSIDE_SLACK, served, &front);
        *memory = (opp_queue_memory){
            .queue = queue, .fifo = front.fifo, .low_water = low_water, .is_outside = memory->is_outside,
            .outside = producer_is_outside(front.fifo->producer, own) ? front.fifo : served};
    } while (!fifo_claim(&front, queue->segments));
    job->ptr = front.ptr;
    job->tag = (uint32_t)front.word;
    *stolen = front.fifo->producer != own;
    return true;
}

uint64_t opp_queue_count(const opp_queue *queue) {
    uint64_t count = 0;
    /* [fifos] and [publish] acquire, and seq_cst with the exchange in opp_queue_fifo() and the store in
     * fifo_push(): see there. An old head counts too much; too little is counted only where others are
     * taking. [claim] acquire: who does not count a job since it was taken sees that its worker had begun;
     * see Monitor.isIdle. */
    for (opp_fifo *fifo = opp_load(&queue->fifos, seq_cst); fifo != NULL; fifo = fifo_next(fifo)) {
        uint64_t head = opp_load(&fifo->head, acquire);
        uint64_t tail = opp_load(&fifo->tail, seq_cst);
        if (tail > head) count += tail - head;
    }
    return count;
}
