/*
 * A bounded, lossy table from 64-bit keys to 64-bit values: for hints about tasks whose beginning and end are
 * unknown. It is 4-way set-associative; a fifth key of one set evicts the one that was inserted first. Any
 * thread, lock-free. Two threads that use one set at the same time may lose an entry of either, and an older
 * value of a key may reappear. But a value is only ever found under its own key.
 */
#ifndef OPP_TABLE_H
#define OPP_TABLE_H

#include "opp_base.h"

OPP_BEGIN_DECLS

typedef struct opp_table opp_table;

/* `entries` is rounded up to a power of two, at least 4. NULL where memory is short. */
opp_table *_Nullable opp_table_create(uint32_t entries);
void opp_table_destroy(opp_table *_Nonnull table);

/* The value of `key` (not 0), or 0. */
uint64_t opp_table_get(const opp_table *_Nonnull table, uint64_t key);

/* Inserts `value` (not 0); may evict another key. */
void opp_table_put(opp_table *_Nonnull table, uint64_t key, uint64_t value);

void opp_table_remove(opp_table *_Nonnull table, uint64_t key);

/* The number of keys evicted so far. */
uint64_t opp_table_evictions(const opp_table *_Nonnull table);

OPP_END_DECLS

#endif
