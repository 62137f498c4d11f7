/* Samples of contenders that take turns, and the table of them. */
#ifndef BENCH_SAMPLE_H
#define BENCH_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { ROWS_MAX = 16, REPEATS_MAX = 101 };

typedef struct row {
    const char *name;
    bool is_ours, is_lock_free;
    const char *why;
    double sample[REPEATS_MAX]; /* ns per operation, in the order in which they were taken */
} row;

typedef struct table {
    const char *title;  /* as in the table and the JSON */
    const char *unit;   /* what one operation is */
    double aim_ns;      /* 0 for none */
    double aim_ratio;   /* to the best lock-free rival; 0 for none */
    bool is_queue;      /* has a column for lock freedom */
    unsigned rows, repeats;
    row row[ROWS_MAX];
} table;

/* Prints the table: median, spread, ratio to the best rival, taken repeat by repeat and then the median of
 * that. */
void table_print(const table *table);

/* One object of JSON, without a line end. */
void table_json(const table *table, FILE *file);

/* CLOCK_MONOTONIC, nanoseconds. */
static inline uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double median(const double *values, unsigned count);

#endif
