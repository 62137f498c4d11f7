/*
 * Purgeable regions: memory whose content may be taken while nobody uses it.
 *
 * Who uses a region pins it; a pinned region is never taken. Taking goes by pages to the kernel, at once
 * (eager) or when the kernel next needs some (lazy). Nobody waits for anybody: who takes passes over what is
 * pinned, and who pins while a taker is at work is given empty memory in another place, so that the taker may
 * be stopped at any instruction.
 *
 * Regions are counted in whole pages of the base size: they ask for no huge pages, of which a part cannot be
 * given back.
 *
 * Regions belong to a set, which anyone may walk at any time to see what there is to take: opening, closing,
 * walking and taking are lock-free, and a region that is closed while somebody takes it is unmapped by
 * whoever ends last.
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
    /* The content is gone; the memory is zero, and the caller's alone to fill. Ends with opp_purge_filled()
     * or
     * opp_purge_emptied(), before the unpin. */
    OPP_PURGE_EMPTY = 1,
    /* The content is gone, or it is not known yet, and another holder of a pin is filling it or finding out.
     * There
     * is no memory to look at; the pin is held all the same. */
    OPP_PURGE_BUSY = 2,
} opp_purge_access;

/* How a region is given back. */
typedef enum OPP_CLOSED_ENUM opp_purge_mode {
    /* MADV_DONTNEED: the pages are free on return. */
    OPP_PURGE_EAGER = 0,
    /* MADV_FREE: the kernel takes the pages when it needs some; a pin before that finds the content intact.
     * Costs the region
     * two bytes for each of its pages, in whole pages of their own,
     * until a pin has looked or it is taken eagerly. */
    OPP_PURGE_LAZY = 1,
} opp_purge_mode;

/* What a region was at one instant. */
typedef struct opp_purge_view {
    uint64_t bytes;
    uint32_t pins;
    /* Grows by one with each loss of content and each opening, to 2^24 and then from 0. A lazy loss counts
     * when a pin finds
     * it. */
    uint32_t generation;
    /* As given to opp_purge_open(). */
    uint32_t owner;
    uint32_t group;
    /* Its place in the order in which the set's regions were opened or last filled. */
    uint64_t born;
    /* When it was last unpinned: nanoseconds of CLOCK_MONOTONIC, as fine as the kernel's tick (1 to 10
     * ms). */
    uint64_t used_ns;
    /* May be taken while it is not pinned. */
    bool is_volatile;
    /* Its content is gone. */
    bool is_purged;
    /* It was given back lazily, and no pin has looked at it since. */
    bool is_lazy;
    /* A taker is at work: pages that are to be given back are perhaps still there. */
    bool is_purging;
    /* What opp_purge_take() compares, to take what was seen and nothing that came after. */
    uint64_t word;
} opp_purge_view;

/* NULL where memory is short. */
opp_purge_set *_Nullable opp_purge_set_create(void);

/* Every region must be closed, and nobody take or walk any more. */
void opp_purge_set_destroy(opp_purge_set *_Nonnull set);

/* Places for regions, opened or closed; only grows. For opp_purge_set_at(). */
uint32_t opp_purge_set_places(const opp_purge_set *_Nonnull set);

/* The region at `place`, below opp_purge_set_places(). It may be closed, and become another: look before each
 * use. */
opp_purge *_Nonnull opp_purge_set_at(const opp_purge_set *_Nonnull set, uint32_t place);

/*
 * Opens a region of at least `bytes`, rounded up to pages: zero, not volatile, not pinned, and intact. It
 * takes up twice as much address space, and a page only where it is written. `owner` and `group` are the
 * caller's, for the view. Any thread, lock-free. Returns 0, -EINVAL for 0 or more than 2^46 bytes, -ENOMEM,
 * or -errno of mmap.
 */
int opp_purge_open(opp_purge_set *_Nonnull set, size_t bytes, uint32_t owner, uint32_t group,
                   opp_purge *_Nullable *_Nonnull out) OPP_MUST_USE;

/* The region's memory goes. Nobody may have it pinned; who walks the set may still look at it, and finds it
 * closed. */
void opp_purge_close(opp_purge *_Nonnull region);

/*
 * Pins the region, up to 2^32 times over. Any thread; wait-free, but for page faults, and a look at one word
 * a page where it had been given back lazily. `contents` is set to its memory, which stays there until the
 * unpin, or to NULL.
 */
opp_purge_access opp_purge_pin(opp_purge *_Nonnull region, void *_Nullable *_Nonnull contents) OPP_MUST_USE;

/* Ends a pin; wait-free. The memory may be taken from here on. */
void opp_purge_unpin(opp_purge *_Nonnull region);

/* After OPP_PURGE_EMPTY: the content is there, for all to see. */
void opp_purge_filled(opp_purge *_Nonnull region);

/* After OPP_PURGE_EMPTY: there is no content after all. The next pin gets zero memory to fill. */
void opp_purge_emptied(opp_purge *_Nonnull region);

/* Whether the region may be taken while it is not pinned. Any thread. */
void opp_purge_set_volatile(opp_purge *_Nonnull region, bool is_volatile);

/*
 * The same for who does not hold the region open: only where it is still the one that `view` is of, since its
 * place may be another's by now. False where it is not, or has lost its content since: look again. Any
 * thread.
 */
bool opp_purge_set_volatile_if(opp_purge *_Nonnull region, const opp_purge_view *_Nonnull view,
                               bool is_volatile) OPP_MUST_USE;

/* What the region is now, in `view`. False where it is closed. Any thread. */
bool opp_purge_look(const opp_purge *_Nonnull region, opp_purge_view *_Nonnull view) OPP_MUST_USE;

/*
 * Gives the region's pages back to the kernel, if it is as it was `seen`. Any thread; never waits for a
 * holder or for another taker. Returns the bytes of address space given back; 0 where it has changed since,
 * is pinned, not volatile or given back already, or another taker is at work; or -errno of madvise, and then
 * the pages are still held.
 */
int64_t opp_purge_take(opp_purge *_Nonnull region, const opp_purge_view *_Nonnull seen,
                       opp_purge_mode mode) OPP_MUST_USE;

/*
 * As opp_purge_take(), eagerly, and of regions that are not volatile too: for the memory of an app that is
 * over, or whose content was written elsewhere.
 */
int64_t opp_purge_revoke(opp_purge *_Nonnull region, const opp_purge_view *_Nonnull seen) OPP_MUST_USE;

OPP_END_DECLS

#endif
