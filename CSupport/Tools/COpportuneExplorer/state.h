/*
 * The state of one execution. Private to the explorer.
 *
 *   memory.c   objects: histories of stores, which a load may read, happens-before, races, allocation
 *   later.c    loads that read a later store
 *   run.c      threads: who runs next, sleeping and waking, the life of an execution
 *   choose.c   how a choice is made: searched, drawn, read from bytes, replayed
 *   reduce.c   which switches of threads a search leaves out
 *   explorer.c creation; crashes
 *   search.c   exhaustive search, fuzzing
 *   shrink.c   making a failure smaller
 *   report.c   the timeline
 *   finding.c  findings as text
 *   program.c  text of programs
 *   sites.c    memory orders in the source, coverage
 */
#ifndef OPPX_STATE_H
#define OPPX_STATE_H

#include "fiber.h"
#include "opp_explorer.h"

#include <signal.h>
#include <time.h>

/* of the arena, for each thread: where one allocates is no matter of the others */
#define REGION_BYTES (1u << 20)
#define ARENA_BYTES (OPPX_THREADS * REGION_BYTES)
#define GRANULE 4u
#define HISTORY 16          /* stores of one object that are remembered; older ones are not read any more */
#define STORES (1u << 16)   /* of one execution */
#define LOCATIONS 8192u
#define BLOCKS 512u         /* of a thread */
#define STEPS_MAX 20000u    /* of an execution */
#define STEPS_ALONE 4000u   /* of a thread without another's in between */
#define TIMERS 8u
#define POLLERS 2u
#define ENDS (1u << 26)     /* bits; a multiple of 8 */
#define EARLY_LOADS 512u   /* of an execution, that may read a later store */
#define LOG_MAX (2 * STEPS_MAX)
#define OBJECT_WORDS 4
#define USES (1u << 16)     /* the newest of an execution's */

static inline uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

/* Clock vectors: [t] is how much of thread t's past is known. */
typedef struct vector {
    uint32_t at[OPPX_THREADS];
} vector;

typedef struct store {
    uint64_t value;
    uint64_t hash;
    vector seen;    /* when each thread first wrote or read it, or UINT32_MAX */
    vector release; /* what an acquiring reader learns */
    bool attached;  /* the write of a read-modify-write of the store before it: nothing comes in between */
} store;

/* An object that was accessed atomically in this execution. */
typedef struct location {
    uint64_t execution; /* the one it belongs to */
    const volatile void *object;
    uint64_t hash;       /* of its modification order */
    uint64_t dropped;    /* of stores that were forgotten */
    vector accessed;     /* when each thread accessed it last */
    vector stored;       /* when each thread wrote it last */
    uint32_t size;
    uint32_t name;       /* index of the site that accessed it first */
    int32_t strongest;   /* index of the last seq_cst store, -1 for none */
    uint32_t count;
    uint32_t order[HISTORY]; /* modification order: indices of stores */
} location;

/* Four bytes of the arena: plain accesses. Valid in `execution` only. */
typedef struct granule {
    uint32_t execution;
    bool live;
    bool atomic; /* an atomic object was here, in this execution */
    uint8_t writer;
    uint32_t written;
    vector read;
} granule;

/* An allocation. */
typedef struct block {
    uint32_t start, end; /* offsets in the arena */
    uint32_t written;
    uint8_t writer;
    bool live;
    const void *code; /* behind the call that allocated it */
} block;

/* What a thread did to the arena: kept while the timeline is made, for what it says of a race. */
typedef enum use_kind { USE_READ = 1, USE_WRITE = 2, USE_FREE = 4, USE_ANY = 7 } use_kind;
typedef struct use {
    const oppx_site *site; /* of an atomic access, else NULL */
    const void *code;      /* else the instruction behind it */
    uint32_t offset, size, thread;
    use_kind kind;
} use;

