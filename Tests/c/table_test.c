/* The forgetful table: what it keeps, what it forgets, and that it never invents. R-CARD-05, R-CPU-06 */
#include "opportune.h"

#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static uint64_t value_of(uint64_t key) {
    return key * 3 + 1;
}

static void test_basics(void) {
    opp_table *table = opp_table_create(1);
    CHECK(opp_table_get(table, 7) == 0);
    for (uint64_t key = 1; key <= 4; key++) opp_table_put(table, key, value_of(key));
    for (uint64_t key = 1; key <= 4; key++) CHECK(opp_table_get(table, key) == value_of(key));
    CHECK(opp_table_evictions(table) == 0);
    opp_table_put(table, 2, 99);
    CHECK(opp_table_get(table, 2) == 99 && opp_table_evictions(table) == 0);
    /* One set of four: a fifth key drives out the oldest, no other. */
    opp_table_put(table, 5, value_of(5));
    CHECK(opp_table_evictions(table) == 1);
    CHECK(opp_table_get(table, 1) == 0 && opp_table_get(table, 5) == value_of(5));
    CHECK(opp_table_get(table, 2) == 99 && opp_table_get(table, 4) == value_of(4));
    /* A free place is used before anything is driven out. */
    opp_table_remove(table, 3);
    CHECK(opp_table_get(table, 3) == 0);
    opp_table_put(table, 6, value_of(6));
    CHECK(opp_table_evictions(table) == 1 && opp_table_get(table, 2) == 99);
    opp_table_remove(table, 1234);
    opp_table_destroy(table);
}

/* Keys are numbers given one after the other, as task ids are. */
static double lost(uint32_t entries, uint64_t keys, uint64_t stride) {
    opp_table *table = opp_table_create(entries);
    for (uint64_t i = 1; i <= keys; i++) opp_table_put(table, i * stride, value_of(i * stride));
    uint64_t missing = 0;
    for (uint64_t i = 1; i <= keys; i++) {
        uint64_t value = opp_table_get(table, i * stride);
        CHECK(value == 0 || value == value_of(i * stride));
        if (value == 0) missing++;
    }
    CHECK(missing == opp_table_evictions(table));
    opp_table_destroy(table);
    return (double)missing / (double)keys;
}

static void test_loss(void) {
    uint64_t counts[] = {1000, 10000, 16384, 32768, 100000};
    for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        printf("%llu keys in 32,768 entries: %.2f %% lost (every second number: %.2f %%)\n",
               (unsigned long long)counts[i], 100 * lost(32768, counts[i], 1),
               100 * lost(32768, counts[i], 2));
    /* It keeps as many as it has places, or nearly so: 67.2 % of 100,000 must go. */
    CHECK(lost(32768, 100000, 1) < 0.70);
    CHECK(lost(32768, 16384, 1) < 0.01);
    CHECK(lost(32768, 10000, 1) < 0.01);
}

#define KEYS 4096
static opp_table *shared;
static _Atomic(uint64_t) strange;

static void *use(void *seed) {
    unsigned random = (unsigned)(uintptr_t)seed;
    for (int i = 0; i < 300000; i++) {
        /* Keys of one's own: nobody else changes them, though others may drive them out. */
        uint64_t key = (uint64_t)(rand_r(&random) % KEYS) * 4 + (uintptr_t)seed + 1;
        uint64_t value = opp_table_get(shared, key);
        if (value != 0 && value != value_of(key)) atomic_fetch_add(&strange, 1);
        if (i % 16 == 0) opp_table_remove(shared, key);
        else opp_table_put(shared, key, value_of(key));
    }
    return NULL;
}

/* Many threads: an entry may be lost, but is never another's. */
static void test_threads(void) {
    shared = opp_table_create(8192);
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, use, (void *)i) == 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("another key's value was found %llu times in 1,200,000\n",
           (unsigned long long)atomic_load(&strange));
    CHECK(atomic_load(&strange) == 0);
    opp_table_destroy(shared);
}

int main(void) {
    alarm(300);
    test_basics();
    test_loss();
    test_threads();
    return 0;
}
