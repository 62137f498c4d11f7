/*
 * Targets pool and parking: workers that run jobs and park, who wakes them, and a monitor that hands their
 * places to others: all by the functions of worker.c, worker_park.c and worker_pool.c, as they are. In `pool`
 * jobs are two numbers, of fresh ones and of hogs, so that the pool alone is on trial; in `parking` they are
 * in a run queue.
 *
 * Promised (opp_pool.h): when a push is followed by opp_pool_wake() and fewer workers than tokens are at
 * work, one is woken or looks again, so nothing waits while a worker sleeps that might run it; what the waker
 * did before is seen by the woken; tokens, places among the demoted and the spare worker's call are with
 * exactly those whose states say so, whoever handed off whom; opp_pool_notify() makes no system call while
 * all tokens are in use, and never more than one; a closed pool lets nobody sleep; a thread that is stopped
 * in one of these calls does not keep the others from ending theirs, and has at most one sleeper whom it
 * does not wake, one token, one place, and the wake-up that it was given itself: a later notification wakes
 * another.
 */
enum { POOL_SUBMIT, POOL_WORK, POOL_SPARE, POOL_CLOSE, POOL_TOKENS, POOL_HOG, POOL_HAND_OFF, POOL_SINK,
    POOL_COUNT,
       POOL_UNCOUNT, POOL_STALL, POOL_LOOK, POOL_IDLE, POOL_ROOM, POOL_SUSPEND, POOL_RESUME, POOL_CHAIN,
       POOL_WAIT, POOL_ARRIVE, POOL_RECEIVE, POOL_CANCEL, POOL_ADD };

#define POOL_KINDS                                                                                        \
    {.name = "submit", .weight = 6}, {.name = "work", .weight = 5}, {.name = "spare", .weight = 1},     \
        {.name = "close", .weight = 0}, {.name = "tokens", .arguments = 1, .limit = {4}, .weight = 1},   \
        {.name = "hog", .weight = 3}, /* submits a job that is demoted */                                 \
        /* the monitor's, of the worker of a thread, which may be inside a job */                         \
        {.name = "hand_off", .arguments = 1, .limit = {4}, .weight = 1},                                  \
        {.name = "sink", .arguments = 1, .limit = {4}, .weight = 1},                                      \
        {.name = "count", .arguments = 1, .limit = {4}, .weight = 1},                                     \
        {.name = "uncount", .arguments = 1, .limit = {4}, .weight = 1}, {.name = "stall", .weight = 1},   \
        {.name = "look", .weight = 1, .threads = 2}, /* the first thread is the monitor */ \
        /* whether nothing is queued and no worker has a job, as a shutdown asks */                       \
        {.name = "idle", .weight = 1},                                                                     \
        {.name = "room", .weight = 0} /* one more hog may begin */
static const oppx_kind pool_kinds[] = {POOL_KINDS};
static const oppx_kind parking_kinds[] = {
    POOL_KINDS, {.name = "suspend", .weight = 1}, {.name = "resume", .weight = 1},
    {.name = "chain", .weight = 1}, /* work, whose job leaves one behind for its own worker */
    {.name = "wait", .weight = 2},  /* work, whose job waits in the kernel, and so gives up its token */
    /* something comes for a descriptor; work, where the waiter's job tries to receive that and else arms; a
     * claim for another reason, after which the waiter's job is queued; the descriptor is watched from here
     * on, and its first waiter does the same */
    {.name = "arrive", .weight = 1}, {.name = "receive", .weight = 1}, {.name = "cancel", .weight = 1},
    {.name = "add", .weight = 1},
};

/* In target pool: the levels of hogs and of fresh jobs. In parking: ranks 0 and 1 of the foreground, 22 and
 * 21. */
enum { POOL_LEVEL_HOG = 1, POOL_LEVEL_FRESH = 2 };
#define PARKING_LEVEL_HOG (1ull << 21)

