/*
 * Target runq: apps, levels, suspension.
 *
 * Promised (opp_runq.h): each job out once; jobs of one source, app and rank in order; across sources no job is
 * overtaken by more than OPP_BYPASS_MAX later ones of one source; a take passes over no job of a higher level that was
 * pushed before it began; no job of a suspended app comes out of a take that began after the suspension returned; who
 * suspends sees the takers that are inside, and is told when the last has left. Jobs of an app that was suspended or
 * moved may be given back, and then keep their number but not their place.
 */
enum { APPS = 2, RANKS = 3 };
enum { RUNQ_PUSH, RUNQ_TAKE, RUNQ_TAKE_HIGH, RUNQ_REST, RUNQ_SUSPEND, RUNQ_RESUME, RUNQ_BAND, RUNQ_ADOPT, RUNQ_MEET,
       RUNQ_WORKER, RUNQ_STATE, RUNQ_FAR, RUNQ_LEND };

static const oppx_kind runq_kinds[] = {
    {.name = "push", .arguments = 2, .limit = {APPS, RANKS}, .weight = 10},
    {.name = "take", .weight = 8},
    {.name = "take_high", .weight = 1}, /* of the foreground's levels */
    {.name = "rest", .weight = 1},
    {.name = "suspend", .arguments = 1, .limit = {APPS}, .weight = 1},
    {.name = "resume", .arguments = 1, .limit = {APPS}, .weight = 1},
    {.name = "band", .arguments = 2, .limit = {APPS, OPP_BANDS}, .weight = 1},
    {.name = "adopt", .weight = 1}, /* leaves its source to others and gets one */
    {.name = "meet", .weight = 2},
    {.name = "worker", .weight = 1}, /* goes on with a new taker, as a new worker would */
    {.name = "state", .arguments = 1, .limit = {APPS}, .weight = 1},
    {.name = "far", .weight = 1}, /* goes on with a taker that knows of nodes: near are the sources of every other thread */
    /* says that it is inside, without a taker, and does something if the app is not suspended */
    {.name = "lend", .arguments = 1, .limit = {APPS}, .weight = 1},
};

typedef struct suspension {
    event event;
    uint32_t app;
    bool changed, suspends;
    uint32_t running; /* takers that it saw inside */
    uint32_t lent;    /* others that it saw inside */
} suspension;

/* Something done inside of an app without a taker. */
typedef struct loan {
    event event;
    uint32_t app;
} loan;

typedef struct runq_state {
    opp_core *core;
    opp_app *apps[APPS];
    opp_source *sources[OPPX_THREADS];
    opp_taker *takers[OPPX_THREADS];
    bool changes[APPS]; /* the program suspends or moves it */
    bool moves[APPS], resumes[APPS];
    uint32_t quiet[APPS]; /* calls of on_quiet */
    suspension steps[OPPX_THREADS * OPPX_OPERATIONS];
    uint32_t step_count;
    _Atomic(uint32_t) *lent; /* by app */
    loan loans[OPPX_THREADS * OPPX_OPERATIONS];
    uint32_t loan_count;
    uint32_t app_of[HISTORY_ITEMS];
    opp_source *source_of[HISTORY_ITEMS];
    int32_t showing[OPPX_THREADS]; /* the app that a thread is resuming or moving, or -1 */
    uint32_t threads;
    bool has_loans;
    bool has_nodes; /* some taker of the program looks at them */
} runq_state;
static _Thread_local runq_state *runq_of_thread; /* see oppx_state() */
#define runq (*runq_of_thread)

static void runq_on_quiet(void *context, opp_app *app) {
    (void)context;
    oppx_note("   on_quiet");
    for (int a = 0; a < APPS; a++) runq.quiet[a] += runq.apps[a] == app;
}

