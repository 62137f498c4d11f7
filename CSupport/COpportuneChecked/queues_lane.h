/*
 * Targets lane and parking: workers that sleep, and who wakes them. A worker does what Worker.swift does. In `lane`
 * jobs are a number, so that the lane alone is on trial; in `parking` they are in a run queue.
 *
 * Promised (opp_lane.h): when a push is followed by opp_lane_notify() and fewer workers than permits are at work, one is
 * woken or looks again, so nothing waits while a worker sleeps that might run it; what the waker did before is seen by
 * the woken; nobody works without a permit but in reserve, and permits do not get lost; opp_lane_notify() makes no system call while all permits are in use, and never
 * more than one; a closed lane lets nobody sleep; a thread that is stopped in one of these calls does not keep the
 * others from ending theirs, and has at most one sleeper whom it does not wake, one permit, and the wake-up that it was
 * given itself: a later notification wakes another.
 */
enum { LANE_SUBMIT, LANE_WORK, LANE_RESERVE, LANE_CLOSE, LANE_PERMITS, LANE_SUSPEND, LANE_RESUME };

static const oppx_kind lane_kinds[] = {
    {.name = "submit", .weight = 6}, {.name = "work", .weight = 5}, {.name = "reserve", .weight = 1},
    {.name = "close", .weight = 0},  {.name = "permits", .arguments = 1, .limit = {4}, .weight = 1},
};
static const oppx_kind parking_kinds[] = {
    {.name = "submit", .weight = 6}, {.name = "work", .weight = 5}, {.name = "reserve", .weight = 1},
    {.name = "close", .weight = 0},  {.name = "permits", .arguments = 1, .limit = {4}, .weight = 1},
    {.name = "suspend", .weight = 1}, {.name = "resume", .weight = 1},
};

typedef enum standing { STAND_NONE, STAND_PERMIT, STAND_RESERVE, STAND_CLOSED } standing;

typedef struct park_state {
    opp_lane *lane;
    _Atomic(uint32_t) *jobs;   /* target lane: what is queued */
    _Atomic(uint32_t) *inside; /* workers with a permit */
    opp_core *core;            /* target parking */
    opp_app *app;
    opp_source *sources[OPPX_THREADS];
    opp_taker *takers[OPPX_THREADS];
    standing standing[OPPX_THREADS];
    bool showing[OPPX_THREADS]; /* inside of a resumption, whose jobs are not all shown yet */
    bool waking[OPPX_THREADS];  /* inside of a call that may have chosen a sleeper */
    bool lying[OPPX_THREADS];   /* may be chosen */
    bool closed;                /* a call of opp_lane_close() is over */
    uint32_t told;              /* notifications after a push that began when somebody was stopped, all permits set */
    uint32_t settings;          /* calls that set permits, twice each: when they begin and when they are over */
    oppx_moment set_at[OPPX_THREADS]; /* when such a call was over */
    oppx_moment wakings[OPPX_THREADS * OPPX_OPERATIONS]; /* the beginnings of calls that may wake somebody */
    uint32_t waking_count;
    uint32_t permits_most, permits_last, threads;
    bool closes, sets_permits, suspends;
} park_state;
static _Thread_local park_state *park_of_thread; /* see oppx_state() */
#define park (*park_of_thread)

static void park_begin(const oppx_program *program) {
    park_of_thread = oppx_state(OPPX_STATE_TARGET, sizeof(park_state));
    history_begin();
    memset(&park, 0, sizeof(park));
    park.threads = program->threads;
    park.permits_most = 1;
    for (uint32_t t = 0; t < program->threads; t++)
        for (uint32_t i = 0; i < program->count[t]; i++) {
            const oppx_operation *operation = &program->operation[t][i];
            park.closes |= operation->kind == LANE_CLOSE;
            park.sets_permits |= operation->kind == LANE_PERMITS;
            park.suspends |= operation->kind >= LANE_SUSPEND;
            if (operation->kind == LANE_PERMITS && operation->argument[0] + 1u > park.permits_most)
                park.permits_most = operation->argument[0] + 1u;
        }
    park.lane = opp_lane_create(1);
    park.inside = oppx_allocate(sizeof(*park.inside), 16);
}

