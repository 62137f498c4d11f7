/*
 * Litmus tests: what the language allows and forbids, known from the literature, against what the explorer
 * finds. A test's outcome is what the loads and read-modify-writes returned, thread after thread; after a
 * slash what x0 to x3 are in the end. "race" is a data race of the plain accesses.
 */
#include "checked.h"

enum { VARIABLES = 4, READS = 16 };

typedef struct kind_of {
    int what; /* OPPX_LOAD, …; -1 is a plain load, -2 a plain store */
    uint8_t order;
} kind_of;

#define RLX memory_order_relaxed
#define ACQ memory_order_acquire
#define REL memory_order_release
#define AR memory_order_acq_rel
#define SC memory_order_seq_cst

#define LIMIT_STORE .arguments = 2, .limit = {VARIABLES, 16}
#define LIMIT_LOAD .arguments = 1, .limit = {VARIABLES}
static const oppx_kind kinds[] = {
    {.name = "rlx_store", LIMIT_STORE}, {.name = "rel_store", LIMIT_STORE}, {.name = "sc_store", LIMIT_STORE},
    {.name = "rlx_load", LIMIT_LOAD},   {.name = "acq_load", LIMIT_LOAD},   {.name = "sc_load", LIMIT_LOAD},
    {.name = "rlx_add", LIMIT_STORE},   {.name = "acq_add", LIMIT_STORE},   {.name = "rel_add", LIMIT_STORE},
    {.name = "ar_add", LIMIT_STORE},    {.name = "sc_add", LIMIT_STORE},    {.name = "acq_fence"},
    {.name = "rel_fence"},              {.name = "sc_fence"},
                      {.name = "plain_load", LIMIT_LOAD},
    {.name = "plain_store", LIMIT_STORE}, {.name = "plain_if", LIMIT_LOAD}, /* if the last read gave 1 */
    {.name = "rlx_copy", LIMIT_LOAD}, /* stores what the last read gave */
    {.name = "rlx_cas", LIMIT_STORE},   {.name = "ar_cas", LIMIT_STORE}, /* expects one less than it stores */
    {.name = "rlx_swap", LIMIT_STORE},  {.name = "wide_store", LIMIT_STORE}, /* of eight bytes */
    {.name = "plain_high", LIMIT_LOAD}, /* of the last four of eight */
    /* loads, and counts with the judge: reads how many did so before, and one more */
    {.name = "note", LIMIT_LOAD},
};
static const kind_of meaning[] = {
    {OPPX_STORE, RLX}, {OPPX_STORE, REL}, {OPPX_STORE, SC}, {OPPX_LOAD, RLX}, {OPPX_LOAD, ACQ},
        {OPPX_LOAD, SC},
    {OPPX_RMW, RLX},   {OPPX_RMW, ACQ},   {OPPX_RMW, REL},  {OPPX_RMW, AR},   {OPPX_RMW, SC},
          {OPPX_FENCE, ACQ},
    {OPPX_FENCE, REL}, {OPPX_FENCE, SC},  {-1, 0},          {-2, 0},
    {-3, 0},           {-4, RLX},         {-5, RLX},        {-5, AR},         {-6, RLX},
    {-7, RLX},         {-8, 0},           {-9, RLX},
};


static _Thread_local struct {
    _Atomic(uint32_t) *variable; /* 16 bytes apart */
    uint32_t reads[OPPX_THREADS][READS], count[OPPX_THREADS];
    uint32_t threads, notes;
    const char *wanted;
} run;

static void setup(const oppx_program *program) {
    run.variable = oppx_allocate(VARIABLES * 16, 64);
    run.threads = program->threads;
    run.notes = 0;
    memset(run.count, 0, sizeof(run.count));
}

static void note_read(uint32_t thread, uint32_t value) {
    if (run.count[thread] == READS) oppx_fail("thread %u reads more than %d times", thread, READS);
    run.reads[thread][run.count[thread]++] = value;
}

