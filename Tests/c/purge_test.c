/* Purgeable regions: what is taken is gone and given back, what is pinned is not taken, nobody waits.
 * R-MEM-05, R-MEM-15
 *
 * OPPORTUNE_STRESS=N multiplies the length of what many threads do. */
#include "check.h"
#include "opportune.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZER
#endif
#elif defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER
#endif

static size_t page;

static opp_purge_set *set;

static opp_purge *make(size_t bytes) {
    opp_purge *region;
    CHECK_EQUAL(opp_purge_open(set, bytes, 5, 6, &region), 0);
    return region;
}

static opp_purge_view look(const opp_purge *region) {
    opp_purge_view view;
    CHECK(opp_purge_look(region, &view));
    return view;
}

static int64_t take(opp_purge *region, opp_purge_mode mode) {
    opp_purge_view view = look(region);
    return opp_purge_take(region, &view, mode);
}

/* Pins, expecting `access`. */
static uint8_t *pin(opp_purge *region, opp_purge_access access) {
    void *contents;
    CHECK_EQUAL(opp_purge_pin(region, &contents), access);
    CHECK((contents == NULL) == (access == OPP_PURGE_BUSY));
    return contents;
}

static bool is_all(const uint8_t *bytes, size_t count, uint8_t value) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != value) return false;
    return true;
}

static void fill(opp_purge *region, uint8_t value, opp_purge_access access) {
    uint8_t *contents = pin(region, access);
    memset(contents, value, look(region).bytes);
    if (access == OPP_PURGE_EMPTY) opp_purge_filled(region);
    opp_purge_unpin(region);
}

/* Resident bytes of the mapping around `address`, as the kernel counts them. */
static long resident(const void *address) {
    FILE *file = fopen("/proc/self/smaps", "r");
    CHECK(file != NULL);
    char line[512];
    unsigned long from = 0, to = 0, kilobytes;
    long found = -1;
    while (fgets(line, sizeof(line), file) != NULL) {
        unsigned long begin, end;
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2) from = begin, to = end;
        else if (sscanf(line, "Rss: %lu kB", &kilobytes) == 1 && from <= (unsigned long)address &&
                 (unsigned long)address < to)
            found = (long)kilobytes * 1024;
    }
    fclose(file);
    return found;
}

static void test_refusals(void) {
    opp_purge *region;
    CHECK_EQUAL(opp_purge_open(set, 0, 0, 0, &region), -EINVAL);
    CHECK(region == NULL);
    CHECK_EQUAL(opp_purge_open(set, ((size_t)1 << 46) + 1, 0, 0, &region), -EINVAL);
    region = make(page + 1);
    opp_purge_view view = look(region);
    CHECK_EQUAL(view.bytes, 2 * page);
    CHECK(view.owner == 5 && view.group == 6 && !view.is_volatile && view.pins == 0);
    opp_purge_close(region);
    CHECK(!opp_purge_look(region, &view));
}

/* A small region's address space is the next one's, without its pages, also where the kernel had them by
 * MADV_FREE, but not where they are locked; a large one's is the kernel's again. */
static void test_kept(void) {
    for (int kind = 0; kind < 3; kind++) {
        opp_purge *region = make(3 * page);
        fill(region, 7, OPP_PURGE_INTACT);
        uint8_t *place = pin(region, OPP_PURGE_INTACT);
        opp_purge_unpin(region);
        opp_purge_set_volatile(region, true);
        if (kind == 1) CHECK_EQUAL(take(region, OPP_PURGE_LAZY), 3 * page);
        bool is_locked = kind == 2 && mlock(place, page) == 0;
        long before = resident(place);
        opp_purge_close(region);
        CHECK(before > 0);
        CHECK(resident(place) <= 0); /* nor its marks */
        region = make(3 * page);
        uint8_t *again = pin(region, OPP_PURGE_INTACT);
        CHECK(is_locked || again == place);
        CHECK(is_all(again, 3 * page, 0));
        opp_purge_unpin(region);
        opp_purge_set_volatile(region, true);
        CHECK_EQUAL(take(region, OPP_PURGE_LAZY), 3 * page);
        opp_purge_close(region);
    }
    opp_purge *large = make(1024 * page);
    fill(large, 1, OPP_PURGE_INTACT);
    uint8_t *place = pin(large, OPP_PURGE_INTACT);
    opp_purge_unpin(large);
    long before = resident(place);
    CHECK(before >= (long)(1024 * page));
    opp_purge_close(large);
    long after = resident(place);
    CHECK(after < 0 || before - after >= (long)(1024 * page));
}

