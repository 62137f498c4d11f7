/*
 * Purgeable regions. A region has two banks of address space, of which one is current. One word contains the
 * whole state:
 *
 *     bits  0-7   VOLATILE  may be taken while PINS is 0. Set and cleared by the owner.
 *                 PURGED    the current bank is zero, the content gone. Set by who loses the content: an
 *                           eager reclaimer or a pin. Cleared by filled() and open().
 *                 LAZY      the pages of the current bank were, or are being, returned by MADV_FREE: any may
 *                           be zero. Set by a lazy reclaimer; cleared by a pin, by an eager reclaimer, or
 *                           by the lazy one where the kernel refused.
 *                 FILLING   one holder of a pin fills the current bank, or resolves what LAZY left of it.
 *                           Cleared by that holder only.
 *                 PURGING   a reclaimer works on a bank: the current one if LAZY is set, else the other one.
 *                           Cleared by the reclaimer only, when that bank is as LAZY says, or zero.
 *                 BANK      which bank is current.
 *                 CLOSED    the region is closed. Set by close(), cleared by the next open().
 *                 BROKEN    the kernel refused to drop a bank's pages: no reclaimer begins again.
 *     bits  8-31  GENERATION  grows with every loss and opening: an old state recurs after 2^24 of them.
 *     bits 32-63  PINS      at the top, so that a pin is one addition without a carry into other fields.
 *
 * Invariants:
 *  1. A reclaimer begins only by exchanging a word with PINS, FILLING and PURGING all 0; no reclaimer begins
 *     while PINS is not 0. So a bank that a pin has got is not changed until the unpin, and there is at most
 *     one reclaimer.
 *  2. With PURGING and BROKEN clear, the other bank is zero. An eager reclaimer therefore makes it current in
 *     the step that begins the taking. The next pin has zero memory at once, and never waits for the
 *     reclaimer. The reclaimer works on a bank that no pin can get until PURGING is clear again.
 *  3. A pin during a lazy taking does the same for itself: it makes the other bank current, and the content
 *     counts as lost. The reclaimer sees at its end that LAZY is clear, and returns that bank eagerly.
 *  4. FILLING is only set by a holder of a pin, so no reclaimer begins while it is set.
 *  5. Structs are never freed before their set, so any thread may read them. Memory is only accessed by a
 *     holder of a pin, or by the reclaimer that has set PURGING. close() returns it, unless there is a
 *     reclaimer: then the reclaimer does, when it finds CLOSED at its end.
 *  6. A closed region on the stack of a size has zero memory of that size. Only the stack refers to it.
 *
 * A small region that is closed returns its pages, but keeps its address space for the next of that size.
 * Address space is mapped for many small regions at a time. Both avoid calls to mmap() and munmap(): these
 * take the lock of the process's memory map exclusively, and page faults wait for it, also in the foreground.
 * To return pages only shares that lock.
 *
 * A lazy loss is found page by page. Before the pages are offered, the reclaimer stores for each page the
 * index of a word that is not zero. A page that the kernel took comes back as zero, so that word shows the
 * loss. A page without such a word is zero anyway, taken or not. This costs two bytes for each page. A
 * reserved word in each page would not, but would leave holes in the content.
 */
#include "opp_purge.h"
#include "mapping.h"
#include "opp_assert.h"
#include "opp_sync.h"
#include "pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define VOLATILE 1u
#define PURGED 2u
#define LAZY 4u
#define FILLING 8u
#define PURGING 16u
#define BANK 32u
#define CLOSED 64u
#define BROKEN 128u
#define GENERATION_ONE (UINT64_C(1) << 8)
#define GENERATION_MASK (UINT64_C(0xFFFFFF) << 8)
#define PIN_ONE (UINT64_C(1) << 32)
#define NO_WORD UINT16_MAX

/* Chunk c holds FIRST << c regions. */
#define CHUNKS 25u
#ifndef OPP_PURGE_FIRST
#define OPP_PURGE_FIRST 64
#endif
#define FIRST ((uint32_t)OPP_PURGE_FIRST)

/* Regions of at most so many pages keep their address space, which is mapped by so many bytes at a time. */
#define SMALL 8u
#ifndef OPP_PURGE_ARENA
#define OPP_PURGE_ARENA (256u << 10)
#endif

