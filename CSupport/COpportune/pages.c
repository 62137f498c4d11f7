/* The kernel calls for purgeable regions. */
#include "pages.h"
#include "opp_assert.h"
#include "opp_sync.h"

#include <errno.h>
#include <sys/mman.h>

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

size_t opp_pages_size(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

void *opp_pages_map(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                        0);
    if (memory == MAP_FAILED) return NULL;
    OPP_ASSERT(bytes % opp_pages_size() == 0);
    /* A kernel without huge pages refuses; that is harmless. */
    (void)madvise(memory, bytes, MADV_NOHUGEPAGE);
    return memory;
}

void opp_pages_unmap(void *memory, size_t bytes) {
    munmap(memory, bytes);
}

/* Whole pages: the kernel would return the rest of the last one as well. */
int opp_pages_drop(void *memory, size_t bytes) {
    OPP_ASSERT((uintptr_t)memory % opp_pages_size() == 0);
    OPP_ASSERT(bytes % opp_pages_size() == 0);
    if (madvise(memory, bytes, MADV_DONTNEED) == 0) return 0;
    if (errno == EINVAL && madvise(memory, bytes, MADV_DONTNEED_LOCKED) == 0) return 1;
    return -errno;
}

int opp_pages_offer(void *memory, size_t bytes) {
    OPP_ASSERT((uintptr_t)memory % opp_pages_size() == 0);
    OPP_ASSERT(bytes % opp_pages_size() == 0);
    return madvise(memory, bytes, MADV_FREE) == 0 ? 0 : -errno;
}

/*
 * It must be a write that the compiler cannot remove. Only writing to a page takes it back; a page that was
 * only read may be taken a moment later. An addition and a store of the old value do it. An `or` with 0 does
 * not, since Clang makes a load of it. relaxed: other threads see the page only after the pin has checked it;
 * the kernel is not a thread.
 */
_Bool opp_pages_keep(uint64_t *word) {
    _Atomic(uint64_t) *shared = (_Atomic(uint64_t) *)(void *)word;
    uint64_t old = opp_add(shared, 1, relaxed);
    opp_store(shared, old, relaxed);
    return old != 0;
}
