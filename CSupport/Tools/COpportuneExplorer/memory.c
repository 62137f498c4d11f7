/*
 * Memory as C11 describes it, as an abstract machine.
 *
 * An object has a modification order, a list of stores. A thread knows a part of the past, as a vector of
 * clocks; each store has the times at which each thread first saw it, so a store is known to whoever knows
 * one of these times. A load reads any store that is not followed by a known one (coherence); an acquiring
 * load learns what the store releases. A store is put anywhere behind the last known one, except between a
 * read-modify-write and what that read. seq_cst operations of one object moreover keep to the order of
 * execution.
 *
 * This is the model RC11 with C++20's release sequences, except that
 *  - a store is seen by loads that are executed later only. So load buffering, which the language allows for
 *    relaxed accesses (and RC11 forbids), appears only where later.c looks for it: in random executions, one
 *    load at a time;
 *  - the one order of all seq_cst operations is the order of execution, which also agrees with reads-from: a
 *    few outcomes in which a relaxed access overtakes a seq_cst store of the same thread do not appear;
 *  - a seq_cst fence also lets the later fence learn what the earlier one knew.
 * Each leaves outcomes out and invents none. An object remembers HISTORY stores.
 *
 * Plain accesses, reported by the compiler's instrumentation, are not scheduled. Two of them, or one and an
 * atomic access, of which one writes and neither happens before the other, are a race, wherever they stand in
 * the schedule. Freeing counts as writing.
 */
#include "state.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ANY_THREAD OPPX_THREADS

_Thread_local oppx *oppx_self;

uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t z = a * 0x9E3779B97F4A7C15u ^ (b + 0xD1B54A32D192ED03u + (a << 6) + (a >> 2));
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

void vector_join(vector *into, const vector *other) {
    for (int i = 0; i < OPPX_THREADS; i++)
        if (other->at[i] > into->at[i]) into->at[i] = other->at[i];
}

static bool vector_knows_any(const vector *known, const vector *times) {
    for (int i = 0; i < OPPX_THREADS; i++)
        if (times->at[i] <= known->at[i]) return true;
    return false;
}

/* --- The arena ------------------------------------------------------------------------------- */

