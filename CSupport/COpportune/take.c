/*
 * Taking: the path from the highest level that has a job down to that job. Ready bits that are found wrong
 * are cleared.
 *
 * A consumer mostly continues where it took last, for the app's turn. So it caches that path (R3 and R4 in
 * runq.h). It leaves the short path where the long one might find something else: a higher level, a job that
 * was returned, or, at the end of a turn, another app or rank of the level. A turn ends after OPP_TURN jobs,
 * or when the worker ends it.
 */
#include "runq.h"

/* relaxed: the consumer's own thread has written it. */
static inline opp_producer *own_of(const opp_consumer *consumer) { return opp_load(&consumer->own, relaxed); }

/*
 * The app was suspended or moved during the take. Returns whether the job may still run, at a level that the
 * caller asked for. If not, it returns to the front of its rank, where the app's next take finds it first.
 */
static bool consumer_reconsider(opp_consumer *consumer, opp_app *app, uint64_t state, uint64_t levels,
                                opp_taken *taken) {
    const opp_core *core = app->core;
    taken->band = state_band(state);
    taken->level = level_of(core, state, taken->rank);
    if (!(state & STATE_SUSPENDED) && levels & 1ull << taken->level) return true;
    int result = opp_app_give_back(own_of(consumer), app, taken->rank, taken->job);
    /* No memory to return it: running the job is better than losing it. */
    if (result < 0) return true;
    consumer_announce(consumer, NULL);
    if (result != OPP_LEVEL_NONE && core->config.on_ready != NULL)
        core->config.on_ready(core->config.context, (uint8_t)result);
    return false;
}

/* After the take, for which the app's word was `seen`: what comes with the job, and whether it may still
 * run. */
static inline bool consumer_confirm(opp_consumer *consumer, opp_app *app, uint64_t seen, uint64_t levels,
                                    opp_taken *taken) {
    OPP_ASSERT(app->core == consumer->core);
    OPP_ASSERT(levels & 1ull << taken->level);
    taken->app = app;
    taken->context = opp_load(&app->context, relaxed);
    consumer_announce(consumer, app);
    uint64_t state = opp_load(&app->state, seq_cst); /* [announce] */
    return state == seen || consumer_reconsider(consumer, app, state, levels, taken);
}

/* Takes from the queue of a rank, or clears the ready bit. */
static bool rank_take(opp_consumer *consumer, rank_queues *queues, unsigned rank, opp_taken *taken) {
    OPP_ASSERT(rank < OPP_RANKS);
    if (!(ready_bits_maybe_64(queues->ranks) & 1ull << rank)) return false;
    /* relaxed: the thread that set the ready bit had seen the queue */
    opp_queue *queue = opp_load(&queues->queue[rank], relaxed);
    if (queue == NULL) return false;
    if (queue_remove(queue, &consumer->memory, own_of(consumer), consumer->distance, 1, &taken->job,
                     &taken->stolen)) return true;
    ready_bit ready = ready_bit_at(queues->ranks, rank);
    if (ready_bit_begin_clearing(ready)) ready_bit_resolve(ready, opp_queue_count(queue) != 0);
    return false;
}

/* A job came from the back of a rank that has its level for itself. */
static void consumer_remember(opp_consumer *consumer, opp_app *app, uint64_t state, const opp_taken *taken) {
    OPP_ASSERT(consumer->memory.queue != NULL);
    OPP_ASSERT(taken->level == level_of(app->core, state, taken->rank)); /* R3 */
    consumer->last.app = app;
    consumer->last.queue = consumer->memory.queue;
    consumer->last.front = app->queues[QUEUES_FRONT].ranks;
    consumer->last.state = state;
    consumer->last.level = taken->level;
    consumer->last.rank = taken->rank;
    consumer->last.band = taken->band;
}

static bool app_take(opp_consumer *consumer, opp_app *app, unsigned number, uint64_t levels,
                     opp_taken *taken) {
    OPP_ASSERT(number < OPP_LEVELS);
    /* relaxed: consumer_confirm() reads it again, and so does a thread that clears a ready bit. */
    uint64_t state = opp_load(&app->state, relaxed);
    if (state & STATE_SUSPENDED) return false;
    uint64_t ranks = app_ranks_at(app, state, number);
    /* Where several ranks share the lowest level none may starve: begin at another one each time. */
    uint64_t shared = ranks & (ranks - 1);
    if (shared != 0) {
        uint64_t from = ~0ull << (consumer->spin++ % OPP_RANKS);
        if (ranks & from) ranks &= from;
    }
    for (; ranks != 0; ranks &= ranks - 1) {
        unsigned rank = (unsigned)__builtin_ctzll(ranks);
        bool front = rank_take(consumer, &app->queues[QUEUES_FRONT], rank, taken);
        if (!front && !rank_take(consumer, &app->queues[QUEUES_BACK], rank, taken)) continue;
        taken->level = (uint8_t)number;
        taken->rank = (uint8_t)rank;
        taken->band = state_band(state);
        consumer->last.level = OPP_LEVEL_NONE;
        if (!front && shared == 0) consumer_remember(consumer, app, state, taken);
        return consumer_confirm(consumer, app, state, levels, taken);
    }
    return false;
}

