/*
 * Target purge. Promised: who pins a region finds its content whole, as it was last filled, or zero memory
 * that is its alone to fill; what it was given stays as it is until the unpin; nobody is told to wait for a
 * reclaimer; after all is over each loss was found once, and memory of closed regions is unmapped once; a
 * region that is taken is in the life of which the view speaks.
 *
 * A page is two words. The kernel takes the pages that were offered at the moment of the offer, those that
 * the program names; that a page may also go later is the business of opp_pages_keep(), which is no matter of
 * threads.
 */
#include "checked.h"
#include "../../COpportune/pages.h"

typedef struct opp_purge opp_purge;
typedef struct opp_purge_set opp_purge_set;

enum { PAGE = 16, PAGES = 2, WORDS = PAGES * 2, LIVES = OPPX_THREADS * OPPX_OPERATIONS };

typedef struct purge_run_state {
    opp_purge_set *set;
    opp_purge *region;         /* everybody's */
    opp_purge *own[OPPX_THREADS];
    uint64_t losses_seen, begun, pinned;
    uint64_t next_value;
    uint32_t first_generation;
    uint32_t mapped;
    uint32_t life[OPPX_THREADS]; /* the number of `own` */
    uint32_t lives;            /* regions opened; its number is what each is opened with as its owner */
    bool is_over[LIVES];
    uint8_t gone[OPPX_THREADS]; /* what the kernel takes of the calling thread's next offer: a bit a page */
} purge_run_state;
static _Thread_local purge_run_state *purge_run_of_thread; /* see oppx_state() */
#define purge_run (*purge_run_of_thread)

static void *checked_pages_map(size_t bytes) {
    errno = ENOMEM;
    if (oppx_refuses()) return NULL;
    purge_run.mapped++;
    return oppx_allocate(bytes, PAGE);
}

static void checked_pages_unmap(void *memory, size_t bytes) {
    (void)bytes;
    purge_run.mapped--;
    oppx_free(memory);
}

/* Where it is refused the first page has been dropped already, as where the second is locked. Volatile: a
 * loop that the compiler makes a call of memset() of is not reported, and races with nobody. */
static int checked_pages_drop(void *memory, size_t bytes) {
    bool refused = oppx_refuses();
    for (size_t i = 0; i < (refused ? PAGE : bytes) / sizeof(uint64_t); i++)
        ((volatile uint64_t *)memory)[i] = 0;
    return refused ? -EINVAL : 0;
}

static int checked_pages_offer(void *memory, size_t bytes) {
    volatile uint64_t *words = memory;
    bool refused = oppx_refuses();
    for (size_t page = 0; page < (refused ? 1 : bytes / PAGE); page++)
        if (purge_run.gone[oppx_thread()] & 1u << page) words[2 * page] = words[2 * page + 1] = 0;
    return refused ? -EINVAL : 0;
}

static _Bool checked_pages_keep(uint64_t *word) {
    uint64_t old = *word;
    *(volatile uint64_t *)word = old; /* only writing takes a page back */
    return old != 0;
}

#define opp_pages_size() ((size_t)PAGE)
#define opp_pages_map checked_pages_map
#define opp_pages_unmap checked_pages_unmap
#define opp_pages_drop checked_pages_drop
#define opp_pages_offer checked_pages_offer
#define opp_pages_keep checked_pages_keep

#define OPP_PURGE_ARENA 0 /* each has memory of its own, so that one that is unmapped is not used */

CHECKED_CORE_BEGIN
#include "../../COpportune/purge.c"
CHECKED_CORE_END

enum { PURGE_USE, PURGE_TAKE, PURGE_OFFER, PURGE_KEEP, PURGE_LET, PURGE_OPEN, PURGE_CLOSE, PURGE_OWN,
    PURGE_REVOKE,
       PURGE_DECLINE };

static const oppx_kind purge_kinds[] = {
    {.name = "use", .weight = 4},
    {.name = "take", .weight = 3},
    {.name = "offer", .arguments = 1, .limit = {1 << PAGES}, .weight = 3},
    {.name = "keep", .weight = 1, .threads = 2},
    {.name = "let", .weight = 1, .threads = 2},
    {.name = "open", .weight = 2},
    {.name = "close", .weight = 2},
    {.name = "own", .weight = 2},     /* uses the region that it opened */
    {.name = "revoke", .weight = 1},  /* takes all, volatile or not */
    {.name = "decline", .weight = 1}, /* as use, but has nothing to fill it with */
};