int memory_create(oppx *x) {
    /* The same low bits of addresses in every explorer and process: hashes of addresses then fall alike. */
    size_t align = 64u << 20;
    char *space = mmap(NULL, align + ARENA_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                       -1, 0);
    if (space == MAP_FAILED) return -1;
    char *arena = (char *)(((uintptr_t)space + align - 1) / align * align);
    if (arena != space) munmap(space, (size_t)(arena - space));
    munmap(arena + ARENA_BYTES, (size_t)(space + align - arena));
    x->arena = arena;
    x->granules = mmap(NULL, ARENA_BYTES / GRANULE * sizeof(granule), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    x->location_of = mmap(NULL, ARENA_BYTES * sizeof(uint32_t), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    x->locations = calloc(LOCATIONS, sizeof(location));
    x->stores = malloc(STORES * sizeof(store));
    if (x->granules == MAP_FAILED) x->granules = NULL;
    if (x->location_of == MAP_FAILED) x->location_of = NULL;
    return x->granules && x->location_of && x->locations && x->stores ? 0 : -1;
}

void memory_destroy(oppx *x) {
    if (x->arena != NULL) munmap(x->arena, ARENA_BYTES);
    if (x->granules != NULL) munmap(x->granules, ARENA_BYTES / GRANULE * sizeof(granule));
    if (x->location_of != NULL) munmap(x->location_of, ARENA_BYTES * sizeof(uint32_t));
    free(x->locations);
    free(x->stores);
}

void memory_begin(oppx *x) {
    for (uint32_t i = 0; i < OPPX_THREADS; i++) {
        memset(x->arena + i * REGION_BYTES, 0, x->arena_used[i]);
        x->arena_used[i] = x->block_count[i] = 0;
    }
    x->location_count = 0;
    x->store_count = 0;
    x->hash = 0;
    x->use_count = 0;
    x->first.kind = x->second.kind = 0;
    memset(&x->strong, 0, sizeof(x->strong));
    x->strong_hash = 0;
    memset(x->timer_open, 0, sizeof(x->timer_open));
    memset(x->timer_armed, 0, sizeof(x->timer_armed));
    memset(x->timer_past, 0, sizeof(x->timer_past));
    memset(x->notified, 0, sizeof(x->notified));
    memset(x->pollers, 0, sizeof(x->pollers));
    x->poller_count = 0;
}

static bool in_arena(const oppx *x, const volatile void *object) {
    return (uintptr_t)object - (uintptr_t)x->arena < ARENA_BYTES;
}

/* The block that holds `offset`, or NULL: in a gap, or past all. */
static block *block_at(oppx *x, uintptr_t offset) {
    uint32_t region = (uint32_t)(offset / REGION_BYTES), low = 0, high = x->block_count[region];
    block *blocks = x->blocks[region];
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (blocks[middle].end <= offset) low = middle + 1;
        else high = middle;
    }
    return low < x->block_count[region] && blocks[low].start <= offset ? &blocks[low] : NULL;
}

const block *memory_block(oppx *x, uint32_t offset) {
    const block *blocks = x->blocks[offset / REGION_BYTES];
    uint32_t count = x->block_count[offset / REGION_BYTES];
    while (count > 0 && blocks[count - 1].start > offset) count--;
    return count > 0 ? &blocks[count - 1] : NULL;
}

static granule *granule_of(oppx *x, uintptr_t offset) {
    granule *granule = &x->granules[offset / GRANULE];
    if (granule->execution != (uint32_t)x->execution) {
        memset(granule, 0, sizeof(*granule));
        granule->execution = (uint32_t)x->execution;
        const block *block = block_at(x, offset);
        if (block != NULL) {
            granule->live = block->live;
            granule->writer = block->writer;
            granule->written = block->written;
        }
    }
    return granule;
}

static thread *current(oppx *x) {
    return &x->threads[x->running];
}

static uint32_t clock_of(oppx *x) {
    return current(x)->known.at[x->running];
}

void *oppx_allocate(size_t size, size_t alignment) {
    oppx *x = oppx_self;
    if (alignment < 16) alignment = 16;
    uint32_t region = x->running;
    size_t start = (x->arena_used[region] + alignment - 1) / alignment * alignment;
    size_t bytes = size == 0 ? GRANULE : (size + GRANULE - 1) / GRANULE * GRANULE;
    if (start + bytes + GRANULE > REGION_BYTES) oppx_fail("a thread needs more than %u bytes", REGION_BYTES);
    if (x->block_count[region] == BLOCKS) oppx_fail("a thread allocates more than %u times", BLOCKS);
    x->arena_used[region] = start + bytes + GRANULE; /* a gap, which shows accesses past the end */
    start += region * REGION_BYTES;
    x->blocks[region][x->block_count[region]++] =
        (block){(uint32_t)start, (uint32_t)(start + bytes), clock_of(x), (uint8_t)region, true,
                __builtin_return_address(0)};
    return x->arena + start;
}

static void location_forget(oppx *x, location *location) {
    x->hash -= location->hash;
    location->execution = 0;
}

static location *location_find(oppx *x, const volatile void *object) {
    uint32_t index = x->location_of[(uintptr_t)object - (uintptr_t)x->arena];
    location *location = &x->locations[index];
    if (index >= x->location_count || location->execution != x->execution || location->object != object)
        return NULL;
    return location;
}

/* --- What a race is between, for the timeline ------------------------------------------------ */

static void note_use(oppx *x, const volatile void *object, uint32_t size, use_kind kind,
                     const oppx_site *site, const void *code) {
    if (x->uses == NULL || !NOTED(x)) return;
    x->uses[x->use_count++ % USES] =
        (use){site, code, (uint32_t)((uintptr_t)object - (uintptr_t)x->arena), size, x->running, kind};
}

/* The use that was noted last is in a race at `at` with an earlier one of `thread`, or of any. */
static void note_race(oppx *x, uintptr_t at, uint32_t thread, int kinds) {
    if (x->use_count == 0) return;
    x->second = x->uses[(x->use_count - 1) % USES];
    at -= at % GRANULE;
    for (uint64_t age = 2; age <= x->use_count && age <= USES; age++) {
        const use *use = &x->uses[(x->use_count - age) % USES];
        if (!(use->kind & kinds) || (thread != ANY_THREAD && use->thread != thread)) continue;
        if (use->offset >= at + GRANULE || use->offset + use->size <= at) continue;
        x->first = *use;
        return;
    }
}

/* --- Plain accesses -------------------------------------------------------------------------- */

static void plain_check(oppx *x, uintptr_t at, bool writes) {
    const vector *known = &current(x)->known;
    const granule *granule = granule_of(x, at);
    const char *does = writes ? "writes" : "reads";
    if (!granule->live) {
        note_race(x, at, ANY_THREAD, USE_FREE);
        oppx_fail("a data race: thread %u %s memory that is not allocated, or freed (at +%zu)", x->running,
                  does, (size_t)at);
    }
    if (granule->written > known->at[granule->writer]) {
        note_race(x, at, granule->writer, USE_WRITE | USE_FREE);
        oppx_fail("a data race: thread %u %s what thread %u writes at the same time (at +%zu)", x->running,
                  does, granule->writer, (size_t)at);
    }
    for (uint32_t i = 0; writes && i < OPPX_THREADS; i++)
        if (granule->read.at[i] > known->at[i]) {
            note_race(x, at, i, USE_READ);
            oppx_fail("a data race: thread %u writes what thread %u reads at the same time (at +%zu)",
                      x->running, i, (size_t)at);
        }
}

/* A plain access of the granule at `at`, against the atomic ones of the objects that reach into it. */
static void plain_meets_atomic(oppx *x, uintptr_t at, bool writes) {
    const vector *known = &current(x)->known;
    for (uintptr_t start = at < GRANULE ? 0 : at - GRANULE; start < at + GRANULE; start++) {
        location *location = location_find(x, x->arena + start);
        if (location == NULL || start + location->size <= at) continue;
        const vector *times = writes ? &location->accessed : &location->stored;
        for (uint32_t t = 0; t < OPPX_THREADS; t++)
            if (times->at[t] > known->at[t]) {
                note_race(x, at, t, writes ? USE_ANY : USE_WRITE);
                oppx_fail("a data race: thread %u %s what thread %u %s atomically at the same time",
                          x->running, writes ? "writes" : "reads", t, writes ? "accesses" : "writes");
            }
        if (writes) location_forget(x, location);
    }
}

/* What lies neither in the arena nor on the thread's own stack and is written is the judge's, or a target's
 * for it. */
static void judge_access(oppx *x, const volatile void *object, bool writes) {
    const oppx_fiber *fiber = &current(x)->fiber;
    if ((uintptr_t)object - (uintptr_t)fiber->stack < fiber->stack_bytes) return;
    bool is_state = writes;
    for (int i = 0; i < OPPX_STATES; i++)
        is_state |= (uintptr_t)object - (uintptr_t)x->state[i] < x->state_size[i];
    if (!is_state) return;
    reduce_touch_judge(x);
    current(x)->visible = current(x)->hash;
}

/* In the arena. */
static void plain_touch(oppx *x, uintptr_t start, uint32_t size, bool writes) {
    uint32_t now = clock_of(x);
    for (uintptr_t at = start & ~(uintptr_t)(GRANULE - 1); at < start + size; at += GRANULE) {
        granule *granule = granule_of(x, at);
        plain_check(x, at, writes);
        if (writes) {
            granule->writer = (uint8_t)x->running;
            granule->written = now;
        } else {
            granule->read.at[x->running] = now;
        }
        if (granule->atomic) plain_meets_atomic(x, at, writes);
    }
}

static void plain_access(const volatile void *object, uint32_t size, bool writes, const void *code) {
    oppx *x = oppx_self;
    if (x == NULL || x->abandoned) return;
    if (!in_arena(x, object)) {
        if (x->driver == DRIVE_SEARCH && x->concurrent) judge_access(x, object, writes);
        return;
    }
    note_use(x, object, size, writes ? USE_WRITE : USE_READ, NULL, code);
    plain_touch(x, (uintptr_t)object - (uintptr_t)x->arena, size, writes);
}

void oppx_free(void *memory) {
    oppx *x = oppx_self;
    if (memory == NULL) return;
    if (!in_arena(x, memory)) oppx_fail("memory is freed that was not allocated");
    uintptr_t start = (uintptr_t)memory - (uintptr_t)x->arena;
    block *block = block_at(x, start);
    if (block == NULL || block->start != start) oppx_fail("memory is freed that was not allocated");
    note_use(x, memory, block->end - block->start, USE_FREE, NULL, __builtin_return_address(0));
    if (!block->live) {
        note_race(x, start, ANY_THREAD, USE_FREE);
        oppx_fail("memory is freed twice");
    }
    /* What nobody has touched needs no look; its granules will learn of it from the block. */
    for (uintptr_t at = start; at < block->end; at += GRANULE) {
        if (x->granules[at / GRANULE].execution != (uint32_t)x->execution) continue;
        plain_touch(x, at, GRANULE, true);
        granule_of(x, at)->live = false;
    }
    block->live = false;
}

#define PLAIN(size)                                                                                      \
    void __sanitizer_cov_load##size(const void *object);                                                 \
    void __sanitizer_cov_store##size(void *object);                                                      \
    void __sanitizer_cov_load##size(const void *object) {                                                \
        plain_access(object, size, false, __builtin_return_address(0));                                  \
    }                                                                                                    \
    void __sanitizer_cov_store##size(void *object) {                                                     \
        plain_access(object, size, true, __builtin_return_address(0));                                   \
    }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

