/*
 * What a store of large state asks of the machine: a word to the kernel to begin writing, and a look at what
 * the disk gives.
 */
#ifndef OPP_STORE_H
#define OPP_STORE_H

#include "opp_base.h"

OPP_BEGIN_DECLS

/*
 * Has the kernel begin to write out what is dirty of a file's range. A hint, which promises nothing of what
 * is on the disk: a kernel that does not know it does nothing. Waits only where the disk's queue is full.
 */
void opp_store_begin_writing(int file, int64_t offset, int64_t count);

/* What a folder's file system gives a store. */
typedef struct opp_store_probe {
    bool is_memory; /* what is written there stays in main memory, or swap */
    int allocate;   /* whether blocks are set aside at once: 0 or -errno */
    int direct;     /* whether O_DIRECT is taken: 0 or -errno */
} opp_store_probe;

/* Tries it on a file of 1 MiB, which is gone on return. Returns 0, or -errno where none could be made; may
 * wait for the disk. */
int opp_store_probe_run(const char *_Nonnull folder, opp_store_probe *_Nonnull probe);

OPP_END_DECLS

#endif
