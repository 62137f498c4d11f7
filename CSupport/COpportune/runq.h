/*
 * The run queue: the path from a level down to a job. Private to the core.
 *
 *   levels (64 bits) -> apps of the level (a bit each) -> app's state word -> app's ranks (64 bits) -> queue
 *
 * The bits are *ready bits*, which are hints. The queues decide what is queued, and the app's state word
 * decides whether it may run. So an app changes band, or is suspended, in one step, without a walk over its
 * jobs.
 *
 * The app's word; it changes only in app_step(), and is reset when another app reuses the index:
 *     bits 0-1   BAND        0 background, 1 foreground, 2 real-time
 *     bit  2     SUSPENDED   no take hands out a job of this app
 *     bits 3-63  GENERATION  grows with every step, so that a consumer detects a change during its take
 *
 * Invariants
 *  R1  No ready bit stays clear for good where something is queued. Let a queue hold an entry whose push is
 *      over, and let the app not be suspended. Then every bit on its path is set, or is being cleared, or
 *      will be set by a thread that is still inside the step that made the entry ready. That thread is the
 *      entry's own pusher or the app's own resumer.
 *  R2  A bit is cleared only by the thread that has marked it, between two reads of the tier below it.
 *
 * Why R1 holds (the protocol of ready_bit_begin_clearing and ready_bit_resolve). A pusher stores tail
 * (seq_cst), then loads the bit (seq_cst) and sets it if it is clear; likewise from bit to bit. A clearer
 * marks and clears the bit (seq_cst), then looks below (seq_cst), sets the bit again if anything is
 * there, and only then takes the mark away. In the one order of these four, either the pusher's load comes
 * after the clearing, and it sets the bit; or it comes before, then so does its store of tail, and the
 * clearer's look sees the entry. A clearer that is stopped anywhere leaves the mark there, and a consumer
 * looks at bits that are set or marked: nothing is hidden, at the price of a futile look. The same argument
 * holds with the state word in the place of tail, for resuming and for changing band; and with `app_end`,
 * which whoever makes an app raises (seq_cst) before its first push, and who looks for apps loads (seq_cst).
 *
 * Suspension. A consumer announces the app (seq_cst) before it reads the app's word for the last time
 * (seq_cst). A suspender changes the word (seq_cst) before it reads the announcements (seq_cst). So either
 * the consumer sees the suspension, and returns its job to the front, or the suspender sees the consumer. The
 * announcement stays while a consumer goes from job to job of one app, so it costs nothing there.
 *
 * Cached paths. A producer caches the path of its last push (opp_path), and a consumer that of its last take
 * (opp_consumer.last, .memory). No other thread reads a cache, so it needs no memory order of its own.
 *  R3  A cached path is valid under the word that is cached with it. Queues, words of ready bits and apps
 *      keep their addresses until the core is destroyed. Which of them a job passes follows from the app's
 *      index, its band and the rank. So the path is valid whenever the word is the same, even if another app
 *      has reused the index by then.
 *  R4  A cached path is used only if the app's word is still the same at the decisive moment. For a pusher,
 *      that is its read after its entry is published, the read of R1. For a consumer, it is the read after
 *      its claim, that of Suspension. So a step of the app takes effect as immediately with a cache as
 *      without.
 *  R5  The fifo that a producer caches is in its queue's list. A fifo leaves the list only while its producer
 *      has no owner, and its remover clears the producer's cache (B8).
 */
#ifndef OPP_RUNQ_PRIVATE_H
#define OPP_RUNQ_PRIVATE_H

#include "queue.h"

#define STATE_BAND 3u
#define STATE_SUSPENDED 4u
#define STATE_STEP 8u

_Static_assert(OPP_RANKS == READY_WORDS_64 * WORD_BITS && OPP_LEVELS == OPP_RANKS, "both are 64 ready bits");

/* An app's queues by rank: of its jobs as they were pushed, or of those that were given back. */
typedef struct rank_queues {
    ready_word ranks[READY_WORDS_64];
    _Atomic(opp_queue *) queue[OPP_RANKS];
} rank_queues;

enum { QUEUES_BACK = 0, QUEUES_FRONT = 1, QUEUES_ENDS = 2 };

#ifndef OPP_CHECKED
#define OPP_WORD_APPS WORD_BITS /* apps that share a word of a level's ready bits */
#endif

struct opp_app {
    opp_core *core;
    uint32_t index;
    _Atomic(uint32_t) in_use;
    /* relaxed, all uses: who owns the app sets it before the first push, and destroys the app after the last
     * take. A count of references orders that, which the thread sanitizer does not see in Swift's runtime. */
    _Atomic(void *) context;
    _Alignas(OPP_LINE) _Atomic(uint64_t) state;
    _Alignas(OPP_LINE) rank_queues queues[QUEUES_ENDS];
};