static void fill_all(uint64_t *words, uint64_t value) {
    /* The second word of the first page is zero, and the first of the second: each page has another word that
     * tells. */
    words[0] = value, words[1] = 0, words[2] = 0, words[3] = value;
}

static void purge_setup(const oppx_program *program) {
    (void)program;
    purge_run_of_thread = oppx_state(OPPX_STATE_TARGET, sizeof(purge_run_state));
    memset(purge_run_of_thread, 0, sizeof(purge_run_state));
    purge_run.set = opp_purge_set_create();
    opp_purge_view view;
    void *contents;
    purge_run.lives = 1;
    if (opp_purge_open(purge_run.set, PAGES * PAGE, 1, 0, &purge_run.region) != 0 ||
        !opp_purge_look(purge_run.region, &view) ||
        opp_purge_pin(purge_run.region, &contents) != OPP_PURGE_INTACT)
        oppx_fail("no region");
    purge_run.first_generation = view.generation;
    purge_run.next_value = 1;
    fill_all(contents, purge_run.next_value);
    opp_purge_unpin(purge_run.region);
    opp_purge_set_volatile(purge_run.region, true);
}

static void check_whole(const uint64_t *words) {
    uint64_t value = words[0];
    if (value == 0 || value > purge_run.next_value || words[1] != 0 || words[2] != 0 || words[3] != value)
        oppx_fail("intact, but not whole: %llu %llu %llu %llu", (unsigned long long)words[0],
                  (unsigned long long)words[1], (unsigned long long)words[2], (unsigned long long)words[3]);
}

static void check_zero(const uint64_t *words, const char *what) {
    for (int i = 0; i < WORDS; i++)
        if (words[i] != 0) oppx_fail("%s is not zero", what);
}

static void purge_use(bool fills) {
    void *contents;
    uint64_t others = purge_run.pinned++, begun = ++purge_run.begun;
    opp_purge_access access = opp_purge_pin(purge_run.region, &contents);
    uint64_t *words = contents;
    if (access == OPP_PURGE_INTACT) {
        check_whole(words);
        uint64_t value = words[0];
        opp_purge_view view; /* others go on here */
        if (!opp_purge_look(purge_run.region, &view) || view.pins == 0) oppx_fail("a pin is not counted");
        check_whole(words);
        if (words[0] != value) oppx_fail("the content changed while it was pinned");
    } else if (access == OPP_PURGE_EMPTY && !fills) {
        check_zero(words, "what is to be filled");
        opp_purge_emptied(purge_run.region);
    } else if (access == OPP_PURGE_EMPTY) {
        purge_run.losses_seen++;
        check_zero(words, "what is to be filled");
        fill_all(words, ++purge_run.next_value);
        opp_purge_filled(purge_run.region);
        check_whole(words);
    } else if (others == 0 && purge_run.begun == begun) {
        oppx_fail("told of another holder, and there was none");
    }
    opp_purge_unpin(purge_run.region);
    purge_run.pinned--;
}

static void purge_take_all(opp_purge_mode mode, bool revokes) {
    for (uint32_t i = 0; i < opp_purge_set_size(purge_run.set); i++) {
        opp_purge *region = opp_purge_set_at(purge_run.set, i);
        opp_purge_view view;
        bool was_over[LIVES];
        memcpy(was_over, purge_run.is_over, sizeof(was_over));
        if (!opp_purge_look(region, &view)) continue;
        uint32_t refusals = oppx_refusals();
        int64_t bytes = revokes ? opp_purge_revoke(region, &view) : opp_purge_take(region, &view, mode);
        if (bytes == 0 || (bytes == -EINVAL && oppx_refusals() > refusals)) continue;
        if (bytes != PAGES * PAGE || view.bytes != PAGES * PAGE)
            oppx_fail("%lld bytes were given back, of %llu", (long long)bytes,
                      (unsigned long long)view.bytes);
        if (view.owner == 0 || view.owner > purge_run.lives || was_over[view.owner])
            oppx_fail("region %u is taken, and said to be %u, which was closed or never opened", i,
                      view.owner);
    }
}

