#include "opportune_handles.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(void *) == 8, "a handle has 64 bits");

/* --- Handles ------------------------------------------------------------------------------------ */

enum { SLOTS_BITS = 10, SLOTS = 1 << SLOTS_BITS, CHUNKS = 4096, INDEX_BITS = 24 };

typedef struct slot {
    _Atomic uint64_t word; /* generation << 32 | users; users are 0 while the slot is free */
    void *object;          /* written while the slot belongs to one thread: before open publishes it */
    _Atomic uint32_t next; /* the free list: index + 1 */
    _Atomic uint8_t kind;
} __attribute__((aligned(64))) slot;

static _Atomic(slot *) chunks[CHUNKS];
static _Atomic uint32_t used;      /* slots that were ever taken */
static _Atomic uint64_t free_list; /* changes << 32 | index + 1 */

static slot *slot_at(uint32_t index) {
    if (index >> SLOTS_BITS >= CHUNKS) return NULL;
    /* acquire: pairs with the exchange in new_slot(), which publishes a cleared chunk. */
    slot *chunk = atomic_load_explicit(&chunks[index >> SLOTS_BITS], memory_order_acquire);
    return chunk ? &chunk[index & (SLOTS - 1)] : NULL;
}

/* A handle is generation << 32 | kind << 24 | index + 1. */
static slot *slot_of(uint64_t handle) {
    uint32_t number = (uint32_t)handle & ((1u << INDEX_BITS) - 1);
    return number ? slot_at(number - 1) : NULL;
}

static uint32_t take_free(void) {
    uint64_t head = atomic_load_explicit(&free_list, memory_order_acquire);
    while ((uint32_t)head) {
        slot *first = slot_at((uint32_t)head - 1);
        uint64_t rest = ((head >> 32) + 1) << 32 | atomic_load_explicit(&first->next, memory_order_relaxed);
        /* acquire: pairs with the release in give_back(), so that the last user's accesses come first. The
         * upper half, which grows with each change, tells a head that has gone and come back. */
        if (atomic_compare_exchange_weak_explicit(&free_list, &head, rest, memory_order_acquire,
                                                  memory_order_acquire))
            return (uint32_t)head;
    }
    return 0;
}

static void give_back(slot *own, uint32_t number) {
    uint64_t head = atomic_load_explicit(&free_list, memory_order_relaxed);
    uint64_t next;
    do {
        atomic_store_explicit(&own->next, (uint32_t)head, memory_order_relaxed);
        next = ((head >> 32) + 1) << 32 | number;
        /* release: pairs with take_free(). */
    } while (!atomic_compare_exchange_weak_explicit(&free_list, &head, next, memory_order_release,
                                                    memory_order_relaxed));
}