typedef struct park_state {
    opp_pool *pool;
    _Atomic(uint32_t) *jobs;   /* target pool: what is queued, hogs and fresh jobs */
    opp_core *core;            /* target parking */
    opp_app *app;
    opp_producer *producers[OPPX_THREADS];
    opp_consumer *consumers[OPPX_THREADS];
    uint32_t submitted[OPPX_THREADS], done; /* jobs */
    _Atomic(uint32_t) *draining; /* somebody waits until all are idle: who parks tells him */
    bool owes_a_notice[OPPX_THREADS]; /* its worker was busy when that was asked */
    bool begun[OPPX_THREADS];   /* its worker */
    bool asks;                  /* the program does */
    bool owes_lead[OPPX_THREADS]; /* its worker has parked since it passed the lead, and parks no more */
    bool ended[OPPX_THREADS];   /* the pool is closed, and it knows */
    oppx_moment parked_at[OPPX_THREADS]; /* the last time */
    bool showing[OPPX_THREADS]; /* inside of a resumption, whose jobs are not all shown yet */
    /* inside of a call that may have chosen a sleeper, or have taken the event that was to wake it */
    bool waking[OPPX_THREADS];
    bool pushing[OPPX_THREADS]; /* inside of a push, of which nobody is told yet */
    bool parked[OPPX_THREADS];  /* its worker has parked, and may be chosen */
    bool closed;                /* a call of opp_pool_close() is over */
    bool stalls;                /* the program says that the pool is stalled */
    /* notifications after a push that began when somebody was stopped, all tokens set */
    uint32_t told;
    /* calls that set tokens, twice each: when they begin and when they are over */
    uint32_t settings;
    oppx_moment set_at[OPPX_THREADS]; /* when such a call was over */
    oppx_moment wakings[OPPX_THREADS * OPPX_OPERATIONS]; /* the beginnings of calls that may wake somebody */
    uint32_t waking_count;
    uint32_t tokens_most, threads;
    bool closes, sets_tokens, suspends, demotes, makes_room, receives, adds;
    /* of a descriptor: what has come and was not received yet, as the kernel keeps it; its number, the waiter
     * that is armed there, and whether it is, as who claims it must see */
    opp_readiness *readiness;
    _Atomic(uint32_t) *data;
    int descriptor;
    _Atomic(uint32_t) *is_added;
    uint64_t *waiter;
    bool awaited[HISTORY_ITEMS]; /* the waiter's jobs, each queued as it was claimed */
    bool adding[OPPX_THREADS]; /* who adds the descriptor is its waiter, and not armed yet */
    uint32_t arriving; /* threads between the two halves of an arrival, which in the kernel are one */
} park_state;
static _Thread_local park_state *park_of_thread; /* see oppx_state() */
#define park (*park_of_thread)

static void park_begin(const oppx_program *program) {
    park_of_thread = oppx_state(OPPX_STATE_TARGET, sizeof(park_state));
    history_begin();
    memset(&park, 0, sizeof(park));
    park.threads = program->threads;
    park.tokens_most = 1;
    for (uint32_t t = 0; t < program->threads; t++)
        for (uint32_t i = 0; i < program->count[t]; i++) {
            const oppx_operation *operation = &program->operation[t][i];
            park.closes |= operation->kind == POOL_CLOSE;
            park.stalls |= operation->kind == POOL_STALL;
            park.asks |= operation->kind == POOL_IDLE;
            park.demotes |= operation->kind == POOL_HOG || operation->kind == POOL_SINK ||
                operation->kind == POOL_COUNT;
            park.makes_room |= operation->kind == POOL_ROOM;
            park.sets_tokens |= operation->kind == POOL_TOKENS;
            park.suspends |= operation->kind == POOL_SUSPEND || operation->kind == POOL_RESUME;
            park.receives |= operation->kind == POOL_ARRIVE || operation->kind == POOL_RECEIVE ||
                operation->kind == POOL_CANCEL || operation->kind == POOL_ADD;
            park.adds |= operation->kind == POOL_ADD;
            if (operation->kind == POOL_TOKENS && operation->argument[0] + 1u > park.tokens_most)
                park.tokens_most = operation->argument[0] + 1u;
        }
    park.pool = opp_pool_create(1);
    opp_pool_set_demoted_limit(park.pool, 1);
    park.draining = oppx_allocate(sizeof(*park.draining), 16);
}

