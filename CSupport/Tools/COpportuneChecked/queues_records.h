/*
 * Target records: apps, strands' queues, producers and consumers that come and go.
 *
 * Promised (opp_runq.h): a record belongs to one owner at a time, who finds nothing of the last one's in it,
 * and may write its plain fields; what an owner queues comes out, with the context that it set; the core goes
 * with its last hold, and every job before it, once.
 */
enum { RECORDS_APP, RECORDS_KEEP, RECORDS_QUEUE, RECORDS_TAKE, RECORDS_PRODUCER, RECORDS_LOOK, RECORDS_DRAIN,
       RECORDS_DESTROY };

static const oppx_kind records_kinds[] = {
    {.name = "app", .weight = 3},    /* makes an app and gives it up */
    {.name = "keep", .weight = 3},   /* makes an app, and a job of it */
    {.name = "queue", .weight = 3},    /* makes a queue, uses it and gives it up */
    {.name = "take", .weight = 4},   /* of any app */
    {.name = "producer", .weight = 2}, /* leaves its producer and its consumer, and gets others */
    {.name = "look", .weight = 1},   /* whether anything is ready, and who runs */
    {.name = "drain", .weight = 0},  /* drops what is queued; of thousands of steps, so only in a world */
    /* threads' last: the first destroys the core, the others give up their holds */
    {.name = "destroy", .weight = 0},
};

enum { RECORDS_OWNED = 16 };

typedef struct records_state {
    opp_core *core;
    opp_producer *producers[OPPX_THREADS];
    opp_consumer *consumers[OPPX_THREADS];
    const void *owned[RECORDS_OWNED]; /* apps and queues that have an owner now */
    opp_app *app_of[HISTORY_ITEMS];
    bool has_destroy; /* the core may be gone in the end */
} records_state;
static _Thread_local records_state *records_of_thread; /* see oppx_state() */
#define records (*records_of_thread)

static void records_own(const void *record, const char *what) {
    int place = -1;
    for (int i = 0; i < RECORDS_OWNED; i++) {
        if (records.owned[i] == record) oppx_fail("%s has two owners", what);
        if (records.owned[i] == NULL) place = i;
    }
    if (place < 0) oppx_fail("more records have owners than the target has room for");
    records.owned[place] = record;
}

static void records_disown(const void *record) {
    for (int i = 0; i < RECORDS_OWNED; i++)
        if (records.owned[i] == record) records.owned[i] = NULL;
}

/* On one of two nodes, by turns; the other is far. */
static void records_consumer(uint32_t thread) {
    static const uint8_t distances[2][64] = {{10, 20}, {20, 10}};
    records.consumers[thread] =
        opp_consumer_create(records.core, records.producers[thread], distances[thread % 2]);
}

static void records_setup(const oppx_program *program) {
    records_of_thread = oppx_state(OPPX_STATE_TARGET, sizeof(records_state));
    history_begin();
    memset(&records, 0, sizeof(records));
    records.core = core_of(core_config(NULL, NULL));
    for (uint32_t t = 1; t <= program->threads; t++) {
        records.producers[t] = opp_producer_acquire(records.core, t % 2);
        records_consumer(t);
        for (uint32_t i = 0; i < program->count[t - 1]; i++)
            records.has_destroy |= program->operation[t - 1][i].kind == RECORDS_DESTROY;
        if (t > 1) opp_core_retain(records.core);
    }
}

static opp_app *records_app(void) {
    opp_app *app = opp_app_create(records.core, 1, false);
    if (app == NULL) return NULL; /* all are in use */
    records_own(app, "an app");
    if (opp_app_context(app) != NULL) oppx_fail("a new app has a context");
    opp_app_state state = opp_app_state_read(app);
    if (state.suspended || state.band != 1) oppx_fail("a new app has not the state that was asked for");
    opp_app_set_context(app, app);
    return app;
}

static void records_keep(uint32_t thread) {
    opp_app *app = records_app();
    if (app == NULL) return;
    uint32_t item = history_push_begins(0, 22);
    records.app_of[item] = app;
    int result = opp_push(records.producers[thread], app, 0, (opp_job){history_payload(item), item});
    history_push_ends(item, result >= 0);
}