static void perform(uint32_t thread, const oppx_operation *operation) {
    const kind_of *kind = &meaning[operation->kind];
    static const char *const names[VARIABLES] = {"x0", "x1", "x2", "x3"};
    oppx_site site = {.file = "litmus", .object = names[operation->argument[0]], .order = kind->order};
    uint32_t last = run.count[thread] == 0 ? 0 : run.reads[thread][run.count[thread] - 1];
    _Atomic(uint32_t) *object = run.variable + 4 * operation->argument[0];
    switch (kind->what) {
    case OPPX_STORE: oppx_store(&site, object, 4, operation->argument[1]); break;
    case OPPX_LOAD: note_read(thread, (uint32_t)oppx_load(&site, object, 4)); break;
    case OPPX_RMW: note_read(thread, (uint32_t)oppx_rmw(&site, object, 4, OPPX_ADD, operation->argument[1]));
        break;
    case OPPX_FENCE: oppx_fence(&site); break;
    case -1: note_read(thread, *(volatile uint32_t *)object); break;
    case -3:
        if (last == 1) note_read(thread, *(volatile uint32_t *)object);
        break;
    case -4: oppx_store(&site, object, 4, last); break;
    case -5: {
        uint64_t seen = operation->argument[1] - 1u;
        oppx_cas(&site, object, 4, &seen, operation->argument[1]);
        note_read(thread, (uint32_t)seen);
        break;
    }
    case -6: note_read(thread, (uint32_t)oppx_rmw(&site, object, 4, OPPX_SWAP, operation->argument[1]));
        break;
    case -7: oppx_store(&site, object, 8, operation->argument[1]); break;
    case -9:
        oppx_load(&site, object, 4);
        oppx_remember(++run.notes);
        note_read(thread, run.notes);
        break;
    case -8: note_read(thread, *((volatile uint32_t *)object + 1)); break;
    default: *(volatile uint32_t *)object = operation->argument[1]; break;
    }
}

static void finish(void) {
    if (run.wanted == NULL) return; /* a program that is no test */
    char outcome[OPPX_THREADS * READS * 12];
    size_t at = 0;
    for (uint32_t t = 1; t <= run.threads; t++)
        for (uint32_t i = 0; i < run.count[t]; i++)
            at += (size_t)snprintf(outcome + at, sizeof(outcome) - at, "%s%u", at == 0 ? "" : " ",
                                   run.reads[t][i]);
    const char *slash = strchr(run.wanted, '/');
    for (int v = 0; slash != NULL && v < VARIABLES; v++) {
        oppx_site site = {.file = "litmus", .object = "", .order = RLX};
        at += (size_t)snprintf(outcome + at, sizeof(outcome) - at, "%s%u", v > 0 ? " " : "/",
                               (uint32_t)oppx_load(&site, run.variable + 4 * v, 4));
    }
    outcome[at] = 0;
    if (strcmp(outcome, run.wanted) == 0) oppx_fail("the outcome appears: %s", outcome);
}

const oppx_target checked_litmus = {
    .name = "litmus", .summary = "The explorer's own model of memory.", .kinds = kinds,
    .kind_count = sizeof(kinds) / sizeof(kinds[0]), .hidden = true, .setup = setup, .perform = perform,
    .finish = finish,
};