/* --- Histories ------------------------------------------------------------------------------- */

static uint64_t raw_read(const volatile void *object, uint32_t size) {
    switch (size) {
    case 1: return *(const volatile uint8_t *)object;
    case 2: return *(const volatile uint16_t *)object;
    case 4: return *(const volatile uint32_t *)object;
    default: return *(const volatile uint64_t *)object;
    }
}

static void raw_write(volatile void *object, uint32_t size, uint64_t value) {
    switch (size) {
    case 1: *(volatile uint8_t *)object = (uint8_t)value; break;
    case 2: *(volatile uint16_t *)object = (uint16_t)value; break;
    case 4: *(volatile uint32_t *)object = (uint32_t)value; break;
    default: *(volatile uint64_t *)object = value; break;
    }
}

static uint64_t truncate_to(uint64_t value, uint32_t size) {
    return size >= 8 ? value : value & ((1ull << size * 8) - 1);
}

static store *location_store(oppx *x, const location *location, uint32_t place) {
    return &x->stores[location->order[place]];
}

static void location_rehash(oppx *x, location *location) {
    uint64_t hash = mix((uintptr_t)location->object - (uintptr_t)x->arena, location->dropped);
    for (uint32_t i = 0; i < location->count; i++) hash = mix(hash, location_store(x, location, i)->hash);
    hash = mix(hash, (uint64_t)(location->strongest + 1));
    if (location->count == 1 && location->dropped == 0) hash = 0; /* as long as it is only read */
    x->hash += hash - location->hash;
    location->hash = hash;
}

