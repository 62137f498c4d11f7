/*
 * The fifo of one producer in one queue. Private to the core. The inline functions here are on the path of
 * every job.
 *
 * It is a sequence of segments under two free-running 64-bit indices. Only the producer moves `tail`: it
 * stores the slot, then the tail. Any thread moves `head`: it reads the slot, then claims it by
 * compare-and-swap, one entry at a time. Index i lives in segment i / 64, which the fifo's directory finds by
 * masking. The producer keeps a pointer to the last segment.
 *
 * Invariants (queue.c continues with those of queues)
 *  B1  head <= tail; both only grow; 64 bits do not wrap.
 *  B2  The slot of an index is written once before tail passes it. Its segment and directory entry are not
 *      written again before head has passed the end of the segment.
 *  B3  A claim succeeds only if head still has the value under which the slot was read. So, by B2, what was
 *      read is that index's entry: head is the generation that guards recycled segments. A reader that was
 *      stopped may read a slot of a segment that is in use elsewhere by now. Its claim then fails, since its
 *      index was claimed by another thread, and two claims never succeed from one value. A reader pins no
 *      memory.
 *  B4  The thread that claims the last index of a segment, and no other, returns the segment to the pool.
 *  B5  Unless tail is the first index of a segment, `filling` is the segment of tail. That segment is not
 *      full, so by B4 it is not in the pool. If tail is the first index, `filling` may be in use elsewhere,
 *      and is replaced before it is used.
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
    struct opp_fifo *resting;        /* in the list of resting fifos; guarded by the queue's `sweeping` */
    _Alignas(OPP_LINE) _Atomic(uint64_t) head; /* written by consumers */
    _Alignas(OPP_LINE) _Atomic(uint64_t) tail; /* written by the producer, from here on */
    opp_segment *filling; /* B5; accessed by the producer only */
    _Atomic(opp_directory *) directory;
} opp_fifo;

/* NULL where memory is short. */
opp_fifo *opp_fifo_create(opp_producer *producer);
void opp_fifo_free(opp_fifo *fifo);

/* Producer's thread, when `tail` is the first index of a segment: adds that segment. False where memory is
 * short. */
bool opp_fifo_extend(opp_fifo *fifo, opp_segments *segments, uint64_t tail);

/* Producer's thread; the segment of `tail` must exist. */
static inline void fifo_put(opp_fifo *fifo, uint64_t tail, opp_job job, uint32_t stamp) {
    OPP_ASSERT(tail + 1 != 0);         /* B1 */
    OPP_ASSERT(fifo->filling != NULL); /* B5 */
    opp_entry *slot = &fifo->filling->slot[SLOT_OF(tail)];
    opp_store(&slot->ptr, job.ptr, relaxed);
    /* [slot] release: pairs with the acquire in fifo_peek(). A late reader may find this word in the slot of
     * an index that was taken long ago. The acquire makes it see that head has moved, so it does not use the
     * wrong stamp. */
    opp_store(&slot->word, (uint64_t)stamp << 32 | job.tag, release);
    /* [publish] release: a thread that sees this tail sees the slot, and what the caller put into the job.
     * Pairs with the loads of tail in fifo_peek() and opp_queue_count(). seq_cst, for the latter: the pusher
     * next reads ready bits and parked workers. A thread that clears a ready bit or parks next reads tail. In
     * the total order of the four, one of the two sees the other. */
    opp_store(&fifo->tail, tail + 1, seq_cst);
}

/* The producer's thread. 0 or -ENOMEM. */
static inline int fifo_push(opp_fifo *fifo, opp_segments *segments, opp_job job, uint32_t stamp) {
    uint64_t tail = opp_load(&fifo->tail, relaxed); /* relaxed: the producer's own field */
    if (SLOT_OF(tail) == 0 && !opp_fifo_extend(fifo, segments, tail)) return -ENOMEM;
    fifo_put(fifo, tail, job, stamp);
    return 0;
}

/* The front entry as it was read. */
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
        /* [claim] acquire: a thread that sees that an entry was taken also sees the entries that its consumer
         * had pushed or seen. Otherwise it might take a later entry before them. An old head is detected
         * below, or by the claim. */
        uint64_t head = opp_load(&fifo->head, acquire);
        /* [publish] acquire: see fifo_put(). Not seq_cst: a thread that finds nothing here calls
         * opp_queue_count() before it clears a ready bit or parks. */
        uint64_t tail = opp_load(&fifo->tail, acquire);
        if (head >= tail) return false;
        /* [directory] acquire: pairs with fifo_reserve(). It was stored before the tail just read. */
        opp_directory *directory = opp_load(&fifo->directory, acquire);
        OPP_ASSERT(directory != NULL);
        /* [entry] acquire: pairs with opp_fifo_extend(). */
        opp_segment *segment = opp_load(&directory->segment[SEGMENT_OF(head) & directory->mask], acquire);
        if (segment != NULL) {
            opp_entry *slot = &segment->slot[SLOT_OF(head)];
            front->ptr = opp_load(&slot->ptr, relaxed); /* relaxed: valid if the claim succeeds */
            /* [slot] acquire: orders the following load of head after this one */
            front->word = opp_load(&slot->word, acquire);
            /* relaxed: this check protects the stamp only; the claim checks again. */
            if (opp_load(&fifo->head, relaxed) == head) {
                front->fifo = fifo;
                front->segment = segment;
                front->head = head;
                return true;
            }
        }
        /* Head has moved: another thread took the entry, so the system as a whole made progress. */
    }
}

/* Claims the entry that was read. False if another thread was faster. */
static inline bool fifo_claim(const peek *front, opp_segments *segments) {
    OPP_ASSERT(front->fifo != NULL);
    OPP_ASSERT(front->segment != NULL);
    uint64_t expected = front->head;
    /* [claim] release: this thread's reads of the slot precede the claim. acquire: claims form one release
     * sequence, so the thread that claims the last index of a segment knows that all reads of it are over
     * before it recycles the segment (B2). */
    if (!opp_cas(&front->fifo->head, &expected, front->head + 1, acq_rel)) return false;
    if (SLOT_OF(front->head) == OPP_SEGMENT_SLOTS - 1) opp_segments_put(segments, front->segment);
    return true;
}

#endif
