/*
 * The run queue: from a level down to a job.
 *
 *   levels (64 bits) -> words of apps (a bit an app, by level) -> app's state word -> app's ranks (64 bits) -> bag
 *
 * The bits are hints. What is queued is decided by the bags, and whether it may run by the app's state word. So an
 * app changes band, or is suspended, in one step; nobody walks over its jobs.
 *
 * The app's word; it changes only in app_step():
 *   bits 0-1   BAND        0 background, 1 foreground, 2 real-time
 *   bit  2     SUSPENDED   no take hands out a job of this app
 *   bits 3-63  GENERATION  grows with every step, so that a taker sees after its take that something changed
 *
 * Invariants
 *  R1  A hint is never too small for good: if a bag holds an entry whose push is over, and the app is not
 *      suspended, then every bit on its path is set, or in doubt, or some thread that made it so is still inside
 *      the step that will set it and that thread is the entry's own pusher or the app's own resumer.
 *  R2  A bit is cleared only by the thread that holds its doubt, between two looks at what is below it.
 *
 * Why R1 holds (the protocol of hint_doubt and hint_settle). A pusher stores tail (seq_cst), then loads the bit (seq_cst) and
 * sets it if it is clear; likewise from tier to tier. A clearer takes the doubt, clears the bit (seq_cst), then
 * looks below (seq_cst), sets the bit again if anything is there, and only then gives the doubt back. In the one
 * order of these four, either the pusher's load comes after the clearing, and it sets the bit; or it comes before,
 * then so does its store of tail, and the clearer's look sees the entry. A clearer that is stopped anywhere leaves
 * the doubt set, and a taker looks at bits that are set or in doubt: nothing is hidden, at the price of a futile
 * look. The same argument holds with the state word in the place of tail, for resuming and for changing band.
 *
 * Suspension. A taker announces the app (seq_cst) before it reads the app's word for the last time (seq_cst); a
 * suspender changes the word (seq_cst) before it looks at the announcements (seq_cst). So either the taker sees
 * the suspension, and gives its job back to the front, or the suspender sees the taker. The announcement stays
 * while a taker goes from job to job of one app, so it costs nothing there.
 */
#include "bag.h"
#include "mapping.h"

#include <stdlib.h>
#include <string.h>

#define STATE_BAND 3u
#define STATE_SUSPENDED 4u
#define STATE_STEP 8u

/* 32 hints: a ready bit each in the low half, its doubt in the high half, so that one load sees both. */
typedef _Atomic(uint64_t) hints;
#define WORD_BITS 32u
#define HINTS_64 2 /* words that hold 64 hints */

_Static_assert(OPP_RANKS == HINTS_64 * WORD_BITS && OPP_LEVELS == OPP_RANKS, "both are 64 hints");

/* An app's jobs in one band's place, or what was given back there, by rank. */
typedef struct place {
    hints ranks[HINTS_64];
    _Atomic(opp_bag *) bag[OPP_RANKS];
} place;

enum { PLACE_BACK = 0, PLACE_FRONT = 1, PLACES = 2 };

struct opp_app {
    opp_core *core;
    uint32_t index;
    _Atomic(uint32_t) in_use;
    void *context;
    _Alignas(OPP_LINE) _Atomic(uint64_t) state;
    /* [set][front or back]; with `stay` a set for each band, else set 0 alone. */
    _Alignas(OPP_LINE) place places[OPP_BANDS][PLACES];
};

typedef struct level {
    _Alignas(OPP_LINE) hints summary[HINTS_64]; /* a bit for each `stride` words of `apps` */
    hints apps[];                               /* a bit for each app */
} level;

struct opp_core {
    opp_core_config config;
    uint32_t word_count; /* of a level's `apps` */
    uint32_t stride;     /* words that one bit of a level's summary stands for */
    size_t level_bytes;
    uint64_t rank_mask[OPP_BANDS][OPP_LEVELS]; /* ranks that stand at a level */
    uint64_t level_mask[OPP_BANDS];
    char *levels; /* OPP_LEVELS records of level_bytes */
    _Atomic(opp_app *) apps[OPP_MAX_APPS]; /* made on first use, kept */
    _Atomic(uint32_t) app_hint;            /* below it no place was free when it was last looked for one */
    _Atomic(opp_source *) sources;         /* grows only */
    _Atomic(opp_taker *) takers;           /* grows only */
    _Atomic(opp_bag *) bags;               /* strands' bags; grows only */
    _Atomic(uint64_t) queue_bytes;         /* statistics */
    _Atomic(uint32_t) holds;               /* the scheduler's and one a registered thread */
    _Atomic(bool) destroyed;
    _Alignas(OPP_LINE) hints ready[HINTS_64]; /* a bit for each level */
    _Alignas(OPP_LINE) _Atomic(uint32_t) epoch;
    opp_pool pool;
};