static uint32_t store_new(oppx *x) {
    if (x->store_count == STORES) oppx_fail("the execution has more than %u stores", STORES);
    return x->store_count++;
}

/* The object's record; its history begins with what the memory holds. */
static location *location_get(oppx *x, const volatile void *object, uint32_t size) {
    if (!in_arena(x, object))
        oppx_fail("an atomic access to %p, which is not allocated", (void *)(uintptr_t)object);
    location *location = location_find(x, object);
    uintptr_t offset = (uintptr_t)object - (uintptr_t)x->arena;
    const vector *known = &current(x)->known;
    for (uintptr_t at = offset / GRANULE * GRANULE; at < offset + size; at += GRANULE) {
        granule *granule = granule_of(x, at);
        if (!granule->live) {
            note_race(x, at, ANY_THREAD, USE_FREE);
            oppx_fail("an atomic access to memory that is freed or not allocated (at +%zu)", offset);
        }
        if (granule->written > known->at[granule->writer]) {
            note_race(x, at, granule->writer, USE_WRITE | USE_FREE);
            oppx_fail("thread %u accesses an object whose initialisation by thread %u it may not see (at "
                      "+%zu)",
                      x->running, granule->writer, offset);
        }
        granule->atomic = true;
    }
    if (location != NULL) return location;
    if (x->location_count == LOCATIONS) oppx_fail("the execution has more than %u objects", LOCATIONS);
    uint32_t index = x->location_count++;
    x->location_of[offset] = index;
    location = &x->locations[index];
    memset(location, 0, sizeof(*location));
    location->execution = x->execution;
    location->object = object;
    location->size = size;
    location->strongest = -1;
    location->count = 1;
    location->order[0] = store_new(x);
    store *first = location_store(x, location, 0);
    memset(first, 0, sizeof(*first));
    first->value = raw_read(object, size);
    memset(&first->seen, 0xFF, sizeof(first->seen));
    const granule *granule = granule_of(x, offset);
    first->seen.at[granule->writer] = granule->written;
    first->hash = mix(offset, (uint64_t)granule->written * OPPX_THREADS + granule->writer);
    location_rehash(x, location);
    return location;
}

