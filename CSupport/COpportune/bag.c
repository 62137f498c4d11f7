/*
 * A bag is a list of queues, one for each source that ever pushed to it. A source outlives its thread, to be adopted by
 * another; a queue that is empty, and whose source has no thread, is taken out of the list in a sweep now and then, and
 * rests until its source pushes to the bag again.
 *
 * A queue is a row of segments under two free-running 64-bit indices. Only the source moves `tail`: it stores the
 * slot, then the tail. Anyone moves `head`: it reads the slot, then claims it by compare-and-swap, one entry at a
 * time. Index i lives in segment i / 64, which the queue's directory finds by masking.
 *
 * Invariants
 *  B1  head <= tail; both only grow; 64 bits do not wrap.
 *  B2  The slot of an index is written once before tail passes it, and its segment and directory entry are not
 *      written again before head has passed the segment's end.
 *  B3  A claim succeeds only on the value of head that the slot was read under. So what was read under a
 *      successful claim is, by B2, that index's entry: head is the generation that guards recycled segments. A
 *      reader that was stopped may read a slot of a segment that lives elsewhere by now; its claim then fails, as
 *      its index has been claimed by another and two claims never succeed from one value. It pins nothing.
 *  B4  Whoever claims the last index of a segment, and nobody else, puts the segment back into the pool.
 *  B5  Segments, directories, queues, sources and bags stay what they are until the core is destroyed.
 *  B6  Stamps in one queue do not fall (as unsigned differences), unless its source was adopted or stopped inside
 *      a push; then an entry is older than it need be, which only favours it.
 *  B7  A queue that is not in the list is empty, and its source has no record of it; only who holds `sweeping` takes
 *      one out, puts it to rest or has it back. Its `next` stays what it was, so a reader that stands on it goes on to
 *      all that were in the list behind it; if it comes back to the front meanwhile, he looks at the list once more.
 *
 * Bypass. Entries carry the core's epoch, which each source advances after every 32 pushes, so a source stamps at
 * most 32 entries with one epoch. A taker takes from a queue only while its front's epoch is at most one above the
 * smallest front that it saw when it last looked round (the floor); then it must look again, and take from the
 * queue with the smallest. Hence at most two epochs of a source's later entries pass before that look and two after.
 *
 * A stopped thread. In a push, before tail is stored: its entry is not there yet, others are not concerned. In a sweep:
 * there is no other sweep of this bag, and one source that rests is not adopted; a push makes a new queue where it cannot
 * have its old one back. In a take, before the claim: nothing has happened. After it: it holds one entry and, by B4, at most one segment.
 */
#include "bag.h"
#include "mapping.h"

#include <stdlib.h>
#include <string.h>

#define SEGMENT_OF(index) ((index) / OPP_SEGMENT_SLOTS)
#define SLOT_OF(index) ((index) % OPP_SEGMENT_SLOTS)

/* --- The pool of segments -------------------------------------------------------------------- */

int opp_pool_init(opp_pool *pool) {
    memset(pool, 0, offsetof(opp_pool, slab)); /* the table itself comes zeroed, and untouched, from the caller */
    return 0;
}

void opp_pool_free(opp_pool *pool) {
    /* relaxed: nobody else is left. */
    uint32_t count = opp_load(&pool->slab_count, relaxed);
    for (uint32_t i = 0; i < count && i < OPP_SLABS; i++) {
        opp_segment *slab = opp_load(&pool->slab[i], relaxed);
        if (slab != NULL) opp_unmap(slab, OPP_SLAB_SEGMENTS * sizeof(opp_segment));
    }
}

uint64_t opp_pool_bytes(const opp_pool *pool) {
    /* relaxed: statistics. */
    return (uint64_t)opp_load(&pool->slab_count, relaxed) * OPP_SLAB_SEGMENTS * sizeof(opp_segment);
}

static opp_segment *pool_segment(const opp_pool *pool, uint32_t index) {
    /* relaxed: the index came with an acquire of `top`, and whoever put it there had seen the slab. */
    opp_segment *slab = opp_load(&pool->slab[index / OPP_SLAB_SEGMENTS], relaxed);
    return &slab[index % OPP_SLAB_SEGMENTS];
}

static void pool_put(opp_pool *pool, opp_segment *segment) {
    uint64_t top = opp_load(&pool->top, relaxed);
    uint64_t desired;
    do {
        /* relaxed: published by the exchange. */
        opp_store(&segment->next, (uint32_t)top, relaxed);
        desired = ((top >> 32) + 1) << 32 | (segment->index + 1);
        /* [pool] release: whoever takes the segment sees `next`, and that its slots have been read (B3). Pairs
         * with the acquire in pool_take(). */
    } while (!opp_cas(&pool->top, &top, desired, release));
}

