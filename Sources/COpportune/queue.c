/*
 * A queue is a list of fifos, one for each producer that ever pushed to it. A producer outlives its thread,
 * to be adopted by another; a fifo that is empty, and whose producer has no thread, is taken out of the list
 * in a sweep now and then, and rests until its producer pushes to the queue again.
 *
 * Invariants (those of one fifo stand in fifo.h)
 *  B6  Segments, directories, fifos, producers and queues stay what they are until the core is destroyed.
 *  B7  Stamps in one fifo do not fall (as unsigned differences), unless its producer was adopted or stopped
 *      inside a push; then an entry is older than it need be, which only favours it.
 *  B8  A fifo that is not in the list is empty, and its producer remembers it nowhere; only who holds
 *      `sweeping` takes one out, puts it to rest or has it back. Its `next` stays what it was, so a reader
 *      that stands on it goes on to all that were in the list behind it; if it comes back to the front
 *      meanwhile, he looks at the list once more.
 *
 * Bypass. Entries carry the core's epoch, which each producer advances after every 25 pushes, so a producer
 * stamps at most 25 entries with one epoch. A consumer takes from a fifo only while its front's epoch is at
 * most one above the smallest front that it saw when it last looked round (the *low-water mark*); then it
 * must look again, and take from the fifo with the smallest. Hence at most two epochs of a producer's later
 * entries pass before that look and two after.
 *
 * Turns. Within that bound a consumer prefers its own fifo. Since 50 jobs may be long, a worker ends its turn
 * by time, and the next is that of the *outside* fifos: those of producers that no consumer of its group has
 * as its own, so that nobody else prefers them. Of these it takes the oldest front, and of several as old the
 * one behind the fifo that it served last. So an outside entry waits for one turn of the own fifo and for the
 * entries of other outside fifos. It may be one epoch younger than an own one that is taken before its turn,
 * since with several workers epochs pass faster than jobs.
 *
 * A stopped thread. In a push, before tail is stored: its entry is not there yet, others are not concerned.
 * In a sweep: there is no other sweep of this queue, and one producer that rests is not adopted; a push makes
 * a new fifo where it cannot have its old one back. In a take, before the claim: nothing has happened. After
 * it: it holds one entry and, by B4, at most one segment.
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
    /* relaxed: nobody else is left. */
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
    /* [next] acquire: pairs with the releases in queue_sweep() and opp_queue_fifo(), by which another fifo
     * may stand here than when the list was entered. What stood here then was acquired with `fifos`. */
    return opp_load(&fifo->next, acquire);
}

/* --- Sweeps ---------------------------------------------------------------------------------- */

static bool queue_try_sweeping(opp_queue *queue) {
    /* [sweeping] acquire: pairs with queue_end_sweeping(). */
    return !opp_load(&queue->sweeping, relaxed) && !opp_swap(&queue->sweeping, true, acquire);
}

static void queue_end_sweeping(opp_queue *queue) {
    /* [sweeping] release: what rests is seen by the next holder */
    opp_store(&queue->sweeping, false, release);
}

static size_t cache_place(const opp_queue *queue) {
    return ((uintptr_t)queue >> 4 ^ (uintptr_t)queue >> 10) % OPP_PRODUCER_CACHE;
}

/* Puts fifos to rest that are empty and whose producer nobody owns. Not the first in the list, where others
 * push. */