/* The first place that may be read, or written behind: what is before it has been overwritten, as the thread
 * knows. */
static uint32_t location_floor(oppx *x, const location *location, bool strong) {
    const vector *known = &current(x)->known;
    uint32_t place = location->count - 1;
    for (; place > 0; place--) {
        const vector *seen = &location_store(x, location, place)->seen;
        /* C11 7.17.3p10, p11: what came before a seq_cst fence is not older for a later seq_cst operation. */
        if (vector_knows_any(known, seen) || (strong && vector_knows_any(&x->strong, seen))) break;
    }
    if (strong && location->strongest > (int32_t)place) place = (uint32_t)location->strongest;
    return place;
}

static bool is_acquire(uint8_t order) {
    return order == memory_order_acquire || order == memory_order_acq_rel || order == memory_order_seq_cst;
}

static bool is_release(uint8_t order) {
    return order == memory_order_release || order == memory_order_acq_rel || order == memory_order_seq_cst;
}

static void see(oppx *x, store *store, uint8_t order) {
    thread *thread = current(x);
    uint32_t now = clock_of(x);
    if (store->seen.at[x->running] > now) store->seen.at[x->running] = now;
    vector_join(&thread->learned, &store->release);
    if (is_acquire(order)) vector_join(&thread->known, &store->release);
}