static void lane_setup(const oppx_program *program) {
    park_begin(program);
    park.jobs = oppx_allocate(sizeof(*park.jobs), 16);
}

static void park_on_ready(void *context, uint8_t level);

static void parking_setup(const oppx_program *program) {
    park_begin(program);
    park.core = core_of(core_config(false, park_on_ready, NULL));
    park.app = opp_app_create(park.core, 1, false);
    for (uint32_t t = 1; t <= program->threads; t++) {
        park.sources[t] = opp_source_acquire(park.core, 0);
        park.takers[t] = opp_taker_create(park.core, park.sources[t], NULL);
    }
}

static bool park_has_ready(void) {
    return park.core != NULL ? opp_has_ready(park.core, ALL_LEVELS) : opp_load(park.jobs, seq_cst) != 0;
}

static void park_waking_begins(void) {
    if (park.waking_count < sizeof(park.wakings) / sizeof(park.wakings[0]))
        park.wakings[park.waking_count++] = oppx_here();
}

/* The calling worker was woken by some other thread, and must know of it. */
static void park_check_woken(uint32_t thread, oppx_moment before) {
    oppx_moment here = oppx_here();
    for (uint32_t i = 0; i < park.waking_count; i++) {
        const oppx_moment *waking = &park.wakings[i];
        if (waking->thread == thread) continue;
        /* One that it did not know of before it lay down, or that was still going on then. */
        if (oppx_precedes(waking, &here) && here.clock[waking->thread] > before.clock[waking->thread]) return;
    }
    oppx_fail("a worker is woken and does not see what its waker did");
}

/* A take that gives back what it took for another wakes somebody too. */
static void park_on_ready(void *context, uint8_t level) {
    (void)context, (void)level;
    park_waking_begins();
    park.waking[oppx_thread()] = true;
    opp_lane_notify(park.lane);
    park.waking[oppx_thread()] = false;
}

static uint32_t park_stopped(void) {
    for (uint32_t t = 1; t <= park.threads; t++)
        if (oppx_is_stopped(t)) return t;
    return 0;
}

static void park_notify(void) {
    park_waking_begins();
    uint64_t calls = oppx_futex_calls();
    park.waking[oppx_thread()] = true;
    opp_notified notified = opp_lane_notify(park.lane);
    park.waking[oppx_thread()] = false;
    calls = oppx_futex_calls() - calls;
    static const char *const names[] = {"woken", "busy", "nobody"};
    oppx_note("   -> %s", names[notified]);
    if (calls != (notified == OPP_NOTIFIED_WOKEN)) oppx_fail("a notification that makes %u calls", (unsigned)calls);
}

/* Of a push. It finds all permits that were set before, if it knows of that. */
static void park_tell(void) {
    bool counts = park_stopped() != 0;
    oppx_moment here = oppx_here();
    for (uint32_t t = 1; t <= park.threads; t++)
        counts &= park.set_at[t].clock[t] == 0 || oppx_precedes(&park.set_at[t], &here);
    uint32_t settings = park.settings;
    oppx_remember(2 * settings + counts);
    park_notify();
    park.told += counts && park.settings == settings;
    oppx_remember(park.told);
}

static void park_set_permits(uint32_t thread, uint32_t permits) {
    park.settings++;
    opp_lane_set_permits(park.lane, permits);
    park.settings++;
    oppx_remember(park.told);
    park.told = 0;
    park.set_at[thread] = oppx_here();
}

static void park_submit(uint32_t thread) {
    if (park.core == NULL) {
        opp_add(park.jobs, 1, seq_cst);
        park_tell();
        return;
    }
    uint32_t item = history_push_begins(0, 22);
    int result = opp_push(park.sources[thread], park.app, 0, (opp_job){history_payload(item), item});
    if (result != OPP_LEVEL_NONE) park_tell();
    history_push_ends(item, true);
}

static bool park_take(uint32_t thread) {
    if (park.core != NULL) {
        opp_taken taken = {0};
        uint32_t taking = history_take_begins(ALL_LEVELS);
        bool found = opp_take(park.takers[thread], ALL_LEVELS, &taken);
        history_take_ends(taking, found, taken.job.ptr, taken.job.tag);
        return found;
    }
    uint32_t jobs = opp_load(park.jobs, seq_cst);
    while (jobs != 0)
        if (opp_cas(park.jobs, &jobs, jobs - 1, seq_cst)) {
            oppx_note("   -> a job");
            return true;
        }
    return false;
}

