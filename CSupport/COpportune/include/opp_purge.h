/*
 * Purgeable regions: memory whose content may be taken while it is not in use.
 *
 * A user of a region pins it; a pinned region is never taken. Taking returns pages to the kernel, at once
 * (eager) or when the kernel next needs some (lazy). No thread waits for another. A reclaimer skips pinned
 * regions. A pin during a taking gets empty memory at another address, so the reclaimer may be stopped at any
 * instruction.
 *
 * Regions are counted in whole pages of the base size. They use no huge pages, since a part of one cannot be
 * returned.
 *
 * Regions belong to a set, which any thread may walk at any time. Opening, closing, walking and taking are
 * lock-free. If a region is closed while it is being taken, the later of the two threads returns its memory.
 * Small regions keep their address space, without pages, for the next ones of their size, until the set is
 * destroyed.
 */
#ifndef OPP_PURGE_H
#define OPP_PURGE_H

#include "opp_base.h"

OPP_BEGIN_DECLS

typedef struct opp_purge opp_purge;
typedef struct opp_purge_set opp_purge_set;

/* What a pin found. */
typedef enum OPP_CLOSED_ENUM opp_purge_access {
    /* The content is as it was left. */
    OPP_PURGE_INTACT = 0,
    /* The content is gone; the memory is zero, and only the caller may fill it. Ends with opp_purge_filled()
     * or opp_purge_emptied(), before the unpin. */
    OPP_PURGE_EMPTY = 1,
    /* The content is gone, or its state is unknown, and another holder of a pin is filling it or finding out.
     * There is no memory to access; the pin is held all the same. */
    OPP_PURGE_BUSY = 2,
} opp_purge_access;

/* How a region's pages are returned. */
typedef enum OPP_CLOSED_ENUM opp_purge_mode {
    /* MADV_DONTNEED: the pages are free on return. */
    OPP_PURGE_EAGER = 0,
    /* MADV_FREE: the kernel takes the pages when it needs some; a pin before that finds the content intact.
     * Costs two bytes for each of the region's pages, in whole pages of their own, until a pin has checked
     * the pages or the region is taken eagerly. */
    OPP_PURGE_LAZY = 1,
} opp_purge_mode;

/* A snapshot of a region. */
typedef struct opp_purge_view {
    uint64_t bytes;
    uint32_t pins;
    /* Grows by one with each loss of content and each opening, up to 2^24 and then from 0. A lazy loss counts
     * when a pin finds it. */
    uint32_t generation;
    /* As passed to opp_purge_open(). */
    uint32_t owner;
    uint32_t group;
    /* The order in which the set's regions were opened or last filled. */
    uint64_t born;
    /* When it was last unpinned: nanoseconds of CLOCK_MONOTONIC, to the kernel's tick (1 to 10 ms). */
    uint64_t used_ns;
    /* May be taken while it is not pinned. */
    bool is_volatile;
    /* Whether its content is gone. */
    bool is_purged;
    /* It was taken lazily, and no pin has checked it since. */
    bool is_lazy;
    /* It is being taken: pages that are to be returned may still be there. */
    bool is_purging;
    /* Compared by opp_purge_take(), which takes only the state that was seen. */
    uint64_t word;
} opp_purge_view;

/* NULL where memory is short. */
opp_purge_set *_Nullable opp_purge_set_create(void);

/* Every region must be closed, and no thread may take or walk any more. */
void opp_purge_set_destroy(opp_purge_set *_Nonnull set);

/* The number of regions, open or closed; never decreases. For opp_purge_set_at(). */
uint32_t opp_purge_set_size(const opp_purge_set *_Nonnull set);

/* The region at `index`, below opp_purge_set_size(). It may be closed and reused: call opp_purge_look()
 * before each use. */
opp_purge *_Nonnull opp_purge_set_at(const opp_purge_set *_Nonnull set, uint32_t index);

/*
 * Opens a region of at least `bytes`, rounded up to pages: zero, not volatile, not pinned, and intact. It
 * uses twice as much address space, and a page only once it is written. `owner` and `group` are returned in
 * views. Any thread, lock-free. Returns 0, -EINVAL for 0 or more than 2^46 bytes, -ENOMEM, or -errno of mmap.
 */
int opp_purge_open(opp_purge_set *_Nonnull set, size_t bytes, uint32_t owner, uint32_t group,
                   opp_purge *_Nullable *_Nonnull out) OPP_MUST_USE;

/* Closes the region. It must not be pinned. Threads that walk the set may still look at it, and find it
 * closed. */
void opp_purge_close(opp_purge *_Nonnull region);

/*
 * Pins the region, up to 2^32 times at once. Any thread. Wait-free, except for page faults and, after a lazy
 * taking, a check of one word for each page. Sets `contents` to the region's memory, which stays there until
 * the unpin, or to NULL.
 */
opp_purge_access opp_purge_pin(opp_purge *_Nonnull region, void *_Nullable *_Nonnull contents) OPP_MUST_USE;

/* Ends a pin; wait-free. The memory may be taken from now on. */
void opp_purge_unpin(opp_purge *_Nonnull region);

/* After OPP_PURGE_EMPTY: the content was made, and is visible to all pins. */
void opp_purge_filled(opp_purge *_Nonnull region);

/* The holder of an intact pin has made other content: the region counts as filled now, for `born`. */
void opp_purge_renewed(opp_purge *_Nonnull region);

/* After OPP_PURGE_EMPTY: the content was not made. The next pin gets zero memory to fill. */
void opp_purge_emptied(opp_purge *_Nonnull region);

/* Whether the region may be taken while it is not pinned. Any thread. */
void opp_purge_set_volatile(opp_purge *_Nonnull region, bool is_volatile);

/*
 * The same for a caller that does not hold the region open: only if it is still the region of `view`, since
 * it may have been reused. False if it is not, or has lost its content since: call opp_purge_look()
 * again. Any thread.
 */
bool opp_purge_set_volatile_if(opp_purge *_Nonnull region, const opp_purge_view *_Nonnull view,
                               bool is_volatile) OPP_MUST_USE;

/* Reads a snapshot of the region into `view`. False if it is closed. Any thread. */
bool opp_purge_look(const opp_purge *_Nonnull region, opp_purge_view *_Nonnull view) OPP_MUST_USE;

/*
 * Returns the region's pages to the kernel, if the region is still as it was `seen`. Any thread; never waits
 * for a pin or for another reclaimer. Returns the bytes of address space released. Returns 0 if it has
 * changed since, is pinned, not volatile, taken already, or being taken. Returns -errno of madvise if the
 * kernel refused; the pages are kept then.
 */
int64_t opp_purge_take(opp_purge *_Nonnull region, const opp_purge_view *_Nonnull seen,
                       opp_purge_mode mode) OPP_MUST_USE;

/*
 * Like opp_purge_take(), eagerly, and also for regions that are not volatile: for the memory of an app that
 * has ended, or whose content was written elsewhere.
 */
int64_t opp_purge_revoke(opp_purge *_Nonnull region, const opp_purge_view *_Nonnull seen) OPP_MUST_USE;

OPP_END_DECLS

#endif