typedef struct poller { /* the notifiers that were added, and a mask of them */
    uint32_t mask, count;
    int timers[TIMERS];
    uint32_t numbers[TIMERS];
} poller;

typedef enum thread_state { READY, ASLEEP, WAITING, STOPPED, DONE } thread_state;

typedef struct thread {
    oppx_fiber fiber;
    thread_state state;
    const volatile void *word; /* ASLEEP: at this futex */
    uint32_t queue;            /* ASLEEP: since when, to wake the oldest first */
    const uint32_t *timers;    /* WAITING: for any of this mask, which may change meanwhile */
    vector known;              /* what happens before its next step */
    vector learned;            /* by relaxed reads, for an acquire fence */
    vector released;           /* at its last release fence */
    uint64_t hash;             /* of all that it did and saw */
    uint64_t visible;          /* ... up to its last step that others could see, or the judge */
    uint64_t priority;
    uint64_t futex_calls;
} thread;

/* CHOOSE_SWITCH: the running thread could go on, which is choice 0; CHOOSE_THREAD: it cannot. */
typedef enum choice_kind {
    CHOOSE_SWITCH, CHOOSE_THREAD, CHOOSE_READ, CHOOSE_PLACE, CHOOSE_EARLY, CHOOSE_REFUSAL, CHOOSE_OTHER
} choice_kind;
typedef enum driver { DRIVE_SEARCH, DRIVE_RANDOM, DRIVE_BYTES, DRIVE_REPLAY } driver;

typedef struct record { /* a step of the timeline */
    uint32_t thread;
    char text[120];
} record;

typedef struct seen_state {
    uint64_t key;
    oppx_bounds left;
    uint8_t asleep; /* threads, a bit each; see reduce.c */
    bool used;
} seen_state;

/* reduce.c: what a step touches: an object of memory, something else; bits */
typedef struct mark {
    uint8_t object[2], what;
} mark;

typedef struct step { /* of the execution's log */
    uint64_t key;     /* the thread's hash before it */
    uint32_t thread;
    mark mark;
} step;

typedef struct touched { /* sets of objects */
    uint64_t read[OBJECT_WORDS], written[OBJECT_WORDS];
} touched;

typedef struct future { /* of a thread that did and saw what the key says */
    uint64_t key;
    mark step;     /* its next */
    touched later; /* that and all after it */
} future;

/* later.c: a relaxed load that was executed */
typedef struct early_load {
    uint32_t step, object, thread, clock;
    uint64_t value;
} early_load;

typedef struct later {
    enum { LATER_NONE, LATER_WATCH, LATER_LEARN, LATER_FORETELL } use;
    early_load loads[EARLY_LOADS]; /* LATER_WATCH */
    uint32_t load_count, pairs;
    uint64_t random;
    oppx_foretold told;        /* LATER_WATCH: one of the pairs that were met; else the one to come */
    /* LATER_LEARN finds out what it stores: an address differs from process to process */
    uint64_t value;
    early_load load;           /* LATER_FORETELL: that was foretold */
    bool is_pending, has_come; /* the load was executed and the store was not; both were */
} later;

struct oppx {
    const oppx_target *target;
    const oppx_program *program;
    oppx_fiber main;
    thread threads[OPPX_THREADS];
    uint32_t thread_count; /* with main */
    uint32_t running;
    bool chosen;           /* the running thread was, and has not done its step yet */
    bool concurrent;       /* the threads run; else main is alone */
    uint64_t execution;
    uint32_t steps, alone, sleeps;
    uint32_t refused[OPPX_THREADS]; /* of each thread */
    uint64_t now;          /* how often somebody has looked at the clock */
    uint64_t hash;         /* of all objects */
    bool failed, abandoned;
    char message[OPPX_TEXT];