struct opp_taker {
    opp_core *core;
    opp_source *own;
    const uint8_t *distance;
    opp_taker *next;
    _Atomic(uint32_t) in_use;
    uint8_t distances[OPP_LEVELS];
    opp_bag_memory memory;
    struct {
        opp_app *app;
        opp_bag *bag;
        uint64_t state;
        uint8_t number, rank, set;
    } last; /* where the last job came from */
    uint32_t turn;               /* jobs taken of the same app in a row */
    uint32_t spin;               /* alternates the ranks that share a level */
    uint32_t cursor[OPP_LEVELS]; /* the app that was served last, by level */
    _Alignas(OPP_LINE) _Atomic(opp_app *) current;
};

/* --- Hints ----------------------------------------------------------------------------------- */

/* [hint] seq_cst throughout: see "Why R1 holds". */

static uint32_t hints_maybe(const hints *word) {
    uint64_t both = opp_load(word, seq_cst);
    return (uint32_t)(both | both >> WORD_BITS);
}

static uint64_t hints_maybe_64(const hints *words) {
    return hints_maybe(&words[0]) | (uint64_t)hints_maybe(&words[1]) << WORD_BITS;
}

static void hint_set(hints *words, uint32_t number) {
    hints *word = &words[number / WORD_BITS];
    uint64_t bit = 1ull << number % WORD_BITS;
    if (!(opp_load(word, seq_cst) & bit)) opp_or(word, bit, seq_cst);
}

/* Takes the doubt of a hint and clears it, in one step. False if another thread has the doubt. */
static bool hint_doubt(hints *words, uint32_t number) {
    hints *word = &words[number / WORD_BITS];
    uint64_t bit = 1ull << number % WORD_BITS, doubt = bit << WORD_BITS;
    uint64_t both = opp_load(word, relaxed);
    do {
        if (both & doubt) return false;
    } while (!opp_cas(word, &both, (both & ~bit) | doubt, seq_cst)); /* [hint] */
    return true;
}

/* Gives the doubt back, setting the hint again if something `holds` it up. */
static void hint_settle(hints *words, uint32_t number, bool holds) {
    hints *word = &words[number / WORD_BITS];
    uint64_t bit = 1ull << number % WORD_BITS;
    /* relaxed, both: the word's own order sets the hint before the doubt is gone, and as only read-modify-writes change
     * the word, who follows the hint still acquires what those who set it first had released. */
    if (holds) opp_or(word, bit, relaxed);
    opp_and(word, ~(bit << WORD_BITS), relaxed);
}

static level *core_level(opp_core *core, unsigned number) {
    return (level *)(core->levels + number * core->level_bytes);
}

static void core_make_ready(opp_core *core, unsigned number, uint32_t app) {
    level *level = core_level(core, number);
    hint_set(level->apps, app);
    hint_set(level->summary, app / WORD_BITS / core->stride);
    hint_set(core->ready, number);
}

/* --- The core -------------------------------------------------------------------------------- */

opp_pool *opp_core_pool(opp_core *core) {
    return &core->pool;
}

uint32_t opp_core_epoch(opp_core *core) {
    return opp_load(&core->epoch, relaxed); /* relaxed: one object, whose values only grow */
}

static bool config_is_valid(const opp_core_config *config) {
    if (config->max_apps < 1 || config->max_apps > OPP_MAX_APPS) return false;
    for (int band = 0; band < OPP_BANDS; band++)
        for (int rank = 0; rank < OPP_RANKS; rank++) {
            if (config->level_of[band][rank] >= OPP_LEVELS) return false;
            if (rank > 0 && config->level_of[band][rank] > config->level_of[band][rank - 1]) return false;
        }
    return true;
}

int opp_core_create(const opp_core_config *config, opp_core **result) {
    *result = NULL;
    if (!config_is_valid(config)) return -EINVAL;
    uint32_t words = (config->max_apps + WORD_BITS - 1) / WORD_BITS;
    size_t level_bytes = (sizeof(level) + words * sizeof(hints) + OPP_LINE - 1) / OPP_LINE * OPP_LINE;
    /* Mapped, not allocated: most of the tables is never touched. */
    opp_core *core = opp_map(sizeof(opp_core));
    if (core == NULL) return -ENOMEM;
    char *levels = opp_map(level_bytes * OPP_LEVELS);
    if (levels == NULL) {
        opp_unmap(core, sizeof(opp_core));
        return -ENOMEM;
    }
    core->config = *config;
    atomic_init(&core->holds, 1);
    core->word_count = words;
    core->stride = (words + OPP_LEVELS - 1) / OPP_LEVELS;
    core->level_bytes = level_bytes;
    core->levels = levels;
    for (int band = 0; band < OPP_BANDS; band++)
        for (int rank = 0; rank < OPP_RANKS; rank++) {
            uint8_t number = config->level_of[band][rank];
            core->rank_mask[band][number] |= 1ull << rank;
            core->level_mask[band] |= 1ull << number;
        }
    opp_pool_init(&core->pool);
    *result = core;
    return 0;
}