/* On its own thread: whoever hands it off sees that it has begun. */
static opp_worker *park_worker(uint32_t thread) {
    opp_worker *worker = opp_pool_worker(park.pool, thread);
    if (!park.begun[thread]) opp_worker_begin(worker, park.consumers[thread]);
    /* Searches are on trial in target parking. */
    if (!park.begun[thread] && park.core == NULL) worker->searches_to_skip = UINT8_MAX;
    park.begun[thread] = true;
    return worker;
}

static void pool_setup(const oppx_program *program) {
    park_begin(program);
    park.jobs = oppx_allocate(2 * sizeof(*park.jobs), 16);
    /* Where nothing is ever demoted, as in a pool without such levels. */
    uint64_t demoted = park.demotes ? POOL_LEVEL_HOG : 0;
    opp_pool_set_levels(park.pool, POOL_LEVEL_FRESH | demoted, demoted, park.makes_room ? demoted : 0);
}

static void park_on_ready(void *context, uint8_t level);

static void parking_setup(const oppx_program *program) {
    park_begin(program);
    park.core = core_of(core_config(park_on_ready, NULL));
    park.app = opp_app_create(park.core, 1, false);
    uint64_t demoted = park.demotes ? PARKING_LEVEL_HOG : 0;
    opp_pool_set_levels(park.pool, ALL_LEVELS, demoted, park.makes_room ? demoted : 0);
    if (park.receives) {
        park.readiness = opp_readiness_create();
        park.data = oppx_allocate(sizeof(*park.data), 16);
        park.waiter = oppx_allocate(sizeof(*park.waiter), 16);
        park.descriptor = opp_notifier_open();
        park.is_added = oppx_allocate(sizeof(*park.is_added), 16);
        opp_pool_set_readiness(park.pool, park.readiness);
        if (!park.adds) (void)opp_readiness_add(park.readiness, park.descriptor);
        /* somebody waits there from the beginning, or from the addition */
        if (!park.adds && opp_readiness_arm(park.readiness, park.descriptor, park.waiter, 0) != OPP_ARMING_READY)
            oppx_fail("who arms first is not told to try");
        *park.waiter = !park.adds;
        if (!park.adds &&
            opp_readiness_arm(park.readiness, park.descriptor, park.waiter, 0) != OPP_ARMING_DONE)
            oppx_fail("a quiet descriptor is not armed");
    }
    opp_pool_serve(park.pool, park.core, NULL, 0);
    for (uint32_t t = 1; t <= program->threads; t++) {
        park.producers[t] = opp_producer_acquire(park.core, 0);
        park.consumers[t] = opp_consumer_create(park.core, park.producers[t], NULL);
    }
}

/* --- What a worker takes from --------------------------------------------------------------------- */

static uint64_t checked_ready_levels(const opp_core *core, uint64_t levels) {
    if (core != NULL) return opp_ready_levels(core, levels);
    uint64_t ready = 0;
    for (int kind = 0; kind < 2; kind++)
        if (levels & 1ull << kind && opp_load(&park.jobs[kind], seq_cst) != 0) ready |= 1ull << kind;
    return ready;
}

static bool checked_has_ready(opp_core *core, uint64_t levels) {
    return core != NULL ? opp_has_ready(core, levels) : checked_ready_levels(core, levels) != 0;
}

static bool checked_take(opp_consumer *consumer, uint64_t levels, opp_taken *taken) {
    if (consumer != NULL) {
        uint32_t taking = history_take_begins(levels);
        bool found = opp_take(consumer, levels, taken);
        history_take_ends(taking, found, taken->job.ptr, taken->job.tag);
        return found;
    }
    for (int kind = 1; kind >= 0; kind--) {
        if (!(levels & 1ull << kind)) continue;
        uint32_t jobs = opp_load(&park.jobs[kind], seq_cst);
        while (jobs != 0)
            if (opp_cas(&park.jobs[kind], &jobs, jobs - 1, seq_cst)) {
                oppx_note("   -> a job of level %d", kind);
                taken->level = (uint8_t)kind;
                return true;
            }
    }
    return false;
}

static bool park_has_ready(void) {
    return checked_has_ready(park.core, opp_pool_takeable(park.pool));
}

