/* A source: a thread's right to push, and what it remembers. Private to the core; see source.c. */
#ifndef OPP_SOURCE_H
#define OPP_SOURCE_H

#include "fifo.h"
#include "hints.h"

#ifndef OPP_CHECKED
#define OPP_EPOCH_PUSHES 25
#define OPP_SOURCE_CACHE 64
#endif

/* An overtaker's epoch is at most floor + 2 (OPP_OUTSIDE_SLACK), the floor at most one older than the overtaken job's
 * publication: two epochs before a taker looks round and three after. */
_Static_assert(OPP_BYPASS_MAX >= 5 * OPP_EPOCH_PUSHES, "the bypass promised in opp_runq.h");

/* The way of the last push, from the queue up to the level; see push.c. */
typedef struct opp_way {
    opp_app *app; /* NULL where nothing is remembered */
    uint64_t state; /* the app's word of which this is the way */
    opp_fifo *fifo;
    hint rank_hint, app_hint, summary_hint, level_hint;
    uint8_t rank, set, level;
} opp_way;

/* All fields but `owned`, `group` and those set once are the owner's. */
struct opp_source {
    opp_source *next;       /* set once */
    _Atomic(uint32_t) owned;
    uint8_t node;           /* set once */
    _Atomic(uint32_t) group; /* of the taker whose own this is; 0 is none */
    uint32_t pushes;        /* since the epoch was last advanced */
    opp_way way;
    struct {
        opp_bag *bag;
        opp_fifo *fifo;
    } cache[OPP_SOURCE_CACHE]; /* which queue is mine in which bag */
};

#endif