/* Many are mapped at a time, and none has what another has. */
static void test_many(void) {
    enum { COUNT = 2000 };
    static opp_purge *many[COUNT];
    for (int i = 0; i < COUNT; i++) {
        many[i] = make(2 * page);
        fill(many[i], (uint8_t)(i % 255 + 1), OPP_PURGE_INTACT);
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK(is_all(pin(many[i], OPP_PURGE_INTACT), 2 * page, (uint8_t)(i % 255 + 1)));
        opp_purge_unpin(many[i]);
        opp_purge_close(many[i]);
    }
}

/* Places are used again; what was seen of a region is not taken from the one that came after it. */
static void test_set(void) {
    enum { COUNT = 1000 };
    static opp_purge *many[COUNT];
    uint32_t before = opp_purge_set_size(set);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) many[i] = make(page);
        uint32_t found = 0;
        for (uint32_t i = 0; i < opp_purge_set_size(set); i++) {
            opp_purge_view view;
            if (opp_purge_look(opp_purge_set_at(set, i), &view)) found++;
        }
        CHECK_EQUAL(found, COUNT);
        for (int i = 0; i < COUNT; i++) opp_purge_close(many[i]);
    }
    CHECK(opp_purge_set_size(set) <= before + COUNT + 64); /* some more are made at a time */

    opp_purge *region = make(page);
    opp_purge_set_volatile(region, true);
    opp_purge_view seen = look(region);
    pin(region, OPP_PURGE_INTACT);
    opp_purge_unpin(region);
    opp_purge_close(region);
    CHECK_EQUAL(opp_purge_take(region, &seen, OPP_PURGE_EAGER), 0);
    CHECK(!opp_purge_set_volatile_if(region, &seen, true));
    opp_purge *next = make(page);
    CHECK(next == region);
    CHECK(!opp_purge_set_volatile_if(next, &seen, true) && !look(next).is_volatile);
    opp_purge_view now = look(next);
    CHECK(opp_purge_set_volatile_if(next, &now, true) && look(next).is_volatile);
    CHECK(opp_purge_set_volatile_if(next, &now, false) && !look(next).is_volatile);
    opp_purge_set_volatile(next, true);
    CHECK_EQUAL(opp_purge_take(next, &seen, OPP_PURGE_EAGER), 0);
    CHECK_EQUAL(take(next, OPP_PURGE_EAGER), page);
    opp_purge_close(next);
}