static uint32_t new_slot(void) {
    uint32_t index = atomic_load_explicit(&used, memory_order_relaxed);
    do {
        if (index >= (uint32_t)CHUNKS * SLOTS) return 0;
        /* The chunk first: an index that was taken has its slot. */
        _Atomic(slot *) *place = &chunks[index >> SLOTS_BITS];
        if (!atomic_load_explicit(place, memory_order_acquire)) {
            slot *chunk = aligned_alloc(sizeof(slot), SLOTS * sizeof(slot)), *none = NULL;
            if (!chunk) return 0;
            memset(chunk, 0, SLOTS * sizeof(slot));
            /* release: pairs with slot_at(). */
            if (!atomic_compare_exchange_strong_explicit(place, &none, chunk, memory_order_acq_rel,
                                                         memory_order_acquire))
                free(chunk);
        }
    } while (!atomic_compare_exchange_weak_explicit(&used, &index, index + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    return index + 1;
}

uint64_t oppl_handle_open(uint8_t kind, void *object) {
    uint32_t number = take_free();
    if (!number) number = new_slot();
    if (!number) return 0;
    slot *own = slot_at(number - 1);
    own->object = object;
    atomic_store_explicit(&own->kind, kind, memory_order_relaxed);
    uint64_t generation = atomic_load_explicit(&own->word, memory_order_relaxed) >> 32;
    /* release: pairs with oppl_handle_enter(), which reads the object. */
    atomic_store_explicit(&own->word, generation << 32 | 1, memory_order_release);
    return generation << 32 | (uint64_t)kind << INDEX_BITS | number;
}

static bool is_current(uint64_t word, uint64_t handle) {
    return word >> 32 == handle >> 32 && (uint32_t)word != 0;
}

void *oppl_handle_enter(uint64_t handle, uint8_t kind) {
    slot *own = slot_of(handle);
    if (!own || (uint8_t)(handle >> INDEX_BITS) != kind) return NULL;
    /* acquire: pairs with the release in oppl_handle_open(): the kind read below is of that object. */
    uint64_t word = atomic_load_explicit(&own->word, memory_order_acquire);
    while (is_current(word, handle)) {
        /* Of another kind: the handle is invented. The kind cannot change while the generation stays. */
        if (atomic_load_explicit(&own->kind, memory_order_relaxed) != kind) return NULL;
        /* acquire: pairs with the release in oppl_handle_open(). */
        if (atomic_compare_exchange_weak_explicit(&own->word, &word, word + 1, memory_order_acquire,
                                                  memory_order_acquire))
            return own->object;
    }
    return NULL;
}

void *oppl_handle_leave(uint64_t handle) {
    slot *own = slot_of(handle);
    /* acq_rel: releases this user's accesses, and acquires those of all others for whom gets the object. */
    uint64_t before = atomic_fetch_sub_explicit(&own->word, 1, memory_order_acq_rel);
    if ((uint32_t)before != 1) return NULL;
    void *object = own->object;
    give_back(own, (uint32_t)handle & ((1u << INDEX_BITS) - 1));
    return object;
}

bool oppl_handle_close(uint64_t handle, uint8_t kind) {
    slot *own = slot_of(handle);
    if (!own || (uint8_t)(handle >> INDEX_BITS) != kind) return false;
    uint64_t word = atomic_load_explicit(&own->word, memory_order_relaxed);
    while (is_current(word, handle)) {
        if (atomic_load_explicit(&own->kind, memory_order_relaxed) != kind) return false;
        /* relaxed: only the generation changes; oppl_handle_leave() orders what was done with the object. */
        if (atomic_compare_exchange_weak_explicit(&own->word, &word, word + (1ull << 32),
                                                  memory_order_relaxed, memory_order_relaxed))
            return true;
    }
    return false;
}

/* --- Counts ------------------------------------------------------------------------------------- */

struct oppl_count {
    _Atomic uint32_t value; /* the futex */
    _Atomic uint32_t waiters;
} __attribute__((aligned(64)));

oppl_count *oppl_count_create(void) {
    oppl_count *count = aligned_alloc(sizeof(oppl_count), sizeof(oppl_count));
    if (count) memset(count, 0, sizeof *count);
    return count;
}

void oppl_count_free(oppl_count *count) { free(count); }

/* relaxed: who submits and then waits is one thread, or has been told by one. */
void oppl_count_add(oppl_count *count) { atomic_fetch_add_explicit(&count->value, 1, memory_order_relaxed); }

uint32_t oppl_count_read(oppl_count *count) {
    return atomic_load_explicit(&count->value, memory_order_relaxed);
}

void oppl_count_subtract(oppl_count *count) {
    /* [count-waiters] seq_cst, before the load of the waiters; a waiter counts itself before it reads the
     * value. So either this thread sees the waiter, or the waiter sees 0. release is part of it: what the job
     * did comes before the return of who waits. */
    if (atomic_fetch_sub_explicit(&count->value, 1, memory_order_seq_cst) != 1) return;
    if (atomic_load_explicit(&count->waiters, memory_order_seq_cst) == 0) return;
    syscall(SYS_futex, &count->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ll + time.tv_nsec;
}

int oppl_count_wait(oppl_count *count, int64_t timeout) {
    /* acquire: pairs with the release in oppl_count_subtract(). */
    if (atomic_load_explicit(&count->value, memory_order_acquire) == 0) return 0;
    if (timeout == 0) return -ETIMEDOUT;
    int64_t begun = now();
    bool ends = timeout > 0 && timeout < INT64_MAX - begun;
    int64_t deadline = ends ? begun + timeout : 0;
    struct timespec until = {.tv_sec = deadline / 1000000000, .tv_nsec = deadline % 1000000000};
    int result = 0;
    /* seq_cst: see [count-waiters]. */
    atomic_fetch_add_explicit(&count->waiters, 1, memory_order_seq_cst);
    for (;;) {
        uint32_t seen = atomic_load_explicit(&count->value, memory_order_seq_cst);
        if (seen == 0) break;
        if (ends && now() >= deadline) {
            result = -ETIMEDOUT;
            break;
        }
        /* Whatever it returns, the value is read again. The deadline is one of CLOCK_MONOTONIC. */
        syscall(SYS_futex, &count->value, FUTEX_WAIT_BITSET_PRIVATE, seen, ends ? &until : NULL, NULL,
                FUTEX_BITSET_MATCH_ANY);
    }
    atomic_fetch_sub_explicit(&count->waiters, 1, memory_order_relaxed);
    return result;
}

/* --- What a thread remembers -------------------------------------------------------------------- */

static _Thread_local const oppl_count *runs;
static _Thread_local char said[256];

void oppl_run(void (*run)(void *context), void *context, const oppl_count *scheduler) {
    const oppl_count *before = runs;
    runs = scheduler;
    run(context);
    runs = before;
}

void oppl_complete(void (*completion)(void *context, int64_t result), void *context, int64_t result,
                   const oppl_count *scheduler) {
    const oppl_count *before = runs;
    runs = scheduler;
    completion(context, result);
    runs = before;
}

bool oppl_runs_job_of(const oppl_count *scheduler) { return runs == scheduler; }

void oppl_say(const char *text) {
    size_t length = strlen(text);
    if (length >= sizeof said) {
        length = sizeof said - 1;
        /* Not in the middle of a character of UTF-8. */
        while (length > 0 && ((unsigned char)text[length] & 0xC0) == 0x80) length--;
    }
    memcpy(said, text, length);
    said[length] = 0;
}

const char *oppl_said(void) { return said; }
