/*
 * A bag is a list of queues, one for each source that ever pushed to it. A source outlives its thread, to be adopted by
 * another; a queue that is empty, and whose source has no thread, is taken out of the list in a sweep now and then, and
 * rests until its source pushes to the bag again.
 *
 * Invariants (those of one queue stand in fifo.h)
 *  B6  Segments, directories, queues, sources and bags stay what they are until the core is destroyed.
 *  B7  Stamps in one queue do not fall (as unsigned differences), unless its source was adopted or stopped inside
 *      a push; then an entry is older than it need be, which only favours it.
 *  B8  A queue that is not in the list is empty, and its source remembers it nowhere; only who holds `sweeping` takes
 *      one out, puts it to rest or has it back. Its `next` stays what it was, so a reader that stands on it goes on to
 *      all that were in the list behind it; if it comes back to the front meanwhile, he looks at the list once more.
 *
 * Bypass. Entries carry the core's epoch, which each source advances after every 25 pushes, so a source stamps at
 * most 25 entries with one epoch. A taker takes from a queue only while its front's epoch is at most one above the
 * smallest front that it saw when it last looked round (the floor); then it must look again, and take from the
 * queue with the smallest. Hence at most two epochs of a source's later entries pass before that look and two after.
 *
 * Turns. Within that bound a taker prefers its own queue. Since 50 jobs may be long, a worker ends its turn by time, and
 * the next is that of the *outside* queues: those of sources that no taker of its group has as its own, so that nobody else
 * prefers them. Of these it takes the oldest front, and of several as old the one behind the queue that it served last. So
 * an outside entry waits for one turn of the own queue and for the entries of other outside queues. It may be one epoch
 * younger than an own one that is taken before its turn, since with several workers epochs pass faster than jobs.
 *
 * A stopped thread. In a push, before tail is stored: its entry is not there yet, others are not concerned. In a sweep:
 * there is no other sweep of this bag, and one source that rests is not adopted; a push makes a new queue where it
 * cannot have its old one back. In a take, before the claim: nothing has happened. After it: it holds one entry and,
 * by B4, at most one segment.
 */
#include "bag.h"

#include <stdlib.h>
#include <string.h>

/* --- Bags ------------------------------------------------------------------------------------ */

void opp_bag_init(opp_bag *bag, opp_pool *pool) {
    memset(bag, 0, sizeof(*bag));
    bag->pool = pool;
}

void opp_bag_drain(opp_bag *bag, void (*drop)(opp_job, void *), void *context) {
    opp_job job;
    bool stolen;
    while (opp_bag_search(bag, NULL, NULL, NULL, 0, &job, &stolen))
        if (drop != NULL) drop(job, context);
}

void opp_bag_free(opp_bag *bag) {
    /* relaxed: nobody else is left. */
    for (opp_fifo *fifo = opp_load(&bag->fifos, relaxed), *next; fifo != NULL; fifo = next) {
        next = opp_load(&fifo->next, relaxed);
        opp_fifo_free(fifo);
    }
    for (opp_fifo *fifo = bag->resting, *next; fifo != NULL; fifo = next) {
        next = fifo->resting;
        opp_fifo_free(fifo);
    }
    free(bag);
}

static opp_fifo *fifo_next(const opp_fifo *fifo) {
    /* [next] acquire: pairs with the releases in bag_sweep() and opp_bag_fifo(), by which another queue may stand here
     * than when the list was entered. What stood here then was acquired with `fifos`. */
    return opp_load(&fifo->next, acquire);
}

/* --- Sweeps ---------------------------------------------------------------------------------- */

static bool bag_try_sweeping(opp_bag *bag) {
    /* [sweeping] acquire: pairs with bag_end_sweeping(). */
    return !opp_load(&bag->sweeping, relaxed) && !opp_swap(&bag->sweeping, true, acquire);
}

static void bag_end_sweeping(opp_bag *bag) {
    opp_store(&bag->sweeping, false, release); /* [sweeping] release: what rests is seen by the next holder */
}

static size_t cache_place(const opp_bag *bag) {
    return ((uintptr_t)bag >> 4 ^ (uintptr_t)bag >> 10) % OPP_SOURCE_CACHE;
}