/* Calls `each` with every bag that is an app's. */
static void apps_each_bag(opp_core *core, void (*each)(opp_bag *, void (*)(opp_job, void *), void *),
                          void (*drop)(opp_job, void *), void *context) {
    for (uint32_t i = 0; i < core->config.max_apps; i++) {
        opp_app *app = opp_load(&core->apps[i], acquire); /* [apps] */
        if (app == NULL) continue;
        for (int set = 0; set < OPP_BANDS; set++)
            for (int p = 0; p < PLACES; p++)
                for (int rank = 0; rank < OPP_RANKS; rank++) {
                    opp_bag *bag = opp_load(&app->places[set][p].bag[rank], acquire); /* [bag] */
                    if (bag != NULL) each(bag, drop, context);
                }
    }
}

/* The bags that stand by themselves belong to whoever made them: their entry in the queue, which is dropped, stands for
 * them. */
void opp_core_drain(opp_core *core, void (*drop)(opp_job, void *), void *context) {
    apps_each_bag(core, opp_bag_drain, drop, context);
}

void opp_core_destroy(opp_core *core, void (*drop)(opp_job, void *), void *context) {
    opp_core_drain(core, drop, context);
    for (opp_bag *bag = opp_load(&core->bags, acquire) /* [bags] */; bag != NULL; bag = bag->next)
        opp_bag_drain(bag, drop, context);
    opp_store(&core->destroyed, true, relaxed); /* relaxed: who sees it only gives up a hold of its own */
    opp_core_release(core);
}

static void bag_discard(opp_bag *bag, void (*drop)(opp_job, void *), void *context) {
    (void)drop;
    (void)context;
    opp_bag_free(bag);
}

bool opp_core_is_destroyed(const opp_core *core) {
    return opp_load(&core->destroyed, relaxed);
}

void opp_core_retain(opp_core *core) {
    opp_add(&core->holds, 1, relaxed); /* relaxed: the caller has a hold already */
}

void opp_core_release(opp_core *core) {
    /* [holds] release: our use of the core is over. acquire: so is everybody's when the last one frees it. */
    if (opp_sub(&core->holds, 1, acq_rel) != 1) return;
    apps_each_bag(core, bag_discard, NULL, NULL);
    /* relaxed, here and below: nobody else is left. */
    for (uint32_t i = 0; i < core->config.max_apps; i++) free(opp_load(&core->apps[i], relaxed));
    for (opp_bag *bag = opp_load(&core->bags, relaxed), *next; bag != NULL; bag = next) {
        next = bag->next;
        opp_bag_free(bag);
    }
    for (opp_source *source = opp_load(&core->sources, relaxed), *next; source != NULL; source = next) {
        next = source->next;
        free(source);
    }
    for (opp_taker *taker = opp_load(&core->takers, relaxed), *next; taker != NULL; taker = next) {
        next = taker->next;
        free(taker);
    }
    opp_pool_free(&core->pool);
    opp_unmap(core->levels, core->level_bytes * OPP_LEVELS);
    opp_unmap(core, sizeof(opp_core));
}

uint64_t opp_core_memory(const opp_core *core) {
    return opp_pool_bytes(&core->pool) + opp_load(&core->queue_bytes, relaxed); /* relaxed: statistics */
}

/* --- Sources --------------------------------------------------------------------------------- */

opp_source *opp_source_acquire(opp_core *core, uint8_t node) {
    /* [sources] acquire: pairs with the exchange below; the record is filled in. */
    for (opp_source *source = opp_load(&core->sources, acquire); source != NULL; source = source->next) {
        uint32_t owned = 0;
        /* [adopt] acquire: pairs with the release in opp_source_release(); the last owner's pushes are over, and
         * its private fields are ours. */
        if (source->node == node && opp_load(&source->owned, relaxed) == 0 &&
            opp_cas(&source->owned, &owned, 1, acquire))
            return source;
    }
    opp_source *source = calloc(1, sizeof(opp_source));
    if (source == NULL) return NULL;
    source->core = core;
    source->node = node;
    atomic_init(&source->owned, 1);
    opp_source *first = opp_load(&core->sources, relaxed);
    do {
        source->next = first;
        /* [sources] release: see above. */
    } while (!opp_cas(&core->sources, &first, source, release));
    opp_add(&core->queue_bytes, sizeof(opp_source), relaxed); /* statistics */
    return source;
}