    /* memory.c */
    char *arena;
    size_t arena_used[OPPX_THREADS];
    block blocks[OPPX_THREADS][BLOCKS]; /* by address */
    uint32_t block_count[OPPX_THREADS];
    granule *granules;
    uint32_t *location_of; /* by byte of the arena */
    location *locations;
    uint32_t location_count;
    store *stores;
    uint32_t store_count;
    vector strong;         /* what seq_cst fences knew */
    uint64_t strong_hash;
    bool timer_open[TIMERS], timer_armed[TIMERS];
    uint64_t timer_past[TIMERS]; /* hash of what was done to it, in order */
    vector notified[TIMERS];     /* what those who notified it, as a notifier, knew */
    poller pollers[POLLERS];
    uint32_t poller_count;

    later later;

    /* choose.c */
    driver driver;
    oppx_bounds bounds, left;
    uint32_t depth;
    bool cut; /* DRIVE_SEARCH: in some execution there was more to choose than is remembered */
    uint8_t choice[OPPX_CHOICES], options[OPPX_CHOICES];
    uint32_t misfit;       /* DRIVE_REPLAY: the first choice that there was not, from 1; 0: none */
    uint32_t stack_depth;  /* DRIVE_SEARCH: choices that are replayed; DRIVE_REPLAY: how many there are */
    const uint8_t *bytes;
    size_t byte_count;
    uint64_t random;
    uint32_t change_points[4];
    void *state[OPPX_STATES];     /* targets' */
    size_t state_size[OPPX_STATES];
    /* DRIVE_RANDOM: objects, by a hash, of which one thread reads the oldest value ... */
    uint64_t late;
    int32_t late_left;       /* so many times */
    uint32_t late_thread;    /* ... this one; 0: none */
    uint32_t object;         /* that the load which is being chosen reads */
    uint32_t expected_steps;
    seen_state *table;
    uint64_t table_mask, table_count;
    uint64_t pruned;
    bool is_known;           /* this execution was left, as what comes of it is explored elsewhere */
    uint8_t *ends;           /* DRIVE_RANDOM: a bit for each hash of an execution, once there was one */
    uint64_t *end_keys;      /* DRIVE_SEARCH, where ends are counted: a set */
    uint64_t end_mask, end_count, end_hash;
    uint64_t end;            /* of this execution */

    /* reduce.c */
    bool reduces, counts_ends;
    oppx_reduction reduction;
    step *log;
    uint32_t logged, open[OPPX_THREADS]; /* the step of each thread that is still going on */
    uint8_t *object_number;              /* by byte of the arena */
    uint32_t object_count;
    future *futures;
    uint64_t futures_mask, future_count;
    bool futures_full;
    /* preempted threads whose steps commute with all that came since, a bit each */
    uint32_t asleep;
    mark asleep_step[OPPX_THREADS];
    uint32_t folded;
    touched folding[OPPX_THREADS];
    /* By choice: its kind, the options that are open, where in the log it is, the hashes of the threads, who
     * ran. */
    uint8_t kind[OPPX_CHOICES], chooser[OPPX_CHOICES];
    bool stops[OPPX_CHOICES]; /* the last option is to stop the running thread */
    uint16_t awake[OPPX_CHOICES];
    uint32_t place[OPPX_CHOICES];
    uint64_t keys[OPPX_CHOICES][OPPX_THREADS];

    /* report.c */
    record *records;
    uint32_t record_count, record_limit;
    use *uses;           /* a ring; NULL where nobody looks */
    uint64_t use_count;
    use first, second;   /* of a race, in order; first.kind is 0 where it is not known, second's where there
                          * is no race */

    /* explorer.c */
    bool executing; /* a crash is the checked code's */
    void *signal_stack;
    stack_t former_stack;
};

extern _Thread_local oppx *oppx_self;

#define RECORDS 4096u

