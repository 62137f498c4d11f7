/* Queues: many producers push, anyone takes. Private to the core; see queue.c. */
#ifndef OPP_QUEUE_H
#define OPP_QUEUE_H

#include "producer.h"

#ifndef OPP_CHECKED
#define OPP_SWEEP_EMPTY 16 /* empty fifos that a look at all fifos must meet, */
#define OPP_SWEEP_LOOKS 64 /* and how often, for one sweep */
#endif

#define OPP_OUTSIDE_SLACK 2 /* epochs by which an outside entry may be younger than the oldest waiting one */

struct opp_queue {
    opp_segments *segments;              /* set once */
    _Atomic(opp_fifo *) fifos;
    opp_fifo *resting;           /* fifos that were removed; guarded by `sweeping` */
    _Atomic(bool) sweeping;      /* a try-lock: no thread waits for it */
    _Atomic(uint32_t) looks;     /* how many looks met many empty fifos */
    struct opp_queue *next;        /* in the core's list of strands' queues */
    _Atomic(uint32_t) in_use;    /* strands' queues only */
    _Atomic(uint32_t) ticket;    /* strands' queues only */
};

/* What a consumer caches of its last queue: a fifo, and the smallest stamp at the last look at all fifos. */
typedef struct opp_queue_memory {
    opp_queue *queue;
    opp_fifo *fifo;
    opp_fifo *outside; /* the outside fifo that was served last */
    uint32_t low_water;
    bool is_over;       /* the turn has ended: look at all fifos before the next entry */
    bool is_outside;    /* it is the turn of the outside fifos */
} opp_queue_memory;

void opp_queue_init(opp_queue *queue, opp_segments *segments);
void opp_queue_drain(opp_queue *queue, void (*drop)(opp_job, void *), void *context);
void opp_queue_free(opp_queue *queue); /* empty, and without users */

/* The calling producer's fifo in `queue`; made and published on first use. NULL where memory is short. */
opp_fifo *opp_queue_fifo(opp_queue *queue, opp_producer *producer);

/*
 * Looks at all fifos, and takes an entry whose stamp is at most `slack` above the smallest waiting one.
 * `memory` may be NULL. Sets `stolen` if the entry came from another producer than `own`.
 */
bool opp_queue_search(opp_queue *queue, opp_queue_memory *memory, const opp_producer *own,
                      const uint8_t *distance, uint32_t slack, opp_job *job, bool *stolen);

/* The same, but begins with the fifo in `memory`, if that belongs to this queue and its front entry is not
 * too young. */
static inline __attribute__((always_inline)) bool
queue_remove(opp_queue *queue, opp_queue_memory *memory, const opp_producer *own, const uint8_t *distance,
             uint32_t slack, opp_job *job, bool *stolen) {
    peek front;
    if (memory->is_over || memory->queue != queue || !fifo_peek(memory->fifo, &front) ||
        older(memory->low_water + slack, stamp_of(&front)) || !fifo_claim(&front, queue->segments))
        return opp_queue_search(queue, memory, own, distance, slack, job, stolen);
    OPP_ASSERT(front.fifo == memory->fifo);
    *job = (opp_job){.ptr = front.ptr, .tag = (uint32_t)front.word};
    *stolen = front.fifo->producer != own;
    return true;
}

uint64_t opp_queue_count(const opp_queue *queue);

#endif