static void records_queue(uint32_t thread) {
    opp_queue *queue = opp_queue_create(records.core);
    records_own(queue, "a queue");
    opp_job job;
    if (!opp_queue_is_empty(queue)) oppx_fail("a new queue is not empty");
    if (opp_queue_take(queue, &job)) oppx_fail("a new queue holds a job");
    uint32_t item = history_push_begins(1, 0);
    history_push_ends(item,
                      opp_queue_push(queue, records.producers[thread],
                                     (opp_job){history_payload(item), item}) == 0);
    uint32_t taking = history_take_begins(0);
    if (!opp_queue_take(queue, &job)) oppx_fail("a queue's owner does not find what it pushed");
    history_take_ends(taking, true, job.ptr, job.tag);
    records_disown(queue);
    opp_queue_destroy(queue, NULL, NULL);
}

static void records_take(uint32_t thread) {
    opp_taken taken = {0};
    uint32_t taking = history_take_begins(ALL_LEVELS);
    bool found = opp_take(records.consumers[thread], ALL_LEVELS, &taken);
    history_take_ends(taking, found, taken.job.ptr, taken.job.tag);
    if (!found) return;
    if (taken.app != records.app_of[taken.job.tag]) oppx_fail("a job comes out of another app");
    if (taken.context != taken.app) oppx_fail("a job comes out without its app's context");
}

static void records_drop(opp_job job, void *context) {
    (void)context;
    history_take_ends(history_take_begins(0), true, job.ptr, job.tag);
}

/* No worker is inside any more and nobody pushes: only what follows the last use may still be going on
 * elsewhere. */
static void records_destroy(uint32_t thread) {
    opp_producer_release(records.producers[thread]);
    if (thread == 1) opp_core_destroy(records.core, records_drop, NULL);
    else opp_core_release(records.core);
}

static void records_perform(uint32_t thread, const oppx_operation *operation) {
    switch (operation->kind) {
    case RECORDS_APP: {
        opp_app *app = records_app();
        if (app == NULL) break;
        records_disown(app);
        opp_app_destroy(app);
        break;
    }
    case RECORDS_KEEP: records_keep(thread); break;
    case RECORDS_QUEUE: records_queue(thread); break;
    case RECORDS_TAKE: records_take(thread); break;
    case RECORDS_PRODUCER:
        opp_consumer_destroy(records.consumers[thread]);
        opp_producer_release(records.producers[thread]);
        records.producers[thread] = opp_producer_acquire(records.core, thread % 2);
        records_consumer(thread);
        break;
    case RECORDS_DRAIN: opp_core_drain(records.core, records_drop, NULL); break;
    case RECORDS_DESTROY: records_destroy(thread); break;
    case RECORDS_LOOK:
        opp_has_ready(records.core, ALL_LEVELS);
        for (uint32_t index = 0; index < records.core->config.max_apps; index++) {
            opp_app *app = opp_load(&records.core->apps[index], acquire);
            if (app != NULL) opp_app_running(app), opp_app_queued(app);
        }
        break;
    }
}

static void records_end(uint32_t thread) {
    if (records.has_destroy) return;
    opp_consumer_leave_app(records.consumers[thread]);
}

static void records_finish(void) {
    /* the explorer has seen who freed what, and the threads who dropped it */
    if (records.has_destroy) return;
    opp_producer *producer = opp_producer_acquire(records.core, 0);
    opp_consumer *consumer = opp_consumer_create(records.core, producer, NULL);
    opp_taken taken;
    while (opp_take(consumer, ALL_LEVELS, &taken)) history_drained(taken.job.ptr, taken.job.tag);
    /* A stopped thread may hold a queue, and the job in it. */
    bool stopped = false;
    for (uint32_t t = 1; t < OPPX_THREADS; t++) stopped |= oppx_is_stopped(t);
    if (!stopped) history_check_conservation();
    history_check_levels(NULL);
}

const oppx_target checked_records = {
    .name = "records",
    .summary = "Apps, queues, producers and consumers that come and go: one owner each, nothing of the last "
               "one's is left.",
    .kinds = records_kinds, .kind_count = sizeof(records_kinds) / sizeof(records_kinds[0]),
    .threads_max = 4, .operations_max = 8, .stalls = 1,
    .setup = records_setup, .perform = records_perform, .end = records_end, .finish = records_finish,
};
