/*
 * Explores the interleavings of code whose every synchronisation goes through opp_sync.h, under the C11
 * memory model.
 *
 * The code is compiled with OPP_CHECKED, so that each atomic operation, futex call and timer becomes a
 * scheduling point of this explorer. Threads are fibers of the calling thread. An execution runs a program (a
 * few operations on each of a few threads) once; all that is left open by the language and by the kernel -
 * who runs next, which store a load reads, where a store stands in its object's modification order, whether a
 * thread is stopped for ever - is a choice, and a list of choices reproduces an execution exactly. A driver
 * decides how choices are made.
 *
 * What is found: an answer that breaks the target's promise (its judge says so), a data race of plain
 * accesses, an access to memory that was freed or never published, a deadlock or a lost wake-up, a thread
 * that does not finish alone, a crash.
 *
 * Thread-safety: one explorer belongs to one thread at a time; several may run on several threads.
 */
#ifndef OPP_EXPLORER_H
#define OPP_EXPLORER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(__clang__)
#define _Nonnull
#define _Nullable
#endif

#define OPPX_THREADS 8   /* with the main one, number 0, which sets up and judges */
#define OPPX_OPERATIONS 64 /* of one thread of a program */
#define OPPX_ARGUMENTS 3
#define OPPX_CHOICES 8192 /* of one execution; those that come after are the default, 0 */
#define OPPX_TEXT 400

/* --- Programs and targets --------------------------------------------------------------------- */

typedef struct oppx_operation {
    uint8_t kind; /* index into the target's kinds */
    uint8_t argument[OPPX_ARGUMENTS];
} oppx_operation;

/* What the threads do: text such as "push 0; push 1 | take; take", a bar between threads. */
typedef struct oppx_program {
    uint32_t threads; /* 1 to OPPX_THREADS - 1 */
    uint32_t count[OPPX_THREADS];
    oppx_operation operation[OPPX_THREADS][OPPX_OPERATIONS];
} oppx_program;

typedef struct oppx_kind {
    const char *_Nonnull name;
    uint8_t arguments;
    uint8_t limit[OPPX_ARGUMENTS]; /* arguments are below it */
    uint8_t weight;                /* of random programs; 0: only where a program names it */
    uint8_t threads;               /* mask of the threads that may do it, bit 1 for the first; 0: all */
} oppx_kind;

typedef struct oppx_target {
    const char *_Nonnull name;
    const char *_Nonnull summary; /* its invariants, in a sentence */
    const oppx_kind *_Nonnull kinds;
    uint32_t kind_count;
    uint32_t threads_max; /* of random programs */
    uint32_t operations_max;
    uint32_t stalls;      /* threads that random schedules may stop for ever */
    uint32_t refusals;    /* requests for memory, and of the kernel, that they may refuse */
    bool hidden;          /* not among the targets that are fuzzed by default */
    /* All on the explorer's fibers. setup() and finish() run alone, before and after the threads. */
    void (*_Nonnull setup)(const oppx_program *_Nonnull program);
    void (*_Nonnull perform)(uint32_t thread, const oppx_operation *_Nonnull operation);
    void (*_Nullable end)(uint32_t thread); /* a thread has done its operations */
    void (*_Nullable quiet)(void);          /* all threads that are left sleep; says so if that is wrong */
    void (*_Nonnull finish)(void);
} oppx_target;

/* A program with bounds that are explored exhaustively. */
typedef struct oppx_world {
    const char *_Nonnull name;
    const char *_Nonnull target;
    const char *_Nonnull program;
    uint8_t preemptions; /* OPPX_UNBOUNDED: any number */
    uint8_t stale;       /* reads of other than the newest value, and stores not at the end */
    uint8_t stalls;      /* threads stopped for ever */
    uint8_t early;       /* futex waits that return without a wake-up */
    bool quick;          /* to be explored to its end by every test run; the others for a moment */
    uint8_t refusals;    /* requests for memory, and of the kernel, that are refused */
} oppx_world;

#define OPPX_UNBOUNDED 255

/* Returns 0, or -EINVAL with `error` (OPPX_TEXT bytes) saying what is wrong. */
int oppx_program_parse(const oppx_target *_Nonnull target, const char *_Nonnull text,
                       oppx_program *_Nonnull program,
                       char *_Nonnull error);
/* Returns the length that the whole text has, as snprintf does. */
size_t oppx_program_print(const oppx_target *_Nonnull target, const oppx_program *_Nonnull program,
                          char *_Nullable text, size_t size);

/* --- Running ---------------------------------------------------------------------------------- */

typedef struct oppx oppx;

oppx *_Nullable oppx_create(void);
void oppx_destroy(oppx *_Nonnull explorer);

typedef struct oppx_figures {
    uint64_t executions; /* schedules begun */
    uint64_t pruned;     /* of these, left where an equal state had been explored */
    uint64_t steps;      /* operations on atomics, futexes and timers */
    /* distinct ones at which a thread was chosen; of random executions, in which they ended, about */
    uint64_t states;
    bool complete;       /* exhaustive search: nothing within the bounds is left */
    /* ... and how far the choices were counted up, 0 to 1: a share of the tree, not of the time */
    double counted;
    /* ... as oppx_search_by() says: different ends of executions, by all that the threads did and saw */
    uint64_t ends;
    uint64_t ends_hash;  /* ... of all these, in any order */
} oppx_figures;