static opp_segment *pool_grow(opp_pool *pool) {
    size_t bytes = OPP_SLAB_SEGMENTS * sizeof(opp_segment);
    void *memory = opp_map(bytes);
    if (memory == NULL) return NULL;
    /* relaxed: the number is ours alone. */
    uint32_t number = opp_add(&pool->slab_count, 1, relaxed);
    if (number >= OPP_SLABS) {
        opp_sub(&pool->slab_count, 1, relaxed);
        opp_unmap(memory, bytes);
        return NULL;
    }
    opp_segment *slab = memory;
    for (uint32_t i = 0; i < OPP_SLAB_SEGMENTS; i++) slab[i].index = number * OPP_SLAB_SEGMENTS + i;
    opp_store(&pool->slab[number], slab, relaxed); /* relaxed: see pool_segment() */
    for (uint32_t i = 1; i < OPP_SLAB_SEGMENTS; i++) pool_put(pool, &slab[i]);
    return &slab[0];
}

static opp_segment *pool_take(opp_pool *pool) {
    /* [pool] acquire: pairs with pool_put(). */
    uint64_t top = opp_load(&pool->top, acquire);
    for (;;) {
        uint32_t place = (uint32_t)top;
        if (place == 0) return pool_grow(pool);
        opp_segment *segment = pool_segment(pool, place - 1);
        /* relaxed: if another took the segment meanwhile this is rubbish, and the tag makes the exchange fail. */
        uint64_t desired = ((top >> 32) + 1) << 32 | opp_load(&segment->next, relaxed);
        /* relaxed: what it reads has been acquired above, and a read-modify-write goes on with the release of the
         * puts before it, so that later takers see them through it. */
        if (opp_cas(&pool->top, &top, desired, relaxed)) return segment;
        /* [pool] acquire: the failed exchange read with relaxed order only. */
        top = opp_load(&pool->top, acquire);
    }
}

/* --- One source's queue ---------------------------------------------------------------------- */

static opp_directory *directory_create(uint64_t count, opp_directory *older) {
    opp_directory *directory = calloc(1, sizeof(opp_directory) + count * sizeof(directory->segment[0]));
    if (directory == NULL) return NULL;
    directory->mask = count - 1;
    directory->older = older;
    return directory;
}

static opp_fifo *fifo_create(opp_source *source) {
    opp_fifo *fifo = aligned_alloc(OPP_LINE, sizeof(opp_fifo));
    if (fifo == NULL) return NULL;
    memset(fifo, 0, sizeof(*fifo));
    opp_directory *directory = directory_create(OPP_DIRECTORY_FIRST, NULL);
    if (directory == NULL) {
        free(fifo);
        return NULL;
    }
    fifo->source = source;
    atomic_init(&fifo->directory, directory);
    return fifo;
}

/* The source's thread: makes room for the segment of index `tail`. Returns the directory or NULL. */
static opp_directory *fifo_reserve(opp_fifo *fifo, uint64_t tail) {
    opp_directory *directory = opp_load(&fifo->directory, relaxed); /* relaxed: the source's own */
    /* relaxed: an old head only makes the directory grow early. That its entry may be overwritten follows from the
     * value alone: by B3 nobody can still claim an index below it. */
    uint64_t head = opp_load(&fifo->head, relaxed);
    uint64_t first = SEGMENT_OF(head), number = SEGMENT_OF(tail);
    if (number - first <= directory->mask) return directory;
    opp_directory *larger = directory_create((directory->mask + 1) * 2, directory);
    if (larger == NULL) return NULL;
    for (uint64_t i = first; i < number; i++) {
        opp_segment *segment = opp_load(&directory->segment[i & directory->mask], relaxed);
        opp_store(&larger->segment[i & larger->mask], segment, relaxed);
    }
    /* [directory] release: its entries are set. Pairs with the acquire in fifo_peek(). */
    opp_store(&fifo->directory, larger, release);
    return larger;
}