static void test_eager(void) {
    size_t pages = 64;
    opp_purge *region = make(pages * page);
    uint8_t *old = pin(region, OPP_PURGE_INTACT);
    CHECK(is_all(old, pages * page, 0));
    memset(old, 7, pages * page);
    opp_purge_unpin(region);

    /* Neither what is not volatile nor what is pinned goes. */
    CHECK_EQUAL(take(region, OPP_PURGE_EAGER), 0);
    opp_purge_set_volatile(region, true);
    pin(region, OPP_PURGE_INTACT);
    pin(region, OPP_PURGE_INTACT);
    CHECK_EQUAL(take(region, OPP_PURGE_EAGER), 0);
    opp_purge_unpin(region);
    CHECK_EQUAL(take(region, OPP_PURGE_LAZY), 0);
    CHECK_EQUAL(look(region).pins, 1);
    CHECK(is_all(old, pages * page, 7));
    opp_purge_unpin(region);

    /* Page for page, and once. */
    long before = resident(old);
    CHECK(before >= (long)(pages * page));
    CHECK_EQUAL(take(region, OPP_PURGE_EAGER), pages * page);
    CHECK_EQUAL(before - resident(old), pages * page);
    CHECK_EQUAL(take(region, OPP_PURGE_EAGER), 0);
    opp_purge_view view = look(region);
    CHECK(view.is_purged && !view.is_purging && !view.is_lazy && view.is_volatile);
    uint32_t generation = view.generation;
    CHECK(is_all(old, pages * page, 0));

    /* One holder fills, others are told; what is emptied is zero for the next. */
    uint8_t *contents = pin(region, OPP_PURGE_EMPTY);
    pin(region, OPP_PURGE_BUSY);
    opp_purge_unpin(region);
    CHECK(is_all(contents, pages * page, 0));
    memset(contents, 8, page);
    opp_purge_emptied(region);
    opp_purge_unpin(region);
    contents = pin(region, OPP_PURGE_EMPTY);
    CHECK(is_all(contents, pages * page, 0));
    memset(contents, 9, pages * page);
    opp_purge_filled(region);
    CHECK(is_all(pin(region, OPP_PURGE_INTACT), pages * page, 9));
    opp_purge_unpin(region);
    opp_purge_unpin(region);
    CHECK_EQUAL(look(region).generation, generation);
    opp_purge_close(region);
}

/* A region is as old as its content. */
static void test_ages(void) {
    opp_purge *first = make(page), *second = make(page);
    CHECK(look(first).born < look(second).born);
    fill(first, 1, OPP_PURGE_INTACT);
    CHECK(look(first).born < look(second).born);
    pin(first, OPP_PURGE_INTACT);
    opp_purge_renewed(first);
    opp_purge_unpin(first);
    CHECK(look(second).born < look(first).born);
    CHECK(take(second, OPP_PURGE_EAGER) <= 0); /* it is not volatile */
    opp_purge_set_volatile(second, true);
    CHECK(take(second, OPP_PURGE_EAGER) > 0);
    fill(second, 2, OPP_PURGE_EMPTY);
    CHECK(look(first).born < look(second).born);
    opp_purge_close(first);
    opp_purge_close(second);
}

/* Memory that somebody locked goes all the same. */
static void test_locked(void) {
    opp_purge *region = make(4 * page);
    uint8_t *contents = pin(region, OPP_PURGE_INTACT);
    memset(contents, 1, 4 * page);
    /* Not by mlock(), which does nothing under a sanitizer. */
    if (syscall(SYS_mlock, contents, 4 * page) != 0) {
        printf("no memory may be locked here: locked regions were not tested\n");
    } else {
        opp_purge_unpin(region);
        opp_purge_set_volatile(region, true);
        CHECK_EQUAL(take(region, OPP_PURGE_LAZY), -EINVAL); /* MADV_FREE has no such mode */
        CHECK(!look(region).is_lazy && !look(region).is_purging);
        CHECK_EQUAL(take(region, OPP_PURGE_EAGER), 4 * page);
        CHECK_EQUAL(resident(contents), 0);
    }
    opp_purge_close(region);
}

/* What was offered before the kernel came to a page that it refuses is not left to it. */
static void test_locked_in_part(void) {
    opp_purge *region = make(4 * page);
    uint8_t *contents = pin(region, OPP_PURGE_INTACT);
    memset(contents, 1, 4 * page);
    if (syscall(SYS_mlock, contents + 3 * page, page) == 0) {
        opp_purge_unpin(region);
        opp_purge_set_volatile(region, true);
        CHECK_EQUAL(take(region, OPP_PURGE_LAZY), -EINVAL);
        (void)madvise(contents, 3 * page, MADV_PAGEOUT);
        CHECK(is_all(pin(region, OPP_PURGE_INTACT), 4 * page, 1));
        opp_purge_unpin(region);
    }
    opp_purge_close(region);
}

/* Whether the kernel takes lazily freed pages when asked to: otherwise a loss can only be had by using up
 * memory. */