static void runq_setup(const oppx_program *program) {
    runq_of_thread = oppx_state(OPPX_STATE_TARGET, sizeof(runq_state));
    history_begin();
    memset(runq.changes, 0, sizeof(runq.changes));
    memset(runq.moves, 0, sizeof(runq.moves));
    memset(runq.resumes, 0, sizeof(runq.resumes));
    memset(runq.quiet, 0, sizeof(runq.quiet));
    runq.step_count = runq.loan_count = 0;
    runq.lent = oppx_allocate(APPS * sizeof(*runq.lent), 16);
    runq.has_nodes = runq.has_loans = false;
    runq.threads = program->threads;
    for (uint32_t t = 0; t < program->threads; t++)
        for (uint32_t i = 0; i < program->count[t]; i++) {
            const oppx_operation *operation = &program->operation[t][i];
            uint32_t app = operation->argument[0];
            if (operation->kind >= RUNQ_SUSPEND && operation->kind <= RUNQ_BAND) runq.changes[app] = true;
            runq.has_nodes |= operation->kind == RUNQ_FAR;
            runq.has_loans |= operation->kind == RUNQ_LEND;
            if (operation->kind == RUNQ_BAND) runq.moves[app] = true;
            if (operation->kind == RUNQ_RESUME) runq.resumes[app] = true;
        }
    runq.core = core_of(core_config(false, NULL, runq_on_quiet));
    for (int a = 0; a < APPS; a++) runq.apps[a] = opp_app_create(runq.core, (uint8_t)a, false);
    for (uint32_t t = 1; t <= program->threads; t++) {
        runq.sources[t] = opp_source_acquire(runq.core, runq.has_nodes ? t % 2 : 0);
        runq.takers[t] = opp_taker_create(runq.core, runq.sources[t], NULL);
        runq.showing[t] = -1;
    }
}

static void runq_push(uint32_t thread, uint32_t app, uint32_t rank) {
    uint32_t level = runq.core->config.level_of[app][rank];
    uint32_t item = history_push_begins(app * RANKS + rank, level);
    runq.app_of[item] = app;
    runq.source_of[item] = runq.sources[thread];
    checked_history.items[item].given_back = runq.changes[app];
    opp_job job = {history_payload(item), item};
    int result = opp_push(runq.sources[thread], runq.apps[app], (uint8_t)rank, job);
    history_push_ends(item, result >= 0);
    if (result == OPP_LEVEL_NONE && !runq.changes[app]) oppx_fail("a push says suspended of an app that never was");
    if (result >= 0 && result != OPP_LEVEL_NONE && !runq.changes[app] && (uint32_t)result != level)
        oppx_fail("a push says level %d, not %u", result, level);
}

static void runq_take(opp_taker *taker, uint64_t levels) {
    opp_taken taken = {0};
    uint32_t taking = history_take_begins(levels);
    bool found = opp_take(taker, levels, &taken);
    history_take_ends(taking, found, taken.job.ptr, taken.job.tag);
    /* A job of an app that is moved under way counts as what it was when the take looked. */
    if (found) checked_history.takings[taking].level = runq.moves[runq.app_of[taken.job.tag]] ? 63 : taken.level;
    if (found && !(levels & 1ull << taken.level)) oppx_fail("a take gives a job of level %u, unasked", taken.level);
    if (!found) return;
    uint32_t app = runq.app_of[taken.job.tag], level = checked_history.items[taken.job.tag].level;
    if (taken.app != runq.apps[app]) oppx_fail("a job comes out of another app");
    if (!runq.changes[app] && taken.level != level)
        oppx_fail("a job of level %u is said to be of %u", level, taken.level);
}

static void runq_step(const oppx_operation *operation) {
    suspension *step = &runq.steps[runq.step_count++];
    memset(step, 0, sizeof(*step));
    step->app = operation->argument[0];
    step->suspends = operation->kind == RUNQ_SUSPEND;
    step->event.begin = oppx_here();
    opp_app *app = runq.apps[step->app];
    step->changed = step->suspends ? opp_app_suspend(app) : opp_app_resume(app);
    if (step->suspends) step->running = opp_app_running(app);
    if (step->suspends && runq.has_loans) step->lent = opp_load(&runq.lent[step->app], seq_cst);
    step->event.end = oppx_here();
    step->event.over = true;
    oppx_note("   -> %s, %u inside", step->changed ? "changed" : "as it was", step->running);
}