static void queue_sweep(opp_queue *queue) {
    if (!queue_try_sweeping(queue)) return;
    size_t place = cache_place(queue);
    OPP_ASSERT(place < OPP_PRODUCER_CACHE);
    opp_fifo *before = opp_load(&queue->fifos, acquire); /* [fifos] */
    for (opp_fifo *fifo = fifo_next(before); fifo != NULL; fifo = fifo_next(before)) {
        opp_producer *producer = fifo->producer;
        uint32_t owned = 0;
        /* [adopt] acquire: the last owner's pushes are over, and the producer's private fields are ours; see
         * opp_producer_acquire(). */
        bool ours = opp_load(&producer->owned, relaxed) == 0 && opp_cas(&producer->owned, &owned, 1, acquire);
        /* relaxed: the tail is ours, an old head only makes the fifo stay. */
        bool rests = ours && opp_load(&fifo->head, relaxed) == opp_load(&fifo->tail, relaxed);
        if (rests) {
            if (producer->cache[place].queue == queue) producer->cache[place].queue = NULL;
            if (producer->path.fifo == fifo) producer->path.app = NULL;
            /* [next] release: passes on what was acquired of the fifo behind. */
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

/* The producer's fifo that rests, or NULL. */
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
    size_t place = cache_place(queue);
    if (producer->cache[place].queue == queue) {
        OPP_ASSERT(producer->cache[place].fifo->producer == producer);
        return producer->cache[place].fifo;
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
            /* [next] release: a reader may still stand on the fifo from when it was in the list before; see
             * B8. */
            opp_store(&fifo->next, first, release);
            /* [fifos] release: see above. seq_cst: it comes before the tail of the first push in the one
             * order that fifo_push() speaks of. */
        } while (!opp_cas(&queue->fifos, &first, fifo, seq_cst));
    }
    OPP_ASSERT(fifo->producer == producer);
    producer->cache[place].queue = queue;
    producer->cache[place].fifo = fifo;
    return fifo;
}

/* A look round has met many empty fifos. relaxed: it only counts, and a look more or less does not matter. */
static void queue_met_empty(opp_queue *queue) {
    uint32_t looks = opp_load(&queue->looks, relaxed) + 1;
    opp_store(&queue->looks, looks, relaxed);
    if (looks % OPP_SWEEP_LOOKS == 0) queue_sweep(queue);
}

/* Looks at every fifo. False when all were empty. Otherwise `oldest` and, where it may be taken, `choice`. */
static bool queue_look_round(opp_queue *queue, const opp_producer *own, const uint8_t *distance,
                             uint32_t slack,
                             uint32_t *low_water, peek *choice) {
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
    *choice = oldest;
    if (near.fifo != NULL && !older(limit, stamp_of(&near))) {
        *choice = near;
    } else if (distance != NULL) {
        uint8_t best = distance[oldest.fifo->producer->node];
        for (opp_fifo *fifo = opp_load(&queue->fifos,
                                       acquire) /* [fifos] */; fifo != NULL; fifo = fifo_next(fifo)) {
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

/* The outside fifo to be served after `served`, unless its front is younger than `limit`. Else leaves
 * `choice` alone. */
static void queue_choose_outside(opp_queue *queue, const opp_producer *own, uint32_t limit,
                                 const opp_fifo *served,
                                 peek *choice) {
    bool found = false, found_behind = false, is_behind = false;
    for (opp_fifo *fifo = opp_load(&queue->fifos,
                                   acquire) /* [fifos] */; fifo != NULL; fifo = fifo_next(fifo)) {
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
 * Where the order is exact (no slack) one look round is not enough: a fifo that was empty when it was looked
 * at may have got an entry since, and another one, pushed after that, may be what was found in a fifo looked
 * at later. So the choice must be found again: by then all that was pushed before it is seen, as the acquire
 * of its tail makes sure. Another choice the second time means that another thread has pushed or taken.
 */
static bool queue_look_twice(opp_queue *queue, peek *choice) {
    uint32_t low_water;
    peek again;
    for (;;) {
        /* A fifo that was added before the choice was pushed would be seen, since the choice's tail was
         * acquired, and there is none. relaxed: both are compared, not followed. */
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
        if (memory == NULL) continue; /* to the claim */
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
    /* [fifos] and [publish] acquire, and seq_cst with the exchange in queue_fifo() and the store in
     * fifo_push(): see there. head relaxed: it counts too much if it is old, and too little only where others
     * are taking. */
    for (opp_fifo *fifo = opp_load(&queue->fifos, seq_cst); fifo != NULL; fifo = fifo_next(fifo)) {
        uint64_t head = opp_load(&fifo->head, relaxed);
        uint64_t tail = opp_load(&fifo->tail, seq_cst);
        if (tail > head) count += tail - head;
    }
    return count;
}