static void park_waking_begins(void) {
    if (park.waking_count < sizeof(park.wakings) / sizeof(park.wakings[0]))
        park.wakings[park.waking_count++] = oppx_here();
}

/* The calling worker was woken by some other thread, and must know of it. */
static void park_check_woken(uint32_t thread) {
    oppx_moment here = oppx_here(), before = park.parked_at[thread];
    for (uint32_t i = 0; i < park.waking_count; i++) {
        const oppx_moment *waking = &park.wakings[i];
        if (waking->thread == thread) continue;
        /* One that it did not know of before it parked, or that was still going on then. */
        if (oppx_precedes(waking, &here) && here.clock[waking->thread] > before.clock[waking->thread]) return;
    }
    oppx_fail("a worker is woken and does not see what its waker did");
}

static void checked_prepare_park(opp_pool *pool, uint32_t slot) {
    park.parked[slot] = true;
    opp_pool_prepare_park(pool, slot);
    park.parked_at[slot] = oppx_here();
}

static opp_woken checked_cancel_park(opp_pool *pool, uint32_t slot) {
    opp_woken woken = opp_pool_cancel_park(pool, slot);
    if (woken == OPP_WOKEN_NOTHING) return woken;
    park.parked[slot] = false;
    /* A token may be one that it took itself: the word tells. */
    if (opp_worker_read_state(&pool->workers[slot]) != OPP_WORKER_PARKED) park_check_woken(slot);
    return woken;
}

static opp_woken checked_park(opp_pool *pool, uint32_t slot) {
    opp_woken woken = opp_pool_park(pool, slot);
    park.parked[slot] = false;
    /* Who finds the pool closed is woken by nobody. */
    if (woken != OPP_WOKEN_CLOSED) park_check_woken(slot);
    else if (!park.closes) oppx_fail("a worker is told that the pool is closed, which nobody closes");
    if (woken == OPP_WOKEN_NOTHING) oppx_fail("a worker that slept was woken for nothing");
    return woken;
}

static bool checked_try_rise(opp_pool *pool, uint32_t slot, opp_woken *woken) {
    if (!opp_pool_try_rise(pool, slot, woken)) return false;
    park.parked[slot] = false;
    if (*woken != OPP_WOKEN_NOTHING && *woken != OPP_WOKEN_CLOSED) park_check_woken(slot);
    return true;
}

/* A take that gives back what it took for another wakes somebody too. */
static void park_on_ready(void *context, uint8_t level) {
    (void)context, (void)level;
    park_waking_begins();
    park.waking[oppx_thread()] = true;
    (void)opp_pool_wake(park.pool);
    park.waking[oppx_thread()] = false;
}

static uint32_t park_stopped(void) {
    for (uint32_t t = 1; t <= park.threads; t++)
        if (oppx_is_stopped(t)) return t;
    return 0;
}

static void park_count_calls(uint64_t before, bool may) {
    uint64_t calls = oppx_futex_calls() - before;
    if (calls > may) oppx_fail("a wake-up that makes %u calls, where %u may be", (unsigned)calls, may);
}

static void park_notify(void) {
    park_waking_begins();
    uint64_t calls = oppx_futex_calls();
    park.waking[oppx_thread()] = true;
    opp_wake wake = opp_pool_wake(park.pool);
    park.waking[oppx_thread()] = false;
    static const char *const names[] = {"nothing", "count", "start"};
    oppx_note("   -> %s", names[wake]);
    park_count_calls(calls, wake == OPP_WAKE_COUNT || (wake == OPP_WAKE_NOTHING && park.stalls));
    /* The leader is woken by its notifier. */
    if (wake == OPP_WAKE_COUNT && oppx_futex_calls() == calls && !park.receives)
        oppx_fail("a wake-up that wakes nobody");
}

/* A place has come free, or may have: whoever gave it sees to what waits. */
static void park_let_another_work(void) {
    park_waking_begins();
    park.waking[oppx_thread()] = true;
    (void)opp_pool_wake_if_ready(park.pool);
    park.waking[oppx_thread()] = false;
}