void opp_source_release(opp_source *source) {
    opp_store(&source->owned, 0, release); /* [adopt] release: see opp_source_acquire(). */
}

/* --- Apps ------------------------------------------------------------------------------------ */

static opp_app *app_allocate(opp_core *core, uint32_t index) {
    opp_app *app = aligned_alloc(OPP_LINE, sizeof(opp_app));
    if (app == NULL) return NULL;
    memset(app, 0, sizeof(*app));
    app->core = core;
    app->index = index;
    atomic_init(&app->in_use, 1);
    opp_add(&core->queue_bytes, sizeof(opp_app), relaxed); /* statistics */
    return app;
}

/* Takes the place of that index, or returns NULL: it is in use, or memory is short, which ends the search. */
static opp_app *app_occupy(opp_core *core, uint32_t index, bool *memory_short) {
    /* [apps] acquire: pairs with the exchange below. */
    opp_app *app = opp_load(&core->apps[index], acquire);
    uint32_t in_use = 0;
    if (app != NULL) {
        /* [app-reuse] acquire: pairs with the release in opp_app_destroy(). */
        bool taken = opp_load(&app->in_use, relaxed) == 0 && opp_cas(&app->in_use, &in_use, 1, acquire);
        return taken ? app : NULL;
    }
    app = app_allocate(core, index);
    *memory_short = app == NULL;
    if (app == NULL) return NULL;
    opp_app *nobody = NULL;
    /* [apps] release: the record is filled in. */
    if (opp_cas(&core->apps[index], &nobody, app, release)) return app;
    opp_sub(&core->queue_bytes, sizeof(opp_app), relaxed); /* statistics */
    free(app);
    return NULL;
}

opp_app *opp_app_create(opp_core *core, uint8_t band, bool suspended) {
    if (band >= OPP_BANDS) return NULL;
    /* relaxed, all uses of the hint: it only says where to begin. One that is too high makes the low places come last. */
    uint32_t hint = opp_load(&core->app_hint, relaxed), count = core->config.max_apps;
    bool memory_short = false;
    for (uint32_t i = 0; i < count && !memory_short; i++) {
        uint32_t index = (hint + i) % count;
        opp_app *app = app_occupy(core, index, &memory_short);
        if (app == NULL) continue;
        opp_cas(&core->app_hint, &hint, index + 1, relaxed);
        /* The generation goes on from the place's last owner. relaxed: nobody has this app yet. */
        uint64_t old = opp_load(&app->state, relaxed);
        opp_store(&app->state,
                  ((old | STATE_BAND | STATE_SUSPENDED) + 1) | band | (suspended ? STATE_SUSPENDED : 0), relaxed);
        return app;
    }
    return NULL;
}

void opp_app_destroy(opp_app *app) {
    _Atomic(uint32_t) *hint = &app->core->app_hint;
    uint32_t index = app->index, known = opp_load(hint, relaxed);
    app->context = NULL;
    opp_store(&app->in_use, 0, release); /* [app-reuse] release: the last owner is done. */
    while (index < known && !opp_cas(hint, &known, index, relaxed)) {}
}

void opp_app_set_context(opp_app *app, void *context) {
    app->context = context;
}

void *opp_app_context(const opp_app *app) {
    return app->context;
}

static uint8_t state_band(uint64_t state) {
    return state & STATE_BAND;
}

opp_app_state opp_app_state_read(const opp_app *app) {
    /* acquire: what came before the step is seen by who sees the step. Pairs with app_step(). */
    uint64_t state = opp_load(&app->state, acquire);
    return (opp_app_state){.band = state_band(state), .suspended = state & STATE_SUSPENDED,
                           .generation = state / STATE_STEP};
}

/* Ranks of `app` that may hold something, of a place. */
bool opp_app_is_suspended(const opp_app *app) {
    /* seq_cst: after what the caller announced, as app_step() comes before a look at announcements. */
    return opp_load(&app->state, seq_cst) & STATE_SUSPENDED;
}

static uint64_t app_ranks(const opp_app *app, int set) {
    return hints_maybe_64(app->places[set][PLACE_FRONT].ranks) |
           hints_maybe_64(app->places[set][PLACE_BACK].ranks);
}

/* The band in whose place the jobs of set `set` stand while the word is `state`. */
static uint8_t set_band(const opp_core *core, int set, uint64_t state) {
    return core->config.stay ? (uint8_t)set : state_band(state);
}

static int core_sets(const opp_core *core) {
    return core->config.stay ? OPP_BANDS : 1;
}

/* Whether `app` may have something for level `number` now. */
static bool app_holds(const opp_app *app, unsigned number) {
    const opp_core *core = app->core;
    uint64_t state = opp_load(&app->state, seq_cst); /* [hint] */
    if (state & STATE_SUSPENDED) return false;
    for (int set = 0; set < core_sets(core); set++)
        if (app_ranks(app, set) & core->rank_mask[set_band(core, set, state)][number]) return true;
    return false;
}

