/* Bags: many sources push, anyone takes. Private to the core; see bag.c. */
#ifndef OPP_BAG_H
#define OPP_BAG_H

#include "source.h"

#ifndef OPP_CHECKED
#define OPP_SWEEP_EMPTY 16 /* empty queues that a look round must meet, */
#define OPP_SWEEP_LOOKS 64 /* and how often, for one sweep */
#endif

#define OPP_OUTSIDE_SLACK 2 /* epochs by which an outside entry may be younger than the oldest that waits */

struct opp_bag {
    opp_pool *pool;              /* set once */
    _Atomic(opp_fifo *) fifos;
    opp_fifo *resting;           /* queues that were taken out; under `sweeping` */
    _Atomic(bool) sweeping;      /* a lock that nobody waits for */
    _Atomic(uint32_t) looks;     /* that met many empty queues */
    struct opp_bag *next;        /* in the core's list of strands' bags */
    _Atomic(uint32_t) in_use;    /* strands' bags only */
    _Atomic(uint32_t) ticket;    /* strands' bags only */
};

/* What a taker remembers of the last bag: a queue, and the smallest stamp when all queues were last looked at. */
typedef struct opp_bag_memory {
    opp_bag *bag;
    opp_fifo *fifo;
    opp_fifo *outside; /* the outside queue that was served last */
    uint32_t floor;
    bool is_over;       /* the turn: look at all queues before the next entry */
    bool is_outside;    /* the turn is that of the outside queues */
} opp_bag_memory;

void opp_bag_init(opp_bag *bag, opp_pool *pool);
void opp_bag_drain(opp_bag *bag, void (*drop)(opp_job, void *), void *context);
void opp_bag_free(opp_bag *bag); /* empty, and nobody uses it any more */

/* The calling source's queue in `bag`; made and published on first use. NULL where memory is short. */
opp_fifo *opp_bag_fifo(opp_bag *bag, opp_source *source);

/*
 * Looks at all queues, and takes an entry whose stamp is at most `slack` above the smallest that waits. `memory` may be
 * NULL. `stolen` tells whether it came from another source than `own`.
 */
bool opp_bag_search(opp_bag *bag, opp_bag_memory *memory, const opp_source *own, const uint8_t *distance,
                    uint32_t slack, opp_job *job, bool *stolen);

/* Likewise, but begins with the queue in `memory`, if that is of this bag and its front entry is not too young. */
static inline __attribute__((always_inline)) bool
bag_remove(opp_bag *bag, opp_bag_memory *memory, const opp_source *own, const uint8_t *distance, uint32_t slack,
           opp_job *job, bool *stolen) {
    peek front;
    if (memory->is_over || memory->bag != bag || !fifo_peek(memory->fifo, &front) ||
        older(memory->floor + slack, stamp_of(&front)) || !fifo_claim(&front, bag->pool))
        return opp_bag_search(bag, memory, own, distance, slack, job, stolen);
    *job = (opp_job){.ptr = front.ptr, .tag = (uint32_t)front.word};
    *stolen = front.fifo->source != own;
    return true;
}

uint64_t opp_bag_count(const opp_bag *bag);

#endif
