/* What must hold of workers that sleep, whoever was stopped: the judge of targets pool and parking. */

/* What waits beside a sleeper that a notification would have found, and a token for it. */
static uint32_t park_left_over(uint32_t sleeping) {
    if (sleeping == 0 || !opp_pool_enter(park.pool)) return 0;
    opp_pool_leave(park.pool);
    if (!park_has_ready()) return 0;
    return park.core != NULL ? (uint32_t)opp_app_queued(park.app)
                             : opp_load(&park.jobs[0], seq_cst) + opp_load(&park.jobs[1], seq_cst);
}

/* How many workers are in one state or the other. */
static uint32_t park_standing(opp_worker_state one, opp_worker_state other) {
    uint32_t count = 0;
    for (uint32_t t = 1; t <= park.threads; t++) {
        opp_worker_state state = opp_worker_read_state(&park.pool->workers[t]);
        count += state == one || state == other;
    }
    return count;
}

static void park_judge(void) {
    uint32_t stopped = park_stopped(), asleep = 0; /* 0, who never is */
    for (uint32_t t = 1; t <= park.threads; t++) {
        asleep += oppx_is_asleep(t);
        if (stopped == 0 && oppx_is_asleep(t) && park.owes_a_notice[t])
            oppx_fail("worker %u sleeps, and who waits for that is not told", t);
    }
    uint32_t working = opp_pool_working(park.pool);
    uint32_t inside = park_standing(OPP_WORKER_RUNNING, OPP_WORKER_WOKEN);
    uint32_t demoted = opp_pool_demoted(park.pool), sunk = park_standing(OPP_WORKER_DEMOTED, OPP_WORKER_SUNK);
    uint32_t sleeping = opp_pool_sleeping(park.pool), chosen = park.waking[stopped],
        is_parked = park.parked[stopped];
    uint32_t held = stopped != 0;
    if (working < inside || working - inside > held)
        oppx_fail("%u tokens are in use, by %u workers", working, inside);
    if (demoted < sunk || demoted - sunk > held)
        oppx_fail("%u places are in use, by %u demoted workers", demoted, sunk);
    if (asleep > sleeping + chosen) oppx_fail("%u workers sleep, of whom %u can be woken", asleep, sleeping);
    if (asleep > chosen && (stopped != 0 ? park.closed : park.closes))
        oppx_fail("a worker sleeps in a closed pool");
    /* A stopped thread may keep what it has claimed, harvested, or is to lead; not one that is no worker. */
    if (park.readiness != NULL && asleep > chosen && (stopped == 0 || !park.begun[stopped]) &&
        park.arriving == 0 &&
        opp_load(park.data, relaxed) != 0 && opp_readiness_is_awaited(park.readiness, park.descriptor))
        oppx_fail("a lost event: something has come, its waiter is armed, and a worker sleeps");
    if (park.readiness != NULL && asleep > 0 && (stopped == 0 || !park.begun[stopped]) && park.arriving == 0 &&
        !park.adding[stopped] &&
        *park.waiter == 1 && !opp_readiness_is_awaited(park.readiness, park.descriptor))
        oppx_fail("a kept waiter: a waiter was claimed by a worker that sleeps with it in hand");
    if (stopped == 0) {
        if (opp_load(&park.pool->spare, relaxed) & SPARE_MASK &&
            park_standing(OPP_WORKER_SPARE, OPP_WORKER_CALLED) == 0)
            oppx_fail("a spare worker is said to be awake, and none is");
        if (asleep && park_has_ready())
            oppx_fail("a lost wake-up: a job waits while a worker sleeps and %u tokens are in use", working);
        return;
    }
    /* Who is stopped inside a hog has given its token to others, and has woken one for what waited then. */
    bool is_beside = opp_worker_read_state(&park.pool->workers[stopped]) == OPP_WORKER_DEMOTED &&
        !park.waking[stopped] && !park.pushing[stopped];
    if (is_beside && !park.closes && !park.sets_tokens && !park.suspends && park_left_over(sleeping) > 0)
        oppx_fail("a lost wake-up: a job waits while a worker sleeps beside thread %u, which is inside a hog",
                  stopped);
    /* Each notification since then has woken somebody or found all tokens with others, but one that the
     * stopped got. */
    if (park.told <= is_parked || park.settings % 2 != 0 || park.closes) return;
    if (park.suspends && is_parked) return;
    if (park_left_over(sleeping - (is_parked && sleeping > 0)) > is_parked)
        oppx_fail("a lost wake-up: a job waits while a worker sleeps that thread %u, which is stopped, had "
                  "not chosen",
                  stopped);
}

static void park_finish(void) {
    park_judge();
    if (park.core == NULL) return;
    for (uint32_t t = 1; t <= park.threads; t++)
        if (oppx_is_stopped(t) && park.showing[t]) return;
    opp_app_resume(park.app);
    opp_consumer *consumer = opp_consumer_create(park.core, park.producers[1], NULL);
    opp_taken taken;
    while (opp_take(consumer, ALL_LEVELS, &taken)) history_drained(taken.job.ptr, taken.job.tag);
    /* A worker that sleeps is inside none of its takes. */
    history_check_conservation();
}

static void park_quiet(void) {} /* whether they may sleep: park_judge() */

const oppx_target checked_pool = {
    .name = "pool",
    .summary = "Tokens, sleepers and wake-ups: nothing waits beside a sleeper, no token is lost, no call too "
               "many.",
    .kinds = pool_kinds, .kind_count = sizeof(pool_kinds) / sizeof(pool_kinds[0]),
    .threads_max = 4, .operations_max = 6, .stalls = 1,
    .setup = pool_setup, .perform = park_perform, .end = park_end, .quiet = park_quiet, .finish = park_finish,
};
const oppx_target checked_parking = {
    .name = "parking",
    .summary = "Run queue and pool together: no job stays queued while a worker that might run it sleeps.",
    .kinds = parking_kinds, .kind_count = sizeof(parking_kinds) / sizeof(parking_kinds[0]),
    .threads_max = 4, .operations_max = 6, .stalls = 1,
    .setup = parking_setup, .perform = park_perform, .end = park_end, .quiet = park_quiet,
        .finish = park_finish,
};
