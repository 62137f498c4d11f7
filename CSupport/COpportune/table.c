/*
 * A lossy 4-way set-associative hash table. All accesses are relaxed: an entry is a plain number, and no
 * other memory is published through it.
 *
 * Invariant: a lookup returns a value that was stored under that key, or nothing (up to a collision of the
 * 64-bit check word). An entry holds the value and a check word computed from key and value. Two writers can
 * interleave their stores and leave the value of one with the check word of the other. Such an entry matches
 * no key, and both entries are lost. Storing the plain key is not enough: a writer can be preempted for
 * seconds between its two stores, and a new task was then charged with the CPU time of another task.
 */
#include "opp_assert.h"
#include "opp_table.h"
#include "opp_sync.h"

#include <stdlib.h>
#include <string.h>

#define WAYS 4u

typedef struct entry {
    _Atomic(uint64_t) value;
    _Atomic(uint64_t) seal;
} entry;

/* A cache line: one set. */
typedef struct set {
    _Alignas(64) entry way[WAYS];
} set;

struct opp_table {
    uint32_t mask;
    uint32_t shift; /* leaves the upper bits of a product, as many as number the sets */
    _Atomic(uint64_t) evictions;
    _Atomic(uint8_t) *next; /* for each set: the way to evict next, round-robin (modulo WAYS) */
    set *sets;
};

opp_table *opp_table_create(uint32_t entries) {
    uint32_t count = 1;
    uint32_t shift = 64;
    for (; count * WAYS < entries && count < 1u << 28; shift--) count *= 2;
    opp_table *table = calloc(1, sizeof(opp_table));
    if (table == NULL) return NULL;
    table->shift = shift < 64 ? shift : 63; /* of one set: any bit, which the mask drops */
    OPP_ASSERT((count & (count - 1)) == 0);
    table->mask = count - 1;
    table->sets = aligned_alloc(64, count * sizeof(set));
    table->next = calloc(count, 1);
    if (table->sets == NULL || table->next == NULL) {
        opp_table_destroy(table);
        return NULL;
    }
    memset(table->sets, 0, count * sizeof(set));
    return table;
}

void opp_table_destroy(opp_table *table) {
    free(table->sets);
    free((void *)table->next);
    free(table);
}

static set *table_set(const opp_table *table, uint64_t key) {
    /* Task ids are consecutive: as many in a row as a set has ways share its cache line, so most new tasks
     * find it in the cache. Fibonacci hashing spreads such groups over the sets. */
    return &table->sets[(uint32_t)((key / WAYS * 0x9E3779B97F4A7C15u) >> table->shift) & table->mask];
}

/* Keys differ from each other in few bits, and so do values. With a plain key ^ value, a mixed pair of words
 * could match another key. The multiplication makes that improbable. */
static uint64_t table_seal(uint64_t key, uint64_t value) {
    return key ^ value * 0xD6E8FEB86659FD93u;
}

/* The entry's key; 0 if the entry is empty. For words of different writers, a number that is
 * almost certainly no key in use. */
static uint64_t entry_key(const entry *entry, uint64_t value) {
    return table_seal(opp_load(&entry->seal, relaxed), value);
}

static void entry_fill(entry *entry, uint64_t key, uint64_t value) {
    opp_store(&entry->value, value, relaxed);
    opp_store(&entry->seal, table_seal(key, value), relaxed);
}

/* The entry that holds `key`; for key 0, an empty one. NULL if none. *value is the value read from it. */
static entry *set_find(set *set, uint64_t key, uint64_t *value) {
    for (uint32_t i = 0; i < WAYS; i++) {
        *value = opp_load(&set->way[i].value, relaxed);
        if (entry_key(&set->way[i], *value) == key) return &set->way[i];
    }
    return NULL;
}

uint64_t opp_table_get(const opp_table *table, uint64_t key) {
    uint64_t value;
    return set_find(table_set(table, key), key, &value) == NULL ? 0 : value;
}

void opp_table_put(opp_table *table, uint64_t key, uint64_t value) {
    OPP_ASSERT(key != 0);
    set *set = table_set(table, key);
    uint64_t old;
    entry *entry = set_find(set, key, &old);
    if (entry == NULL) entry = set_find(set, 0, &old);
    if (entry == NULL) {
        entry = &set->way[opp_add(&table->next[set - table->sets], 1, relaxed) % WAYS];
        opp_add(&table->evictions, 1, relaxed);
    }
    entry_fill(entry, key, value);
}

void opp_table_remove(opp_table *table, uint64_t key) {
    uint64_t value;
    entry *entry = set_find(table_set(table, key), key, &value);
    if (entry != NULL) entry_fill(entry, 0, 0);
}

uint64_t opp_table_evictions(const opp_table *table) {
    return opp_load(&table->evictions, relaxed);
}
