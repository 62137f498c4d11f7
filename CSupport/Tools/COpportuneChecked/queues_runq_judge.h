/* What must hold of the run queue in the end, whoever was stopped: the judge of target runq. */

/* What an app was all through `during`: its band, and 0 or 1 for whether it was suspended; -1 where nobody
 * can tell. */
typedef struct stand {
    int band, suspended;
} stand;

/* Of two steps that changed an app, the earlier is known to who ends the later. */
static bool runq_is_older(const step *a, const step *b) {
    uint32_t thread = b->event.begin.thread;
    return event_before(&a->event, &b->event) || a->event.end.clock[thread] < b->event.begin.clock[thread];
}

static stand runq_stand(uint32_t app, const event *during) {
    stand stand = {.band = (int)app, .suspended = 0};
    const step *last[2] = {NULL, NULL}; /* of those that were over before: the last of each kind */
    bool known[2] = {true, true};
    for (uint32_t i = 0; i < runq.step_count; i++) {
        const step *step = &runq.steps[i];
        bool moves = step->kind == RUNQ_BAND;
        if (step->app != app || (step->event.over && !step->changed) || event_before(during, &step->event))
            continue;
        if (!event_before(&step->event, during)) known[moves] = false;
        if (!known[moves] || (last[moves] != NULL && runq_is_older(step, last[moves]))) continue;
        known[moves] = last[moves] == NULL || runq_is_older(last[moves], step);
        last[moves] = step;
        if (moves) stand.band = step->band;
        else stand.suspended = step->kind == RUNQ_SUSPEND;
    }
    if (!known[true]) stand.band = -1;
    if (!known[false]) stand.suspended = -1;
    return stand;
}

static int runq_level(uint32_t item, int band) {
    return runq.core->config.level_of[band][checked_history.items[item].class % RANKS];
}

static int runq_level_during(uint32_t item, const event *during) {
    stand stand = runq_stand(runq.app_of[item], during);
    return stand.band < 0 || stand.suspended != 0 ? -1 : runq_level(item, stand.band);
}

static void runq_check_pushes(void) {
    for (uint32_t i = 0; i < checked_history.item_count; i++) {
        if (!checked_history.items[i].accepted) continue;
        stand stand = runq_stand(runq.app_of[i], &checked_history.items[i].push);
        int result = runq.result_of[i];
        if (stand.suspended >= 0 && stand.suspended != (result == OPP_LEVEL_NONE))
            oppx_fail("a push says %d of an app that is%s suspended", result, stand.suspended ? "" : " not");
        if (stand.band >= 0 && result != OPP_LEVEL_NONE && result != runq_level(i, stand.band))
            oppx_fail("a push says level %d, not %d", result, runq_level(i, stand.band));
    }
}

/* What comes out may, and at the level at which its app is; what is given back might not. */
static void runq_check_takes(void) {
    for (uint32_t t = 0; t < checked_history.taking_count; t++) {
        taking *taking = &checked_history.takings[t];
        if (taking->item < 0) continue;
        if (checked_history.items[taking->item].stuck) {
            taking->level = ANY_LEVEL;
            continue;
        }
        stand stand = runq_stand(runq.app_of[taking->item], &taking->event);
        if (stand.suspended == 1) oppx_fail("job %d is taken while its app is suspended", taking->item);
        if (stand.band >= 0 && (int)taking->level != runq_level((uint32_t)taking->item, stand.band))
            oppx_fail("a job of level %d is said to be of %u", runq_level((uint32_t)taking->item, stand.band),
                      taking->level);
        /* A job of an app that is moved under way counts as what it was when the take looked. */
        if (stand.band < 0) taking->level = ANY_LEVEL;
    }
    for (uint32_t i = 0; i < checked_history.item_count; i++) {
        const item *item = &checked_history.items[i];
        if (!item->back.begun) continue;
        stand stand = runq_stand(runq.app_of[i], &checked_history.takings[item->giver].event);
        if (stand.band >= 0 && stand.suspended >= 0)
            oppx_fail("job %u is given back, though its app has not changed", i);
    }
}

/* Whether some job of another app than `app` could be had at `level` by each of `count` takes, the first of
 * all to the last. */
static bool runq_another_waits(uint32_t app, uint32_t level, const taking *const *takings, uint32_t count) {
    for (uint32_t i = 0; i < checked_history.item_count; i++) {
        if (runq.app_of[i] == app ||
            !history_waits(&checked_history.items[i], &takings[0]->event, &takings[count - 1]->event))
            continue;
        uint32_t t = 0;
        while (t < count && runq_level_during(i, &takings[t]->event) == (int)level) t++;
        if (t == count) return true;
    }
    return false;
}

/* Apps at one level have their turns, whatever the consumer takes of other levels meanwhile. */
static void runq_check_turns(void) {
    const taking *all = checked_history.takings;
    for (uint32_t first = 0; first < checked_history.taking_count; first++) {
        const taking *row[OPP_TURN + 1];
        uint32_t count = 0;
        for (uint32_t t = first; t < checked_history.taking_count && count <= OPP_TURN; t++) {
            if (all[t].item < 0 || runq.consumer_of[t] != runq.consumer_of[first]) continue;
            if (all[t].level == ANY_LEVEL) break;
            if (count > 0 && all[t].level != row[0]->level) continue;
            if (count > 0 && runq.app_of[all[t].item] != runq.app_of[row[0]->item]) break;
            row[count++] = &all[t];
        }
        if (count > OPP_TURN && runq_another_waits(runq.app_of[row[0]->item], row[0]->level, row, count))
            oppx_fail("app %u has more than its turn at level %u, where another waits",
                      runq.app_of[row[0]->item],
                      row[0]->level);
    }
}