/* Of a push, or of more room. It finds all tokens that were set before, if it knows of that. */
static void park_tell(void (*notify)(void)) {
    bool counts = park_stopped() != 0;
    oppx_moment here = oppx_here();
    for (uint32_t t = 1; t <= park.threads; t++)
        counts &= park.set_at[t].clock[t] == 0 || oppx_precedes(&park.set_at[t], &here);
    uint32_t settings = park.settings;
    oppx_remember(2 * settings + counts);
    notify();
    park.told += counts && park.settings == settings;
    oppx_remember(park.told);
}

static void park_set_tokens(uint32_t thread, uint32_t tokens) {
    park.settings++;
    opp_pool_set_tokens(park.pool, tokens);
    park.settings++;
    oppx_remember(park.told);
    park.told = 0;
    park.set_at[thread] = oppx_here();
}

static void park_submit(uint32_t thread, bool is_hog) {
    park.submitted[thread]++;
    if (park.core == NULL) {
        opp_add(&park.jobs[!is_hog], 1, seq_cst);
        park_tell(park_notify);
        return;
    }
    uint32_t item = history_push_begins(is_hog, is_hog ? 21 : 22);
    park.pushing[thread] = true;
    int result = opp_push(park.producers[thread], park.app, is_hog, (opp_job){history_payload(item), item});
    if (result != OPP_LEVEL_NONE) park_tell(park_notify);
    park.pushing[thread] = false;
    history_push_ends(item, true);
}

/* By opp_submit(), as the scheduler does; from within a job of the thread's own worker. */
static void park_leave_behind(uint32_t thread) {
    uint32_t item = history_push_begins(0, 22);
    park_waking_begins();
    park.waking[thread] = true;
    opp_submitted submitted =
        opp_submit(park.producers[thread], park.app, 0, (opp_job){history_payload(item), item},
                                         opp_pool_worker(park.pool, thread));
    park.waking[thread] = false;
    if (submitted.level != 22 && submitted.level != OPP_LEVEL_NONE)
        oppx_fail("a push says level %d", submitted.level);
    history_push_ends(item, true);
}

static void park_handed(const char *what, opp_handed handed) {
    static const char *const names[] = {"off", "not", "late"};
    oppx_note("   -> %s: %s", what, names[handed]);
    if (handed != OPP_HANDED_NOT) park_let_another_work();
}

/* As Worker.waiting() does. */
static void park_wait(uint32_t thread, opp_worker *worker) {
    opp_wake wake;
    park_waking_begins();
    park.waking[thread] = true;
    bool waits = opp_worker_begin_wait(worker, &wake);
    park.waking[thread] = false;
    oppx_note("   -> %s", waits ? "waits" : "has no token");
    if (!waits) return;
    park_waking_begins();
    park.waking[thread] = true;
    (void)opp_worker_end_wait(worker);
    park.waking[thread] = false;
}

/* --- Readiness ----------------------------------------------------------------------------------- */

/* The caller has claimed the waiter: its job is queued, for the worker `self` if it takes it next. */
static void park_resumes(uint32_t thread, void *waiter, opp_worker *self) {
    if (waiter != park.waiter) oppx_fail("a waiter that nobody has armed");
    if (*park.waiter != 1) oppx_fail("a waiter is resumed twice");
    *park.waiter = 0;
    park.submitted[thread]++;
    uint32_t item = history_push_begins(0, 22);
    park.awaited[item] = true;
    park_waking_begins();
    park.waking[thread] = true;
    opp_submitted submitted =
        opp_submit(park.producers[thread], park.app, 0, (opp_job){history_payload(item), item}, self);
    park.waking[thread] = false;
    if (submitted.level != 22 && submitted.level != OPP_LEVEL_NONE)
        oppx_fail("a push says level %d", submitted.level);
    history_push_ends(item, true);
}

static void park_arrive(void) {
    park.arriving++;
    opp_add(park.data, 1, seq_cst);
    opp_notifier_notify(park.descriptor);
    park.arriving--;
}