/* A new store behind `place`. `read` is what a read-modify-write read, else NULL. */
static void put(oppx *x, location *location, uint32_t place, uint64_t value, uint8_t order,
                const store *read) {
    thread *thread = current(x);
    uintptr_t offset = (uintptr_t)location->object - (uintptr_t)x->arena;
    for (uintptr_t at = offset / GRANULE * GRANULE; at < offset + location->size; at += GRANULE)
        for (uint32_t t = 0; t < OPPX_THREADS; t++)
            if (granule_of(x, at)->read.at[t] > thread->known.at[t]) {
                note_race(x, at, t, USE_READ);
                oppx_fail("a data race: thread %u writes atomically what thread %u reads at the same time "
                          "(at +%zu)",
                          x->running, t, (size_t)at);
            }
    thread->visible = thread->hash;
    location->stored.at[x->running] = clock_of(x);
    if (location->count == HISTORY) {
        /* The oldest is forgotten. */
        location->dropped = mix(location->dropped, location_store(x, location, 0)->hash);
        memmove(location->order, location->order + 1, (HISTORY - 1) * sizeof(location->order[0]));
        location->count--;
        if (location->strongest >= 0) location->strongest--;
        if (place > 0) place--;
    }
    uint32_t index = store_new(x);
    store *fresh = &x->stores[index];
    memset(fresh, 0, sizeof(*fresh));
    fresh->value = value;
    fresh->attached = read != NULL;
    fresh->hash = mix(thread->hash, 5); /* not of the value: see choose.c */
    memset(&fresh->seen, 0xFF, sizeof(fresh->seen));
    fresh->seen.at[x->running] = clock_of(x);
    fresh->release = is_release(order) ? thread->known : thread->released;
    if (read != NULL) vector_join(&fresh->release, &read->release);
    uint32_t at = place + 1;
    memmove(location->order + at + 1, location->order + at,
            (location->count - at) * sizeof(location->order[0]));
    location->order[at] = index;
    location->count++;
    if (order == memory_order_seq_cst) location->strongest = (int32_t)at;
    else if (location->strongest >= (int32_t)at) location->strongest++;
    location_rehash(x, location);
    raw_write((volatile void *)(uintptr_t)location->object, location->size,
              location_store(x, location, location->count - 1)->value);
}

static uint32_t offset_of(const oppx *x, const volatile void *object) {
    return (uint32_t)((uintptr_t)object - (uintptr_t)x->arena);
}

static void tick(oppx *x, location *location) {
    location->accessed.at[x->running] = clock_of(x);
}

/* A step is over: what follows it, plain accesses too, is not released by it. */
static void tock(oppx *x) {
    current(x)->known.at[x->running]++;
}

static bool is_free_behind(oppx *x, const location *location, uint32_t place) {
    if (place == 0 && location->count == HISTORY) return false; /* the oldest is about to be forgotten */
    return place + 1 == location->count || !location_store(x, location, place + 1)->attached;
}

uint64_t memory_newest(oppx *x, const volatile void *object, uint32_t size, const void *code) {
    note_use(x, object, size, USE_READ, NULL, code);
    location *location = location_get(x, object, size);
    return location_store(x, location, location->count - 1)->value;
}

/* --- Operations ------------------------------------------------------------------------------ */

static uint8_t order_of(oppx_site *site) {
    site->hits++;
    return site->weakened != 0 ? (uint8_t)(site->weakened - 1) : site->order;
}

static void note(oppx *x, const oppx_site *site, uint8_t order, const char *verb, uint64_t value,
                 uint32_t age) {
    char old[24] = "";
    if (age != 0) snprintf(old, sizeof(old), ", %u behind", age);
    note_step(x, "%s %s = 0x%" PRIx64 "%s  %s %s:%u", verb, site_object(site), value, old,
              oppx_order_name(order), site_file(site), site->line);
}

uint64_t oppx_load(oppx_site *site, const volatile void *object, uint32_t size) {
    oppx *x = oppx_self;
    if (x == NULL) return raw_read(object, size);
    run_point(x);
    uint8_t order = order_of(site);
    note_use(x, object, size, USE_READ, site, NULL);
    location *location = location_get(x, object, size);
    tick(x, location);
    reduce_touch(x, offset_of(x, object), false);
    uint32_t floor = location_floor(x, location, order == memory_order_seq_cst);
    x->object = offset_of(x, object);
    uint32_t age = choose(x, CHOOSE_READ, location->count - floor);
    store *store = location_store(x, location, location->count - 1 - age);
    uint64_t value = store->value;
    if (x->later.use != LATER_NONE && later_foretells(x, x->object, order, &value)) {
        run_step(x, mix(value, x->object));
        tock(x);
        if (NOTED(x)) note(x, site, order, "load, ahead of its store,", value, 0);
        return value;
    }
    see(x, store, order);
    run_step(x, mix(store->hash, (uintptr_t)object - (uintptr_t)x->arena));
    tock(x);
    if (NOTED(x)) note(x, site, order, "load", store->value, age);
    return store->value;
}