/* All that a pin needs is on one cache line: among many regions it is not in the CPU's cache. */
struct opp_purge {
    _Alignas(64) _Atomic(uint64_t) word;
    _Atomic(uint64_t) used_ns;
    /* What follows is set before open publishes the word, and any thread may read it. At `base` are the two
     * banks, then the marks: invariant 5 says who may access that memory. */
    uint8_t *base;
    opp_purge_set *set;
    _Atomic(uint64_t) bytes;
    _Atomic(uint64_t) born;
    _Atomic(uint32_t) owner;
    _Atomic(uint32_t) group;
    _Atomic(uint32_t) next_free; /* index + 1, or 0 */
    uint32_t index;
};

_Static_assert(sizeof(opp_purge) == 64, "one line");

struct opp_purge_set {
    size_t page;
    _Atomic(uint64_t) born;
    /* Stacks of closed regions: index + 1 in the low half. The high half is a tag that grows with every
     * change of the stack, so that a region which was taken and returned is not mistaken for one that
     * stayed. In `closed[n]` those with memory of n pages, in `closed[0]` those without. */
    _Alignas(64) _Atomic(uint64_t) closed[SMALL + 1];
    _Atomic(uint32_t) size; /* regions that there ever were, open or closed */
    _Atomic(opp_purge *) chunk[CHUNKS];
};

static uint8_t *current(const opp_purge *region, uint64_t word) {
    return region->base + ((word & BANK) != 0 ? opp_load(&region->bytes, relaxed) : 0);
}

/* For each page the index of a word that was not zero, or NO_WORD. They belong to the lazy reclaimer, and
 * then to the pin that resolves LAZY. Afterwards their memory is returned. */
static uint16_t *marks(const opp_purge *region) {
    return (uint16_t *)(void *)(region->base + 2 * opp_load(&region->bytes, relaxed));
}

static uint64_t lost(uint64_t word) {
    return (word & ~GENERATION_MASK) | ((word + GENERATION_ONE) & GENERATION_MASK);
}

/* --- The set --- */

opp_purge_set *opp_purge_set_create(void) {
    opp_purge_set *set = aligned_alloc(64, sizeof(opp_purge_set));
    if (set == NULL) return NULL;
    set->page = opp_pages_size();
    atomic_init(&set->born, 0);
    for (uint32_t i = 0; i <= SMALL; i++) atomic_init(&set->closed[i], 0);
    atomic_init(&set->size, 0);
    for (uint32_t i = 0; i < CHUNKS; i++) atomic_init(&set->chunk[i], NULL);
    return set;
}

static size_t chunk_bytes(uint32_t chunk) {
    return ((size_t)FIRST << chunk) * sizeof(opp_purge);
}

static uint32_t chunk_of(uint32_t index) {
    return 31u - (uint32_t)__builtin_clz(index / FIRST + 1);
}

uint32_t opp_purge_set_size(const opp_purge_set *set) {
    /* Acquire: the chunk of each region (release in add_region). */
    return opp_load(&set->size, acquire);
}

opp_purge *opp_purge_set_at(const opp_purge_set *set, uint32_t index) {
    uint32_t chunk = chunk_of(index);
    OPP_ASSERT(chunk < CHUNKS);
    OPP_ASSERT(index >= FIRST * ((1u << chunk) - 1));
    /* Acquire: publishes its regions, all closed (release in add_chunk). */
    return opp_load(&set->chunk[chunk], acquire) + (index - FIRST * ((1u << chunk) - 1));
}

static bool add_chunk(opp_purge_set *set, uint32_t chunk) {
    uint32_t count = FIRST << chunk;
    opp_purge *fresh = opp_map(chunk_bytes(chunk));
    if (fresh == NULL) return false;
    for (uint32_t i = 0; i < count; i++) {
        fresh[i].set = set;
        fresh[i].index = FIRST * ((1u << chunk) - 1) + i;
        atomic_init(&fresh[i].word, CLOSED);
    }
    opp_purge *none = NULL;
    if (!opp_cas(&set->chunk[chunk], &none, fresh, release)) opp_unmap(fresh, chunk_bytes(chunk));
    return true;
}

/* A region that never was used; NULL where memory is short. */
static opp_purge *add_region(opp_purge_set *set) {
    uint32_t index = opp_load(&set->size, relaxed);
    do {
        uint32_t chunk = chunk_of(index);
        if (chunk >= CHUNKS) return NULL;
        if (opp_load(&set->chunk[chunk], relaxed) == NULL && !add_chunk(set, chunk)) return NULL;
    } while (!opp_cas(&set->size, &index, index + 1, release));
    return opp_purge_set_at(set, index);
}