/* The first take after a turn has ended goes to another app, if one waits at the level of the last. */
static void runq_check_ended_turns(void) {
    const taking *all = checked_history.takings;
    const taking *last[OPPX_THREADS * 2] = {NULL}; /* by consumer, in the order of their first takes */
    const opp_consumer *consumer[OPPX_THREADS * 2] = {NULL};
    for (uint32_t t = 0; t < checked_history.taking_count; t++) {
        uint32_t n = 0;
        while (n + 1 < OPPX_THREADS * 2 && consumer[n] != NULL && consumer[n] != runq.consumer_of[t]) n++;
        if (all[t].item < 0) continue;
        const taking *pair[2] = {last[n], &all[t]};
        bool is_pair = consumer[n] == runq.consumer_of[t] && runq.after_turn[t] &&
            pair[0]->level != ANY_LEVEL;
        consumer[n] = runq.consumer_of[t];
        last[n] = &all[t];
        if (is_pair && pair[0]->level == pair[1]->level &&
            runq.app_of[pair[0]->item] == runq.app_of[pair[1]->item] &&
            runq_another_waits(runq.app_of[pair[0]->item], pair[0]->level, pair, 2))
            oppx_fail("app %u goes on at level %u after its turn has ended, where another waits",
                      runq.app_of[pair[0]->item], pair[0]->level);
    }
}

/* Jobs of one app, rank and producer in order. */
static void runq_check_order(void) {
    for (uint32_t i = 0; i < checked_history.item_count; i++)
        checked_history.items[i].class |= (checked_history.items[i].producer + 1) << 8;
    history_check_order();
}

static void runq_check_suspension(uint32_t app) {
    int balance = 0;
    for (uint32_t i = 0; i < runq.step_count; i++)
        if (runq.steps[i].app == app && runq.steps[i].changed && runq.steps[i].kind != RUNQ_BAND)
            balance += runq.steps[i].kind == RUNQ_SUSPEND ? 1 : -1;
    bool suspended = opp_app_state_read(runq.apps[app]).suspended;
    bool stopped = false;
    for (uint32_t t = 1; t <= runq.threads; t++) stopped |= oppx_is_stopped(t);
    if (!stopped && balance != suspended)
        oppx_fail("suspensions of app %u that changed it: %d", app, balance);
    if (runq.resumes[app]) return;
    bool asked = false;
    for (uint32_t i = 0; i < runq.step_count; i++) {
        const step *step = &runq.steps[i];
        if (step->app != app || !step->event.over || step->kind != RUNQ_SUSPEND) continue;
        asked |= step->running > 0;
        for (uint32_t k = 0; k < runq.donation_count; k++)
            if (runq.donations[k].app == app && step->donated == 0 &&
                !oppx_precedes(&runq.donations[k].event.end, &step->event.end))
                oppx_fail("somebody is inside of app %u, though who suspended it saw nobody", app);
        for (uint32_t k = 0; k < checked_history.item_count; k++) {
            const item *item = &checked_history.items[k];
            if (runq.app_of[k] != app || !item->taken || item->stuck) continue;
            if (event_before(&step->event, &item->take))
                oppx_fail("job %u is taken after its app was suspended", k);
            if (step->running == 0 && !oppx_precedes(&item->take.end, &step->event.end))
                oppx_fail("job %u runs, though who suspended its app saw nobody inside", k);
        }
    }
    if (asked && !stopped && runq.quiet[app] == 0)
        oppx_fail("nobody tells that the last consumer has left app %u", app);
}

/* Nothing is left but what a stopped thread is about to show: its own job, or those of an app that it resumes
 * or moves. */
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
    /* The one job that a stopped consumer was giving back. */
    for (uint32_t i = 0; i < checked_history.taking_count; i++)
        if (!checked_history.takings[i].event.over && queued > 0) queued--;
    if (queued != 0) oppx_fail("app %d has %u jobs that no take finds", app, (unsigned)queued);
}

static void runq_finish(void) {
    for (uint32_t a = 0; a < APPS; a++) {
        runq_check_suspension(a);
        opp_app_resume(runq.apps[a]);
    }
    opp_consumer *consumer = opp_consumer_create(runq.core, runq.producers[1], NULL);
    opp_taken taken;
    while (opp_take(consumer, ALL_LEVELS, &taken)) history_drained(taken.job.ptr, taken.job.tag);
    for (int a = 0; a < APPS; a++) runq_check_empty(a);
    if (opp_has_ready(runq.core, ALL_LEVELS)) oppx_fail("something is said to be ready, and is not");
    history_check_conservation();
    runq_check_pushes();
    runq_check_takes();
    history_check_levels(runq_level_during);
    runq_check_turns();
    runq_check_ended_turns();
    history_check_bypass(OPP_BYPASS_MAX);
    history_check_front();
    runq_check_order();
}

const oppx_target checked_runq = {
    .name = "runq",
    .summary = "The run queue: each job out once, in order, none passed over, none of a suspended app, "
               "whoever is stopped.",
    .kinds = runq_kinds, .kind_count = sizeof(runq_kinds) / sizeof(runq_kinds[0]),
    .threads_max = 4, .operations_max = 12, .stalls = 1, .refusals = 1,
    .setup = runq_setup, .perform = runq_perform, .end = runq_end, .finish = runq_finish,
};