void oppx_store(oppx_site *site, volatile void *object, uint32_t size, uint64_t value) {
    oppx *x = oppx_self;
    if (x == NULL) {
        raw_write(object, size, value);
        return;
    }
    run_point(x);
    uint8_t order = order_of(site);
    note_use(x, object, size, USE_WRITE, site, NULL);
    location *location = location_get(x, object, size);
    tick(x, location);
    reduce_touch(x, offset_of(x, object), true);
    uint32_t floor = location_floor(x, location, order == memory_order_seq_cst);
    uint32_t places[HISTORY], count = 0;
    for (uint32_t place = location->count; place-- > floor;)
        if (is_free_behind(x, location, place)) places[count++] = place;
    uint32_t age = choose(x, CHOOSE_PLACE, count);
    value = truncate_to(value, size);
    bool comes = x->later.use != LATER_NONE &&
                 later_comes(x, offset_of(x, object), order, value, places[age] + 1 == location->count);
    run_step(x, mix((uintptr_t)object - (uintptr_t)x->arena, 11));
    put(x, location, places[age], value, order, NULL);
    if (comes) later_came(x, location_store(x, location, location->count - 1));
    tock(x);
    if (NOTED(x)) note(x, site, order, "store", value, age);
}

/* The places whose store a read-modify-write may read, newest first. */
static uint32_t rmw_places(oppx *x, const location *location, uint32_t floor, uint32_t *places) {
    uint32_t count = 0;
    for (uint32_t place = location->count; place-- > floor;)
        if (is_free_behind(x, location, place)) places[count++] = place;
    return count;
}

uint64_t oppx_rmw(oppx_site *site, volatile void *object, uint32_t size, int what, uint64_t value) {
    static const char *const verbs[] = {"swap", "add", "sub", "or", "and"};
    oppx *x = oppx_self;
    if (x != NULL) run_point(x);
    uint8_t order = order_of(site);
    uint64_t old, fresh;
    location *location = NULL;
    store *store = NULL;
    uint32_t places[HISTORY], age = 0;
    if (x != NULL) {
        note_use(x, object, size, USE_WRITE, site, NULL);
        location = location_get(x, object, size);
        tick(x, location);
        reduce_touch(x, offset_of(x, object), true);
        later_touch(x, offset_of(x, object));
        uint32_t floor = location_floor(x, location, order == memory_order_seq_cst);
        age = choose(x, CHOOSE_PLACE, rmw_places(x, location, floor, places));
        store = location_store(x, location, places[age]);
        old = store->value;
    } else {
        old = raw_read(object, size);
    }
    switch (what) {
    case OPPX_SWAP: fresh = value; break;
    case OPPX_ADD: fresh = old + value; break;
    case OPPX_SUB: fresh = old - value; break;
    case OPPX_OR: fresh = old | value; break;
    default: fresh = old & value; break;
    }
    fresh = truncate_to(fresh, size);
    if (x == NULL) {
        raw_write(object, size, fresh);
        return old;
    }
    see(x, store, order);
    run_step(x, mix(store->hash, (uintptr_t)object - (uintptr_t)x->arena));
    put(x, location, places[age], fresh, order, store);
    tock(x);
    if (NOTED(x)) note(x, site, order, verbs[what], fresh, age);
    return old;
}