static void park_got_permit(uint32_t thread) {
    park.standing[thread] = STAND_PERMIT;
    uint32_t inside = opp_add(park.inside, 1, relaxed) + 1;
    if (inside > park.permits_most) oppx_fail("%u workers are inside, of at most %u", inside, park.permits_most);
}

static void park_give_permit(uint32_t thread) {
    opp_sub(park.inside, 1, relaxed);
    park.standing[thread] = STAND_NONE;
    opp_lane_leave(park.lane);
}

/* The worker has no standing. Until it has one, or the lane is closed. */
static void park_rest(uint32_t thread) {
    if (park.core != NULL) opp_taker_rest(park.takers[thread]);
    uint32_t slot = thread;
    park.lying[thread] = true;
    opp_lane_lie_down(park.lane, slot);
    oppx_moment lying = oppx_here();
    opp_woken woken = park_has_ready() ? opp_lane_wake_up(park.lane, slot) : OPP_WOKEN_NOTHING;
    bool slept = woken == OPP_WOKEN_NOTHING;
    if (slept) woken = opp_lane_sleep(park.lane, slot);
    park.lying[thread] = false;
    /* Who finds the lane closed is woken by nobody. A permit that it had awake may be one that it took itself: the cell tells. */
    bool took = !slept && woken == OPP_WOKEN_PERMIT && opp_load(&park.lane->cells[slot].word, relaxed) == CELL_EMPTY;
    if (woken != OPP_WOKEN_CLOSED && !took) park_check_woken(thread, lying);
    switch (woken) {
    case OPP_WOKEN_PERMIT: park_got_permit(thread); break;
    case OPP_WOKEN_RESERVE: park.standing[thread] = STAND_RESERVE; break;
    case OPP_WOKEN_CLOSED:
        if (!park.closes) oppx_fail("a worker is told that the lane is closed, which nobody closes");
        park.standing[thread] = STAND_CLOSED;
        break;
    case OPP_WOKEN_NOTHING: oppx_fail("a worker that slept was woken for nothing");
    }
}

/* Until one job is done: as a worker does, which sleeps if there is none. */
static void park_work(uint32_t thread) {
    bool worked = false;
    while (!worked && park.standing[thread] != STAND_CLOSED) {
        switch (park.standing[thread]) {
        case STAND_PERMIT:
            worked = park_take(thread);
            if (!worked) park_give_permit(thread);
            break;
        case STAND_RESERVE:
            worked = park_take(thread);
            park.standing[thread] = STAND_NONE;
            break;
        case STAND_NONE:
            if (opp_lane_enter(park.lane)) {
                park_got_permit(thread);
                worked = park_take(thread);
                if (worked) break;
                park_give_permit(thread);
            }
            park_rest(thread);
            break;
        case STAND_CLOSED: break;
        }
    }
}

static void park_perform(uint32_t thread, const oppx_operation *operation) {
    switch (operation->kind) {
    case LANE_SUBMIT: park_submit(thread); break;
    case LANE_WORK: park_work(thread); break;
    case LANE_RESERVE:
        park_waking_begins();
        park.waking[thread] = true;
        opp_lane_wake_reserve(park.lane);
        park.waking[thread] = false;
        break;
    case LANE_CLOSE:
        park.waking[thread] = true;
        opp_lane_close(park.lane);
        park.waking[thread] = false;
        park.closed = true;
        break;
    case LANE_PERMITS: park_set_permits(thread, operation->argument[0] + 1u); break;
    case LANE_SUSPEND: opp_app_suspend(park.app); break;
    case LANE_RESUME:
        park.showing[thread] = true;
        if (opp_app_resume(park.app) && opp_app_levels(park.app) != 0) park_notify();
        park.showing[thread] = false;
        break;
    }
}

/* A worker that has done its part looks once more before it goes, as one that retires does: others may take over. */
static void park_end(uint32_t thread) {
    if (park.core != NULL) opp_taker_rest(park.takers[thread]);
    if (park.standing[thread] == STAND_PERMIT) {
        park_give_permit(thread);
        if (park_has_ready()) park_notify();
    }
    park.standing[thread] = STAND_NONE;
}
