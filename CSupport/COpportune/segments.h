/* The allocator of the segments that the fifos of a run queue are built from. Private; see segments.c. */
#ifndef OPP_SEGMENTS_H
#define OPP_SEGMENTS_H

#include "opp_assert.h"
#include "opp_base.h"
#include "opp_sync.h"

#ifndef OPP_CHECKED
#define OPP_SEGMENT_SLOTS 64
#define OPP_SLAB_SEGMENTS 16
#define OPP_SLABS 65536
#endif /* OPP_CHECKED defines smaller sizes, so that the model checker reaches every boundary case. */

_Static_assert((OPP_SEGMENT_SLOTS & (OPP_SEGMENT_SLOTS - 1)) == 0, "slots are found by masking");

typedef struct opp_entry {
    _Atomic(void *) ptr;
    _Atomic(uint64_t) word; /* stamp (orders the entries of several fifos) << 32 | job.tag */
} opp_entry;

/* Type-stable memory: a segment is recycled, but not unmapped or used as another type before the run queue is
 * freed. A consumer with a stale pointer may still read a slot; its claim then fails (B3 in fifo.h). */
typedef struct opp_segment {
    _Atomic(uint32_t) next; /* on the free list: index + 1 of the next free segment, 0 for none */
    uint32_t index;         /* set once */
    _Alignas(OPP_LINE) opp_entry slot[OPP_SEGMENT_SLOTS];
} opp_segment;

typedef struct opp_segments {
    _Alignas(OPP_LINE) _Atomic(uint64_t) top; /* ABA counter << 32 | index + 1 of the first free segment */
    _Alignas(OPP_LINE) _Atomic(uint32_t) slab_count;
    _Atomic(opp_segment *) slab[OPP_SLABS];
} opp_segments;

void opp_segments_init(opp_segments *segments);
void opp_segments_free(opp_segments *segments);
uint64_t opp_segments_bytes(const opp_segments *segments);

/* Lock-free. NULL where memory is short. */
opp_segment *opp_segments_take(opp_segments *segments);
void opp_segments_put(opp_segments *segments, opp_segment *segment);

#endif