uint64_t opp_app_levels(const opp_app *app) {
    const opp_core *core = app->core;
    uint64_t state = opp_load(&app->state, relaxed); /* relaxed: the caller's own step, or a later one, which shows itself */
    if (state & STATE_SUSPENDED) return 0;
    uint64_t levels = 0;
    for (int set = 0; set < core_sets(core); set++) {
        uint8_t band = set_band(core, set, state);
        for (uint64_t ranks = app_ranks(app, set); ranks != 0; ranks &= ranks - 1)
            levels |= 1ull << core->config.level_of[band][__builtin_ctzll(ranks)];
    }
    return levels;
}

/* Sets the bits of every level at which `app` has something. After a step that may have made it so. */
static void app_show(opp_app *app) {
    for (uint64_t levels = opp_app_levels(app); levels != 0; levels &= levels - 1)
        core_make_ready(app->core, (unsigned)__builtin_ctzll(levels), app->index);
}

/* The one place where the word changes: (old & ~clear) | set, and a new generation. */
static bool app_step(opp_app *app, uint64_t clear, uint64_t set) {
    uint64_t state = opp_load(&app->state, relaxed);
    uint64_t next;
    do {
        next = (state & ~clear) | set;
        if (next == state) return false;
        next += STATE_STEP;
        /* [state] seq_cst: before our looks at hints and announcements in the one order of the essay. release:
         * what the caller did before the step is seen by who acts on it. */
    } while (!opp_cas(&app->state, &state, next, seq_cst));
    return true;
}

bool opp_app_suspend(opp_app *app) {
    return app_step(app, 0, STATE_SUSPENDED);
}

bool opp_app_resume(opp_app *app) {
    if (!app_step(app, STATE_SUSPENDED, 0)) return false;
    app_show(app);
    return true;
}

bool opp_app_set_band(opp_app *app, uint8_t band) {
    if (band >= OPP_BANDS || !app_step(app, STATE_BAND, band)) return false;
    app_show(app);
    return true;
}

uint64_t opp_app_queued(const opp_app *app) {
    uint64_t count = 0;
    for (int set = 0; set < core_sets(app->core); set++)
        for (int p = 0; p < PLACES; p++)
            for (int rank = 0; rank < OPP_RANKS; rank++) {
                /* [bag] acquire: see place_bag(). */
                const opp_bag *bag = opp_load(&app->places[set][p].bag[rank], acquire);
                if (bag != NULL) count += opp_bag_count(bag);
            }
    return count;
}

uint32_t opp_app_running(const opp_app *app) {
    uint32_t count = 0;
    /* [takers] acquire: pairs with opp_taker_create(). seq_cst: a taker that is not in this list yet announces itself
     * later in the one order of the essay, and then sees the suspension. */
    for (opp_taker *taker = opp_load(&app->core->takers, seq_cst); taker != NULL; taker = taker->next)
        count += opp_load(&taker->current, seq_cst) == app; /* [announce] see "Suspension" */
    return count;
}

/* --- Push ------------------------------------------------------------------------------------ */

static opp_bag *place_bag(opp_app *app, place *place, uint8_t rank) {
    /* [bag] acquire: pairs with the exchange below; the bag is initialised. */
    opp_bag *bag = opp_load(&place->bag[rank], acquire);
    if (bag != NULL) return bag;
    opp_bag *fresh = malloc(sizeof(opp_bag));
    if (fresh == NULL) return NULL;
    opp_bag_init(fresh, app->core);
    if (opp_cas(&place->bag[rank], &bag, fresh, release)) { /* [bag] release: see above */
        opp_add(&app->core->queue_bytes, sizeof(opp_bag), relaxed); /* statistics */
        return fresh;
    }
    free(fresh);
    return opp_load(&place->bag[rank], acquire); /* [bag] */
}

static int app_insert(opp_source *source, opp_app *app, int set, int which, uint8_t rank, opp_job job) {
    opp_core *core = app->core;
    place *place = &app->places[set][which];
    opp_bag *bag = place_bag(app, place, rank);
    if (bag == NULL) return -ENOMEM;
    if (++source->pushes % OPP_EPOCH_PUSHES == 0) opp_add(&core->epoch, 1, relaxed); /* as opp_core_epoch() */
    int result = opp_bag_insert(bag, source, job, opp_core_epoch(core));
    if (result < 0) return result;
    hint_set(place->ranks, rank);
    uint64_t state = opp_load(&app->state, seq_cst); /* [hint] */
    if (state & STATE_SUSPENDED) return OPP_LEVEL_NONE;
    uint8_t number = core->config.level_of[set_band(core, set, state)][rank];
    core_make_ready(core, number, app->index);
    return number;
}

