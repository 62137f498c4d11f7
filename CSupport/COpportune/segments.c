/*
 * The free segments: a stack whose top carries a tag that grows with each step. So the exchange fails if a
 * segment was taken and returned meanwhile. Slabs of segments are mapped when the stack is empty, and kept.
 */
#include "segments.h"
#include "mapping.h"

#include <string.h>

void opp_segments_init(opp_segments *segments) {
    /* the caller provides the table zeroed, with untouched pages */
    memset(segments, 0, offsetof(opp_segments, slab));
}

void opp_segments_free(opp_segments *segments) {
    /* relaxed: no other thread uses the pool any more. */
    uint32_t count = opp_load(&segments->slab_count, relaxed);
    for (uint32_t i = 0; i < count && i < OPP_SLABS; i++) {
        opp_segment *slab = opp_load(&segments->slab[i], relaxed);
        if (slab != NULL) opp_unmap(slab, OPP_SLAB_SEGMENTS * sizeof(opp_segment));
    }
}

uint64_t opp_segments_bytes(const opp_segments *segments) {
    /* relaxed: statistics. */
    return (uint64_t)opp_load(&segments->slab_count, relaxed) * OPP_SLAB_SEGMENTS * sizeof(opp_segment);
}

static opp_segment *segments_segment(const opp_segments *segments, uint32_t index) {
    /* relaxed: the index came with an acquire of `top`, and the thread that pushed it had seen the slab. */
    opp_segment *slab = opp_load(&segments->slab[index / OPP_SLAB_SEGMENTS], relaxed);
    OPP_ASSERT(slab != NULL);
    OPP_ASSERT(slab[index % OPP_SLAB_SEGMENTS].index == index);
    return &slab[index % OPP_SLAB_SEGMENTS];
}

void opp_segments_put(opp_segments *segments, opp_segment *segment) {
    OPP_ASSERT(segment != NULL);
    OPP_ASSERT(segment->index < (uint64_t)OPP_SLABS * OPP_SLAB_SEGMENTS);
    uint64_t top = opp_load(&segments->top, relaxed);
    uint64_t desired;
    do {
        /* relaxed: published by the exchange. */
        opp_store(&segment->next, (uint32_t)top, relaxed);
        desired = ((top >> 32) + 1) << 32 | (segment->index + 1);
        /* [pool] release: pairs with the acquire in opp_segments_take(). The thread that takes the segment
         * sees `next`, and that the reads of its slots are over (B3). */
    } while (!opp_cas(&segments->top, &top, desired, release));
}

static opp_segment *segments_grow(opp_segments *segments) {
    size_t bytes = OPP_SLAB_SEGMENTS * sizeof(opp_segment);
    void *memory = opp_map(bytes);
    if (memory == NULL) return NULL;
    /* relaxed: only this thread has the number. */
    uint32_t number = opp_add(&segments->slab_count, 1, relaxed);
    if (number >= OPP_SLABS) {
        opp_sub(&segments->slab_count, 1, relaxed);
        opp_unmap(memory, bytes);
        return NULL;
    }
    OPP_ASSERT(number < OPP_SLABS);
    opp_segment *slab = memory;
    for (uint32_t i = 0; i < OPP_SLAB_SEGMENTS; i++) slab[i].index = number * OPP_SLAB_SEGMENTS + i;
    opp_store(&segments->slab[number], slab, relaxed); /* relaxed: see segments_segment() */
    for (uint32_t i = 1; i < OPP_SLAB_SEGMENTS; i++) opp_segments_put(segments, &slab[i]);
    return &slab[0];
}

opp_segment *opp_segments_take(opp_segments *segments) {
    /* [pool] acquire: pairs with opp_segments_put(). */
    uint64_t top = opp_load(&segments->top, acquire);
    for (;;) {
        uint32_t number = (uint32_t)top;
        if (number == 0) return segments_grow(segments);
        opp_segment *segment = segments_segment(segments, number - 1);
        /* relaxed: if another thread took the segment meanwhile, this value is meaningless, and the tag makes
         * the exchange fail. */
        uint64_t desired = ((top >> 32) + 1) << 32 | opp_load(&segment->next, relaxed);
        /* relaxed: what this step reads was acquired above. A read-modify-write continues the release
         * sequence of the puts before it, so later consumers acquire from them through it. */
        if (opp_cas(&segments->top, &top, desired, relaxed)) return segment;
        /* [pool] acquire: the failed exchange read with relaxed order only. */
        top = opp_load(&segments->top, acquire);
    }
}
