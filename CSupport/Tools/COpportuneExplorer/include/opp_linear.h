/*
 * Linearizability: whether there is one order of a history's operations in which a queue, used by one thread
 * alone, gives each of them the answer that it had.
 *
 * The order must extend "happens before". It need not extend the order of the execution's steps: the language
 * has no clock, and a thread that nothing has told of another's push cannot rely on that push being over, nor
 * can a person who reads the header. Pairs of operations do not suffice: see
 * Tests/OpportuneFuzzTests/LinearTests.swift for histories that break no rule on two of them, and have no
 * order.
 */
#ifndef OPP_LINEAR_H
#define OPP_LINEAR_H

#include <stdbool.h>
#include <stdint.h>

#define OPPX_LINEAR_MAX 64
#define OPPX_LINEAR_MEMORY 4096u

enum { OPPX_PUT, OPPX_TAKE, OPPX_FETCH };

typedef struct oppx_linear_operation {
    uint8_t kind;    /* puts one item; takes one, or finds none; fetches all there are */
    /* else its thread was stopped in it: it may have had its effect, and tells nobody what it got */
    bool over;
    uint64_t items;  /* that it put or got, a bit each */
    uint64_t before; /* operations that happen before it, a bit each */
} oppx_linear_operation;

typedef struct oppx_linear_history {
    bool in_order;   /* takes give the oldest; else any */
    uint32_t count;
    oppx_linear_operation operation[OPPX_LINEAR_MAX];
    uint32_t left_count; /* items that are left in the end, oldest first */
    uint8_t left[OPPX_LINEAR_MAX];
} oppx_linear_history;

/* 1: it is linearizable; 0: it is not; -1: not to be told, there is more to try than `memory`, of
 * OPPX_LINEAR_MEMORY words, has room for. */
int oppx_is_linear(const oppx_linear_history *_Nonnull history, uint64_t *_Nonnull memory);

#endif
