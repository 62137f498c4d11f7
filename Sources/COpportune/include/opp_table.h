/*
 * A bounded table from 64-bit keys to 64-bit values that may forget: for hints about tasks that announce
 * neither their beginning nor their end. Four places a set; a fifth key of one set drives out the one that
 * was put in longest ago. Any thread, lock-free; two threads that use one set at the same instant may lose
 * either's entry, and an older value of a key may come back. But a value is only ever found under the key
 * that it was put in with.
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

/* Puts `value` (not 0) in, driving out another key if need be. */
void opp_table_put(opp_table *_Nonnull table, uint64_t key, uint64_t value);

void opp_table_remove(opp_table *_Nonnull table, uint64_t key);

/* Keys that were driven out so far: what the table forgot. */
uint64_t opp_table_evictions(const opp_table *_Nonnull table);

OPP_END_DECLS

#endif