int opp_push(opp_source *source, opp_app *app, uint8_t rank, opp_job job) {
    if (rank >= OPP_RANKS) return -EINVAL;
    /* relaxed: with `stay` a job pushed while the band changes may land in either. */
    int set = app->core->config.stay ? state_band(opp_load(&app->state, relaxed)) : 0;
    return app_insert(source, app, set, PLACE_BACK, rank, job);
}

/* --- Take ------------------------------------------------------------------------------------ */

opp_taker *opp_taker_create(opp_core *core, opp_source *own, const uint8_t *distance) {
    opp_taker *taker;
    /* [takers] acquire: pairs with the exchange below. */
    for (taker = opp_load(&core->takers, acquire); taker != NULL; taker = taker->next) {
        uint32_t in_use = 0;
        /* [taker-reuse] acquire: pairs with opp_taker_destroy(). */
        if (opp_load(&taker->in_use, relaxed) == 0 && opp_cas(&taker->in_use, &in_use, 1, acquire)) break;
    }
    bool fresh = taker == NULL;
    if (fresh) {
        taker = aligned_alloc(OPP_LINE, sizeof(opp_taker));
        if (taker == NULL) return NULL;
        memset(taker, 0, sizeof(*taker));
        atomic_init(&taker->in_use, 1);
        taker->core = core;
    }
    taker->own = own;
    taker->memory = (opp_bag_memory){0};
    taker->last.app = NULL;
    taker->distance = NULL;
    if (distance != NULL) {
        memcpy(taker->distances, distance, sizeof(taker->distances));
        taker->distance = taker->distances;
    }
    if (fresh) {
        opp_taker *first = opp_load(&core->takers, relaxed);
        do {
            taker->next = first;
            /* [takers] release: the record is filled in; seq_cst: before its announcements. */
        } while (!opp_cas(&core->takers, &first, taker, seq_cst));
    }
    return taker;
}

void opp_taker_destroy(opp_taker *taker) {
    opp_taker_rest(taker);
    opp_store(&taker->in_use, 0, release); /* [taker-reuse] release: the last owner is done. */
}

/* Says which app the taker is inside of, and tells if the one it leaves had been waiting for that. */
static void taker_announce(opp_taker *taker, opp_app *app) {
    opp_app *left = opp_load(&taker->current, relaxed); /* relaxed: the taker's own */
    if (left == app) return;
    opp_store(&taker->current, app, seq_cst); /* [announce] see "Suspension" */
    if (left == NULL) return;
    opp_core *core = taker->core;
    uint64_t state = opp_load(&left->state, seq_cst); /* [announce] */
    if (state & STATE_SUSPENDED && core->config.on_quiet != NULL && opp_app_running(left) == 0)
        core->config.on_quiet(core->config.context, left);
}

void opp_taker_rest(opp_taker *taker) {
    taker_announce(taker, NULL);
}

bool opp_taker_should_rest(const opp_taker *taker) {
    const opp_app *app = opp_load(&taker->current, relaxed); /* relaxed: the taker's own */
    /* relaxed: if it is missed here the announcement of the next app, or of none, sees it. */
    return app != NULL && opp_load(&app->state, relaxed) & STATE_SUSPENDED;
}

const opp_app *opp_taker_current(const opp_taker *taker) {
    return opp_load(&taker->current, seq_cst); /* [announce] */
}

/* A place's rank: takes from its bag, or repairs the hint. */
static bool place_take(opp_taker *taker, place *place, unsigned rank, opp_taken *taken) {
    if (!(hints_maybe_64(place->ranks) & 1ull << rank)) return false;
    opp_bag *bag = opp_load(&place->bag[rank], relaxed); /* relaxed: the hint was set by somebody who had seen it */
    if (bag == NULL) return false;
    if (opp_bag_remove(bag, &taker->memory, taker->own, taker->distance, 1, &taken->job, &taken->stolen))
        return true;
    if (hint_doubt(place->ranks, rank)) hint_settle(place->ranks, rank, opp_bag_count(bag) != 0);
    return false;
}

/*
 * After the take: may the job still run, at a level that the caller asked for? If the app was suspended or moved
 * meanwhile the job goes to the front of its rank, where the next take of the app finds it first.
 */
