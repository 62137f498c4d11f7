/* Consumers: each belongs to one worker at a time, and announces the app whose job the worker runs. */
#include "runq.h"

#include <stdlib.h>
#include <string.h>

opp_consumer *opp_consumer_create(opp_core *core, opp_producer *own, const uint8_t *distance) {
    OPP_ASSERT(own != NULL);
    opp_consumer *consumer;
    /* [consumers] acquire: pairs with the exchange below. */
    for (consumer = opp_load(&core->consumers, acquire); consumer != NULL; consumer = consumer->next) {
        uint32_t in_use = 0;
        /* [consumer-reuse] acquire: pairs with opp_consumer_destroy(). */
        if (opp_load(&consumer->in_use, relaxed) == 0 && opp_cas(&consumer->in_use, &in_use, 1, acquire))
            break;
    }
    bool fresh = consumer == NULL;
    if (fresh) {
        consumer = aligned_alloc(OPP_LINE, sizeof(opp_consumer));
        if (consumer == NULL) return NULL;
        memset(consumer, 0, sizeof(*consumer));
        atomic_init(&consumer->in_use, 1);
        consumer->core = core;
    }
    OPP_ASSERT(consumer->core == core);
    opp_store(&consumer->own, own, release); /* [own] */
    consumer->memory = (opp_queue_memory){0};
    consumer->last.level = OPP_LEVEL_NONE;
    consumer->distance = NULL;
    if (distance != NULL) {
        memcpy(consumer->distances, distance, sizeof(consumer->distances));
        consumer->distance = consumer->distances;
    }
    if (fresh) {
        opp_consumer *first = opp_load(&core->consumers, relaxed);
        do {
            consumer->next = first;
            /* [consumers] release: publishes the initialised record. seq_cst: precedes its announcements. */
        } while (!opp_cas(&core->consumers, &first, consumer, seq_cst));
    }
    return consumer;
}

void opp_consumer_destroy(opp_consumer *consumer) {
    opp_consumer_leave_app(consumer);
    opp_consumer_set_group(consumer, 0);
    opp_store(&consumer->in_use, 0, release); /* [consumer-reuse] release: this owner has finished. */
}

void opp_consumer_move(opp_consumer *consumer, opp_app *app) {
    OPP_ASSERT(app == NULL || app->core == consumer->core);
    opp_app *left = opp_load(&consumer->current, relaxed); /* relaxed: the consumer's own field */
    OPP_ASSERT(left != app);
    opp_core *core = consumer->core;
    if (left != NULL && core->config.on_leave != NULL) core->config.on_leave(core->config.context, left);
    opp_store(&consumer->current, app, seq_cst); /* [announce] see "Suspension" */
    if (left == NULL) return;
    uint64_t state = opp_load(&left->state, seq_cst); /* [announce] */
    if (state & STATE_SUSPENDED && core->config.on_quiet != NULL && opp_app_running(left) == 0)
        core->config.on_quiet(core->config.context, left);
}

void opp_consumer_leave_app(opp_consumer *consumer) {
    consumer_announce(consumer, NULL);
}

void opp_consumer_set_group(opp_consumer *consumer, uint32_t group) {
    /* [own] acquire: the producer is filled in. The monitor may come so late that the worker has ended and
     * another has its consumer; producers are never freed, and it then costs that one a preference.
     * relaxed: no other data depends on it. */
    opp_store(&opp_load(&consumer->own, acquire)->group, group, relaxed);
}

void opp_consumer_end_turn(opp_consumer *consumer) {
    consumer->memory.is_over = true;
    const opp_fifo *last = consumer->memory.fifo;
    consumer->memory.is_outside = last == NULL || last != consumer->memory.outside;
}

bool opp_consumer_should_leave_app(const opp_consumer *consumer) {
    const opp_app *app = opp_load(&consumer->current, relaxed); /* relaxed: the consumer's own field */
    /* relaxed: if this load misses the suspension, the announcement of the next app, or of none, sees it. */
    return app != NULL && opp_load(&app->state, relaxed) & STATE_SUSPENDED;
}

const opp_app *opp_consumer_current(const opp_consumer *consumer) {
    /* relaxed: for comparison only; the value may be out of date at once */
    return opp_load(&consumer->current, relaxed);
}