/* Its opener's alone, so that nobody else fills it; but anybody may take it. */
static void purge_own(opp_purge *region, bool is_new) {
    void *contents;
    opp_purge_access access = opp_purge_pin(region, &contents);
    if (access == OPP_PURGE_BUSY) oppx_fail("told of another holder, and there was none");
    uint64_t *words = contents;
    if (access == OPP_PURGE_INTACT && !is_new) check_whole(words);
    else check_zero(words, is_new ? "a new region" : "what is to be filled");
    fill_all(words, 1);
    if (access == OPP_PURGE_EMPTY) opp_purge_filled(region);
    opp_purge_unpin(region);
}

static void purge_perform(uint32_t thread, const oppx_operation *operation) {
    opp_purge **own = &purge_run.own[thread];
    switch (operation->kind) {
    case PURGE_USE: purge_use(true); break;
    case PURGE_DECLINE: purge_use(false); break;
    case PURGE_TAKE: purge_take_all(OPP_PURGE_EAGER, false); break;
    case PURGE_REVOKE: purge_take_all(OPP_PURGE_EAGER, true); break;
    case PURGE_OFFER:
        purge_run.gone[thread] = operation->argument[0];
        purge_take_all(OPP_PURGE_LAZY, false);
        break;
    case PURGE_KEEP: opp_purge_set_volatile(purge_run.region, false); break;
    case PURGE_LET: opp_purge_set_volatile(purge_run.region, true); break;
    case PURGE_OPEN:
        if (*own != NULL) break;
        purge_run.life[thread] = ++purge_run.lives;
        uint32_t refusals = oppx_refusals();
        if (opp_purge_open(purge_run.set, PAGES * PAGE, purge_run.lives, 0, own) != 0) {
            if (*own != NULL || oppx_refusals() == refusals) oppx_fail("no region, and nothing was refused");
            break;
        }
        purge_own(*own, true);
        opp_purge_set_volatile(*own, true);
        break;
    case PURGE_OWN:
        if (*own != NULL) purge_own(*own, false);
        break;
    default:
        if (*own == NULL) break;
        opp_purge_close(*own);
        purge_run.is_over[purge_run.life[thread]] = true;
        *own = NULL;
    }
}

static void purge_finish(void) {
    for (uint32_t thread = 1; thread < OPPX_THREADS; thread++)
        if (oppx_is_stopped(thread)) return; /* it holds what it holds */
    void *contents;
    if (opp_purge_pin(purge_run.region, &contents) == OPP_PURGE_EMPTY) {
        purge_run.losses_seen++;
        opp_purge_emptied(purge_run.region);
    } else {
        check_whole(contents);
    }
    opp_purge_unpin(purge_run.region);
    opp_purge_view view;
    if (!opp_purge_look(purge_run.region, &view) || view.pins != 0 || view.is_purging)
        oppx_fail("all is over, and %u pins are left, or a reclaimer", view.pins);
    if (view.generation - purge_run.first_generation != purge_run.losses_seen)
        oppx_fail("%u losses, of which %llu were found", view.generation - purge_run.first_generation,
                  (unsigned long long)purge_run.losses_seen);
    for (uint32_t thread = 1; thread < OPPX_THREADS; thread++)
        if (purge_run.own[thread] != NULL) opp_purge_close(purge_run.own[thread]);
    opp_purge_close(purge_run.region);
    opp_purge_set_destroy(purge_run.set);
    if (purge_run.mapped != 0) oppx_fail("%u closed regions are still mapped", purge_run.mapped);
}

const oppx_target checked_purge = {
    .name = "purge",
    .summary = "Purgeable regions: content is whole or known to be gone, and nobody waits for who takes it.",
    .kinds = purge_kinds, .kind_count = sizeof(purge_kinds) / sizeof(purge_kinds[0]),
    .threads_max = 3, .operations_max = 6, .stalls = 1, .refusals = 2,
    .setup = purge_setup, .perform = purge_perform, .finish = purge_finish,
};