static bool pages_out(void *address, size_t bytes) {
    return madvise(address, bytes, MADV_PAGEOUT) == 0;
}

/* The loss of any single page is found, whatever the page held. */
static void test_lazy(void) {
    enum { PAGES = 16 };
    opp_purge *region = make(PAGES * page);
    uint32_t first = look(region).generation;
    opp_purge_set_volatile(region, true);
    fill(region, 3, OPP_PURGE_INTACT);

    CHECK_EQUAL(take(region, OPP_PURGE_LAZY), PAGES * page);
    CHECK(look(region).is_lazy && !look(region).is_purged);
    CHECK_EQUAL(take(region, OPP_PURGE_LAZY), 0);
    CHECK(is_all(pin(region, OPP_PURGE_INTACT), PAGES * page, 3));
    opp_purge_view view = look(region);
    CHECK(!view.is_lazy);
    CHECK_EQUAL(view.generation, first);
    opp_purge_unpin(region);

    /* What was given back lazily can still be taken at once. */
    CHECK_EQUAL(take(region, OPP_PURGE_LAZY), PAGES * page);
    CHECK_EQUAL(take(region, OPP_PURGE_EAGER), PAGES * page);
    CHECK_EQUAL(look(region).generation, first + 1);
    fill(region, 4, OPP_PURGE_EMPTY);

    uint32_t losses = 0;
    for (size_t i = 0; i < PAGES; i++) {
        uint8_t *contents = pin(region, OPP_PURGE_INTACT);
        /* Zero but for one byte, each time in another place of the page: the last one included. */
        memset(contents, 0, PAGES * page);
        for (size_t j = 0; j < PAGES; j++) contents[j * page + (j == i ? page - 1 - i * 16 : 0)] = 5;
        contents[(i + 1) % PAGES * page] = 0; /* and one page of zeros, of which none can be lost */
        opp_purge_unpin(region);
        CHECK_EQUAL(take(region, OPP_PURGE_LAZY), PAGES * page);
        if (!pages_out(contents + (i + 1) % PAGES * page, page)) SKIP("this kernel has no MADV_PAGEOUT");
        contents = pin(region, OPP_PURGE_INTACT);
        CHECK_EQUAL(contents[i * page + page - 1 - i * 16], 5);
        opp_purge_unpin(region);

        CHECK_EQUAL(take(region, OPP_PURGE_LAZY), PAGES * page);
        CHECK(pages_out(contents + i * page, page));
        void *found;
        opp_purge_access access = opp_purge_pin(region, &found);
        if (access == OPP_PURGE_EMPTY) {
            losses++;
            CHECK(is_all(found, PAGES * page, 0));
            opp_purge_filled(region);
        } else {
            /* The kernel may decline. Then the byte is there. */
            CHECK_EQUAL(access, OPP_PURGE_INTACT);
            CHECK_EQUAL(((uint8_t *)found)[i * page + page - 1 - i * 16], 5);
        }
        opp_purge_unpin(region);
    }
    printf("of %d pages taken by the kernel %u were noticed; the others it had kept\n", PAGES, losses);
    CHECK(losses > 0);
    CHECK_EQUAL(look(region).generation, first + 1 + losses);
    opp_purge_close(region);
}

/* --- Many threads --- */

#define REGIONS 4
#define REGION_PAGES 3
static int rounds;
static opp_purge *regions[REGIONS];
static uint32_t firsts[REGIONS];
static _Atomic(uint64_t) fills[REGIONS];
static _Atomic(uint64_t) stamp;
static atomic_int users;