/* memory.c */
int memory_create(oppx *x);
void memory_destroy(oppx *x);
void memory_begin(oppx *x);
/* `code` is behind the call that asks. */
uint64_t memory_newest(oppx *x, const volatile void *object, uint32_t size, const void *code);
/* The allocation that holds `offset`, or the last before it. NULL: there is none. */
const block *memory_block(oppx *x, uint32_t offset);
void vector_join(vector *into, const vector *other);
uint64_t mix(uint64_t a, uint64_t b);

/* run.c */
void run_execution(oppx *x); /* fills in `failed` and `message` */
void run_point(oppx *x);     /* before each step */
void run_step(oppx *x, uint64_t what); /* a step's result enters the thread's hash */
_Noreturn void run_leave(oppx *x); /* ends the execution, from a fiber */

/* later.c: the second and the third are asked where `later.use` says so */
void later_begin(oppx *x);
/* A load. True where `*value` is what it was foretold. */
bool later_foretells(oppx *x, uint32_t object, uint8_t order, uint64_t *value);
/* A store, before it is made, to the end of the modification order or not. True where it is what was
 * foretold. */
bool later_comes(oppx *x, uint32_t object, uint8_t order, uint64_t value, bool is_last);
/* That store, as it was made. */
void later_came(oppx *x, store *store);
/* Another access: ends an execution that is not coherent. */
void later_touch(oppx *x, uint32_t object);
/* An acquire fence: behind a load that was foretold its value it would acquire what has not come yet. */
void later_fence(oppx *x);
/* By the same choices as the execution that was watched; where what is foretold does not come, it has not
 * failed. */
void execute_foretold(oppx *x);

/* reduce.c: what happens in a step; nothing where x->reduces is not set */
void reduce_begin(oppx *x); /* an execution */
void reduce_step_begins(oppx *x);
void reduce_step_over(oppx *x);
void reduce_last_step(oppx *x);
void reduce_woken(oppx *x, uint32_t number);
void reduce_stopped(oppx *x);
void reduce_asks_stopped(oppx *x);
void reduce_preempted(oppx *x);
void reduce_touch(oppx *x, uint32_t offset, bool writes);
void reduce_touch_futex(oppx *x, uint32_t offset);
void reduce_touch_clock(oppx *x);
void reduce_touch_timers(oppx *x);
void reduce_touch_all(oppx *x);
void reduce_touch_judge(oppx *x);
/* Whether what comes of the execution comes of others, since nobody can wake a thread that sleeps. */
bool reduce_is_left(oppx *x);
/* ... what search.c asks */
bool reduce_search_begins(oppx *x);
void reduce_search_ends(oppx *x);
void reduce_destroy(oppx *x);
void reduce_note_choice(oppx *x, uint32_t depth);
void reduce_fold_begins(oppx *x);
void reduce_fold(oppx *x, uint32_t place); /* the log from `place` on */
/* At a CHOOSE_SWITCH whose option 0 was explored: whether another thread need be tried, and whether it need
 * be stopped. */
bool reduce_needs_switch(oppx *x, uint32_t depth);
bool reduce_needs_stop(oppx *x, uint32_t depth);

/* choose.c */
/* Of threads `awake` says which options may be taken, and `stops` that the last is to stop the running
 * one. */
uint32_t choose_thread(oppx *x, choice_kind kind, uint32_t options, uint32_t awake, bool stops);
uint32_t choose(oppx *x, choice_kind kind, uint32_t options);
void choose_begin(oppx *x);
uint32_t choose_random_thread(oppx *x, const uint8_t *options, uint32_t count);
uint64_t random_next(uint64_t *state);
uint64_t state_hash(oppx *x);
uint64_t end_hash(oppx *x);

/* explorer.c */
void execute_prepare(oppx *x); /* before a series of executions on this thread */
void execute(oppx *x);         /* run_execution() with crashes caught */
void execute_done(oppx *x);

/* sites.c */
const char *site_file(const oppx_site *site);    /* without its folder */
const char *site_object(const oppx_site *site);

/* report.c */
void note_step(oppx *x, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define NOTED(x) ((x)->records != NULL)

#endif
