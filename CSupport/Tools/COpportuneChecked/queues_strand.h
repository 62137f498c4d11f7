/*
 * Target queue: a strand's queue.
 *
 * Promised: entries leave in the order of their pushes, where one push was over before the other began; a
 * take finds what was pushed before it; a stopped pusher delays its own entry alone, a stopped consumer the
 * one that it took; an empty queue keeps one segment at most, and a stopped thread those that it mapped.
 */
static _Thread_local struct {
    opp_core *core;
    opp_queue *queue;
    opp_producer *producers[OPPX_THREADS];
} queue_run;

static const oppx_kind queue_kinds[] = {
    {.name = "push", .weight = 6},
    {.name = "take", .weight = 4},
    {.name = "meet", .weight = 1},
    {.name = "leave", .weight = 2}, /* the thread ends, and another begins */
};
enum { QUEUE_PUSH, QUEUE_TAKE, QUEUE_MEET, QUEUE_LEAVE };

static void queue_setup(const oppx_program *program) {
    history_begin();
    opp_core *core = core_of(core_config(NULL, NULL));
    queue_run.core = core;
    queue_run.queue = opp_queue_create(core);
    for (uint32_t t = 1; t <= program->threads; t++) queue_run.producers[t] = opp_producer_acquire(core, 0);
}

static void queue_perform(uint32_t thread, const oppx_operation *operation) {
    if (operation->kind == QUEUE_MEET) {
        history_meet();
    } else if (operation->kind == QUEUE_LEAVE) {
        opp_producer_release(queue_run.producers[thread]);
        queue_run.producers[thread] = producer_of(queue_run.core);
    } else if (operation->kind == QUEUE_PUSH) {
        uint32_t item = history_push_begins(0, 0);
        opp_job job = {history_payload(item), item};
        history_push_ends(item, opp_queue_push(queue_run.queue, queue_run.producers[thread], job) == 0);
    } else {
        uint32_t taking = history_take_begins(ALL_LEVELS);
        opp_job job = {NULL, 0};
        bool found = opp_queue_take(queue_run.queue, &job);
        history_take_ends(taking, found, job.ptr, job.tag);
    }
}

static void queue_check_segments(void) {
    const opp_segments *segments = &queue_run.core->segments;
    uint32_t out = opp_load(&segments->slab_count, relaxed) * OPP_SLAB_SEGMENTS, most = 0;
    for (uint32_t number = (uint32_t)opp_load(&segments->top, relaxed); number != 0; out--)
        number = opp_load(&segments_segment(segments, number - 1)->next, relaxed);
    for (const opp_fifo *fifo = opp_load(&queue_run.queue->fifos,
                                         relaxed); fifo != NULL; fifo = fifo_next(fifo)) most++;
    for (const opp_fifo *fifo = queue_run.queue->resting; fifo != NULL; fifo = fifo->resting) most++;
    for (uint32_t thread = 1; thread < OPPX_THREADS; thread++)
        if (oppx_is_stopped(thread)) most += OPP_SLAB_SEGMENTS;
    if (out > most) oppx_fail("%u segments are in use, where %u are the most", out, most);
}

static void queue_finish(void) {
    opp_job job;
    while (opp_queue_take(queue_run.queue, &job)) history_drained(job.ptr, job.tag);
    queue_check_segments();
    if (!opp_queue_is_empty(queue_run.queue)) oppx_fail("the queue is not empty, yet nothing can be taken");
    history_check_conservation();
    history_check_order();
    history_check_levels(NULL);
    history_check_linear(0, true);
}

const oppx_target checked_queue = {
    .name = "queue",
    .summary = "A strand's queue: each job out once, in the order of pushes that follow one another, whoever "
               "is stopped.",
    .kinds = queue_kinds, .kind_count = 4, .threads_max = 4, .operations_max = 8, .stalls = 1, .refusals = 2,
    .setup = queue_setup, .perform = queue_perform, .finish = queue_finish,
};
