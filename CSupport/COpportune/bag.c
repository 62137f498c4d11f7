/*
 * A bag is a list of queues, one for each source that ever pushed to it.
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
 *
 * Bypass. Entries carry the core's epoch, which each source advances after every 32 pushes, so a source stamps at
 * most 32 entries with one epoch. A taker takes from a queue only while its front's epoch is at most one above the
 * smallest front that it saw when it last looked round (the floor); then it must look again, and take from the
 * queue with the smallest. Hence at most two epochs of a source's later entries pass before that look and two after.
 *
 * A stopped thread. In a push, before tail is stored: its entry is not there yet, others are not concerned. In a
 * take, before the claim: nothing has happened. After it: it holds one entry and, by B4, at most one segment.
 */
#include "bag.h"
#include "mapping.h"

#include <stdlib.h>
#include <string.h>

#define SEGMENT_OF(index) ((index) / OPP_SEGMENT_SLOTS)
#define SLOT_OF(index) ((index) % OPP_SEGMENT_SLOTS)
#define DIRECTORY_FIRST 4

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
    /* [slab-publish] acquire: pairs with the release in pool_grow(), so that the slab is mapped and numbered. */
    opp_segment *slab = opp_load(&pool->slab[index / OPP_SLAB_SEGMENTS], acquire);
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
    /* [slab-publish] release: see pool_segment(). */
    opp_store(&pool->slab[number], slab, release);
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
        /* [pool] acquire as above; release keeps the chain of puts below this one visible to later takers. */
        if (opp_cas(&pool->top, &top, desired, acq_rel)) return segment;
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
    opp_directory *directory = directory_create(DIRECTORY_FIRST, NULL);
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
    opp_store(&slot->word, (uint64_t)stamp << 32 | job.tag, relaxed);
    /* [publish] release: whoever sees this tail sees the slot and what the caller put into the job. Pairs with the
     * load of tail in fifo_peek(). seq_cst besides: the pusher next reads hints and sleepers, and whoever clears a
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
        /* acquire: so that the loads below are not satisfied before it. */
        uint64_t head = opp_load(&fifo->head, acquire);
        /* [publish] acquire and seq_cst: see fifo_push(). */
        uint64_t tail = opp_load(&fifo->tail, seq_cst);
        if (head >= tail) return false;
        /* [directory] acquire: pairs with fifo_reserve(). It was stored before the tail just read. */
        opp_directory *directory = opp_load(&fifo->directory, acquire);
        /* acquire on these three: the look at head below must come after them. [entry] for the first. */
        opp_segment *segment = opp_load(&directory->segment[SEGMENT_OF(head) & directory->mask], acquire);
        if (segment != NULL) {
            opp_slot *slot = &segment->slot[SLOT_OF(head)];
            front->ptr = opp_load(&slot->ptr, acquire);
            front->word = opp_load(&slot->word, acquire);
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

void opp_bag_free(opp_bag *bag) {
    opp_fifo *fifo = opp_load(&bag->fifos, relaxed); /* relaxed: nobody else is left */
    while (fifo != NULL) {
        opp_fifo *next = fifo->next;
        opp_directory *directory = opp_load(&fifo->directory, relaxed);
        while (directory != NULL) {
            opp_directory *older = directory->older;
            free(directory);
            directory = older;
        }
        free(fifo);
        fifo = next;
    }
    free(bag);
}

/* The calling source's queue in `bag`; made and published on first use. */
static opp_fifo *bag_fifo(opp_bag *bag, opp_source *source) {
    size_t place = ((uintptr_t)bag >> 4 ^ (uintptr_t)bag >> 10) % OPP_SOURCE_CACHE;
    if (source->cache[place].bag == bag) return source->cache[place].fifo;
    /* [fifos] acquire: pairs with the exchange below; `next` and `source` are set. */
    opp_fifo *fifo = opp_load(&bag->fifos, acquire);
    while (fifo != NULL && fifo->source != source) fifo = fifo->next;
    if (fifo == NULL) {
        fifo = fifo_create(source);
        if (fifo == NULL) return NULL;
        opp_fifo *first = opp_load(&bag->fifos, relaxed);
        do {
            fifo->next = first;
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

/* Looks at every queue. False when all were empty. Otherwise `oldest` and, where it may be taken, `choice`. */
static bool bag_look_round(opp_bag *bag, const opp_source *own, const uint8_t *distance, uint32_t slack,
                           uint32_t *floor, peek *choice) {
    bool found = false;
    peek oldest = {0}, near = {0};
    /* [fifos] acquire, and seq_cst with the exchange in bag_fifo(): a queue whose push is over is in the list. */
    for (opp_fifo *fifo = opp_load(&bag->fifos, seq_cst); fifo != NULL; fifo = fifo->next) {
        peek front;
        if (!fifo_peek(fifo, &front)) continue;
        if (!found || older(stamp_of(&front), stamp_of(&oldest))) oldest = front;
        found = true;
        if (fifo->source == own) near = front;
    }
    if (!found) return false;
    *floor = stamp_of(&oldest);
    uint32_t limit = *floor + slack;
    *choice = oldest;
    if (near.fifo != NULL && !older(limit, stamp_of(&near))) {
        *choice = near;
    } else if (distance != NULL) {
        uint8_t best = distance[oldest.fifo->source->node];
        for (opp_fifo *fifo = opp_load(&bag->fifos, acquire) /* [fifos] */; fifo != NULL; fifo = fifo->next) {
            peek front;
            if (distance[fifo->source->node] >= best || !fifo_peek(fifo, &front)) continue;
            if (older(limit, stamp_of(&front))) continue;
            best = distance[fifo->source->node];
            *choice = front;
        }
    }
    return true;
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
    /* [fifos] and [publish], as in bag_look_round() and fifo_peek(). */
    for (opp_fifo *fifo = opp_load(&bag->fifos, seq_cst); fifo != NULL; fifo = fifo->next) {
        uint64_t head = opp_load(&fifo->head, acquire);
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