/* Of the waiter's job: until it has received something, or is armed again. */
static void park_receive(void) {
    for (;;) {
        uint32_t data = opp_load(park.data, seq_cst);
        if (data != 0 && opp_cas(park.data, &data, data - 1, seq_cst)) return;
        if (data != 0) continue;
        *park.waiter = 1;
        opp_arming arming = opp_readiness_arm(park.readiness, park.descriptor, park.waiter, 0);
        if (arming == OPP_ARMING_DONE) return;
        *park.waiter = 0;
        if (arming == OPP_ARMING_REFUSED) oppx_fail("arming is refused, and nobody else waits");
    }
}

/* As DescriptorReadiness.add() does, and the first receive of the descriptor. */
static void park_add(uint32_t thread) {
    if (opp_swap(park.is_added, 1, seq_cst)) return;
    (void)opp_readiness_add(park.readiness, park.descriptor);
    park_waking_begins();
    park.waking[thread] = true;
    (void)opp_pool_needs_leader(park.pool);
    park.waking[thread] = false;
    park.adding[thread] = true;
    park_receive();
    park.adding[thread] = false;
}

static void park_cancel(uint32_t thread) {
    if (opp_readiness_disarm(park.readiness, park.descriptor, park.waiter, 0))
        park_resumes(thread, park.waiter, NULL);
}

/* As Worker.park() does. */
static opp_parked park_until_woken(uint32_t thread, opp_worker *worker) {
    for (;;) {
        if (park.asks && opp_load(park.draining, seq_cst)) park.owes_a_notice[thread] = false;
        if (park.readiness == NULL) return opp_worker_park(worker);
        opp_harvest harvest = {.count = 0};
        opp_parked parked = opp_worker_begin_park(worker);
        while (parked == OPP_PARKED_SLEEPS) {
            park.waking[thread] = true;
            parked = opp_worker_end_park(worker, &harvest);
            park.waking[thread] = false;
            for (uint32_t i = 0; i < harvest.count; i++)
                park_resumes(thread, opp_harvest_waiter(&harvest, i), worker);
        }
        if (parked == OPP_PARKED_AGAIN) continue;
        park.owes_lead[thread] = parked != OPP_PARKED_ENDS;
        return parked;
    }
}

static void park_pass_lead(uint32_t thread, opp_worker *worker) {
    park.owes_lead[thread] = false;
    park_waking_begins();
    park.waking[thread] = true;
    (void)opp_worker_passes_lead(worker);
    park.waking[thread] = false;
}

/* A job from its beginning to its end: as Worker.swift does. */
static void park_job(uint32_t thread, const opp_taken *taken, bool leaves, bool waits, bool receives) {
    opp_worker *worker = opp_pool_worker(park.pool, thread);
    bool is_hog = 1ull << taken->level & park.pool->demoted_levels;
    if (is_hog) {
        park_waking_begins();
        park.waking[thread] = true;
        (void)opp_worker_to_demoted(worker, park.makes_room ? 1 : 2);
        park.waking[thread] = false;
    }
    if (leaves) park_leave_behind(thread);
    if (waits) park_wait(thread, worker);
    if (receives && park.awaited[taken->job.tag]) park_receive();
    park.done++;
    oppx_remember(park.done);
    (void)opp_worker_job_ended(worker);
}

/* As Worker.harvestIfNobodyLeads() does; once in a run, as much as the clock that does not go allows. */
static void park_harvest(uint32_t thread, opp_worker *worker) {
    opp_harvest harvest = {.count = 0};
    if (park.readiness == NULL) return;
    park.waking[thread] = true;
    uint32_t count = opp_worker_harvest(worker, OPP_HARVEST_NS, &harvest);
    park.waking[thread] = false;
    for (uint32_t i = 0; i < count; i++) park_resumes(thread, opp_harvest_waiter(&harvest, i), worker);
}

/* Until one job is done: as a worker does, which parks if there is none. */
static void park_work(uint32_t thread, bool leaves, bool waits, bool receives) {
    opp_worker *worker = park_worker(thread);
    while (!park.ended[thread]) {
        opp_taken taken = {0};
        switch (opp_worker_next(worker, 0, false, &taken)) {
        case OPP_NEXT_JOB:
            if (park.owes_lead[thread]) park_pass_lead(thread, worker);
            park_job(thread, &taken, leaves, waits, receives);
            park_harvest(thread, worker);
            return;
        case OPP_NEXT_PARK:
            park.ended[thread] = park_until_woken(thread, worker) == OPP_PARKED_ENDS;
            break;
        case OPP_NEXT_RAISE: oppx_fail("a worker of the pool's own priority is to be raised");
        }
    }
}

