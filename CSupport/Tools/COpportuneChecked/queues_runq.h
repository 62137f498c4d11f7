/*
 * Target runq: apps, levels, suspension.
 *
 * Promised (opp_runq.h): each job out once; jobs of one producer, app and rank in order; across producers no
 * job is overtaken by more than OPP_BYPASS_MAX later ones of one producer; a take passes over no job of a
 * higher level that was pushed before it began; no job of a suspended app comes out of a take that began
 * after the suspension returned; who of apps at one level none is given more than OPP_TURN jobs in a row by a
 * consumer, nor one more at the end of a turn, while a job of another waits there; who suspends sees the
 * consumers that are inside, and is told when the last has left; who has found nothing is not inside of what
 * it gave back; of a job that is given back at a level somebody is told. A take during which its app was
 * suspended or moved may give its job back, which others may have overtaken by then, to the front of its
 * rank; where memory is short it gives it after all. A push that is refused, which is where memory is short,
 * queues nothing. What an app was while a step of it may have come in between nobody can tell; at all other
 * times its jobs are judged like any.
 */
enum { APPS = 2, RANKS = 3 };
enum { RUNQ_PUSH, RUNQ_TAKE, RUNQ_TAKE_HIGH, RUNQ_LEAVE, RUNQ_SUSPEND, RUNQ_RESUME, RUNQ_BAND, RUNQ_ADOPT,
    RUNQ_MEET,
       RUNQ_WORKER, RUNQ_STATE, RUNQ_FAR, RUNQ_DONATE, RUNQ_TURN };

static const oppx_kind runq_kinds[] = {
    {.name = "push", .arguments = 2, .limit = {APPS, RANKS}, .weight = 10},
    {.name = "take", .weight = 8},
    {.name = "take_high", .weight = 1}, /* of the foreground's levels */
    {.name = "leave", .weight = 1},
    {.name = "suspend", .arguments = 1, .limit = {APPS}, .weight = 1},
    {.name = "resume", .arguments = 1, .limit = {APPS}, .weight = 1},
    {.name = "band", .arguments = 2, .limit = {APPS, OPP_BANDS}, .weight = 1},
    {.name = "adopt", .weight = 1}, /* leaves its producer to others and gets one */
    {.name = "meet", .weight = 2},
    {.name = "worker", .weight = 1}, /* goes on with a new consumer, as a new worker would */
    {.name = "state", .arguments = 1, .limit = {APPS}, .weight = 1},
    /* goes on with a consumer that knows of nodes: near are the producers of every other thread */
    {.name = "far", .weight = 1},
    /* says that it is inside, without a consumer, and does something if the app is not suspended */
    {.name = "donate", .arguments = 1, .limit = {APPS}, .weight = 1},
    {.name = "turn", .weight = 1}, /* ends its turn */
};

/* An app is suspended, resumed or moved. */
typedef struct step {
    event event;
    uint32_t app;
    uint8_t kind, band;
    bool changed;
    uint32_t running; /* of a suspension: consumers that it saw inside */
    uint32_t donated;    /* others that it saw inside */
} step;

/* Something done inside of an app without a consumer. */
typedef struct donation {
    event event;
    uint32_t app;
} donation;

typedef struct runq_state {
    opp_core *core;
    opp_app *apps[APPS];
    opp_producer *producers[OPPX_THREADS];
    opp_consumer *consumers[OPPX_THREADS];
    bool resumes[APPS];   /* the program does */
    uint32_t quiet[APPS]; /* calls of on_quiet */
    step steps[OPPX_THREADS * OPPX_OPERATIONS];
    uint32_t step_count;
    _Atomic(uint32_t) *donated; /* by app */
    donation donations[OPPX_THREADS * OPPX_OPERATIONS];
    uint32_t donation_count;
    uint32_t app_of[HISTORY_ITEMS];
    opp_producer *producer_of[HISTORY_ITEMS]; /* by what is pushed to it first, which is its number */
    int result_of[HISTORY_ITEMS]; /* what the push returned */
    const opp_consumer *consumer_of[HISTORY_EVENTS];
    bool after_turn[HISTORY_EVENTS]; /* the consumer had ended its turn */
    bool turn_is_over[OPPX_THREADS];
    int32_t showing[OPPX_THREADS]; /* the app that a thread is resuming or moving, or -1 */
    uint32_t threads;
    bool has_donations;
    bool has_nodes; /* some consumer of the program looks at them */
} runq_state;
static _Thread_local runq_state *runq_of_thread; /* see oppx_state() */
#define runq (*runq_of_thread)

