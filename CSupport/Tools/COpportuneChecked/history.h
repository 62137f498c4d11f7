/*
 * What the threads of an execution did to a queue, and the judge of it.
 *
 * "Before" means "happens before", as the threads can tell it: of two operations that nothing orders, either
 * may be taken to come first. The judge knows the promises of the headers, and nothing of how they are kept.
 */
#ifndef HISTORY_H
#define HISTORY_H

#include "opp_checked.h"
#include "opp_linear.h"

#define HISTORY_ITEMS 256
#define HISTORY_EVENTS 512
#define ANY_LEVEL 63

typedef struct event {
    uint32_t thread;
    bool begun, over;
    uint32_t refusals; /* of the thread, before it */
    oppx_moment begin, end;
} event;

/* A job, pushed once. Its class: jobs of one class come out in order. */
typedef struct item {
    event push;
    event take;
    uint32_t class, level;
    uint32_t producer;        /* whose pushes it is among: its thread's, unless the target says otherwise */
    bool accepted, taken, drained;
    uint32_t consumer;         /* which take it came out of */
    uint32_t left;          /* the how manieth that was left in the end, from 1 */
    event back;             /* where it was given back to the queue: the last time */
    event back_before;      /* ... and the time before, while nobody knows whether that comes about */
    uint32_t giver, giver_before; /* ... by this take */
    /* ... at this level, until somebody is told; then, and of a suspended app, none */
    int back_level;
    bool stuck;             /* it could not be given back */
    uint32_t *payload;      /* plain memory that the pusher wrote */
} item;

/* A take that gave `item`, or nothing (-1). */
typedef struct taking {
    event event;
    int item;
    uint32_t level; /* at which it was, when it came out; ANY_LEVEL: nobody can tell */
    uint64_t levels;
} taking;

typedef struct history {
    _Atomic(uint32_t) *meeting;
    uint32_t item_count, taking_count, left_count;
    item items[HISTORY_ITEMS];
    taking takings[HISTORY_EVENTS];
    oppx_linear_history linear;
    uint64_t linear_memory[OPPX_LINEAR_MEMORY];
} history;

/* One per exploring thread. */
extern _Thread_local history *checked_history_of_thread;
#define checked_history (*checked_history_of_thread)

void history_begin(void);

/* Around a push. The handle stands for the job; the tag is its number. */
uint32_t history_push_begins(uint32_t class, uint32_t level);
void *history_payload(uint32_t item);
void history_push_ends(uint32_t item, bool accepted); /* refused only where memory is short */
void history_push_is_refused(uint32_t item); /* for a reason that the target has looked at */

uint32_t history_take_begins(uint64_t levels);
/* `payload` and `tag` as they came out; found == false: nothing did. */
void history_take_ends(uint32_t taking, bool found, void *payload, uint32_t tag);
/* Around what a take does with an item that it had in its hand and may not give. */
void history_back_begins(uint32_t item);
void history_back_ends(uint32_t item, int result); /* where memory is short the take gives it after all */
/* The judge, alone in the end, takes out what is left. */
void history_drained(void *payload, uint32_t tag);

/*
 * The calling thread tells what it has done to all who meet later, and learns what those before it had done.
 * Without this few operations of different threads are ordered, since nothing has to tell a pusher's friends
 * that its push is over.
 */
void history_meet(void);

bool event_before(const event *a, const event *b);

/* Every accepted item out exactly once, none invented. */
void history_check_conservation(void);
/* Of two items of one class, the second of which was pushed after the first: not taken the other way round.
 * Others may overtake one while it is in the hand of a take that gives it back. */
void history_check_order(void);
/* No item of a class is overtaken by more than `limit` later ones of any one producer, likewise. */
void history_check_bypass(uint32_t limit);
/* An item that was given back goes before all others of its class. */
void history_check_front(void);
/*
 * A take that finds nothing, or an item of a lower level, passes over none that it must have seen.
 * `level_during` says at which level an item could be had all through an event, or -1: at none, or nobody can
 * tell. NULL: always at its own.
 */
void history_check_levels(int (*level_during)(uint32_t item, const event *during));
/*
 * The items of one level, and all takings, as a queue that is used by one thread alone would have them, in an
 * order that extends "before"; see opp_linear.h. In order: each taking gives one item, the oldest, or finds
 * none. Else each gives all there are. Takings that give nothing and that nothing orders with another may
 * also be told wrong: what they must see is judged by history_check_levels(). Not asked where there are more
 * than OPPX_LINEAR_MAX operations.
 */
void history_check_linear(uint32_t level, bool in_order);
/* Whether an item was in the queue all the while: pushed, or given back, before `first` began, and out after
 * `last`. */
bool history_waits(const item *item, const event *first, const event *last);

#endif