/* Puts queues to rest that are empty and whose source nobody owns. Not the first in the list, where others push. */
static void bag_sweep(opp_bag *bag) {
    if (!bag_try_sweeping(bag)) return;
    size_t place = cache_place(bag);
    OPP_ASSERT(place < OPP_SOURCE_CACHE);
    opp_fifo *before = opp_load(&bag->fifos, acquire); /* [fifos] */
    for (opp_fifo *fifo = fifo_next(before); fifo != NULL; fifo = fifo_next(before)) {
        opp_source *source = fifo->source;
        uint32_t owned = 0;
        /* [adopt] acquire: the last owner's pushes are over, and the source's private fields are ours; see
         * opp_source_acquire(). */
        bool ours = opp_load(&source->owned, relaxed) == 0 && opp_cas(&source->owned, &owned, 1, acquire);
        /* relaxed: the tail is ours, an old head only makes the queue stay. */
        bool rests = ours && opp_load(&fifo->head, relaxed) == opp_load(&fifo->tail, relaxed);
        if (rests) {
            if (source->cache[place].bag == bag) source->cache[place].bag = NULL;
            if (source->way.fifo == fifo) source->way.app = NULL;
            /* [next] release: passes on what was acquired of the queue behind. */
            opp_store(&before->next, fifo_next(fifo), release);
            fifo->resting = bag->resting;
            bag->resting = fifo;
        } else {
            before = fifo;
        }
        if (ours) opp_store(&source->owned, 0, release); /* [adopt] */
    }
    bag_end_sweeping(bag);
}

/* The source's queue that rests, or NULL. */
static opp_fifo *bag_have_back(opp_bag *bag, const opp_source *source) {
    if (!bag_try_sweeping(bag)) return NULL;
    opp_fifo **link = &bag->resting;
    while (*link != NULL && (*link)->source != source) link = &(*link)->resting;
    opp_fifo *fifo = *link;
    OPP_ASSERT(fifo == NULL || fifo->source == source); /* B8 */
    if (fifo != NULL) *link = fifo->resting;
    bag_end_sweeping(bag);
    return fifo;
}

opp_fifo *opp_bag_fifo(opp_bag *bag, opp_source *source) {
    size_t place = cache_place(bag);
    if (source->cache[place].bag == bag) {
        OPP_ASSERT(source->cache[place].fifo->source == source);
        return source->cache[place].fifo;
    }
    /* [fifos] acquire: pairs with the exchange below; `next` and `source` are set. */
    opp_fifo *fifo = opp_load(&bag->fifos, acquire);
    while (fifo != NULL && fifo->source != source) fifo = fifo_next(fifo);
    if (fifo == NULL) {
        fifo = bag_have_back(bag, source);
        if (fifo == NULL) fifo = opp_fifo_create(source);
        if (fifo == NULL) return NULL;
        opp_fifo *first;
        do {
            first = opp_load(&bag->fifos, acquire); /* [fifos] */
            /* [next] release: a reader may still stand on the queue from when it was in the list before; see B8. */
            opp_store(&fifo->next, first, release);
            /* [fifos] release: see above. seq_cst: it comes before the tail of the first push in the one order
             * that fifo_push() speaks of. */
        } while (!opp_cas(&bag->fifos, &first, fifo, seq_cst));
    }
    OPP_ASSERT(fifo->source == source);
    source->cache[place].bag = bag;
    source->cache[place].fifo = fifo;
    return fifo;
}

/* A look round has met many empty queues. relaxed: it only counts, and a look more or less does not matter. */
static void bag_met_empty(opp_bag *bag) {
    uint32_t looks = opp_load(&bag->looks, relaxed) + 1;
    opp_store(&bag->looks, looks, relaxed);
    if (looks % OPP_SWEEP_LOOKS == 0) bag_sweep(bag);
}

/* Looks at every queue. False when all were empty. Otherwise `oldest` and, where it may be taken, `choice`. */
static bool bag_look_round(opp_bag *bag, const opp_source *own, const uint8_t *distance, uint32_t slack,
                           uint32_t *floor, peek *choice) {
    bool found = false;
    uint32_t empty = 0;
    peek oldest = {0}, near = {0};
    /* [fifos] acquire; not seq_cst, for the same reason as tail in fifo_peek(). */
    for (opp_fifo *fifo = opp_load(&bag->fifos, acquire); fifo != NULL; fifo = fifo_next(fifo)) {
        peek front;
        if (!fifo_peek(fifo, &front)) {
            empty++;
            continue;
        }
        if (!found || older(stamp_of(&front), stamp_of(&oldest))) oldest = front;
        found = true;
        if (fifo->source == own) near = front;
    }
    if (empty >= OPP_SWEEP_EMPTY) bag_met_empty(bag);
    if (!found) return false;
    OPP_ASSERT(oldest.fifo != NULL);
    *floor = stamp_of(&oldest);
    uint32_t limit = *floor + slack;
    *choice = oldest;
    if (near.fifo != NULL && !older(limit, stamp_of(&near))) {
        *choice = near;
    } else if (distance != NULL) {
        uint8_t best = distance[oldest.fifo->source->node];
        for (opp_fifo *fifo = opp_load(&bag->fifos, acquire) /* [fifos] */; fifo != NULL; fifo = fifo_next(fifo)) {
            peek front;
            if (distance[fifo->source->node] >= best || !fifo_peek(fifo, &front)) continue;
            if (older(limit, stamp_of(&front))) continue;
            best = distance[fifo->source->node];
            *choice = front;
        }
    }
    return true;
}

