/* The free segments that a core's fifos are made of. Private to the core; see segments.c. */
#ifndef OPP_SEGMENTS_H
#define OPP_SEGMENTS_H

#include "opp_assert.h"
#include "opp_base.h"
#include "opp_sync.h"

#define OPP_LINE 64
#ifndef OPP_CHECKED
#define OPP_SEGMENT_SLOTS 64
#define OPP_SLAB_SEGMENTS 16
#define OPP_SLABS 65536
#endif /* The checked build has smaller ones, so that every edge is near. */

_Static_assert((OPP_SEGMENT_SLOTS & (OPP_SEGMENT_SLOTS - 1)) == 0, "slots are found by masking");

typedef struct opp_entry {
    _Atomic(void *) ptr;
    _Atomic(uint64_t) word; /* stamp << 32 | the job's tag */
} opp_entry;

/* Type-stable: once allocated it stays a segment until the core goes, so that a late reader reads a slot. */
typedef struct opp_segment {
    _Atomic(uint32_t) next; /* in the pool: index + 1 of the segment below, 0 for none */
    uint32_t index;         /* set once */
    _Alignas(OPP_LINE) opp_entry slot[OPP_SEGMENT_SLOTS];
} opp_segment;

typedef struct opp_segments {
    _Alignas(OPP_LINE) _Atomic(uint64_t) top; /* tag << 32 | index + 1 */
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
