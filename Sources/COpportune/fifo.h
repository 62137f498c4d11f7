/*
 * The fifo of one producer in one queue. Private to the core; what is inline here is in the way of every job.
 *
 * It is a row of segments under two free-running 64-bit indices. Only the producer moves `tail`: it stores
 * the slot, then the tail. Anyone moves `head`: it reads the slot, then claims it by compare-and-swap, one
 * entry at a time. Index i lives in segment i / 64, which the fifo's directory finds by masking; the producer
 * itself remembers the last of them.
 *
 * Invariants (those of queues go on in queue.c)
 *  B1  head <= tail; both only grow; 64 bits do not wrap.
 *  B2  The slot of an index is written once before tail passes it, and its segment and directory entry are
 *      not written again before head has passed the segment's end.
 *  B3  A claim succeeds only on the value of head that the slot was read under. So what was read under a
 *      successful claim is, by B2, that index's entry: head is the generation that guards recycled segments.
 *      A reader that was stopped may read a slot of a segment that lives elsewhere by now; its claim then
 *      fails, as its index has been claimed by another and two claims never succeed from one value. It pins
 *      nothing.
 *  B4  Whoever claims the last index of a segment, and nobody else, puts the segment back into the pool.
 *  B5  Unless tail stands where a segment begins, `filling` is the segment of tail: that one is not full, so
 *      by B4 it is nowhere else. Where it begins, `filling` may be somebody else's by now, and is replaced
 *      before it is used.
 */
#ifndef OPP_FIFO_H
#define OPP_FIFO_H

#include "opp_runq.h"
#include "segments.h"

#include <errno.h>

#ifndef OPP_CHECKED
#define OPP_DIRECTORY_FIRST 4
#endif

#define SEGMENT_OF(index) ((index) / OPP_SEGMENT_SLOTS)
#define SLOT_OF(index) ((index) % OPP_SEGMENT_SLOTS)

typedef struct opp_directory {
    uint64_t mask;
    struct opp_directory *older; /* kept for late readers, freed with the fifo */
    _Atomic(opp_segment *) segment[];
} opp_directory;

/* Fields are grouped by who writes them. */
typedef struct opp_fifo {
    opp_producer *producer;
    _Atomic(struct opp_fifo *) next; /* in the queue's list */
    struct opp_fifo *resting;        /* in the list of those that rest; under the queue's `sweeping` */
    _Alignas(OPP_LINE) _Atomic(uint64_t) head; /* consumers */
    _Alignas(OPP_LINE) _Atomic(uint64_t) tail; /* the producer, down from here */
    opp_segment *filling; /* B5; the producer reads it too, and nobody else */
    _Atomic(opp_directory *) directory;
} opp_fifo;

/* NULL where memory is short. */
opp_fifo *opp_fifo_create(opp_producer *producer);
void opp_fifo_free(opp_fifo *fifo);

/* The producer's thread, when `tail` begins a segment: has one there. False where memory is short. */
bool opp_fifo_extend(opp_fifo *fifo, opp_segments *segments, uint64_t tail);

/* The producer's thread, with the segment of `tail` there. */
static inline void fifo_put(opp_fifo *fifo, uint64_t tail, opp_job job, uint32_t stamp) {
    OPP_ASSERT(tail + 1 != 0);         /* B1 */
    OPP_ASSERT(fifo->filling != NULL); /* B5 */
    opp_entry *slot = &fifo->filling->slot[SLOT_OF(tail)];
    opp_store(&slot->ptr, job.ptr, relaxed);
    /* [slot] release: a late reader that finds this in the slot of an index that has long been taken knows by
     * it that head has moved, and does not mistake the stamp. Pairs with the acquire in fifo_peek(). */
    opp_store(&slot->word, (uint64_t)stamp << 32 | job.tag, release);
    /* [publish] release: whoever sees this tail sees the slot and what the caller put into the job. Pairs
     * with the loads of tail in fifo_peek() and opp_queue_count(). seq_cst, with the latter, besides: the
     * pusher next reads ready bits and sleepers, and whoever clears a ready bit or goes to sleep next reads
     * tail; in the one order of all four, one of the two sees the other. */
    opp_store(&fifo->tail, tail + 1, seq_cst);
}

/* The producer's thread. 0 or -ENOMEM. */
static inline int fifo_push(opp_fifo *fifo, opp_segments *segments, opp_job job, uint32_t stamp) {
    uint64_t tail = opp_load(&fifo->tail, relaxed); /* relaxed: the producer's own */
    if (SLOT_OF(tail) == 0 && !opp_fifo_extend(fifo, segments, tail)) return -ENOMEM;
    fifo_put(fifo, tail, job, stamp);
    return 0;
}

/* The front entry, as it was read. */
typedef struct peek {
    opp_fifo *fifo;
    opp_segment *segment;
    uint64_t head;
    void *ptr;
    uint64_t word;
} peek;

static inline uint32_t stamp_of(const peek *front) {
    return (uint32_t)(front->word >> 32);
}

static inline bool older(uint32_t a, uint32_t b) {
    return (int32_t)(a - b) < 0;
}

/* Reads the front entry. False when there was none at the moment tail was read. */
static inline bool fifo_peek(opp_fifo *fifo, peek *front) {
    for (;;) {
        /* [claim] acquire: who sees that an entry was taken sees the entries that its consumer had pushed or
         * seen, or else it might take a later one before them. An old head is noticed below, or by the
         * claim. */
        uint64_t head = opp_load(&fifo->head, acquire);
        /* [publish] acquire: see fifo_put(). Not seq_cst: whoever finds nothing here looks again in
         * opp_queue_count() before it lets a ready bit go or sleeps. */
        uint64_t tail = opp_load(&fifo->tail, acquire);
        if (head >= tail) return false;
        /* [directory] acquire: pairs with fifo_reserve(). It was stored before the tail just read. */
        opp_directory *directory = opp_load(&fifo->directory, acquire);
        OPP_ASSERT(directory != NULL);
        /* [entry] acquire: pairs with opp_fifo_extend(). */
        opp_segment *segment = opp_load(&directory->segment[SEGMENT_OF(head) & directory->mask], acquire);
        if (segment != NULL) {
            opp_entry *slot = &segment->slot[SLOT_OF(head)];
            front->ptr = opp_load(&slot->ptr, relaxed); /* relaxed: right if the claim succeeds */
            /* [slot] acquire: so that the look at head is a later one */
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
static inline bool fifo_claim(const peek *front, opp_segments *segments) {
    OPP_ASSERT(front->fifo != NULL);
    OPP_ASSERT(front->segment != NULL);
    uint64_t expected = front->head;
    /* [claim] release: our reads of the slot come before it. acquire: reading from earlier claims, which form
     * one release sequence, the last claimer of a segment knows that all its readers are done before it
     * recycles (B2). */
    if (!opp_cas(&front->fifo->head, &expected, front->head + 1, acq_rel)) return false;
    if (SLOT_OF(front->head) == OPP_SEGMENT_SLOTS - 1) opp_segments_put(segments, front->segment);
    return true;
}

#endif