static void *use(void *seed) {
    unsigned random = (unsigned)(uintptr_t)seed;
    for (int i = 0; i < rounds; i++) {
        unsigned which = (unsigned)rand_r(&random) % REGIONS;
        size_t words = REGION_PAGES * page / sizeof(uint64_t);
        void *found;
        opp_purge_access access = opp_purge_pin(regions[which], &found);
        uint64_t *contents = found;
        if (access == OPP_PURGE_EMPTY) {
            /* Nothing of an earlier content is left, and nobody else writes here. */
            for (size_t j = 0; j < words; j += 64) CHECK_EQUAL(contents[j], 0);
            if (i % 8 == 0) {
                contents[0] = 1;
                opp_purge_emptied(regions[which]);
            } else {
                uint64_t mine = atomic_fetch_add(&stamp, 1) + 2;
                for (size_t j = 0; j < words; j++) contents[j] = mine;
                atomic_fetch_add(&fills[which], 1);
                opp_purge_filled(regions[which]);
            }
        } else if (access == OPP_PURGE_INTACT) {
            for (size_t j = 0; j < words; j += 32) CHECK(contents[j] == contents[0]);
        }
        opp_purge_unpin(regions[which]);
        if (i % 64 == 0) sched_yield(); /* so that reclaimers come between, on one core too */
    }
    atomic_fetch_sub(&users, 1);
    return NULL;
}

static void *take_some(void *seed) {
    unsigned random = (unsigned)(uintptr_t)seed;
    while (atomic_load(&users) > 0) {
        opp_purge *region = regions[(unsigned)rand_r(&random) % REGIONS];
        int64_t taken = take(region, rand_r(&random) % 2 ? OPP_PURGE_LAZY : OPP_PURGE_EAGER);
        CHECK(taken == 0 || taken == (int64_t)(REGION_PAGES * page));
    }
    return NULL;
}

static void test_threads(void) {
    for (int i = 0; i < REGIONS; i++) {
        regions[i] = make(REGION_PAGES * page);
        firsts[i] = look(regions[i]).generation;
        opp_purge_set_volatile(regions[i], true);
    }
    pthread_t threads[5];
    atomic_store(&users, 3);
    for (uintptr_t i = 0; i < 5; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, i < 3 ? use : take_some, (void *)i), 0);
    for (int i = 0; i < 5; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < REGIONS; i++) {
        /* Each loss was filled once. */
        void *found;
        uint64_t owed = opp_purge_pin(regions[i], &found) == OPP_PURGE_EMPTY ? 1 : 0;
        opp_purge_view view = look(regions[i]);
        CHECK_EQUAL(view.pins, 1);
        CHECK(!view.is_purging);
        uint32_t losses = view.generation - firsts[i];
        CHECK_EQUAL(atomic_load(&fills[i]) + owed, losses);
        CHECK(losses > 0);
        printf("region %d: %u losses\n", i, losses);
        if (owed == 1) opp_purge_emptied(regions[i]);
        opp_purge_unpin(regions[i]);
        opp_purge_close(regions[i]);
    }
}

/* --- Opening and closing beside reclaimers --- */

static atomic_bool ends;

static void *take_all(void *mode) {
    uint64_t taken = 0;
    while (!atomic_load(&ends))
        for (uint32_t i = 0; i < opp_purge_set_size(set); i++) {
            opp_purge_view view;
            opp_purge *region = opp_purge_set_at(set, i);
            if (!opp_purge_look(region, &view)) continue;
            int64_t bytes = opp_purge_take(region, &view, (opp_purge_mode)(uintptr_t)mode);
            CHECK(bytes >= 0);
            if (bytes > 0) taken++;
        }
    return (void *)(uintptr_t)taken;
}

static void *open_and_close(void *seed) {
    for (int i = 0; i < rounds / 2; i++) {
        opp_purge *region = make(((uintptr_t)seed + (unsigned)i % 3) * page);
        fill(region, 1, OPP_PURGE_INTACT);
        opp_purge_set_volatile(region, true);
        if (i % 8 == 0) sched_yield();
        void *found;
        if (opp_purge_pin(region, &found) == OPP_PURGE_EMPTY) opp_purge_filled(region);
        opp_purge_unpin(region);
        opp_purge_close(region);
    }
    return NULL;
}

