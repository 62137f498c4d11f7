/* The run queue as a whole: creation, draining and end. */
#include "runq.h"
#include "mapping.h"

#include <stdlib.h>

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
    const size_t line = OPP_LINE / sizeof(ready_word);
    size_t words = (config->max_apps + OPP_WORD_APPS - 1) / OPP_WORD_APPS;
    size_t level_words = (words + line - 1) / line * line;
    /* mmap instead of malloc: most pages of these tables are never touched and take no memory. */
    opp_core *core = opp_map(sizeof(opp_core));
    if (core == NULL) return -ENOMEM;
    ready_word *levels = opp_map(level_words * OPP_LEVELS * sizeof(ready_word));
    if (levels == NULL) {
        opp_unmap(core, sizeof(opp_core));
        return -ENOMEM;
    }
    core->config = *config;
    atomic_init(&core->holds, 1);
    core->level_words = level_words;
    core->levels = levels;
    for (int band = 0; band < OPP_BANDS; band++)
        for (int rank = 0; rank < OPP_RANKS; rank++)
            core->rank_mask[band][config->level_of[band][rank]] |= 1ull << rank;
    opp_segments_init(&core->segments);
    *result = core;
    return 0;
}

/* Calls `each` on every queue of every app. */
static void apps_each_queue(opp_core *core, void (*each)(opp_queue *, void (*)(opp_job, void *), void *),
                            void (*drop)(opp_job, void *), void *context) {
    for (uint32_t i = 0; i < core->config.max_apps; i++) {
        opp_app *app = opp_load(&core->apps[i], acquire); /* [apps] */
        if (app == NULL) continue;
        for (int end = 0; end < QUEUES_ENDS; end++)
            for (int rank = 0; rank < OPP_RANKS; rank++) {
                opp_queue *queue = opp_load(&app->queues[end].queue[rank], acquire); /* [queue] */
                if (queue != NULL) each(queue, drop, context);
            }
    }
}

/* Does not drain the queues of strands: those belong to their creators. A strand that has work is queued as
 * one entry of its app, and that entry is dropped here. */
void opp_core_drain(opp_core *core, void (*drop)(opp_job, void *), void *context) {
    apps_each_queue(core, opp_queue_drain, drop, context);
}

void opp_core_destroy(opp_core *core, void (*drop)(opp_job, void *), void *context) {
    opp_core_drain(core, drop, context);
    /* relaxed: no other thread is in a call on this core. The caller has synchronised with all of them, so
     * every insertion into this list happens before this load. */
    for (opp_queue *queue = opp_load(&core->queues, relaxed); queue != NULL; queue = queue->next)
        opp_queue_drain(queue, drop, context);
    /* relaxed: a thread that reads true only drops its own reference. */
    opp_store(&core->destroyed, true, relaxed);
    opp_core_release(core);
}

static void queue_discard(opp_queue *queue, void (*drop)(opp_job, void *), void *context) {
    (void)drop;
    (void)context;
    opp_queue_free(queue);
}

bool opp_core_is_destroyed(const opp_core *core) {
    return opp_load(&core->destroyed, relaxed);
}

void opp_core_retain(opp_core *core) {
    opp_add(&core->holds, 1, relaxed); /* relaxed: the caller has a hold already */
}

void opp_core_release(opp_core *core) {
    /* [holds] release: this thread's accesses come before its decrement. acquire: the thread that drops the
     * last reference sees all of them before it frees. Pairs with this operation in other threads. */
    uint32_t holds = opp_sub(&core->holds, 1, acq_rel);
    OPP_ASSERT(holds > 0);
    if (holds != 1) return;
    apps_each_queue(core, queue_discard, NULL, NULL);
    /* relaxed, here and below: no other user is left. */
    for (uint32_t i = 0; i < core->config.max_apps; i++) free(opp_load(&core->apps[i], relaxed));
    for (opp_queue *queue = opp_load(&core->queues, relaxed), *next; queue != NULL; queue = next) {
        next = queue->next;
        opp_queue_free(queue);
    }
    for (opp_producer *producer = opp_load(&core->producers, relaxed),
         *next; producer != NULL; producer = next) {
        next = producer->next;
        free(producer);
    }
    for (opp_consumer *consumer = opp_load(&core->consumers, relaxed),
         *next; consumer != NULL; consumer = next) {
        next = consumer->next;
        free(consumer);
    }
    opp_segments_free(&core->segments);
    opp_unmap(core->levels, core->level_words * OPP_LEVELS * sizeof(ready_word));
    opp_unmap(core, sizeof(opp_core));
}

uint64_t opp_core_memory(const opp_core *core) {
    /* relaxed: statistics */
    return opp_segments_bytes(&core->segments) + opp_load(&core->queue_bytes, relaxed);
}