/* Words that are looked at together. The explorer has fewer apps than are in these; a test has more. */
enum { EIGHT = 8 };

/* Whether of eight words no bit is set or being cleared. Each is read as by ready_bits_maybe(). */
static inline bool eight_are_empty(const ready_word *words) {
    return (opp_load(&words[0], seq_cst) | opp_load(&words[1], seq_cst) | opp_load(&words[2], seq_cst) |
            opp_load(&words[3], seq_cst) | opp_load(&words[4], seq_cst) | opp_load(&words[5], seq_cst) |
            opp_load(&words[6], seq_cst) | opp_load(&words[7], seq_cst)) == 0;
}

/* The first app from that word on, and below `end`, whose ready bit may be set, or -1. Of thousands of apps
 * few are ready: most words are passed over together. */
static __attribute__((noinline)) int64_t level_next_app_from_word(const ready_word *apps, uint32_t word,
                                                                  uint32_t end) {
    for (; word * OPP_WORD_APPS < end; word++) {
        while ((word + EIGHT) * OPP_WORD_APPS <= end && eight_are_empty(&apps[word])) word += EIGHT;
        if (word * OPP_WORD_APPS >= end) break;
        uint32_t bits = ready_bits_maybe(&apps[word]);
        if (bits != 0) return (int64_t)word * OPP_WORD_APPS + __builtin_ctz(bits);
    }
    return -1;
}

/* The next app at or after `from` whose ready bit may be set at a level, or -1. */
static int64_t level_next_app(const opp_core *core, unsigned number, uint32_t from) {
    const ready_word *apps = level_apps(core, number);
    /* seq_cst: [ready], since no word behind it is looked at */
    uint32_t end = opp_load(&core->app_end, seq_cst), word = from / OPP_WORD_APPS;
    OPP_ASSERT(end <= core->config.max_apps);
    if (word * OPP_WORD_APPS >= end) return -1;
    uint32_t bits = ready_bits_maybe(&apps[word]) & ~0u << from % OPP_WORD_APPS;
    if (bits != 0) return (int64_t)word * OPP_WORD_APPS + __builtin_ctz(bits);
    return (word + 1) * OPP_WORD_APPS < end ? level_next_app_from_word(apps, word + 1, end) : -1;
}

/* Nothing was found at a level: repairs its ready bit. */
static void level_repair(opp_core *core, unsigned number) {
    ready_bit ready = ready_bit_at(core->ready, number);
    if (level_next_app(core, number, 0) < 0 && ready_bit_begin_clearing(ready))
        ready_bit_resolve(ready, level_next_app(core, number, 0) >= 0);
}

/* Whether the turn of the app that was served last at the level is over. */
static inline bool consumer_turn_is_over(const opp_consumer *consumer, unsigned number) {
    return consumer->turn[number] >= OPP_TURN || consumer->memory.is_over;
}

static bool level_take(opp_consumer *consumer, unsigned number, uint64_t levels, opp_taken *taken) {
    opp_core *core = consumer->core;
    uint32_t start = consumer->cursor[number];
    bool is_over = consumer_turn_is_over(consumer, number);
    if (is_over) start++;
    if (start >= core->config.max_apps) start = 0;
    /* Two ranges: from the cursor to the end, then from the beginning to the cursor. */
    for (int stretch = 0; stretch < 2; stretch++) {
        uint32_t from = stretch == 0 ? start : 0;
        int64_t found;
        while ((found = level_next_app(core, number, from)) >= 0 && (stretch == 0 || found < start)) {
            uint32_t index = (uint32_t)found;
            OPP_ASSERT(index < core->config.max_apps);
            /* relaxed: the thread that set the ready bit had seen the app. */
            opp_app *app = opp_load(&core->apps[index], relaxed);
            if (app != NULL && app_take(consumer, app, number, levels, taken)) {
                bool goes_on = index == consumer->cursor[number] && !is_over;
                consumer->turn[number] = goes_on ? consumer->turn[number] + 1 : 1;
                consumer->cursor[number] = index;
                return true;
            }
            ready_bit ready = level_app_bit(core, number, index);
            if (ready_bit_begin_clearing(ready))
                ready_bit_resolve(ready, app != NULL && opp_app_holds(app, number));
            from = index + 1;
        }
    }
    return false;
}

