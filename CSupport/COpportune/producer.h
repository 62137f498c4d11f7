/* A producer: a thread's right to push, and what it remembers. Private to the core; see producer.c. */
#ifndef OPP_PRODUCER_H
#define OPP_PRODUCER_H

#include "fifo.h"
#include "ready_bits.h"

#ifndef OPP_CHECKED
#define OPP_EPOCH_PUSHES 25
#define OPP_PRODUCER_CACHE 64
#endif

/* An overtaker's epoch is at most low_water + 2 (OPP_OUTSIDE_SLACK). The low-water mark is at most one epoch
 * older than the publication of the overtaken job. So two epochs pass before a consumer looks at all fifos,
 * and three after. */
_Static_assert(OPP_BYPASS_MAX >= 5 * OPP_EPOCH_PUSHES, "the bypass promised in opp_runq.h");

/* The path of the last push, from the fifo up to the level; see push.c. */
typedef struct opp_path {
    opp_app *app; /* NULL where nothing is remembered */
    uint64_t state; /* the app's word of which this is the path */
    opp_fifo *fifo;
    ready_bit rank_ready, app_ready, level_ready;
    uint8_t rank, level;
} opp_path;

/* All fields but `owned`, `group` and those set once are the owner's. */
struct opp_producer {
    opp_producer *next;       /* set once */
    _Atomic(uint32_t) owned;
    uint8_t node;           /* set once */
    _Atomic(uint32_t) group; /* of the consumer whose own this is; 0 is none */
    uint32_t pushes;        /* since the epoch was last advanced */
    opp_path path;
    struct {
        opp_queue *queue;
        opp_fifo *fifo;
    } cache[OPP_PRODUCER_CACHE]; /* which fifo is this producer's in which queue */
};

#endif