bool oppx_cas(oppx_site *site, volatile void *object, uint32_t size, uint64_t *expected, uint64_t desired) {
    oppx *x = oppx_self;
    if (x == NULL) {
        uint64_t old = raw_read(object, size), wanted = *expected;
        if (old == wanted) raw_write(object, size, desired);
        *expected = old;
        return old == wanted;
    }
    run_point(x);
    uint8_t order = order_of(site);
    note_use(x, object, size, USE_READ, site, NULL);
    location *location = location_get(x, object, size);
    tick(x, location);
    later_touch(x, offset_of(x, object));
    /* It succeeds on any store of the expected value that nothing is attached to yet, and fails, as a relaxed
     * load, on any of another value. */
    uint32_t strict = location_floor(x, location, order == memory_order_seq_cst);
    uint32_t floor = location_floor(x, location, false);
    uint32_t places[HISTORY], count = 0;
    for (uint32_t place = location->count; place-- > floor;) {
        bool equal = location_store(x, location, place)->value == *expected;
        if (equal ? place >= strict && is_free_behind(x, location, place) : true) places[count++] = place;
    }
    uint32_t age = choose(x, CHOOSE_PLACE, count);
    store *store = location_store(x, location, places[age]);
    bool succeeds = store->value == *expected;
    reduce_touch(x, offset_of(x, object), succeeds);
    if (succeeds) note_use(x, object, size, USE_WRITE, site, NULL);
    see(x, store, succeeds ? order : memory_order_relaxed);
    run_step(x, mix(store->hash, mix((uintptr_t)object - (uintptr_t)x->arena, succeeds)));
    if (succeeds) put(x, location, places[age], truncate_to(desired, size), order, store);
    else *expected = store->value;
    tock(x);
    if (NOTED(x)) note(x, site, order, succeeds ? "cas" : "cas fails", succeeds ? desired : *expected, age);
    return succeeds;
}

/* C11 7.17.3p9: behind a seq_cst fence nothing older is read than an earlier seq_cst store. Returns their
 *     hash. */
static uint64_t see_strongest(oppx *x) {
    uint64_t hash = 0;
    for (uint32_t i = 0; i < x->location_count; i++) {
        location *location = &x->locations[i];
        if (location->execution != x->execution || location->strongest < 0) continue;
        store *store = location_store(x, location, (uint32_t)location->strongest);
        if (store->seen.at[x->running] > clock_of(x)) store->seen.at[x->running] = clock_of(x);
        hash += mix(store->hash, offset_of(x, location->object));
    }
    return hash;
}

void oppx_fence(oppx_site *site) {
    oppx *x = oppx_self;
    if (x == NULL) return;
    run_point(x);
    uint8_t order = order_of(site);
    thread *thread = current(x);
    if (is_acquire(order)) {
        later_fence(x);
        vector_join(&thread->known, &thread->learned);
    }
    uint64_t seen = order;
    if (order == memory_order_seq_cst) {
        reduce_touch_all(x);
        seen = see_strongest(x);
        vector_join(&thread->known, &x->strong);
        x->strong = thread->known;
        for (int i = 0; i < OPPX_THREADS; i++) seen = mix(seen, x->strong.at[i]);
        x->hash += seen - x->strong_hash;
        x->strong_hash = seen;
    }
    if (is_release(order)) thread->released = thread->known;
    tock(x);
    run_step(x, seen);
    if (NOTED(x)) note_step(x, "fence  %s %s:%u", oppx_order_name(order), site_file(site), site->line);
}

/* --- Moments --------------------------------------------------------------------------------- */

oppx_moment oppx_here(void) {
    oppx *x = oppx_self;
    oppx_moment moment = {.thread = x->running};
    memcpy(moment.clock, current(x)->known.at, sizeof(moment.clock));
    return moment;
}

bool oppx_precedes(const oppx_moment *earlier, const oppx_moment *later) {
    /* Its own clock stands one past its last step, which is what another thread may have learned of. */
    if (earlier->thread == later->thread)
        return earlier->clock[earlier->thread] <= later->clock[earlier->thread];
    return earlier->clock[earlier->thread] - 1 <= later->clock[earlier->thread];
}
