/*
 * The forgetful table. Every access is relaxed: an entry stands for itself and publishes nothing.
 *
 * Invariant: a place's value is 0 while its key is being changed, so a reader that sees the new key before the new
 * value finds nothing rather than another's. Two writers in one place at one instant may break that; see the header.
 */
#include "opp_table.h"
#include "opp_sync.h"

#include <stdlib.h>
#include <string.h>

#define WAYS 4u

typedef struct place {
    _Atomic(uint64_t) key;
    _Atomic(uint64_t) value;
} place;

/* A cache line: one set. */
typedef struct set {
    _Alignas(64) place way[WAYS];
} set;

struct opp_table {
    uint32_t mask;
    _Atomic(uint64_t) evictions;
    _Atomic(uint8_t) *next; /* the way to drive out next, by set */
    set *sets;
};

opp_table *opp_table_create(uint32_t entries) {
    uint32_t count = 1;
    while (count * WAYS < entries && count < 1u << 28) count *= 2;
    opp_table *table = calloc(1, sizeof(opp_table));
    if (table == NULL) return NULL;
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

static uint32_t table_set(const opp_table *table, uint64_t key) {
    /* Fibonacci hashing: task ids are consecutive numbers, and so are the sets of neighbours then not. */
    return (uint32_t)((key * 0x9E3779B97F4A7C15u) >> 32) & table->mask;
}

static place *table_find(const opp_table *table, uint64_t key) {
    set *set = &table->sets[table_set(table, key)];
    for (uint32_t i = 0; i < WAYS; i++)
        if (opp_load(&set->way[i].key, relaxed) == key) return &set->way[i];
    return NULL;
}

uint64_t opp_table_get(const opp_table *table, uint64_t key) {
    place *place = table_find(table, key);
    return place == NULL ? 0 : opp_load(&place->value, relaxed);
}

void opp_table_put(opp_table *table, uint64_t key, uint64_t value) {
    place *place = table_find(table, key);
    uint32_t number = table_set(table, key);
    for (uint32_t i = 0; place == NULL && i < WAYS; i++)
        if (opp_load(&table->sets[number].way[i].key, relaxed) == 0) place = &table->sets[number].way[i];
    if (place == NULL) {
        place = &table->sets[number].way[opp_add(&table->next[number], 1, relaxed) % WAYS];
        opp_add(&table->evictions, 1, relaxed);
    }
    if (opp_load(&place->key, relaxed) != key) {
        opp_store(&place->value, 0, relaxed);
        opp_store(&place->key, key, relaxed);
    }
    opp_store(&place->value, value, relaxed);
}

void opp_table_remove(opp_table *table, uint64_t key) {
    place *place = table_find(table, key);
    if (place == NULL) return;
    opp_store(&place->value, 0, relaxed);
    opp_store(&place->key, 0, relaxed);
}

uint64_t opp_table_evictions(const opp_table *table) {
    return opp_load(&table->evictions, relaxed);
}