/* As Monitor.isIdle does. */
static void park_look_if_idle(uint32_t thread) {
    uint64_t versions[OPPX_THREADS];
    if (park.suspends) return; /* what is suspended is no work */
    opp_store(park.draining, 1, seq_cst);
    bool is_busy = false;
    for (uint32_t t = 1; t <= park.threads; t++) {
        versions[t] = opp_worker_idle_version(opp_pool_worker(park.pool, t));
        is_busy |= park.owes_a_notice[t] = versions[t] == 0;
    }
    if (is_busy) return;
    if (checked_has_ready(park.core, ALL_LEVELS)) return;
    for (uint32_t t = 1; t <= park.threads; t++)
        if (opp_worker_idle_version(opp_pool_worker(park.pool, t)) != versions[t]) return;
    oppx_note("   -> idle");
    if (park.done < park.submitted[thread])
        oppx_fail("all is said to be idle, and %u of %u jobs are done", park.done, park.submitted[thread]);
}

static void park_perform(uint32_t thread, const oppx_operation *operation) {
    opp_worker *other = opp_pool_worker(park.pool, operation->argument[0] + 1u);
    switch (operation->kind) {
    case POOL_SUBMIT: park_submit(thread, false); break;
    case POOL_HOG: park_submit(thread, true); break;
    case POOL_WORK: park_work(thread, false, false, false); break;
    case POOL_CHAIN: park_work(thread, true, false, false); break;
    case POOL_WAIT: park_work(thread, false, true, false); break;
    case POOL_ARRIVE: park_arrive(); break;
    case POOL_RECEIVE: park_work(thread, false, false, true); break;
    case POOL_CANCEL: park_cancel(thread); break;
    case POOL_ADD: park_add(thread); break;
    case POOL_SPARE:
        park_waking_begins();
        park.waking[thread] = true;
        opp_pool_wake_spare(park.pool);
        park.waking[thread] = false;
        break;
    case POOL_CLOSE:
        park.waking[thread] = true;
        opp_pool_close(park.pool);
        park.waking[thread] = false;
        park.closed = true;
        break;
    case POOL_TOKENS: park_set_tokens(thread, operation->argument[0] + 1u); break;
    case POOL_HAND_OFF: park_handed("handed off", opp_worker_hand_off(other)); break;
    case POOL_SINK: park_handed("sunk", opp_worker_sink(other, OPP_DEMOTION_FOUND)); break;
    case POOL_COUNT: park_handed("counted", opp_worker_count(other)); break;
    case POOL_UNCOUNT: park_handed("uncounted", opp_worker_uncount(other)); break;
    case POOL_STALL: opp_pool_set_stalled(park.pool, true); break;
    case POOL_LOOK: opp_pool_look_at_spare(park.pool); break;
    case POOL_IDLE: park_look_if_idle(thread); break;
    case POOL_ROOM:
        if (opp_pool_add_room(park.pool)) park_tell(park_let_another_work);
        break;
    case POOL_SUSPEND: opp_app_suspend(park.app); break;
    case POOL_RESUME:
        park.showing[thread] = true;
        if (opp_app_resume(park.app) && opp_app_levels(park.app) != 0) park_notify();
        park.showing[thread] = false;
        break;
    }
}

/* A worker that has done its part ends, and the monitor looks for what it might have taken: others may take
 * over. */
static void park_end(uint32_t thread) {
    if (park.core != NULL) opp_consumer_leave_app(park.consumers[thread]);
    park.owes_a_notice[thread] = false; /* its end is told too */
    bool has_worked = park.begun[thread];
    opp_worker *worker = park_worker(thread);
    opp_worker_end(worker);
    park_let_another_work();
    if (park.readiness == NULL || !has_worked) return;
    park_pass_lead(thread, worker);
    /* As Monitor.handle() does: this one may have been started to lead. */
    park_waking_begins();
    park.waking[thread] = true;
    (void)opp_pool_needs_leader_still(park.pool);
    park.waking[thread] = false;
}
