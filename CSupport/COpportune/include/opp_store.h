/*
 * What a store of large state asks of the machine: a checksum faster than the disk, and a word to the kernel to begin.
 */
#ifndef OPP_STORE_H
#define OPP_STORE_H

#include "opp_base.h"

OPP_BEGIN_DECLS

/* XXH64 of the bytes, with seed 0, as zstd's frames have the lower half of. Any thread; never blocks, never allocates. */
uint64_t opp_checksum(const void *_Nullable bytes, size_t count);

/*
 * Has the kernel begin to write out what is dirty of a file's range. A hint, which promises nothing of what is on the disk:
 * a kernel that does not know it does nothing. Waits only where the disk's queue is full.
 */
void opp_store_begin_writing(int file, int64_t offset, int64_t count);

OPP_END_DECLS

#endif