static int fifo_push(opp_fifo *fifo, opp_pool *pool, opp_job job, uint32_t stamp) {
    uint64_t tail = opp_load(&fifo->tail, relaxed); /* relaxed: the source's own */
    opp_segment *segment;
    if (SLOT_OF(tail) == 0) {
        opp_directory *directory = fifo_reserve(fifo, tail);
        if (directory == NULL) return -ENOMEM;
        segment = pool_take(pool);
        if (segment == NULL) return -ENOMEM;
        /* [entry] release: a late reader, which has not seen the tail that this segment is for, may still read the
         * entry, and then the segment's slots: they are mapped. Pairs with the acquire in fifo_peek(). */
        opp_store(&directory->segment[SEGMENT_OF(tail) & directory->mask], segment, release);
    } else {
        opp_directory *directory = opp_load(&fifo->directory, relaxed);
        segment = opp_load(&directory->segment[SEGMENT_OF(tail) & directory->mask], relaxed);
    }
    opp_slot *slot = &segment->slot[SLOT_OF(tail)];
    opp_store(&slot->ptr, job.ptr, relaxed);
    /* [slot] release: a late reader that finds this in the slot of an index that has long been taken knows by it that
     * head has moved, and does not mistake the stamp. Pairs with the acquire in fifo_peek(). */
    opp_store(&slot->word, (uint64_t)stamp << 32 | job.tag, release);
    /* [publish] release: whoever sees this tail sees the slot and what the caller put into the job. Pairs with the
     * loads of tail in fifo_peek() and opp_bag_count(). seq_cst, with the latter, besides: the pusher next reads hints and sleepers, and whoever clears a
     * hint or goes to sleep next reads tail; in the one order of all four, one of the two sees the other. */
    opp_store(&fifo->tail, tail + 1, seq_cst);
    return 0;
}

typedef struct peek {
    opp_fifo *fifo;
    opp_segment *segment;
    uint64_t head;
    void *ptr;
    uint64_t word;
} peek;

/* Reads the front entry. False when there was none at the moment tail was read. */
static bool fifo_peek(opp_fifo *fifo, peek *front) {
    for (;;) {
        /* relaxed: an old head is noticed below, or by the claim. */
        uint64_t head = opp_load(&fifo->head, relaxed);
        /* [publish] acquire: see fifo_push(). Not seq_cst: whoever finds nothing here looks again in opp_bag_count()
         * before it lets a hint go or sleeps. */
        uint64_t tail = opp_load(&fifo->tail, acquire);
        if (head >= tail) return false;
        /* [directory] acquire: pairs with fifo_reserve(). It was stored before the tail just read. */
        opp_directory *directory = opp_load(&fifo->directory, acquire);
        /* [entry] acquire: pairs with fifo_push(). */
        opp_segment *segment = opp_load(&directory->segment[SEGMENT_OF(head) & directory->mask], acquire);
        if (segment != NULL) {
            opp_slot *slot = &segment->slot[SLOT_OF(head)];
            front->ptr = opp_load(&slot->ptr, relaxed); /* relaxed: right if the claim succeeds */
            front->word = opp_load(&slot->word, acquire); /* [slot] acquire: so that the look at head is a later one */
            /* relaxed: only the stamp's sake; a claim checks again. */
            if (opp_load(&fifo->head, relaxed) == head) {
                front->fifo = fifo;
                front->segment = segment;
                front->head = head;
                return true;
            }
        }
        /* Head has moved: somebody took the entry, so the system as a whole went on. */
    }
}

/* Takes the entry that was peeked at, unless another was faster. */
static bool fifo_claim(const peek *front, opp_pool *pool) {
    uint64_t expected = front->head;
    /* [claim] release: our reads of the slot come before it. acquire: reading from earlier claims, which form one
     * release sequence, the last claimer of a segment knows that all its readers are done before it recycles (B2). */
    if (!opp_cas(&front->fifo->head, &expected, front->head + 1, acq_rel)) return false;
    if (SLOT_OF(front->head) == OPP_SEGMENT_SLOTS - 1) pool_put(pool, front->segment);
    return true;
}

/* --- Bags ------------------------------------------------------------------------------------ */

void opp_bag_init(opp_bag *bag, opp_core *core) {
    memset(bag, 0, sizeof(*bag));
    bag->core = core;
}

void opp_bag_drain(opp_bag *bag, void (*drop)(opp_job, void *), void *context) {
    opp_job job;
    bool stolen;
    while (opp_bag_remove(bag, NULL, NULL, NULL, 0, &job, &stolen))
        if (drop != NULL) drop(job, context);
}

static void fifo_free(opp_fifo *fifo) {
    opp_directory *directory = opp_load(&fifo->directory, relaxed); /* relaxed: nobody else is left */
    while (directory != NULL) {
        opp_directory *older = directory->older;
        free(directory);
        directory = older;
    }
    free(fifo);
}