typedef struct oppx_bounds {
    uint8_t preemptions, stale, stalls, early, refusals;
} oppx_bounds;

/* A relaxed load that read what was stored later, as load buffering has it; see later.c. */
typedef struct oppx_foretold {
    uint32_t load, store; /* their steps; 0: none */
} oppx_foretold;

/* A failure, with what reproduces it. */
typedef struct oppx_finding {
    bool found;
    char message[OPPX_TEXT];
    oppx_program program;
    oppx_bounds bounds;
    oppx_foretold foretold;
    uint32_t misfit; /* of oppx_replay(): see there */
    uint32_t choice_count;
    uint8_t choice[OPPX_CHOICES];
} oppx_finding;

/* For callers that do not lay it out themselves. NULL where memory is short. */
oppx_finding *_Nullable oppx_finding_create(void);
void oppx_finding_destroy(oppx_finding *_Nonnull finding);
bool oppx_finding_found(const oppx_finding *_Nonnull finding);
const char *_Nonnull oppx_finding_message(const oppx_finding *_Nonnull finding);
uint32_t oppx_finding_misfit(const oppx_finding *_Nonnull finding);

/* A finding as text: lines "name: value", comments after '#'. Returns the length that the whole text has. */
size_t oppx_finding_print(const oppx_target *_Nonnull target, const oppx_finding *_Nonnull finding,
                          char *_Nullable text,
                          size_t size);
/* Puts the name of the target that a finding's text is for into `name`. 0, or -EINVAL if it has none. */
int oppx_finding_target(const char *_Nonnull text, char *_Nonnull name, size_t size);
/* Returns 0, or -EINVAL with `error` (OPPX_TEXT bytes) saying what is wrong. */
int oppx_finding_parse(const oppx_target *_Nonnull target, const char *_Nonnull text,
                       oppx_finding *_Nonnull finding,
                       char *_Nonnull error);

/* What exhaustive searches leave out since it comes to the same; reduce.c says why. */
typedef enum oppx_reduction {
    OPPX_REDUCED,
    OPPX_WHOLE, /* nothing but known states */
    /* Too much, so that the tests of the reduction can see that they notice: it takes for independent what is
     * not. */
    OPPX_BLIND_TO_READS,    /* of an object: the reads and the writes of it */
    OPPX_BLIND_TO_SLEEPERS, /* who sleeps and who wakes; timers and the clock */
    OPPX_BLIND_TO_JUDGE,    /* what the judge notes down */
} oppx_reduction;

/* How this explorer's exhaustive searches go from now on; `ends`: they count those of the figures. */
void oppx_search_by(oppx *_Nonnull explorer, oppx_reduction reduction, bool ends);

/* How long to go on: until `*stop` is set (may be NULL), so many executions (0: no limit), so many ms (0: no
 * limit). */
typedef struct oppx_budget {
    const volatile bool *_Nullable stop;
    uint64_t executions;
    uint64_t milliseconds;
    uint64_t first; /* of oppx_fuzz(): the number of the first execution */
} oppx_budget;

/* Every execution of `program` within the bounds, each state once. Stops at the first finding. */
void oppx_exhaust(oppx *_Nonnull explorer, const oppx_target *_Nonnull target,
                  const oppx_program *_Nonnull program,
                  oppx_bounds bounds, oppx_budget budget, oppx_figures *_Nonnull figures,
                  oppx_finding *_Nonnull finding);

/*
 * Random programs (or `program`, where not NULL) under random priority schedules; every fourth of them a
 * second time, with a relaxed load reading what was stored later, where there is such a pair. An execution
 * depends on `seed` and on its number alone; no two seeds have executions in common.
 */
void oppx_fuzz(oppx *_Nonnull explorer, const oppx_target *_Nonnull target,
               const oppx_program *_Nullable program,
               uint64_t seed, oppx_budget budget, oppx_figures *_Nonnull figures,
               oppx_finding *_Nonnull finding);

/* One execution whose program and choices come from bytes, for a coverage-guided fuzzer. Returns whether it
 * failed. */
bool oppx_run_bytes(oppx *_Nonnull explorer, const oppx_target *_Nonnull target,
                    const uint8_t *_Nonnull bytes,
                    size_t size, oppx_finding *_Nonnull finding);

/*
 * One execution by the finding's program and choices; fills in the message. Returns whether it failed. Where
 * the code is no longer what it was the choices may not fit it: then the finding's `misfit` is the number,
 * from 1, of the first that there was not, or that was not asked for any more, and the execution another than
 * was kept. 0: all fit.
 */
bool oppx_replay(oppx *_Nonnull explorer, const oppx_target *_Nonnull target, oppx_finding *_Nonnull finding);

/* Makes the finding smaller: fewer operations, fewer choices other than the default. Keeps a failure, maybe
 * another. */
void oppx_shrink(oppx *_Nonnull explorer, const oppx_target *_Nonnull target, oppx_finding *_Nonnull finding,
                 uint64_t milliseconds);