static bool taker_confirm(opp_taker *taker, opp_app *app, int set, uint64_t seen, uint64_t levels,
                          opp_taken *taken) {
    opp_core *core = app->core;
    taker_announce(taker, app);
    uint64_t state = opp_load(&app->state, seq_cst); /* [announce] */
    uint8_t band = set_band(core, set, state);
    taken->app = app;
    taken->context = app->context;
    taken->band = band;
    taken->level = core->config.level_of[band][taken->rank];
    if (state == seen || (!(state & STATE_SUSPENDED) && levels & 1ull << taken->level)) return true;
    int result = app_insert(taker->own, app, set, PLACE_FRONT, taken->rank, taken->job);
    if (result < 0) return true; /* No memory to give it back: running it is the lesser evil than losing it. */
    taker_announce(taker, NULL);
    if (result != OPP_LEVEL_NONE && core->config.on_ready != NULL)
        core->config.on_ready(core->config.context, (uint8_t)result);
    return false;
}

static bool app_take(opp_taker *taker, opp_app *app, unsigned number, uint64_t levels, opp_taken *taken) {
    const opp_core *core = app->core;
    /* relaxed: taker_confirm() looks again, and so does whoever lets a hint go. */
    uint64_t state = opp_load(&app->state, relaxed);
    if (state & STATE_SUSPENDED) return false;
    for (int set = 0; set < core_sets(core); set++) {
        place *places = app->places[set];
        uint64_t ranks = app_ranks(app, set) & core->rank_mask[set_band(core, set, state)][number];
        /* Where several ranks share the lowest level none may starve: begin at another one each time. */
        uint64_t shared = ranks & (ranks - 1);
        if (shared != 0) {
            uint64_t from = ~0ull << (taker->spin++ % OPP_RANKS);
            if (ranks & from) ranks &= from;
        }
        for (; ranks != 0; ranks &= ranks - 1) {
            unsigned rank = (unsigned)__builtin_ctzll(ranks);
            taken->rank = (uint8_t)rank;
            bool front = place_take(taker, &places[PLACE_FRONT], rank, taken);
            if (!front && !place_take(taker, &places[PLACE_BACK], rank, taken)) continue;
            taker->last.app = !front && shared == 0 ? app : NULL;
            taker->last.bag = opp_load(&places[PLACE_BACK].bag[rank], relaxed); /* relaxed: as in place_take() */
            taker->last.state = state;
            taker->last.number = (uint8_t)number;
            taker->last.rank = (uint8_t)rank;
            taker->last.set = (uint8_t)set;
            return taker_confirm(taker, app, set, state, levels, taken);
        }
    }
    return false;
}

/* The next app at or after `from` whose bit may be set, or -1. */
static int64_t level_next_app(const opp_core *core, const level *level, uint32_t from) {
    uint32_t first = from / WORD_BITS;
    uint64_t parts = hints_maybe_64(level->summary) & (~0ull << first / core->stride);
    for (; parts != 0; parts &= parts - 1) {
        uint32_t word = (uint32_t)__builtin_ctzll(parts) * core->stride, end = word + core->stride;
        if (word < first) word = first;
        for (; word < end && word < core->word_count; word++) {
            uint32_t bits = hints_maybe(&level->apps[word]);
            if (word == first) bits &= ~0u << from % WORD_BITS;
            if (bits != 0) return (int64_t)word * WORD_BITS + __builtin_ctz(bits);
        }
    }
    return -1;
}

/* Whether a word of apps under one bit of a level's summary may hold anything. */
static bool summary_holds(const opp_core *core, const level *level, uint32_t number) {
    uint32_t end = (number + 1) * core->stride;
    for (uint32_t word = number * core->stride; word < end && word < core->word_count; word++)
        if (hints_maybe(&level->apps[word]) != 0) return true;
    return false;
}

/* Nothing was found at a level: repairs the tiers above the apps. */
static void level_repair(opp_core *core, unsigned number) {
    level *level = core_level(core, number);
    for (uint64_t bits = hints_maybe_64(level->summary); bits != 0; bits &= bits - 1) {
        uint32_t part = (uint32_t)__builtin_ctzll(bits);
        if (!summary_holds(core, level, part) && hint_doubt(level->summary, part))
            hint_settle(level->summary, part, summary_holds(core, level, part));
    }
    if (hints_maybe_64(level->summary) == 0 && hint_doubt(core->ready, number))
        hint_settle(core->ready, number, hints_maybe_64(level->summary) != 0);
}

static bool level_take(opp_taker *taker, unsigned number, uint64_t levels, opp_taken *taken) {
    opp_core *core = taker->core;
    level *level = core_level(core, number);
    uint32_t start = taker->cursor[number];
    if (taker->turn >= OPP_TURN) start++;
    if (start >= core->config.max_apps) start = 0;
    /* Two stretches: from the cursor to the end, then from the beginning to the cursor. */
    for (int stretch = 0; stretch < 2; stretch++) {
        uint32_t from = stretch == 0 ? start : 0;
        int64_t found;
        while ((found = level_next_app(core, level, from)) >= 0 && (stretch == 0 || found < start)) {
            uint32_t index = (uint32_t)found;
            /* relaxed: the hint was set by somebody who had seen the app. */
            opp_app *app = opp_load(&core->apps[index], relaxed);
            if (app != NULL && app_take(taker, app, number, levels, taken)) {
                taker->turn = index == taker->cursor[number] ? taker->turn + 1 : 1;
                if (taker->turn > OPP_TURN) taker->turn = 1;
                taker->cursor[number] = index;
                return true;
            }
            if (hint_doubt(level->apps, index))
                hint_settle(level->apps, index, app != NULL && app_holds(app, number));
            from = index + 1;
            if (from >= core->config.max_apps) break;
        }
    }
    return false;
}