static const checked_litmus_test tests[] = {
    {"store buffering, relaxed", "rlx_store 0 1; rlx_load 1 | rlx_store 1 1; rlx_load 0", "0 0", true},
    {"store buffering, release and acquire", "rel_store 0 1; acq_load 1 | rel_store 1 1; acq_load 0", "0 0",
        true},
    {"store buffering, seq_cst", "sc_store 0 1; sc_load 1 | sc_store 1 1; sc_load 0", "0 0", false},
    {"store buffering, one side seq_cst", "sc_store 0 1; sc_load 1 | rel_store 1 1; sc_load 0", "0 0", true},
    {"store buffering, seq_cst fences",
        "rlx_store 0 1; sc_fence; rlx_load 1 | rlx_store 1 1; sc_fence; rlx_load 0",
     "0 0", false},
    {"store buffering, one seq_cst fence", "rlx_store 0 1; sc_fence; rlx_load 1 | rlx_store 1 1; rlx_load 0",
        "0 0",
     true},
    {"store buffering, read-modify-writes of acq_rel",
     "ar_add 0 1; acq_load 1 | ar_add 1 1; acq_load 0", "0 0 0 0", true},
    {"store buffering, read-modify-writes of seq_cst", "sc_add 0 1; sc_load 1 | sc_add 1 1; sc_load 0",
        "0 0 0 0",
     false},
    {"store buffering, seq_cst accesses on one side, a seq_cst fence on the other",
     "rlx_store 0 1; sc_fence; rlx_load 1 | sc_store 1 1; sc_load 0", "0 0", false},
    {"store buffering, seq_cst accesses on one side, an acq_rel fence's worth on the other",
     "rlx_store 0 1; rel_fence; acq_fence; rlx_load 1 | sc_store 1 1; sc_load 0", "0 0", true},
    {"store buffering, a seq_cst fence on one side, only the load seq_cst on the other",
     "rlx_store 0 1; sc_fence; rlx_load 1 | rlx_store 1 1; sc_load 0", "0 0", true},
    {"store buffering, a seq_cst fence on one side, only the store seq_cst on the other",
     "rlx_store 0 1; sc_fence; rlx_load 1 | sc_store 1 1; rlx_load 0", "0 0", true},
    {"a seq_cst fence behind a seq_cst store learns nothing of what came before that",
     "rlx_store 0 1; sc_store 1 1; sc_load 2 | rlx_store 2 1; sc_fence; rlx_load 1; "
     "rlx_load 0", "0 1 0", true},
    {"R, a seq_cst fence and seq_cst accesses",
        "rlx_store 0 1; sc_fence; rlx_store 1 1 | sc_store 1 2; sc_load 0",
     "0/1 2 0 0", false},
    {"two writers of two, seq_cst stores and a seq_cst fence",
     "sc_store 0 1; sc_store 1 2 | rlx_store 1 1; sc_fence; rlx_store 0 2", "/1 1 0 0", false},
    {"message passing, relaxed", "rlx_store 0 1; rlx_store 1 1 | rlx_load 1; rlx_load 0", "1 0", true},
    {"message passing, release only", "rlx_store 0 1; rel_store 1 1 | rlx_load 1; rlx_load 0", "1 0", true},
    {"message passing, acquire only", "rlx_store 0 1; rlx_store 1 1 | acq_load 1; rlx_load 0", "1 0", true},
    {"message passing, release and acquire", "rlx_store 0 1; rel_store 1 1 | acq_load 1; rlx_load 0", "1 0",
        false},
    {"message passing, fences", "rlx_store 0 1; rel_fence; rlx_store 1 1 | rlx_load 1; acq_fence; rlx_load 0",
        "1 0",
     false},
    {"message passing, release fence only",
        "rlx_store 0 1; rel_fence; rlx_store 1 1 | rlx_load 1; rlx_load 0", "1 0",
     true},
    {"message passing of plain data, release and acquire",
     "plain_store 0 1; rel_store 1 1 | acq_load 1; plain_if 0", "race", false},
    {"message passing of plain data, relaxed store",
     "plain_store 0 1; rlx_store 1 1 | acq_load 1; plain_if 0", "race", true},
    {"message passing of plain data, relaxed load",
     "plain_store 0 1; rel_store 1 1 | rlx_load 1; plain_if 0", "race", true},
    {"message passing of plain data, fences",
     "plain_store 0 1; rel_fence; rlx_store 1 1 | rlx_load 1; acq_fence; plain_if 0", "race", false},
    {"message passing of plain data, unasked", "plain_store 0 1; rel_store 1 1 | acq_load 1; plain_load 0",
        "race",
     true},
    {"plain writes before the threads begin", "plain_load 0 | plain_load 0", "race", false},
    {"plain writes of two threads", "plain_store 0 1 | plain_store 0 2", "race", true},
    {"a plain read beside an atomic store", "rlx_store 0 1 | plain_load 0", "race", true},
    {"a plain read after the atomic store that its thread has seen", "rlx_store 0 1 | acq_load 0; plain_if 0",
        "race",
     true},
    {"a plain read of one half beside an atomic store of both", "wide_store 0 1 | plain_high 0", "race",
        true},
    {"a plain read of what was published", "rel_store 0 1 | acq_load 0; plain_if 0", "race", false},
    {"an atomic write after a plain read", "plain_load 0; rlx_store 0 1 | rlx_cas 0 2", "race", true},
    {"an atomic write after a plain read of which its thread knows",
        "plain_load 0; rel_store 0 1 | ar_cas 0 2", "race",
     false},
    {"load buffering, relaxed", "rlx_load 0; rlx_store 1 1 | rlx_load 1; rlx_store 0 1", "1 1", true},
    {"load buffering, acquire only", "rlx_load 0; rlx_store 1 1 | acq_load 1; rlx_store 0 1", "1 1", true},
    {"load buffering, release only", "rlx_load 0; rel_store 1 1 | rlx_load 1; rlx_store 0 1", "1 1", true},
    {"load buffering, release behind one load, acquire before the other's store",
     "rlx_load 0; rel_store 1 1 | acq_load 1; rlx_store 0 1", "1 1", false},
    {"load buffering, one side depends", "rlx_load 0; rlx_copy 1 | rlx_load 1; rlx_store 0 1", "1 1", true},
    {"load buffering, both sides depend: out of thin air", "rlx_load 0; rlx_copy 1 | rlx_load 1; rlx_copy 0",
        "1 1",
     false},
    {"load buffering, and coherence", "rlx_load 0; rlx_store 1 1; rlx_load 0 | rlx_load 1; rlx_store 0 1",
        "1 0 1",
     false},
    {"load buffering in a cycle of three",
     "rlx_load 0; rlx_store 1 1 | rlx_load 1; rlx_store 2 1 | rlx_load 2; rlx_store 0 1", "1 1 1", true},
    {"load buffering, acquire and release", "acq_load 0; rel_store 1 1 | acq_load 1; rel_store 0 1", "1 1",
        false},
    {"independent reads, acquire",
     "rel_store 0 1 | rel_store 1 1 | acq_load 0; acq_load 1 | acq_load 1; acq_load 0", "1 0 1 0", true},
    {"independent reads, seq_cst",
        "sc_store 0 1 | sc_store 1 1 | sc_load 0; sc_load 1 | sc_load 1; sc_load 0",
     "1 0 1 0", false},
    {"independent reads, relaxed with seq_cst fences",
     "rlx_store 0 1 | rlx_store 1 1 | rlx_load 0; sc_fence; rlx_load 1 | rlx_load 1; sc_fence; "
     "rlx_load 0", "1 0 1 0",
     false},
    {"coherence: two reads", "rlx_store 0 1; rlx_store 0 2 | rlx_load 0; rlx_load 0", "2 1", false},
    {"coherence: two reads, in order", "rlx_store 0 1; rlx_store 0 2 | rlx_load 0; rlx_load 0", "1 2", true},
    {"coherence: own write", "rlx_store 0 1; rlx_load 0 | rlx_store 0 2", "0", false},
    {"coherence: readers agree",
        "rlx_store 0 1 | rlx_store 0 2 | rlx_load 0; rlx_load 0 | rlx_load 0; rlx_load 0",
     "1 2 2 1", false},
    {"coherence: read, then write", "rlx_load 0; rlx_store 0 1 | rlx_store 0 2", "2/2 0 0 0", false},
    {"two writers of two, relaxed", "rlx_store 0 1; rlx_store 1 2 | rlx_store 1 1; rlx_store 0 2", "/1 1 0 0",
        true},
    {"two writers of two, release", "rel_store 0 1; rel_store 1 2 | rel_store 1 1; rel_store 0 2", "/1 1 0 0",
        true},
    {"two writers of two, seq_cst", "sc_store 0 1; sc_store 1 2 | sc_store 1 1; sc_store 0 2", "/1 1 0 0",
        false},
    {"R, release and acquire", "rel_store 0 1; rel_store 1 1 | rel_store 1 2; acq_load 0", "0/1 2 0 0", true},
    {"R, seq_cst", "sc_store 0 1; sc_store 1 1 | sc_store 1 2; sc_load 0", "0/1 2 0 0", false},
    {"S, relaxed", "rlx_store 0 2; rlx_store 1 1 | rlx_load 1; rlx_store 0 1", "1/2 1 0 0", true},
    {"S, release and acquire", "rlx_store 0 2; rel_store 1 1 | acq_load 1; rlx_store 0 1", "1/2 1 0 0",
        false},
    {"write to read causality, relaxed", "rlx_store 0 1 | rlx_load 0; rlx_store 1 1 | rlx_load 1; rlx_load 0",
        "1 1 0",
     true},
    {"write to read causality, release and acquire",
     "rlx_store 0 1 | acq_load 0; rel_store 1 1 | acq_load 1; rlx_load 0", "1 1 0", false},
    {"write to read causality, relaxed reader in the middle",
     "rel_store 0 1 | rlx_load 0; rlx_store 1 1 | acq_load 1; rlx_load 0", "1 1 0", true},
    {"write to read causality, all release and acquire",
     "rel_store 0 1 | acq_load 0; rel_store 1 1 | acq_load 1; rlx_load 0", "1 1 0", false},
    {"ISA2, release and acquire",
     "rlx_store 0 1; rel_store 1 1 | acq_load 1; rel_store 2 1 | acq_load 2; rlx_load 0", "1 1 0", false},
    {"release sequence of a read-modify-write",
     "rlx_store 0 1; rel_store 1 1 | rlx_add 1 1 | acq_load 1; rlx_load 0", "1 2 0", false},
    {"release sequence broken by another's store",
     "rlx_store 0 1; rel_store 1 1 | rlx_load 1; rlx_store 1 2 | acq_load 1; rlx_load 0", "1 2 0", true},
    {"release sequence broken by one's own store (C++20)",
     "rlx_store 0 1; rel_store 1 1; rlx_store 1 2 | acq_load 1; rlx_load 0", "2 0", true},
    {"what a judge notes down comes in any order: as the threads began", "note 0 | note 1", "1 2", true},
    {"what a judge notes down comes in any order: the other way round", "note 0 | note 1", "2 1", true},
    {"what a judge notes down comes in any order: behind a step of one's own", "note 0; note 0 | note 1",
        "1 3 2", true},
    {"read-modify-writes are atomic", "rlx_add 0 1 | rlx_add 0 1", "0 0", false},
    {"a read-modify-write of the oldest store that is remembered",
     "rlx_store 0 1; rlx_store 0 1; rlx_store 0 1; rlx_store 0 1; rlx_store 0 1; rlx_store 0 1; "
     "rlx_store 0 1; rlx_store 0 1; rlx_store 0 1; rlx_store 0 1; rlx_store 0 1; rlx_store 0 1; "
     "rlx_store 0 1; rlx_store 0 1; "
     "rlx_store 0 1 | rlx_add 0 8 | rlx_load 0; rlx_load 0", "0 1 8", false},
    {"read-modify-writes come in any order", "rlx_add 0 1 | rlx_add 0 1", "1 0", true},
    {"message passing by read-modify-writes", "rlx_store 0 1; rel_add 1 1 | acq_add 1 1; rlx_load 0", "0 1 0",
        false},
    {"message passing by read-modify-writes, relaxed", "rlx_store 0 1; rlx_add 1 1 | rlx_add 1 1; rlx_load 0",
        "0 1 0",
     true},
    {"swaps are atomic", "rlx_swap 0 1 | rlx_swap 0 2", "0 0", false},
    {"swaps come in any order", "rlx_swap 0 1 | rlx_swap 0 2", "2 0", true},
    {"compare and swap: one succeeds", "rlx_cas 0 1 | rlx_cas 0 1", "0 0", false},
    {"compare and swap: the other fails", "rlx_cas 0 1 | rlx_cas 0 1", "1 0", true},
    {"compare and swap: nothing comes between what it reads and what it writes",
        "rlx_store 0 3 | rlx_cas 0 1",
     "0/1 0 0 0", false},
    {"compare and swap: another's store comes after both", "rlx_store 0 3 | rlx_cas 0 1", "0/3 0 0 0", true},
    {"compare and swap acquires where it succeeds",
     "rlx_store 0 1; rel_store 1 1 | ar_cas 1 2; rlx_load 0", "1 0", false},
    {"compare and swap acquires nothing where it fails",
        "rlx_store 0 1; rel_store 1 1 | ar_cas 1 1; rlx_load 0", "1 0",
     true},
    {"compare and swap releases where it succeeds",
     "rlx_store 0 1; ar_cas 1 1 | acq_load 1; rlx_load 0", "0 1 0", false},
    {"release sequence of a compare and swap",
     "rlx_store 0 1; rel_store 1 1 | rlx_cas 1 2 | acq_load 1; rlx_load 0",
     "1 2 0", false},
    {"compare and swap of relaxed order acquires nothing itself",
     "rlx_store 0 1; rel_store 1 1 | rlx_cas 1 2; rlx_load 0",
     "1 0", true},
    {"a seq_cst store does not order what comes after it",
        "sc_store 0 1; rlx_store 1 1 | rlx_load 1; rlx_load 0",
     "1 0", true},
    {"a relaxed store overtakes a seq_cst one", "sc_store 0 1; rlx_store 1 1 | rlx_load 1; sc_load 0", "1 0",
        true},
};