static void runq_lend(uint32_t app) {
    opp_add(&runq.lent[app], 1, seq_cst);
    if (!opp_app_is_suspended(runq.apps[app])) {
        loan *loan = &runq.loans[runq.loan_count++];
        *loan = (struct loan){.app = app, .event = {.begin = oppx_here(), .end = oppx_here(), .over = true}};
    }
    opp_sub(&runq.lent[app], 1, seq_cst);
}

/* Who sees a suspension knows what was done before it. */
static void runq_look(uint32_t app) {
    if (!opp_app_state_read(runq.apps[app]).suspended) return;
    oppx_moment here = oppx_here();
    for (uint32_t i = 0; i < runq.step_count; i++)
        if (runq.steps[i].app == app && runq.steps[i].suspends && oppx_precedes(&runq.steps[i].event.begin, &here)) return;
    oppx_fail("app %u is seen suspended, and what was done before is not seen", app);
}

static void runq_perform(uint32_t thread, const oppx_operation *operation) {
    bool shows = operation->kind == RUNQ_RESUME || operation->kind == RUNQ_BAND;
    runq.showing[thread] = shows ? operation->argument[0] : -1;
    switch (operation->kind) {
    case RUNQ_PUSH: runq_push(thread, operation->argument[0], operation->argument[1]); break;
    case RUNQ_TAKE: runq_take(runq.takers[thread], ALL_LEVELS); break;
    case RUNQ_TAKE_HIGH: runq_take(runq.takers[thread], ALL_LEVELS << 20); break;
    case RUNQ_REST: opp_taker_rest(runq.takers[thread]); break;
    case RUNQ_SUSPEND:
    case RUNQ_RESUME: runq_step(operation); break;
    case RUNQ_BAND: opp_app_set_band(runq.apps[operation->argument[0]], operation->argument[1]); break;
    case RUNQ_MEET: history_meet(); break;
    case RUNQ_WORKER:
        opp_taker_rest(runq.takers[thread]);
        runq.takers[thread] = opp_taker_create(runq.core, runq.sources[thread], NULL);
        break;
    case RUNQ_FAR: {
        static const uint8_t distances[2][64] = {{10, 20}, {20, 10}};
        opp_taker_rest(runq.takers[thread]);
        runq.takers[thread] = opp_taker_create(runq.core, runq.sources[thread], distances[thread % 2]);
        break;
    }
    case RUNQ_STATE: runq_look(operation->argument[0]); break;
    case RUNQ_LEND: runq_lend(operation->argument[0]); break;
    case RUNQ_ADOPT: /* in this order, so that the taker's change of hands does not stand in for the source's */
        opp_source_release(runq.sources[thread]);
        runq.sources[thread] = opp_source_acquire(runq.core, 0);
        opp_taker_destroy(runq.takers[thread]);
        runq.takers[thread] = opp_taker_create(runq.core, runq.sources[thread], NULL);
        break;
    }
    runq.showing[thread] = -1;
}

static void runq_end(uint32_t thread) {
    opp_taker_rest(runq.takers[thread]);
}

/* Jobs of one app, rank and source in order. A source that came later than the threads counts as its first job. */
static void runq_check_order(void) {
    for (uint32_t i = 0; i < checked_history.item_count; i++) {
        uint32_t first = 0;
        while (runq.source_of[first] != runq.source_of[i]) first++;
        checked_history.items[i].class |= (first + 1) << 8;
    }
    history_check_order();
}

