/* Takers: each belongs to one worker at a time, and says which app that is inside of. */
#include "runq.h"

#include <stdlib.h>
#include <string.h>

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
    OPP_ASSERT(taker->core == core);
    taker->own = own;
    taker->memory = (opp_bag_memory){0};
    taker->last.level = OPP_LEVEL_NONE;
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
    opp_taker_join(taker, 0);
    opp_store(&taker->in_use, 0, release); /* [taker-reuse] release: the last owner is done. */
}

void opp_taker_move(opp_taker *taker, opp_app *app) {
    OPP_ASSERT(app == NULL || app->core == taker->core);
    opp_app *left = opp_load(&taker->current, relaxed); /* relaxed: the taker's own */
    OPP_ASSERT(left != app);
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

void opp_taker_join(opp_taker *taker, uint32_t group) {
    opp_store(&taker->own->group, group, relaxed); /* relaxed: a preference, which follows nothing and hides nothing */
}

void opp_taker_end_turn(opp_taker *taker) {
    taker->memory.is_over = true;
    const opp_fifo *last = taker->memory.fifo;
    taker->memory.is_outside = last == NULL || last != taker->memory.outside;
}

bool opp_taker_should_rest(const opp_taker *taker) {
    const opp_app *app = opp_load(&taker->current, relaxed); /* relaxed: the taker's own */
    /* relaxed: if it is missed here the announcement of the next app, or of none, sees it. */
    return app != NULL && opp_load(&app->state, relaxed) & STATE_SUSPENDED;
}

const opp_app *opp_taker_current(const opp_taker *taker) {
    return opp_load(&taker->current, relaxed); /* relaxed: only compared, with what may be over a moment later */
}