struct opp_core {
    opp_core_config config;
    size_t level_words; /* of a level's ready bits, a bit for each app: whole lines */
    ready_word *levels; /* OPP_LEVELS times as many */
    uint64_t rank_mask[OPP_BANDS][OPP_LEVELS]; /* ranks that stand at a level */
    _Atomic(opp_app *) apps[OPP_MAX_APPS]; /* made on first use, kept */
    _Atomic(uint32_t) app_end;             /* no index at or above it was ever an app's; grows only */
    _Atomic(uint32_t) free_app;            /* below it no index was free at the last search */
    _Atomic(opp_producer *) producers;     /* grows only */
    _Atomic(opp_consumer *) consumers;     /* grows only */
    _Atomic(opp_queue *) queues;           /* strands' queues; grows only */
    _Atomic(uint64_t) queue_bytes;         /* statistics */
    _Atomic(uint32_t) holds;               /* the scheduler's reference, and one for each registered thread */
    _Atomic(bool) destroyed;
    struct opp_pool *pool_of[OPP_LEVELS]; /* by level; set before the first worker begins */
    uint32_t pool_count;
    _Alignas(OPP_LINE) ready_word ready[READY_WORDS_64]; /* a bit for each level */
    _Alignas(OPP_LINE) _Atomic(uint32_t) epoch;
    opp_segments segments;
};

struct opp_consumer {
    opp_core *core;
    _Atomic(opp_producer *) own; /* a late monitor may read it: opp_consumer_set_group() */
    const uint8_t *distance;
    struct {
        opp_app *app;
        opp_queue *queue;
        ready_word *front; /* of the ranks of what was given back to the app */
        uint64_t state;    /* the app's word, of which all this is the path */
        uint8_t level;     /* OPP_LEVEL_NONE where nothing is remembered */
        uint8_t rank, band;
    } last; /* where the last job came from */
    opp_queue_memory memory;
    uint32_t spin; /* alternates between ranks that share a level */
    opp_consumer *next;
    _Atomic(uint32_t) in_use;
    uint8_t distances[OPP_LEVELS];
    uint32_t cursor[OPP_LEVELS]; /* the app that was served last, by level */
    /* jobs taken of it in succession, whatever was taken of other levels in between */
    uint32_t turn[OPP_LEVELS];
    _Alignas(OPP_LINE) _Atomic(opp_app *) current;
};

static inline uint8_t state_band(uint64_t state) {
    return state & STATE_BAND;
}

/* The level of a rank while the word is `state`. */
static inline uint8_t level_of(const opp_core *core, uint64_t state, unsigned rank) {
    OPP_ASSERT(state_band(state) < OPP_BANDS);
    OPP_ASSERT(rank < OPP_RANKS);
    return core->config.level_of[state_band(state)][rank];
}

/* Ranks of `app` that may hold something. */
static inline uint64_t app_ranks(const opp_app *app) {
    return ready_bits_maybe_64(app->queues[QUEUES_FRONT].ranks) |
        ready_bits_maybe_64(app->queues[QUEUES_BACK].ranks);
}

/* Those of them that stand at level `number` while the word is `state`. */
static inline uint64_t app_ranks_at(const opp_app *app, uint64_t state, unsigned number) {
    OPP_ASSERT(state_band(state) < OPP_BANDS);
    OPP_ASSERT(number < OPP_LEVELS);
    return app_ranks(app) & app->core->rank_mask[state_band(state)][number];
}

/* The ready bits of the apps at a level. */
static inline ready_word *level_apps(const opp_core *core, unsigned number) {
    OPP_ASSERT(number < OPP_LEVELS);
    return core->levels + number * core->level_words;
}

/* That of the app of that index. */
static inline ready_bit level_app_bit(const opp_core *core, unsigned number, uint32_t index) {
    OPP_ASSERT(index < core->config.max_apps);
    return (ready_bit){.word = &level_apps(core, number)[index / OPP_WORD_APPS],
                       .bit = 1ull << index % OPP_WORD_APPS};
}

/* Whether `app` may have something for level `number` now. */
bool opp_app_holds(const opp_app *app, unsigned number);

/* The app has become ready at level `number`: sets the ready bits above it. */
void opp_app_show_at(opp_app *app, unsigned number);

/* Gives a job back to the front of its rank. Returns what opp_push() does. */
int opp_app_give_back(opp_producer *producer, opp_app *app, uint8_t rank, opp_job job);

/* Announces that the consumer runs jobs of `app` now. Calls on_leave first, for the app before. If that is
 * suspended and this was its last consumer, calls on_quiet. */
void opp_consumer_move(opp_consumer *consumer, opp_app *app);

static inline void consumer_announce(opp_consumer *consumer, opp_app *app) {
    /* relaxed: the consumer's own field */
    if (opp_load(&consumer->current, relaxed) != app) opp_consumer_move(consumer, app);
}

#endif