static void runq_on_quiet(void *context, opp_app *app) {
    (void)context;
    oppx_note("   on_quiet");
    for (int a = 0; a < APPS; a++) runq.quiet[a] += runq.apps[a] == app;
}

static void runq_on_ready(void *context, uint8_t level) {
    (void)context;
    oppx_note("   on_ready %u", level);
    for (uint32_t i = 0; i < checked_history.item_count; i++) {
        item *item = &checked_history.items[i];
        if (item->back.over && item->back.thread == oppx_thread() && item->back_level == level)
            item->back_level = OPP_LEVEL_NONE;
    }
}

static void runq_setup(const oppx_program *program) {
    runq_of_thread = oppx_state(OPPX_STATE_TARGET, sizeof(runq_state));
    history_begin();
    memset(runq.resumes, 0, sizeof(runq.resumes));
    memset(runq.quiet, 0, sizeof(runq.quiet));
    runq.step_count = runq.donation_count = 0;
    runq.donated = oppx_allocate(APPS * sizeof(*runq.donated), 16);
    runq.has_nodes = runq.has_donations = false;
    runq.threads = program->threads;
    memset(runq.turn_is_over, 0, sizeof(runq.turn_is_over));
    for (uint32_t t = 0; t < program->threads; t++)
        for (uint32_t i = 0; i < program->count[t]; i++) {
            const oppx_operation *operation = &program->operation[t][i];
            runq.has_nodes |= operation->kind == RUNQ_FAR;
            runq.has_donations |= operation->kind == RUNQ_DONATE;
            if (operation->kind == RUNQ_RESUME) runq.resumes[operation->argument[0]] = true;
        }
    runq.core = core_of(core_config(runq_on_ready, runq_on_quiet));
    for (int a = 0; a < APPS; a++) runq.apps[a] = opp_app_create(runq.core, (uint8_t)a, false);
    for (uint32_t t = 1; t <= program->threads; t++) {
        runq.producers[t] = opp_producer_acquire(runq.core, runq.has_nodes ? t % 2 : 0);
        runq.consumers[t] = opp_consumer_create(runq.core, runq.producers[t], NULL);
        runq.showing[t] = -1;
    }
}

static void runq_push(uint32_t thread, uint32_t app, uint32_t rank) {
    uint32_t item = history_push_begins(app * RANKS + rank, ANY_LEVEL);
    runq.app_of[item] = app;
    uint32_t *producer = &checked_history.items[item].producer;
    runq.producer_of[item] = runq.producers[thread];
    for (*producer = 0; runq.producer_of[*producer] != runq.producers[thread];) ++*producer;
    opp_job job = {history_payload(item), item};
    int result = opp_push(runq.producers[thread], runq.apps[app], (uint8_t)rank, job);
    runq.result_of[item] = result;
    history_push_ends(item, result >= 0);
}

static void runq_take(uint32_t thread, uint64_t levels) {
    opp_consumer *consumer = runq.consumers[thread];
    opp_taken taken = {0};
    const opp_app *before = opp_consumer_current(consumer);
    uint32_t taking = history_take_begins(levels);
    runq.consumer_of[taking] = consumer;
    runq.after_turn[taking] = runq.turn_is_over[thread];
    bool found = opp_take(consumer, levels, &taken);
    history_take_ends(taking, found, taken.job.ptr, taken.job.tag);
    for (uint32_t i = 0; i < checked_history.item_count; i++) {
        const item *item = &checked_history.items[i];
        if (item->back.over && item->giver == taking && item->back_level != OPP_LEVEL_NONE)
            oppx_fail("job %u is given back at level %d, and nobody is told", i, item->back_level);
    }
    if (!found) {
        const opp_app *inside = opp_consumer_current(consumer);
        if (inside != NULL && inside != before)
            oppx_fail("a take gives nothing, and its consumer is inside of an app");
        return;
    }
    runq.turn_is_over[thread] = false;
    checked_history.takings[taking].level = taken.level;
    if (!(levels & 1ull << taken.level) && !checked_history.items[taken.job.tag].stuck)
        oppx_fail("a take gives a job of level %u, unasked", taken.level);
    if (taken.app != runq.apps[runq.app_of[taken.job.tag]]) oppx_fail("a job comes out of another app");
}

