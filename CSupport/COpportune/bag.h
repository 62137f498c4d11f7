/* Bags: many sources push, anyone takes. Private to the core; see bag.c. */
#ifndef OPP_BAG_H
#define OPP_BAG_H

#include "opp_runq.h"
#include "opp_sync.h"

#define OPP_LINE 64
#ifndef OPP_CHECKED
#define OPP_SEGMENT_SLOTS 64
#define OPP_SLAB_SEGMENTS 16
#define OPP_SLABS 65536
#define OPP_DIRECTORY_FIRST 4
#define OPP_EPOCH_PUSHES 32
#define OPP_SOURCE_CACHE 64
#define OPP_SWEEP_EMPTY 16 /* empty queues that a look round must meet, */
#define OPP_SWEEP_LOOKS 64 /* and how often, for one sweep */
#endif /* The checked build has smaller ones, so that every edge is near. */

_Static_assert((OPP_SEGMENT_SLOTS & (OPP_SEGMENT_SLOTS - 1)) == 0, "slots are found by masking");
/* An overtaker's epoch is at most floor + 1, the floor at most one older than the overtaken job's publication:
 * two epochs before a taker looks round and two after. */
_Static_assert(OPP_BYPASS_MAX >= 4 * OPP_EPOCH_PUSHES, "the bypass promised in opp_runq.h");

typedef struct opp_slot {
    _Atomic(void *) ptr;
    _Atomic(uint64_t) word; /* stamp << 32 | the job's tag */
} opp_slot;

/* Type-stable: once allocated it stays a segment until the core goes, so that a late reader reads a slot. */
typedef struct opp_segment {
    _Atomic(uint32_t) next; /* in the pool: index + 1 of the segment below, 0 for none */
    uint32_t index;         /* set once */
    _Alignas(OPP_LINE) opp_slot slot[OPP_SEGMENT_SLOTS];
} opp_segment;

typedef struct opp_pool {
    _Alignas(OPP_LINE) _Atomic(uint64_t) top; /* tag << 32 | index + 1 */
    _Alignas(OPP_LINE) _Atomic(uint32_t) slab_count;
    _Atomic(opp_segment *) slab[OPP_SLABS];
} opp_pool;

typedef struct opp_directory {
    uint64_t mask;
    struct opp_directory *older; /* kept for late readers, freed with the queue */
    _Atomic(opp_segment *) segment[];
} opp_directory;

/* One source's queue in one bag. Fields are grouped by who writes them. */
typedef struct opp_fifo {
    opp_source *source;
    _Atomic(struct opp_fifo *) next; /* in the bag's list */
    struct opp_fifo *resting;        /* in the list of those that rest; under the bag's `sweeping` */
    _Alignas(OPP_LINE) _Atomic(uint64_t) head; /* takers */
    _Alignas(OPP_LINE) _Atomic(uint64_t) tail; /* the source */
    _Atomic(opp_directory *) directory;        /* the source */
} opp_fifo;

struct opp_bag {
    opp_core *core;
    _Atomic(opp_fifo *) fifos;
    opp_fifo *resting;           /* queues that were taken out; under `sweeping` */
    _Atomic(bool) sweeping;      /* a lock that nobody waits for */
    _Atomic(uint32_t) looks;     /* that met many empty queues */
    struct opp_bag *next;        /* in the core's list of strands' bags */
    _Atomic(uint32_t) in_use;    /* strands' bags only */
    _Atomic(uint32_t) ticket;    /* strands' bags only */
};

struct opp_source {
    opp_core *core;
    opp_source *next;
    _Atomic(uint32_t) owned;
    uint8_t node;
    uint32_t pushes; /* since the epoch was last advanced; the owner's */
    struct {
        opp_bag *bag;
        opp_fifo *fifo;
    } cache[OPP_SOURCE_CACHE]; /* the owner's: which queue is mine in which bag */
};

/* What a taker remembers of the last bag. */
typedef struct opp_bag_memory {
    opp_bag *bag;
    opp_fifo *fifo;
    uint32_t floor;
} opp_bag_memory;

int opp_pool_init(opp_pool *pool);
void opp_pool_free(opp_pool *pool);
uint64_t opp_pool_bytes(const opp_pool *pool);

void opp_bag_init(opp_bag *bag, opp_core *core);
void opp_bag_drain(opp_bag *bag, void (*drop)(opp_job, void *), void *context);
void opp_bag_free(opp_bag *bag); /* empty, and nobody uses it any more */

/* Queues `job` with `stamp`. The source's own thread. 0 or -ENOMEM. */
int opp_bag_insert(opp_bag *bag, opp_source *source, opp_job job, uint32_t stamp);

/*
 * Takes an entry whose stamp is at most `slack` above the smallest that waits. `memory` may be NULL.
 * `stolen` tells whether it came from another source than `own`.
 */
bool opp_bag_remove(opp_bag *bag, opp_bag_memory *memory, const opp_source *own, const uint8_t *distance,
                    uint32_t slack, opp_job *job, bool *stolen);
uint64_t opp_bag_count(const opp_bag *bag);

/* In runq.c. */
opp_pool *opp_core_pool(opp_core *core);
uint32_t opp_core_epoch(opp_core *core);

#endif