/* A closed region with memory of so many pages, or with none; NULL where there is no such. */
static opp_purge *pop(opp_purge_set *set, size_t pages) {
    _Atomic(uint64_t) *stack = &set->closed[pages];
    /* Acquire: all earlier uses of the region (release in push). */
    uint64_t top = opp_load(stack, acquire);
    while ((uint32_t)top != 0) {
        opp_purge *region = opp_purge_set_at(set, (uint32_t)top - 1);
        OPP_ASSERT(region->set == set);
        OPP_ASSERT(region->index == (uint32_t)top - 1);
        uint64_t next = ((top >> 32) + 1) << 32 | opp_load(&region->next_free, relaxed);
        /* relaxed: the load of `top` acquired the region; the tag shows that the stack is the same. */
        if (opp_cas(stack, &top, next, relaxed)) return region;
        top = opp_load(stack, acquire);
    }
    return NULL;
}

static opp_purge *claim(opp_purge_set *set) {
    opp_purge *region = pop(set, 0);
    return region != NULL ? region : add_region(set);
}

static void push(opp_purge *region, size_t pages) {
    _Atomic(uint64_t) *stack = &region->set->closed[pages];
    uint64_t top = opp_load(stack, relaxed), mine;
    do {
        opp_store(&region->next_free, (uint32_t)top, relaxed);
        mine = ((top >> 32) + 1) << 32 | (region->index + 1);
        /* Release: publishes the region and its memory to the thread that takes it next (acquire in pop). */
    } while (!opp_cas(stack, &top, mine, release));
}

/* The size of both banks and the marks, in whole pages. */
static size_t mapped(const opp_purge_set *set, size_t bytes) {
    OPP_ASSERT(bytes % set->page == 0);
    size_t marked = bytes / set->page * sizeof(uint16_t);
    return 2 * bytes + (marked + set->page - 1) / set->page * set->page;
}

/* Returns the memory, which no thread uses any more. Address space is kept for the next region only if the
 * kernel drops its pages, since that needs zero memory. The kernel drops no locked pages, which is right:
 * they could not be taken lazily from the next owner. */
static void give_back(opp_purge *region) {
    opp_purge_set *set = region->set;
    size_t bytes = opp_load(&region->bytes, relaxed), pages = bytes / set->page;
    if (pages <= SMALL && opp_pages_drop(region->base, mapped(set, bytes)) == 0)
        return push(region, pages);
    opp_pages_unmap(region->base, mapped(set, bytes));
    push(region, 0);
}

/* A region with zero memory of so many bytes; NULL where memory is short. If it is small, others of its size
 * are made with it, for later. */
static opp_purge *map_regions(opp_purge_set *set, size_t bytes) {
    size_t pages = bytes / set->page, size = mapped(set, bytes);
    size_t count = pages <= SMALL && OPP_PURGE_ARENA > size ? OPP_PURGE_ARENA / size : 1;
    uint8_t *base = opp_pages_map(count * size);
    if (base == NULL) return NULL;
    opp_purge *first = NULL;
    for (size_t i = 0; i < count; i++) {
        opp_purge *region = claim(set);
        if (region == NULL) {
            opp_pages_unmap(base + i * size, (count - i) * size);
            break;
        }
        region->base = base + i * size;
        opp_store(&region->bytes, bytes, relaxed);
        if (first == NULL) first = region;
        else push(region, pages);
    }
    return first;
}

void opp_purge_set_destroy(opp_purge_set *set) {
    for (size_t pages = 1; pages <= SMALL; pages++)
        for (opp_purge *region = pop(set, pages); region != NULL; region = pop(set, pages))
            opp_pages_unmap(region->base, mapped(set, pages * set->page));
    for (uint32_t i = 0; i < CHUNKS; i++) {
        opp_purge *chunk = opp_load(&set->chunk[i], relaxed);
        if (chunk != NULL) opp_unmap(chunk, chunk_bytes(i));
    }
    free(set);
}