/* The execution as a timeline of threads against steps; below it, of a race, the object and the two
 * accesses, by their lines where the program has debug information and llvm-symbolizer or addr2line is there.
 * Returns the length that the whole text has. */
size_t oppx_timeline(oppx *_Nonnull explorer, const oppx_target *_Nonnull target,
                     oppx_finding *_Nonnull finding,
                     char *_Nullable text, size_t size);

/* Edges of the checked code that ran since the last oppx_coverage_begin(), in all threads, and how many there
 * are. One that ran a multiple of 256 times by then does not count. */
void oppx_coverage_begin(void);
void oppx_coverage(size_t *_Nonnull covered, size_t *_Nonnull edges);

/* --- Sites ------------------------------------------------------------------------------------ */

enum { OPPX_LOAD, OPPX_STORE, OPPX_RMW, OPPX_CAS, OPPX_FENCE };

/* One place in the source that names a memory order. */
typedef struct oppx_site {
    const char *_Nonnull file;
    const char *_Nonnull object;
    uint32_t line;
    uint8_t kind;
    uint8_t order;   /* as the source says: a memory_order */
    uint8_t weakened; /* 0, or the order to use instead, plus 1 */
    uint64_t hits;
} oppx_site;

/* All sites of the checked code, in no order. */
oppx_site *_Nullable oppx_sites(size_t *_Nonnull count);
const char *_Nonnull oppx_order_name(uint8_t order);

/* --- For the checked code and its targets ------------------------------------------------------ */

uint64_t oppx_load(oppx_site *_Nonnull site, const volatile void *_Nonnull object, uint32_t size);
void oppx_store(oppx_site *_Nonnull site, volatile void *_Nonnull object, uint32_t size, uint64_t value);
enum { OPPX_SWAP, OPPX_ADD, OPPX_SUB, OPPX_OR, OPPX_AND };
uint64_t oppx_rmw(oppx_site *_Nonnull site, volatile void *_Nonnull object, uint32_t size, int what,
                  uint64_t value);
bool oppx_cas(oppx_site *_Nonnull site, volatile void *_Nonnull object, uint32_t size,
              uint64_t *_Nonnull expected,
              uint64_t desired);
void oppx_fence(oppx_site *_Nonnull site);
int oppx_futex_wait(const volatile void *_Nonnull word, uint32_t expected);
int oppx_futex_wake(const volatile void *_Nonnull word, int count);
uint64_t oppx_now(void);
uint64_t oppx_tick(void);
int oppx_timer_open(void);
void oppx_timer_close(int timer);
void oppx_timer_set(int timer);
void oppx_timer_disarm(int timer);
void oppx_notifier_ring(int timer); /* as an eventfd: what was done before is known to who reads it */
uint32_t oppx_timer_wait(const int *_Nonnull timers, uint32_t count);
bool oppx_timer_read(int timer);
/* An edge-triggered epoll of notifiers: the functions say what opp_poller_add() and so on do. */
int oppx_poller_open(void);
int oppx_poller_add(int poller, int timer, uint32_t number);
int oppx_poller_wait(int poller, uint32_t *_Nonnull numbers, int most, bool waits);

/* Memory that is watched. Zeroed; gone, all of it, with the execution. */
void *_Nullable oppx_allocate(size_t size, size_t alignment);
void oppx_free(void *_Nullable memory);
/* Whether a request for memory, or of the kernel, is refused: a choice, while the threads run. */
bool oppx_refuses(void);
uint32_t oppx_refusals(void); /* of this thread so far: compare it with what it was before a call */

/*
 * A target's own state, to be asked for in setup(), which must set it up: it holds what the last execution of
 * this explorer left, of any target. Thread-local variables would do, but they take room on the stack of
 * every thread of the program.
 */
enum { OPPX_STATE_HISTORY, OPPX_STATE_TARGET, OPPX_STATES };
void *_Nonnull oppx_state(int which, size_t size);

/* The judge's: ends the execution as a failure. */
void oppx_fail(const char *_Nonnull format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* A line of the timeline: what an operation returned, say. Ignored while nobody looks. */
void oppx_note(const char *_Nonnull format, ...) __attribute__((format(printf, 1, 2)));
/* What a judge has noted for the running thread that no step tells apart: states that differ in it are not
 * the same. */
void oppx_remember(uint64_t what);
uint32_t oppx_thread(void);       /* who runs: 0 is the main one */
bool oppx_is_stopped(uint32_t thread); /* for ever */
bool oppx_is_asleep(uint32_t thread);  /* in a futex or timer call, to be asked in quiet() and finish() */
uint64_t oppx_futex_calls(void);       /* the calling thread's calls to wake somebody */

/* A moment, for "happens before". */
typedef struct oppx_moment {
    uint32_t thread;
    uint32_t clock[OPPX_THREADS];
} oppx_moment;
oppx_moment oppx_here(void);
/* Whether what was done up to `earlier` happens before what is done after `later`. */
bool oppx_precedes(const oppx_moment *_Nonnull earlier, const oppx_moment *_Nonnull later);

#endif