static void runq_check_suspension(uint32_t app) {
    int balance = 0;
    for (uint32_t i = 0; i < runq.step_count; i++)
        if (runq.steps[i].app == app && runq.steps[i].changed) balance += runq.steps[i].suspends ? 1 : -1;
    bool suspended = opp_app_state_read(runq.apps[app]).suspended;
    bool stopped = false;
    for (uint32_t t = 1; t <= runq.threads; t++) stopped |= oppx_is_stopped(t);
    if (!stopped && balance != suspended) oppx_fail("suspensions of app %u that changed it: %d", app, balance);
    if (runq.resumes[app]) return;
    bool asked = false;
    for (uint32_t i = 0; i < runq.step_count; i++) {
        const suspension *step = &runq.steps[i];
        if (step->app != app || !step->event.over) continue;
        asked |= step->running > 0;
        for (uint32_t k = 0; k < runq.loan_count; k++)
            if (runq.loans[k].app == app && step->suspends && step->lent == 0 &&
                !oppx_precedes(&runq.loans[k].event.end, &step->event.end))
                oppx_fail("somebody is inside of app %u, though who suspended it saw nobody", app);
        for (uint32_t k = 0; k < checked_history.item_count; k++) {
            const item *item = &checked_history.items[k];
            if (runq.app_of[k] != app || !item->taken) continue;
            if (event_before(&step->event, &item->take))
                oppx_fail("job %u is taken after its app was suspended", k);
            if (step->running == 0 && !oppx_precedes(&item->take.end, &step->event.end))
                oppx_fail("job %u runs, though who suspended its app saw nobody inside", k);
        }
    }
    if (asked && !stopped && runq.quiet[app] == 0) oppx_fail("nobody tells that the last taker has left app %u", app);
}

/* Nothing is left but what a stopped thread is about to show: its own job, or those of an app that it resumes or moves. */
static void runq_check_empty(int app) {
    uint64_t queued = opp_app_queued(runq.apps[app]);
    for (uint32_t t = 1; t <= runq.threads; t++)
        if (oppx_is_stopped(t) && runq.showing[t] == app) {
            for (uint32_t i = 0; i < checked_history.item_count; i++)
                if (runq.app_of[i] == (uint32_t)app) checked_history.items[i].push.over = false;
            return;
        }
    for (uint32_t i = 0; i < checked_history.item_count; i++)
        if (runq.app_of[i] == (uint32_t)app && !checked_history.items[i].push.over && queued > 0) queued--;
    /* The one job that a stopped taker was giving back. */
    for (uint32_t i = 0; i < checked_history.taking_count; i++)
        if (!checked_history.takings[i].event.over && queued > 0) queued--;
    if (queued != 0) oppx_fail("app %d has %u jobs that no take finds", app, (unsigned)queued);
}

static void runq_finish(void) {
    for (uint32_t a = 0; a < APPS; a++) {
        runq_check_suspension(a);
        opp_app_resume(runq.apps[a]);
    }
    opp_taker *taker = opp_taker_create(runq.core, runq.sources[1], NULL);
    opp_taken taken;
    while (opp_take(taker, ALL_LEVELS, &taken)) history_drained(taken.job.ptr, taken.job.tag);
    for (int a = 0; a < APPS; a++) runq_check_empty(a);
    if (opp_has_ready(runq.core, ALL_LEVELS)) oppx_fail("something is said to be ready, and is not");
    history_check_conservation();
    history_check_levels();
    history_check_bypass(OPP_BYPASS_MAX);
    runq_check_order();
}

const oppx_target checked_runq = {
    .name = "runq",
    .summary = "The run queue: each job out once, in order, none passed over, none of a suspended app, whoever is stopped.",
    .kinds = runq_kinds, .kind_count = sizeof(runq_kinds) / sizeof(runq_kinds[0]),
    .threads_max = 4, .operations_max = 12, .stalls = 1,
    .setup = runq_setup, .perform = runq_perform, .end = runq_end, .finish = runq_finish,
};
