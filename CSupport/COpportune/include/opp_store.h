/*
 * Calls for a store of large state: a hint to the kernel to begin writing, and a probe of the file system.
 */
#ifndef OPP_STORE_H
#define OPP_STORE_H

#include "opp_base.h"

OPP_BEGIN_DECLS

/*
 * Has the kernel begin to write the dirty pages of a file's range. A hint without a guarantee: a kernel that
 * does not know it does nothing. Waits only where the disk's queue is full.
 */
void opp_store_begin_writing(int file, int64_t offset, int64_t count);

/* What a folder's file system offers to a store. */
typedef struct opp_store_probe {
    bool is_memory; /* files are in main memory, or swap */
    int allocate;   /* whether blocks are allocated at once: 0 or -errno */
    int direct;     /* whether O_DIRECT is supported: 0 or -errno */
} opp_store_probe;

/* Tries it on a file of 1 MiB, which is removed before the return. Returns 0, or -errno if none could be
 * made; may wait for the disk. */
int opp_store_probe_run(const char *_Nonnull folder, opp_store_probe *_Nonnull probe);

OPP_END_DECLS

#endif