static bool source_is_outside(const opp_source *source, const opp_source *own) {
    /* relaxed, both: a preference. */
    uint32_t group = opp_load(&source->group, relaxed);
    return source != own && (group == 0 || group != opp_load(&own->group, relaxed));
}

/* The outside queue to be served after `served`, unless its front is younger than `limit`. Else leaves `choice` alone. */
static void bag_choose_outside(opp_bag *bag, const opp_source *own, uint32_t limit, const opp_fifo *served,
                               peek *choice) {
    bool found = false, found_behind = false, is_behind = false;
    for (opp_fifo *fifo = opp_load(&bag->fifos, acquire) /* [fifos] */; fifo != NULL; fifo = fifo_next(fifo)) {
        peek front;
        if (source_is_outside(fifo->source, own) && fifo_peek(fifo, &front) && !older(limit, stamp_of(&front))) {
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
 * Where the order is exact (no slack) one look round is not enough: a queue that was empty when it was looked at may
 * have got an entry since, and another one, pushed after that, may be what was found in a queue looked at later. So the
 * choice must be found again: by then all that was pushed before it is seen, as the acquire of its tail makes sure.
 * Another choice the second time means that another thread has pushed or taken.
 */
static bool bag_look_twice(opp_bag *bag, peek *choice) {
    uint32_t floor;
    peek again;
    for (;;) {
        /* A queue that was added before the choice was pushed would be seen, since the choice's tail was acquired, and
         * there is none. relaxed: both are compared, not followed. */
        if (opp_load(&choice->fifo->next, relaxed) == NULL && opp_load(&bag->fifos, relaxed) == choice->fifo)
            return true;
        if (!bag_look_round(bag, NULL, NULL, 0, &floor, &again)) return false;
        if (again.fifo == choice->fifo && again.head == choice->head) return true;
        *choice = again;
    }
}

bool opp_bag_search(opp_bag *bag, opp_bag_memory *memory, const opp_source *own, const uint8_t *distance,
                    uint32_t slack, opp_job *job, bool *stolen) {
    peek front;
    do {
        uint32_t floor;
        if (!bag_look_round(bag, own, distance, slack, &floor, &front)) return false;
        if (slack == 0 && !bag_look_twice(bag, &front)) return false;
        OPP_ASSERT(front.fifo != NULL);
        if (memory == NULL) continue; /* to the claim */
        opp_fifo *served = memory->bag == bag ? memory->outside : NULL;
        if (memory->is_outside) bag_choose_outside(bag, own, floor + OPP_OUTSIDE_SLACK, served, &front);
        *memory = (opp_bag_memory){
            .bag = bag, .fifo = front.fifo, .floor = floor, .is_outside = memory->is_outside,
            .outside = source_is_outside(front.fifo->source, own) ? front.fifo : served};
    } while (!fifo_claim(&front, bag->pool));
    job->ptr = front.ptr;
    job->tag = (uint32_t)front.word;
    *stolen = front.fifo->source != own;
    return true;
}

uint64_t opp_bag_count(const opp_bag *bag) {
    uint64_t count = 0;
    /* [fifos] and [publish] acquire, and seq_cst with the exchange in bag_fifo() and the store in fifo_push(): see
     * there. head relaxed: it counts too much if it is old, and too little only where others are taking. */
    for (opp_fifo *fifo = opp_load(&bag->fifos, seq_cst); fifo != NULL; fifo = fifo_next(fifo)) {
        uint64_t head = opp_load(&fifo->head, relaxed);
        uint64_t tail = opp_load(&fifo->tail, seq_cst);
        if (tail > head) count += tail - head;
    }
    return count;
}
