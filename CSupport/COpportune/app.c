/* Apps: making and reusing them, and the jobs that they hold. Their state word is in app_suspend.c. */
#include "runq.h"

#include <stdlib.h>
#include <string.h>

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

/* Reuses the app at that index, or makes it. Returns NULL if it is in use, or if memory is short, which ends
 * the search. */
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
    /* relaxed, all uses of `free_app`: a hint where to begin the search. If it is too high, lower indices
     * come last. */
    uint32_t start = opp_load(&core->free_app, relaxed), count = core->config.max_apps;
    bool memory_short = false;
    for (uint32_t i = 0; i < count && !memory_short; i++) {
        uint32_t index = (start + i) % count;
        opp_app *app = app_occupy(core, index, &memory_short);
        if (app == NULL) continue;
        OPP_ASSERT(app->index == index);
        OPP_ASSERT(app->core == core);
        opp_cas(&core->free_app, &start, index + 1, relaxed);
        /* [ready] An exchange in any case: where another has raised it further, that too comes before our
         * first push. */
        uint32_t end = index;
        while (!opp_cas(&core->app_end, &end, end > index ? end : index + 1, seq_cst)) {}
        /* relaxed: no other thread has this app yet. An earlier owner of this index may have had the same
         * word: see R3 in runq.h. */
        opp_store(&app->state, band | (suspended ? STATE_SUSPENDED : 0), relaxed);
        return app;
    }
    return NULL;
}

void opp_app_destroy(opp_app *app) {
    _Atomic(uint32_t) *start = &app->core->free_app;
    uint32_t index = app->index, known = opp_load(start, relaxed);
    OPP_ASSERT(index < app->core->config.max_apps);
    opp_store(&app->context, NULL, relaxed);
    opp_store(&app->in_use, 0, release); /* [app-reuse] release: the last owner is done. */
    while (index < known && !opp_cas(start, &known, index, relaxed)) {}
}

void opp_app_set_context(opp_app *app, void *context) {
    opp_store(&app->context, context, relaxed);
}

void *opp_app_context(const opp_app *app) {
    return opp_load(&app->context, relaxed);
}

bool opp_app_holds(const opp_app *app, unsigned number) {
    uint64_t state = opp_load(&app->state, seq_cst); /* [ready] */
    return !(state & STATE_SUSPENDED) && app_ranks_at(app, state, number) != 0;
}

uint64_t opp_app_levels(const opp_app *app) {
    /* relaxed: the caller's own change, or a later one, which sets its own ready bits */
    uint64_t state = opp_load(&app->state, relaxed);
    if (state & STATE_SUSPENDED) return 0;
    uint64_t levels = 0;
    for (uint64_t ranks = app_ranks(app); ranks != 0; ranks &= ranks - 1)
        levels |= 1ull << level_of(app->core, state, (unsigned)__builtin_ctzll(ranks));
    return levels;
}

void opp_app_show_at(opp_app *app, unsigned number) {
    OPP_ASSERT(number < OPP_LEVELS);
    ready_bit_set(level_app_bit(app->core, number, app->index));
    ready_bit_set(ready_bit_at(app->core->ready, number));
}

uint64_t opp_app_queued(const opp_app *app) {
    uint64_t count = 0;
    for (int end = 0; end < QUEUES_ENDS; end++)
        for (int rank = 0; rank < OPP_RANKS; rank++) {
            /* [queue] acquire: see rank_queue(). */
            const opp_queue *queue = opp_load(&app->queues[end].queue[rank], acquire);
            if (queue != NULL) count += opp_queue_count(queue);
        }
    return count;
}