const checked_litmus_test *checked_litmus_tests(size_t *count) {
    *count = sizeof(tests) / sizeof(tests[0]);
    return tests;
}

/* As an example that is kept and run again. */
static bool comes_again(oppx *explorer, const oppx_finding *finding) {
    char text[4096], error[OPPX_TEXT];
    oppx_finding *again = oppx_finding_create();
    bool comes = again != NULL &&
                 oppx_finding_print(&checked_litmus, finding, text, sizeof(text)) < sizeof(text) &&
                 oppx_finding_parse(&checked_litmus, text, again, error) == 0 &&
                 oppx_replay(explorer, &checked_litmus, again) &&
                     strcmp(again->message, finding->message) == 0;
    if (again != NULL) oppx_finding_destroy(again);
    return comes;
}

bool checked_litmus_appears(oppx *explorer, const checked_litmus_test *test, oppx_figures *figures) {
    oppx_program program;
    char error[OPPX_TEXT];
    if (oppx_program_parse(&checked_litmus, test->program, &program, error) != 0) return false;
    oppx_finding *finding = oppx_finding_create();
    if (finding == NULL) return false;
    bool race = strcmp(test->outcome, "race") == 0;
    run.wanted = test->outcome;
    oppx_exhaust(explorer, &checked_litmus, &program,
                 (oppx_bounds){.preemptions = OPPX_UNBOUNDED, .stale = OPPX_UNBOUNDED}, (oppx_budget){0},
                 figures, finding);
    if (!finding->found) { /* what only random executions do: see later.c */
        oppx_figures random;
        oppx_fuzz(explorer, &checked_litmus, &program, 1, (oppx_budget){.executions = 1000}, &random,
                  finding);
    }
    bool appears = finding->found && (strncmp(finding->message, "a data race", 11) == 0) == race &&
                   comes_again(explorer, finding);
    oppx_finding_destroy(finding);
    run.wanted = NULL;
    return appears;
}
