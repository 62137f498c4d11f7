/*
 * Zeroed memory from mmap, for tables of which most is never touched.
 *
 * Not from the allocator, whose locks may be held by a background thread that is stopped.
 */
#ifndef OPP_MAPPING_H
#define OPP_MAPPING_H

#include <stddef.h>

/* NULL where there is none. */
void *opp_map(size_t bytes);
void opp_unmap(void *memory, size_t bytes);

#endif
