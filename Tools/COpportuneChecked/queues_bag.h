/*
 * Target bag: a strand's queue.
 *
 * Promised: entries leave in the order of their pushes, where one push was over before the other began; a take finds
 * what was pushed before it; a stopped pusher holds back its own entry, a stopped taker at most the one it took; of
 * segments a queue that is empty keeps at most one, and a stopped thread at most what it mapped.
 */
static _Thread_local struct {
    opp_core *core;
    opp_bag *bag;
    opp_source *sources[OPPX_THREADS];
} bag_run;

static const oppx_kind bag_kinds[] = {
    {.name = "push", .weight = 6},
    {.name = "take", .weight = 4},
    {.name = "meet", .weight = 1},
    {.name = "leave", .weight = 2}, /* the thread ends, and another begins */
};
enum { BAG_PUSH, BAG_TAKE, BAG_MEET, BAG_LEAVE };

static void bag_setup(const oppx_program *program) {
    history_begin();
    opp_core *core = core_of(core_config(false, NULL, NULL));
    bag_run.core = core;
    bag_run.bag = opp_bag_create(core);
    for (uint32_t t = 1; t <= program->threads; t++) bag_run.sources[t] = opp_source_acquire(core, 0);
}

static void bag_perform(uint32_t thread, const oppx_operation *operation) {
    if (operation->kind == BAG_MEET) {
        history_meet();
    } else if (operation->kind == BAG_LEAVE) {
        opp_source_release(bag_run.sources[thread]);
        bag_run.sources[thread] = source_of(bag_run.core);
    } else if (operation->kind == BAG_PUSH) {
        uint32_t item = history_push_begins(0, 0);
        opp_job job = {history_payload(item), item};
        history_push_ends(item, opp_bag_push(bag_run.bag, bag_run.sources[thread], job) == 0);
    } else {
        uint32_t taking = history_take_begins(ALL_LEVELS);
        opp_job job = {NULL, 0};
        bool found = opp_bag_take(bag_run.bag, &job);
        history_take_ends(taking, found, job.ptr, job.tag);
    }
}

static void bag_check_segments(void) {
    const opp_pool *pool = &bag_run.core->pool;
    uint32_t out = opp_load(&pool->slab_count, relaxed) * OPP_SLAB_SEGMENTS, most = 0;
    for (uint32_t place = (uint32_t)opp_load(&pool->top, relaxed); place != 0; out--)
        place = opp_load(&pool_segment(pool, place - 1)->next, relaxed);
    for (const opp_fifo *fifo = opp_load(&bag_run.bag->fifos, relaxed); fifo != NULL; fifo = fifo_next(fifo)) most++;
    for (const opp_fifo *fifo = bag_run.bag->resting; fifo != NULL; fifo = fifo->resting) most++;
    for (uint32_t thread = 1; thread < OPPX_THREADS; thread++)
        if (oppx_is_stopped(thread)) most += OPP_SLAB_SEGMENTS;
    if (out > most) oppx_fail("%u segments are out of the pool, of at most %u", out, most);
}

static void bag_finish(void) {
    opp_job job;
    while (opp_bag_take(bag_run.bag, &job)) history_drained(job.ptr, job.tag);
    bag_check_segments();
    if (!opp_bag_is_empty(bag_run.bag)) oppx_fail("the bag is not empty, yet nothing can be taken");
    history_check_conservation();
    history_check_order();
    history_check_levels(NULL);
    history_check_linear(0, true);
}

const oppx_target checked_bag = {
    .name = "bag",
    .summary = "A strand's queue: each job out once, in the order of pushes that follow one another, whoever is stopped.",
    .kinds = bag_kinds, .kind_count = 4, .threads_max = 4, .operations_max = 8, .stalls = 1, .refusals = 2,
    .setup = bag_setup, .perform = bag_perform, .finish = bag_finish,
};
