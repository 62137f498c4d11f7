/*
 * Load buffering: a relaxed load may read what is stored later, where nothing orders the load before the
 * store, and the store comes whatever the load gives.
 *
 * That takes two executions by the same choices. The first is watched: it ends with a pair of a relaxed load
 * and of a store that another thread made later, without knowing of the load. In the second the load is
 * foretold the value. It counts only if the store then comes in the same step with that value, which
 * therefore does not follow from its having been foretold (nothing comes out of thin air), and if nobody who
 * knows of the load has touched the object in between (coherence). Stores of read-modify-writes and of
 * seq_cst are not foretold.
 */
#include "state.h"

#include <stdatomic.h>

void later_begin(oppx *x) {
    x->later.load_count = x->later.pairs = 0;
    x->later.is_pending = x->later.has_come = false;
}

/* Whether the running thread's next step comes after the load that was foretold its value. */
static bool knows(const oppx *x, uint32_t thread, uint32_t clock) {
    return x->threads[x->running].known.at[thread] >= clock;
}

void later_touch(oppx *x, uint32_t object) {
    const later *later = &x->later;
    if (later->is_pending && later->load.object == object && knows(x, later->load.thread, later->load.clock))
        run_leave(x);
}

void later_fence(oppx *x) {
    if (x->later.is_pending && x->later.load.thread == x->running) run_leave(x);
}

bool later_foretells(oppx *x, uint32_t object, uint8_t order, uint64_t *value) {
    later *later = &x->later;
    early_load load = {.step = x->steps, .object = object, .thread = x->running, .value = *value,
                       .clock = x->threads[x->running].known.at[x->running]};
    if (later->use == LATER_WATCH && order == memory_order_relaxed && x->concurrent &&
        later->load_count < EARLY_LOADS)
        later->loads[later->load_count++] = load;
    if (later->use != LATER_FORETELL) return false;
    later_touch(x, object);
    if (!x->concurrent || x->steps != later->told.load || later->is_pending || later->has_come) return false;
    if (order != memory_order_relaxed) run_leave(x);
    later->load = load;
    later->is_pending = true;
    *value = later->value;
    return true;
}

bool later_comes(oppx *x, uint32_t object, uint8_t order, uint64_t value, bool is_last) {
    later *later = &x->later;
    bool can = is_last && order != memory_order_seq_cst && x->concurrent;
    if (later->use == LATER_WATCH) {
        for (uint32_t i = 0; can && i < later->load_count; i++) {
            const early_load *load = &later->loads[i];
            if (load->object != object || load->value == value || load->thread == x->running ||
                knows(x, load->thread, load->clock))
                continue;
            /* Each pair is as likely as another. */
            if (random_next(&later->random) % ++later->pairs != 0) continue;
            later->told = (oppx_foretold){.load = load->step, .store = x->steps};
            later->value = value;
        }
        return false;
    }
    if (later->use == LATER_LEARN && x->steps == later->told.store) later->value = value;
    if (!later->is_pending) return false;
    later_touch(x, object);
    if (x->steps != later->told.store) return false;
    if (!can || later->load.object != object || later->value != value || later->load.thread == x->running)
        run_leave(x);
    later->is_pending = false;
    later->has_come = true;
    return true;
}

void later_came(oppx *x, store *store) {
    const early_load *load = &x->later.load;
    store->seen.at[load->thread] = load->clock;
    vector_join(&x->threads[load->thread].learned, &store->release); /* for an acquire fence to come */
}

void execute_foretold(oppx *x) {
    x->later.use = LATER_FORETELL;
    execute(x);
    if (!x->later.has_come) x->failed = false; /* it happens nowhere */
}