void opp_bag_free(opp_bag *bag) {
    /* relaxed: nobody else is left. */
    for (opp_fifo *fifo = opp_load(&bag->fifos, relaxed), *next; fifo != NULL; fifo = next) {
        next = opp_load(&fifo->next, relaxed);
        fifo_free(fifo);
    }
    for (opp_fifo *fifo = bag->resting, *next; fifo != NULL; fifo = next) {
        next = fifo->resting;
        fifo_free(fifo);
    }
    free(bag);
}

static opp_fifo *fifo_next(const opp_fifo *fifo) {
    /* [next] acquire: pairs with the releases in bag_sweep() and bag_fifo(), by which another queue may stand here than
     * when the list was entered. What stood here then was acquired with `fifos`. */
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
    if (fifo != NULL) *link = fifo->resting;
    bag_end_sweeping(bag);
    return fifo;
}

/* The calling source's queue in `bag`; made and published on first use. */
static opp_fifo *bag_fifo(opp_bag *bag, opp_source *source) {
    size_t place = cache_place(bag);
    if (source->cache[place].bag == bag) return source->cache[place].fifo;
    /* [fifos] acquire: pairs with the exchange below; `next` and `source` are set. */
    opp_fifo *fifo = opp_load(&bag->fifos, acquire);
    while (fifo != NULL && fifo->source != source) fifo = fifo_next(fifo);
    if (fifo == NULL) {
        fifo = bag_have_back(bag, source);
        if (fifo == NULL) fifo = fifo_create(source);
        if (fifo == NULL) return NULL;
        opp_fifo *first;
        do {
            first = opp_load(&bag->fifos, acquire); /* [fifos] */
            /* [next] release: a reader may still stand on the queue from when it was in the list before; see B7. */
            opp_store(&fifo->next, first, release);
            /* [fifos] release: see above. seq_cst: it comes before the tail of the first push in the one order
             * that fifo_push() speaks of. */
        } while (!opp_cas(&bag->fifos, &first, fifo, seq_cst));
    }
    source->cache[place].bag = bag;
    source->cache[place].fifo = fifo;
    return fifo;
}

int opp_bag_insert(opp_bag *bag, opp_source *source, opp_job job, uint32_t stamp) {
    opp_fifo *fifo = bag_fifo(bag, source);
    if (fifo == NULL) return -ENOMEM;
    return fifo_push(fifo, opp_core_pool(bag->core), job, stamp);
}

static bool older(uint32_t a, uint32_t b) {
    return (int32_t)(a - b) < 0;
}

static uint32_t stamp_of(const peek *front) {
    return (uint32_t)(front->word >> 32);
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
        if (opp_load(&choice->fifo->next, relaxed) == NULL && opp_load(&bag->fifos, relaxed) == choice->fifo) return true;
        if (!bag_look_round(bag, NULL, NULL, 0, &floor, &again)) return false;
        if (again.fifo == choice->fifo && again.head == choice->head) return true;
        *choice = again;
    }
}

bool opp_bag_remove(opp_bag *bag, opp_bag_memory *memory, const opp_source *own, const uint8_t *distance,
                    uint32_t slack, opp_job *job, bool *stolen) {
    opp_pool *pool = opp_core_pool(bag->core);
    peek front;
    bool taken = false;
    if (memory != NULL && memory->bag == bag && fifo_peek(memory->fifo, &front) &&
        !older(memory->floor + slack, stamp_of(&front)))
        taken = fifo_claim(&front, pool);
    while (!taken) {
        uint32_t floor;
        if (!bag_look_round(bag, own, distance, slack, &floor, &front)) return false;
        if (slack == 0 && !bag_look_twice(bag, &front)) return false;
        if (memory != NULL) *memory = (opp_bag_memory){.bag = bag, .fifo = front.fifo, .floor = floor};
        taken = fifo_claim(&front, pool);
    }
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

/* --- A strand's bag -------------------------------------------------------------------------- */

int opp_bag_push(opp_bag *bag, opp_source *source, opp_job job) {
    /* relaxed: of two pushes, one of which is over before the other begins, the later reads the larger ticket, by
     * the coherence of one object. */
    uint32_t ticket = opp_add(&bag->ticket, 1, relaxed);
    return opp_bag_insert(bag, source, job, ticket);
}

bool opp_bag_take(opp_bag *bag, opp_job *job) {
    bool stolen;
    return opp_bag_remove(bag, NULL, NULL, NULL, 0, job, &stolen);
}

bool opp_bag_is_empty(const opp_bag *bag) {
    return opp_bag_count(bag) == 0;
}