int opp_purge_open(opp_purge_set *set, size_t bytes, uint32_t owner, uint32_t group, opp_purge **out) {
    *out = NULL;
    if (bytes == 0 || bytes > (size_t)1 << 46) return -EINVAL;
    bytes = (bytes + set->page - 1) / set->page * set->page;
    size_t pages = bytes / set->page;
    opp_purge *region = pages <= SMALL ? pop(set, pages) : NULL;
    if (region == NULL) region = map_regions(set, bytes);
    if (region == NULL) return -ENOMEM;
    opp_store(&region->owner, owner, relaxed);
    opp_store(&region->group, group, relaxed);
    opp_store(&region->born, opp_add(&set->born, 1, relaxed), relaxed);
    opp_store(&region->used_ns, opp_sync_tick(), relaxed);
    uint64_t closed = opp_load(&region->word, relaxed);
    OPP_ASSERT(closed & CLOSED);
    OPP_ASSERT(!(closed & PURGING)); /* invariant 5 */
    OPP_ASSERT(closed < PIN_ONE);
    uint64_t word = lost(closed) & GENERATION_MASK;
    /* Release: publishes all of the above to threads that look (acquire in look) and take. */
    opp_store(&region->word, word, release);
    *out = region;
    return 0;
}

void opp_purge_close(opp_purge *region) {
    /* Acquire: a reclaimer has finished (release in finish_eagerly, take_lazily). Not release: each unpin has
     * released the last use of its holder, and a read-modify-write continues that release sequence. */
    uint64_t word = opp_or(&region->word, CLOSED, acquire);
    OPP_ASSERT(!(word & CLOSED));
    OPP_ASSERT(word < PIN_ONE);
    if (!(word & PURGING)) give_back(region);
}

/* --- Giving back --- */

static void note_words(opp_purge *region, const uint8_t *bank) {
    size_t page_bytes = region->set->page;
    size_t words = page_bytes / sizeof(uint64_t), pages = opp_load(&region->bytes, relaxed) / page_bytes;
    for (size_t i = 0; i < pages; i++) {
        const uint64_t *page = (const uint64_t *)(const void *)(bank + i * page_bytes);
        size_t word = 0;
        while (word < words && page[word] == 0) word++;
        marks(region)[i] = word < words ? (uint16_t)word : NO_WORD;
    }
}

/* Called by the thread that owns the bank: it alone accesses the marks. If the kernel refuses, they only take
 * memory until the close. */
static void drop_marks(opp_purge *region) {
    size_t bytes = opp_load(&region->bytes, relaxed);
    (void)opp_pages_drop(marks(region), mapped(region->set, bytes) - 2 * bytes);
}

/* The bank is not current, and belongs to this reclaimer. */
static int64_t finish_eagerly(opp_purge *region, uint8_t *bank, int64_t bytes, bool was_lazy) {
    int result = opp_pages_drop(bank, (size_t)bytes);
    if (was_lazy) drop_marks(region);
    if (result < 0) opp_or(&region->word, BROKEN, relaxed);
    /* Release: publishes the zeroed bank to the reclaimer that makes it current again (acquire in take) and,
     * through that exchange, to its pins. Acquire: if it was closed meanwhile, the last use of it. */
    uint64_t word = opp_and(&region->word, ~(uint64_t)PURGING, acq_rel);
    OPP_ASSERT(word & PURGING); /* its reclaimer alone clears it */
    if (word & CLOSED) give_back(region);
    return result < 0 ? result : bytes;
}

/* Takes every page back from the kernel. Returns whether all were still there. The caller has set FILLING, or
 * is the reclaimer of the bank. */
static bool is_all_there(opp_purge *region, uint8_t *bank) {
    size_t page = region->set->page, pages = opp_load(&region->bytes, relaxed) / page;
    for (size_t i = 0; i < pages; i++) {
        uint16_t word = marks(region)[i];
        if (word == NO_WORD) continue;
        OPP_ASSERT(word < page / sizeof(uint64_t));
        if (!opp_pages_keep((uint64_t *)(void *)(bank + i * page) + word)) return false;
    }
    return true;
}