static void test_closing(void) {
    pthread_t threads[4];
    void *taken[2];
    CHECK_EQUAL(pthread_create(&threads[0], NULL, take_all, (void *)OPP_PURGE_EAGER), 0);
    CHECK_EQUAL(pthread_create(&threads[1], NULL, take_all, (void *)OPP_PURGE_LAZY), 0);
    for (uintptr_t i = 2; i < 4; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, open_and_close, (void *)i), 0);
    for (int i = 2; i < 4; i++) pthread_join(threads[i], NULL);
    atomic_store(&ends, true);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], &taken[i]);
    printf("beside opening and closing %zu were taken eagerly, %zu lazily\n", (size_t)taken[0],
           (size_t)taken[1]);
    CHECK((size_t)taken[0] + (size_t)taken[1] > 0);
    for (uint32_t i = 0; i < opp_purge_set_size(set); i++) {
        opp_purge_view view;
        CHECK(!opp_purge_look(opp_purge_set_at(set, i), &view));
        CHECK(!view.is_purging);
    }
    atomic_store(&ends, false);
}

/* --- A reclaimer that is stopped at any instruction --- */

static sem_t stopped, go_on;
static _Atomic(uint64_t) takings;

static void stop(int number) {
    (void)number;
    int error = errno;
    sem_post(&stopped);
    while (sem_wait(&go_on) != 0) {}
    errno = error;
}

static void *take_on(void *region) {
    for (unsigned i = 0; !atomic_load(&ends); i++) {
        atomic_fetch_add(&takings, 1);
        CHECK(take(region, i % 2 ? OPP_PURGE_LAZY : OPP_PURGE_EAGER) >= 0);
    }
    return NULL;
}

static void test_stopped(void) {
#ifdef THREAD_SANITIZER
    /* It delivers signals in library calls alone, of which a reclaimer makes none. */
    printf("under the thread sanitizer no reclaimer was stopped\n");
    return;
#endif
    opp_purge *region = make(32 * page);
    opp_purge_set_volatile(region, true);
    sem_init(&stopped, 0, 0);
    sem_init(&go_on, 0, 0);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = stop}, NULL);
    pthread_t reclaimer;
    CHECK_EQUAL(pthread_create(&reclaimer, NULL, take_on, region), 0);
    int amid = 0, tries = 0, least = 300 * (int)stress();
    for (; tries < 20000 && (amid < 20 || tries < least); tries++) {
        CHECK_EQUAL(pthread_kill(reclaimer, SIGUSR1), 0);
        while (sem_wait(&stopped) != 0) {}
        if (look(region).is_purging) amid++;
        /* It goes on where it is; we are given memory at once, and keep it. */
        void *found;
        opp_purge_access access = opp_purge_pin(region, &found);
        CHECK(access != OPP_PURGE_BUSY);
        uint8_t *contents = found;
        if (access == OPP_PURGE_EMPTY) {
            CHECK(is_all(contents, 32 * page, 0));
            memset(contents, 0xA5, 32 * page);
            opp_purge_filled(region);
        } else {
            CHECK(contents[0] == 0 || contents[0] == 0xA5);
        }
        uint8_t first = contents[0];
        uint64_t before = atomic_load(&takings);
        sem_post(&go_on);
        for (int i = 0; i < 200; i++) {
            CHECK_EQUAL(contents[(size_t)i % 32 * page], first);
        }
        opp_purge_unpin(region);
        /* It has to come to another taking, or it would be stopped again where it stands. */
        while (atomic_load(&takings) == before) sched_yield();
    }
    printf("stopped %d times, of which %d amid a taking\n", tries, amid);
    CHECK(amid > 0);
    atomic_store(&ends, true);
    pthread_join(reclaimer, NULL);
    opp_purge_close(region);
}

int main(void) {
    alarm(300 * stress());
    rounds = 10000 * (int)stress();
    page = (size_t)sysconf(_SC_PAGESIZE);
    set = opp_purge_set_create();
    CHECK(set != NULL);
    test_refusals();
    test_kept();
    test_many();
    test_set();
    test_eager();
    test_ages();
    test_locked();
    test_threads();
    test_closing();
    test_stopped();
    test_locked_in_part();
    test_lazy();
    opp_purge_set_destroy(set);
    return 0;
}