/* Whether the long path would find the same place: no other app or rank waits at the level of the last
 * job. */
static __attribute__((noinline)) bool last_is_alone(const opp_consumer *consumer) {
    const opp_core *core = consumer->core;
    const opp_app *app = consumer->last.app;
    unsigned number = consumer->last.level;
    return level_next_app(core, number, 0) == app->index &&
        level_next_app(core, number, app->index + 1) < 0 &&
        (app_ranks_at(app, consumer->last.state, number) & ~(1ull << consumer->last.rank)) == 0;
}

/*
 * The short path: the next job from the place of the last one, while the app's turn lasts and its word has
 * not changed. If it finds nothing, that proves nothing; the long path then clears the ready bits.
 */
static inline bool last_take(opp_consumer *consumer, unsigned number, uint64_t levels, opp_taken *taken) {
    if (consumer->last.level != number) return false;
    opp_app *app = consumer->last.app;
    OPP_ASSERT(app != NULL);              /* R3 */
    OPP_ASSERT(consumer->last.queue != NULL);
    OPP_ASSERT(consumer->last.rank < OPP_RANKS);
    if (opp_load(&app->state, relaxed) != consumer->last.state) return false; /* relaxed: as in app_take() */
    /* A job that is returned from now on is overtaken by this one take, like one that is returned after
     * it. */
    if (ready_bits_maybe_any(consumer->last.front)) return false;
    if (consumer_turn_is_over(consumer, number)) {
        if (!last_is_alone(consumer)) return false;
        consumer->turn[number] = 0;
    }
    if (!queue_remove(consumer->last.queue, &consumer->memory, own_of(consumer), consumer->distance, 1,
                      &taken->job, &taken->stolen))
        return false;
    consumer->turn[number]++;
    taken->level = (uint8_t)number;
    taken->rank = consumer->last.rank;
    taken->band = consumer->last.band;
    return consumer_confirm(consumer, app, consumer->last.state, levels, taken);
}

/* The level to serve first out of some. */
static unsigned levels_highest(uint64_t levels) {
    OPP_ASSERT(levels != 0);
    return 63u - (unsigned)__builtin_clzll(levels);
}

/* A separate function, so that the short path saves no registers for it. */
static __attribute__((noinline)) bool take_long(opp_consumer *consumer, uint64_t ready, uint64_t levels,
                                                opp_taken *taken) {
    while (ready != 0) {
        unsigned number = levels_highest(ready);
        if (level_take(consumer, number, levels, taken)) return true;
        level_repair(consumer->core, number);
        ready &= ~(1ull << number);
    }
    return false;
}

bool opp_take(opp_consumer *consumer, uint64_t levels, opp_taken *taken) {
    uint64_t ready = ready_bits_maybe_64(consumer->core->ready) & levels;
    if (ready == 0) return false;
    return last_take(consumer, levels_highest(ready), levels, taken) ||
        take_long(consumer, ready, levels, taken);
}

/* --- Looking only ----------------------------------------------------------------------------- */

uint64_t opp_ready_levels(const opp_core *core, uint64_t levels) {
    return ready_bits_maybe_64(core->ready) & levels;
}

static bool app_has_queued(const opp_app *app, unsigned number) {
    uint64_t state = opp_load(&app->state, seq_cst); /* [ready] */
    if (state & STATE_SUSPENDED) return false;
    for (uint64_t ranks = app_ranks_at(app, state, number); ranks != 0; ranks &= ranks - 1)
        for (int end = 0; end < QUEUES_ENDS; end++) {
            /* [queue] */
            const opp_queue *queue = opp_load(&app->queues[end].queue[__builtin_ctzll(ranks)], acquire);
            if (queue != NULL && opp_queue_count(queue) != 0) return true;
        }
    return false;
}

bool opp_has_ready(opp_core *core, uint64_t levels) {
    for (uint64_t ready = opp_ready_levels(core, levels); ready != 0; ready &= ready - 1) {
        unsigned number = (unsigned)__builtin_ctzll(ready);
        OPP_ASSERT(levels & 1ull << number);
        for (int64_t found = level_next_app(core, number, 0); found >= 0;
             found = level_next_app(core, number, (uint32_t)found + 1)) {
            opp_app *app = opp_load(&core->apps[found], relaxed); /* relaxed: as in level_take() */
            if (app != NULL && app_has_queued(app, number)) return true;
        }
    }
    return false;
}