static int64_t take_lazily(opp_purge *region, uint8_t *bank, int64_t bytes) {
    note_words(region, bank);
    int error = opp_pages_offer(bank, (size_t)bytes);
    /* If only a part was refused, such as locked pages, the rest may be gone already: LAZY stays, and the
     * next pin resolves it. */
    uint64_t drop = error != 0 && is_all_there(region, bank) ? PURGING | LAZY : PURGING;
    if (drop & LAZY) drop_marks(region);
    uint64_t word = opp_load(&region->word, relaxed);
    while (word & LAZY) {
        OPP_ASSERT(word & PURGING);
        /* Release: publishes the marks to the pin that resolves them (acquire in pin). Not acquire: any pin
         * since the taking began would have cleared LAZY. So if the region was closed meanwhile, its last use
         * was acquired in take. */
        if (!opp_cas(&region->word, &word, word & ~drop, release)) continue;
        if (word & CLOSED) give_back(region);
        return error == 0 ? bytes : error;
    }
    return finish_eagerly(region, bank, bytes, true); /* a pin came, and made the other bank current */
}

static int64_t take(opp_purge *region, uint64_t word, opp_purge_mode mode) {
    if (word >= PIN_ONE || (word & (PURGED | FILLING | PURGING | CLOSED | BROKEN))) return 0;
    if (mode == OPP_PURGE_LAZY && (word & LAZY)) return 0;
    uint64_t begun = mode == OPP_PURGE_LAZY ? word | LAZY | PURGING
                                            : ((lost(word) ^ BANK) & ~(uint64_t)LAZY) | PURGED | PURGING;
    uint64_t found = word;
    /* Acquire: the last use of the bank (release in unpin) precedes its taking, and the other bank was zeroed
     * (release in finish_eagerly). Not release: nothing was changed yet, and a read-modify-write continues
     * the earlier releases, for pins that find the other bank. */
    if (!opp_cas(&region->word, &found, begun, acquire)) return 0;
    OPP_ASSERT(found == word);
    uint8_t *bank = current(region, word);
    int64_t bytes = (int64_t)opp_load(&region->bytes, relaxed);
    OPP_ASSERT(bytes > 0);
    return mode == OPP_PURGE_LAZY ? take_lazily(region, bank, bytes)
                                  : finish_eagerly(region, bank, bytes, word & LAZY);
}

int64_t opp_purge_take(opp_purge *region, const opp_purge_view *seen, opp_purge_mode mode) {
    return seen->word & VOLATILE ? take(region, seen->word, mode) : 0;
}

int64_t opp_purge_revoke(opp_purge *region, const opp_purge_view *seen) {
    return take(region, seen->word, OPP_PURGE_EAGER);
}

/* --- Using --- */

/* Called by the thread that owns the bank. */
static void clear(opp_purge *region, uint8_t *bank) {
    size_t bytes = opp_load(&region->bytes, relaxed);
    if (opp_pages_drop(bank, bytes) < 0) memset(bank, 0, bytes);
}

static opp_purge_access resolve_lazy(opp_purge *region, uint8_t *bank, void **contents) {
    *contents = bank;
    bool is_whole = is_all_there(region, bank);
    drop_marks(region);
    if (is_whole) {
        /* Release: the pages and the marks, whole again, to pins that find neither flag (acquire in pin). */
        uint64_t before = opp_and(&region->word, ~(uint64_t)(LAZY | FILLING), release);
        OPP_ASSERT(before & FILLING); /* invariant 4, and who set it alone clears it */
        OPP_ASSERT(before >= PIN_ONE);
        (void)before;
        return OPP_PURGE_INTACT;
    }
    /* The rest goes too: a bank to be filled must be zero. */
    clear(region, bank);
    uint64_t word = opp_load(&region->word, relaxed);
    OPP_ASSERT(word & FILLING);
    /* relaxed: FILLING is still set, and keeps all other threads away from the bank. */
    while (!opp_cas(&region->word, &word, (lost(word) & ~(uint64_t)LAZY) | PURGED, relaxed)) {}
    return OPP_PURGE_EMPTY;
}

/* The pin is held: no reclaimer begins, but a lazy one may be at work. */
static opp_purge_access pin_slowly(opp_purge *region, void **contents) {
    /* relaxed: the exchange, or the load at the end, acquires before the memory is accessed. */
    uint64_t word = opp_load(&region->word, relaxed);
    OPP_ASSERT(word >= PIN_ONE);
    while (word & (PURGED | LAZY)) {
        if (word & FILLING) {
            *contents = NULL;
            return OPP_PURGE_BUSY;
        }
        uint64_t ours = word | FILLING;
        bool leaves = (word & LAZY) && (word & PURGING);
        if (leaves) ours = ((lost(ours) ^ BANK) & ~(uint64_t)LAZY) | PURGED;
        /* Acquire: pairs with the release that led to this state, in finish_eagerly, take_lazily or
         * emptied. */
        if (!opp_cas(&region->word, &word, ours, acquire)) continue;
        *contents = current(region, ours);
        if ((word & LAZY) && !leaves) return resolve_lazy(region, current(region, ours), contents);
        return OPP_PURGE_EMPTY;
    }
    /* Filled meanwhile. Acquire: as in pin. */
    word = opp_load(&region->word, acquire);
    *contents = current(region, word);
    return OPP_PURGE_INTACT;
}