static void runq_step(const oppx_operation *operation) {
    step *step = &runq.steps[runq.step_count++];
    memset(step, 0, sizeof(*step));
    step->app = operation->argument[0];
    step->kind = operation->kind;
    step->band = operation->argument[1];
    step->event.begin = oppx_here();
    opp_app *app = runq.apps[step->app];
    bool suspends = step->kind == RUNQ_SUSPEND;
    step->changed = suspends                   ? opp_app_suspend(app)
                    : step->kind == RUNQ_BAND ? opp_app_set_band(app, step->band)
                                              : opp_app_resume(app);
    if (suspends) step->running = opp_app_running(app);
    if (suspends && runq.has_donations) step->donated = opp_load(&runq.donated[step->app], seq_cst);
    step->event.end = oppx_here();
    step->event.over = true;
    oppx_note("   -> %s, %u inside", step->changed ? "changed" : "as it was", step->running);
}

static void runq_donate(uint32_t app) {
    opp_add(&runq.donated[app], 1, seq_cst);
    if (!opp_app_is_suspended(runq.apps[app])) {
        donation *donation = &runq.donations[runq.donation_count++];
        *donation = (struct donation){
            .app = app, .event = {.begin = oppx_here(), .end = oppx_here(), .over = true}};
    }
    opp_sub(&runq.donated[app], 1, seq_cst);
}

/* Who sees a suspension knows what was done before it. */
static void runq_look(uint32_t app) {
    if (!opp_app_state_read(runq.apps[app]).suspended) return;
    oppx_moment here = oppx_here();
    for (uint32_t i = 0; i < runq.step_count; i++)
        if (runq.steps[i].app == app && runq.steps[i].kind == RUNQ_SUSPEND &&
            oppx_precedes(&runq.steps[i].event.begin, &here))
            return;
    oppx_fail("app %u is seen suspended, and what was done before is not seen", app);
}

static void runq_perform(uint32_t thread, const oppx_operation *operation) {
    bool shows = operation->kind == RUNQ_RESUME || operation->kind == RUNQ_BAND;
    runq.showing[thread] = shows ? operation->argument[0] : -1;
    switch (operation->kind) {
    case RUNQ_PUSH: runq_push(thread, operation->argument[0], operation->argument[1]); break;
    case RUNQ_TAKE: runq_take(thread, ALL_LEVELS); break;
    case RUNQ_TAKE_HIGH: runq_take(thread, ALL_LEVELS << 20); break;
    case RUNQ_TURN:
        runq.turn_is_over[thread] = true;
        opp_consumer_end_turn(runq.consumers[thread]);
        break;
    case RUNQ_LEAVE: opp_consumer_leave_app(runq.consumers[thread]); break;
    case RUNQ_SUSPEND:
    case RUNQ_RESUME:
    case RUNQ_BAND: runq_step(operation); break;
    case RUNQ_MEET: history_meet(); break;
    case RUNQ_WORKER:
        opp_consumer_leave_app(runq.consumers[thread]);
        runq.consumers[thread] = consumer_of(runq.core, runq.producers[thread], NULL);
        runq.turn_is_over[thread] = false;
        break;
    case RUNQ_FAR: {
        static const uint8_t distances[2][64] = {{10, 20}, {20, 10}};
        opp_consumer_leave_app(runq.consumers[thread]);
        runq.consumers[thread] = consumer_of(runq.core, runq.producers[thread], distances[thread % 2]);
        runq.turn_is_over[thread] = false;
        break;
    }
    case RUNQ_STATE: runq_look(operation->argument[0]); break;
    case RUNQ_DONATE: runq_donate(operation->argument[0]); break;
    /* in this order, so that the consumer's change of hands does not stand in for the producer's */
    case RUNQ_ADOPT:
        opp_producer_release(runq.producers[thread]);
        runq.producers[thread] = producer_of(runq.core);
        opp_consumer_destroy(runq.consumers[thread]);
        runq.consumers[thread] = consumer_of(runq.core, runq.producers[thread], NULL);
        runq.turn_is_over[thread] = false;
        break;
    }
    runq.showing[thread] = -1;
}

static void runq_end(uint32_t thread) {
    opp_consumer_leave_app(runq.consumers[thread]);
}