/*
 * The short way: the next job from where the last one came, while the app's turn lasts and nothing about it has
 * changed. Finding nothing there means nothing; the long way then repairs the hints.
 */
static bool last_take(opp_taker *taker, unsigned number, uint64_t levels, opp_taken *taken) {
    opp_app *app = taker->last.app;
    if (app == NULL || taker->last.number != number || taker->turn >= OPP_TURN) return false;
    if (opp_load(&app->state, relaxed) != taker->last.state) return false; /* relaxed: as in app_take() */
    int set = taker->last.set;
    if (hints_maybe_64(app->places[set][PLACE_FRONT].ranks) != 0) return false;
    if (!opp_bag_remove(taker->last.bag, &taker->memory, taker->own, taker->distance, 1, &taken->job,
                        &taken->stolen))
        return false;
    taker->turn++;
    taken->rank = taker->last.rank;
    return taker_confirm(taker, app, set, taker->last.state, levels, taken);
}

bool opp_take(opp_taker *taker, uint64_t levels, opp_taken *taken) {
    uint64_t ready = opp_ready_levels(taker->core, levels);
    while (ready != 0) {
        unsigned number = 63u - (unsigned)__builtin_clzll(ready);
        if (last_take(taker, number, levels, taken)) return true;
        if (level_take(taker, number, levels, taken)) return true;
        level_repair(taker->core, number);
        ready &= ~(1ull << number);
    }
    return false;
}

uint64_t opp_ready_levels(const opp_core *core, uint64_t levels) {
    return hints_maybe_64(core->ready) & levels;
}

static bool app_has_queued(const opp_app *app, unsigned number) {
    const opp_core *core = app->core;
    uint64_t state = opp_load(&app->state, seq_cst); /* [hint] */
    if (state & STATE_SUSPENDED) return false;
    for (int set = 0; set < core_sets(core); set++) {
        uint64_t ranks = app_ranks(app, set) & core->rank_mask[set_band(core, set, state)][number];
        for (; ranks != 0; ranks &= ranks - 1)
            for (int p = 0; p < PLACES; p++) {
                opp_bag *bag = opp_load(&app->places[set][p].bag[__builtin_ctzll(ranks)], acquire); /* [bag] */
                if (bag != NULL && opp_bag_count(bag) != 0) return true;
            }
    }
    return false;
}

bool opp_has_ready(opp_core *core, uint64_t levels) {
    for (uint64_t ready = opp_ready_levels(core, levels); ready != 0; ready &= ready - 1) {
        unsigned number = (unsigned)__builtin_ctzll(ready);
        level *level = core_level(core, number);
        for (int64_t found = level_next_app(core, level, 0); found >= 0;
             found = level_next_app(core, level, (uint32_t)found + 1)) {
            opp_app *app = opp_load(&core->apps[found], relaxed); /* relaxed: as in level_take() */
            if (app != NULL && app_has_queued(app, number)) return true;
        }
    }
    return false;
}

/* --- Strands' bags --------------------------------------------------------------------------- */

opp_bag *opp_bag_create(opp_core *core) {
    /* [bags] acquire: pairs with the exchange below. */
    for (opp_bag *bag = opp_load(&core->bags, acquire); bag != NULL; bag = bag->next) {
        uint32_t in_use = 0;
        /* [bag-reuse] acquire: pairs with opp_bag_destroy(). */
        if (opp_load(&bag->in_use, relaxed) == 0 && opp_cas(&bag->in_use, &in_use, 1, acquire)) return bag;
    }
    opp_bag *bag = malloc(sizeof(opp_bag));
    if (bag == NULL) return NULL;
    opp_bag_init(bag, core);
    atomic_init(&bag->in_use, 1);
    opp_bag *first = opp_load(&core->bags, relaxed);
    do {
        bag->next = first;
        /* [bags] release: the record is filled in. */
    } while (!opp_cas(&core->bags, &first, bag, release));
    return bag;
}

void opp_bag_destroy(opp_bag *bag, void (*drop)(opp_job, void *), void *context) {
    opp_bag_drain(bag, drop, context);
    opp_store(&bag->in_use, 0, release); /* [bag-reuse] release: the last owner is done. */
}