opp_purge_access opp_purge_pin(opp_purge *region, void **contents) {
    /* Acquire: what was filled (release in filled) or resolved. A later reclaimer sees the pin, since both
     * change the same word. */
    uint64_t word = opp_add(&region->word, PIN_ONE, acquire);
    OPP_ASSERT(!(word & CLOSED));
    OPP_ASSERT(word + PIN_ONE >= PIN_ONE); /* it carries nowhere */
    if (word & (PURGED | LAZY)) return pin_slowly(region, contents);
    *contents = current(region, word);
    return OPP_PURGE_INTACT;
}

void opp_purge_unpin(opp_purge *region) {
    opp_store(&region->used_ns, opp_sync_tick(), relaxed);
    /* Release: all use of the bank comes before its taking (acquire in take). */
    uint64_t before = opp_sub(&region->word, PIN_ONE, release);
    OPP_ASSERT(before >= PIN_ONE);
    (void)before;
}

void opp_purge_renewed(opp_purge *region) {
    OPP_ASSERT(opp_load(&region->word, relaxed) >= PIN_ONE);
    opp_store(&region->born, opp_add(&region->set->born, 1, relaxed), relaxed);
}

void opp_purge_filled(opp_purge *region) {
    opp_purge_renewed(region);
    /* Release: the content, to the pins that find it intact (acquire in pin). */
    uint64_t before = opp_and(&region->word, ~(uint64_t)(PURGED | FILLING), release);
    OPP_ASSERT(before & PURGED);
    OPP_ASSERT(before & FILLING);
    OPP_ASSERT(before >= PIN_ONE);
    (void)before;
}

void opp_purge_emptied(opp_purge *region) {
    uint64_t word = opp_load(&region->word, relaxed);
    OPP_ASSERT(word & FILLING);
    clear(region, current(region, word));
    /* Release: publishes the zero memory to the next pin that fills (acquire in pin). */
    opp_and(&region->word, ~(uint64_t)FILLING, release);
}

void opp_purge_set_volatile(opp_purge *region, bool is_volatile) {
    /* relaxed: open and each unpin have released earlier writes, and a read-modify-write continues their
     * release sequences. */
    if (is_volatile) opp_or(&region->word, VOLATILE, relaxed);
    else opp_and(&region->word, ~(uint64_t)VOLATILE, relaxed);
}

bool opp_purge_set_volatile_if(opp_purge *region, const opp_purge_view *view, bool is_volatile) {
    const uint64_t life = GENERATION_MASK | CLOSED;
    uint64_t word = view->word;
    do {
        if ((word & life) != (view->word & life)) return false;
        /* relaxed: as above. After a reopening the word differs (release in open), whoever the owner is. */
    } while (!opp_cas(&region->word, &word, is_volatile ? word | VOLATILE : word & ~(uint64_t)VOLATILE,
                      relaxed));
    return true;
}

bool opp_purge_look(const opp_purge *region, opp_purge_view *view) {
    /* Acquire: what open wrote for this life (release in open). A later life has another word, which take
     * compares. */
    uint64_t word = opp_load(&region->word, acquire);
    *view = (opp_purge_view){
        .bytes = opp_load(&region->bytes, relaxed),
        .pins = (uint32_t)(word >> 32),
        .generation = (uint32_t)((word & GENERATION_MASK) >> 8),
        .owner = opp_load(&region->owner, relaxed),
        .group = opp_load(&region->group, relaxed),
        .born = opp_load(&region->born, relaxed),
        .used_ns = opp_load(&region->used_ns, relaxed),
        .is_volatile = word & VOLATILE,
        .is_purged = word & PURGED,
        .is_lazy = word & LAZY,
        .is_purging = word & PURGING,
        .word = word,
    };
    return !(word & CLOSED);
}
