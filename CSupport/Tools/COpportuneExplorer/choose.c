/*
 * How a choice is made.
 *
 *  DRIVE_SEARCH  the first choices are given, the rest is 0; search.c counts them up. At a new choice of a
 *  thread the
 *                state is looked up: where it was explored with no less left of each bound, this execution
 *                ends.
 *  DRIVE_RANDOM  PCT: threads have random priorities, the first that can runs; at a few random steps the
 *  running one
 *                falls to the bottom. Loads mostly read the newest store; some objects are late for one
 *                thread.
 *  DRIVE_BYTES   a byte each, from the back, 0 when they run out.
 *  DRIVE_REPLAY  as given, then 0.
 *
 * The state is a hash of what each thread did and saw, and of the stores of each object in their order: two
 * executions that agree in these have the same futures, in whatever order their steps were executed. A store
 * is known by who made it, after which past: its value follows from that, but for names that judges give out
 * in the order of execution.
 */
#include "state.h"


uint64_t random_next(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t state_hash(oppx *x) {
    uint64_t hash = x->hash;
    for (uint32_t i = 1; i < x->thread_count; i++) {
        const thread *thread = &x->threads[i];
        hash += mix(thread->hash, (uint64_t)thread->state * 8 + i);
        if (thread->state == ASLEEP) {
            uint64_t before = 0; /* how many sleep there longer */
            for (uint32_t j = 1; j < x->thread_count; j++)
                before += x->threads[j].state == ASLEEP && x->threads[j].word == thread->word &&
                          x->threads[j].queue < thread->queue;
            hash += mix(before, 77 + i);
        }
    }
    /* Who runs matters only where changing that costs something. */
    if (x->bounds.preemptions != OPPX_UNBOUNDED) hash = mix(hash, x->running);
    return hash | 1;
}

/* What came of the execution. Of who is stopped it does not matter what he read in the end. */
uint64_t end_hash(oppx *x) {
    uint64_t hash = x->hash;
    for (uint32_t i = 1; i < x->thread_count; i++) {
        const thread *thread = &x->threads[i];
        hash += mix(thread->state == STOPPED ? thread->visible : thread->hash,
                    (uint64_t)thread->state * 8 + i);
    }
    return hash | 1;
}

static bool is_no_less(oppx_bounds a, oppx_bounds b) {
    return a.preemptions >= b.preemptions && a.stale >= b.stale && a.stalls >= b.stalls &&
        a.early >= b.early &&
           a.refusals >= b.refusals;
}

/* Whether the state was explored before with at least as much left. Remembers it otherwise: one entry for
 * each way of having some of everything left. */
static bool state_is_known(oppx *x) {
    uint64_t key = state_hash(x);
    uint8_t asleep = (uint8_t)x->asleep;
    for (uint64_t i = key >> 8 & x->table_mask;; i = (i + 1) & x->table_mask) {
        seen_state *entry = &x->table[i];
        if (!entry->used) {
            if (x->table_count > x->table_mask / 4 * 3) return false; /* full: explored again, no harm */
            *entry = (seen_state){key, x->left, asleep, true};
            x->table_count++;
            return false;
        }
        if (entry->key != key) continue;
        if (is_no_less(entry->left, x->left) && (entry->asleep & ~asleep) == 0) return true;
        if (is_no_less(x->left, entry->left) && (asleep & ~entry->asleep) == 0) {
            entry->left = x->left;
            entry->asleep = asleep;
            return false;
        }
    }
}

void choose_begin(oppx *x) {
    x->depth = x->misfit = 0;
    if (x->driver != DRIVE_RANDOM) return;
    for (uint32_t i = 0; i < x->thread_count; i++)
        x->threads[i].priority = 16 + (random_next(&x->random) >> 8);
    uint32_t steps = x->expected_steps > 8 ? x->expected_steps : 8;
    /* Every other time news of some objects comes late to one thread: chains of old reads, which chance
     * rarely makes. */
    uint64_t late = random_next(&x->random);
    x->late_thread = late & 1 ? 1 + (uint32_t)((late >> 1) % x->program->threads) : 0;
    x->late_left = 24;
    x->late = random_next(&x->random) & random_next(&x->random);
    for (int i = 0; i < 4; i++)
        x->change_points[i] = (uint32_t)(random_next(&x->random) % (steps + steps / 4));
}

static uint32_t record_choice(oppx *x, uint32_t options, uint32_t chosen) {
    if (x->depth >= OPPX_CHOICES) {
        x->cut = true;
        return 0;
    }
    x->options[x->depth] = (uint8_t)options;
    x->choice[x->depth++] = (uint8_t)chosen;
    return chosen;
}

static _Noreturn void leave_known(oppx *x) {
    x->pruned++;
    x->is_known = true;
    run_leave(x);
}

uint32_t choose_thread(oppx *x, choice_kind kind, uint32_t options, uint32_t awake, bool stops) {
    if (x->driver != DRIVE_SEARCH) return choose(x, kind, options);
    if (awake == 0) leave_known(x);
    if (options <= 1) return 0;
    uint32_t chosen = (uint32_t)__builtin_ctz(awake);
    if (x->depth >= OPPX_CHOICES) return record_choice(x, options, chosen), chosen;
    if (x->depth < x->stack_depth) chosen = x->choice[x->depth];
    else if ((x->asleep != 0 && reduce_is_left(x)) || state_is_known(x)) leave_known(x);
    x->kind[x->depth] = kind;
    x->stops[x->depth] = stops;
    x->awake[x->depth] = (uint16_t)awake;
    x->place[x->depth] = x->logged;
    if (x->reduces && kind == CHOOSE_SWITCH) reduce_note_choice(x, x->depth);
    return record_choice(x, options, chosen);
}

uint32_t choose_random_thread(oppx *x, const uint8_t *options, uint32_t count) {
    if (count <= 1 || x->depth >= OPPX_CHOICES) return 0; /* as choose() does, which replays */
    /* The option 0 at the end: the running thread is stopped. */
    if (options[count - 1] == 0) {
        if (random_next(&x->random) % (2 * (uint64_t)(x->expected_steps + 8)) == 0)
            return record_choice(x, count, count - 1);
    }
    for (int i = 0; i < 4; i++)
        if (x->change_points[i] == x->steps) x->threads[x->running].priority = (uint64_t)i;
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        if (options[i] != 0 && x->threads[options[i]].priority > x->threads[options[best]].priority) best = i;
    /* Now and then anybody, since priorities alone rarely alternate. */
    if (random_next(&x->random) % 32 == 0) {
        uint32_t any = (uint32_t)(random_next(&x->random) % count);
        if (options[any] != 0) best = any;
    }
    return record_choice(x, count, best);
}

/* Not for ever: the language wants news to arrive some time, and a loop may wait for it. */
static bool is_late(oppx *x) {
    return x->running == x->late_thread && x->late >> (mix(x->object, 1) & 63) & 1 && x->late_left-- > 0;
}

uint32_t choose(oppx *x, choice_kind kind, uint32_t options) {
    if (!x->concurrent) return 0; /* alone: the newest, or the end */
    bool costs = kind == CHOOSE_READ || kind == CHOOSE_PLACE;
    if (costs && x->left.stale == 0) options = 1;
    bool is_early = kind == CHOOSE_EARLY;
    if (is_early && x->left.early == 0) options = 1;
    bool is_refusal = kind == CHOOSE_REFUSAL;
    if (is_refusal && x->left.refusals == 0) options = 1;
    if (options <= 1) return 0;
    if (options > 200) {
        options = 200;
        x->cut = true;
    }
    uint32_t chosen = 0;
    if (x->depth < OPPX_CHOICES) switch (x->driver) {
        case DRIVE_SEARCH:
            if (x->depth < x->stack_depth) chosen = x->choice[x->depth];
            x->kind[x->depth] = kind;
            x->place[x->depth] = x->logged == 0 ? 0 : x->logged - 1; /* amid a step */
            break;
        case DRIVE_RANDOM:
            if (kind == CHOOSE_READ && is_late(x)) chosen = options - 1;
            else if (!(costs || is_early || is_refusal) || random_next(&x->random) % 4 == 0)
                chosen = (uint32_t)(random_next(&x->random) % options);
            break;
        case DRIVE_BYTES:
            if (x->byte_count > 0) {
                chosen = x->bytes[--x->byte_count] % options;
            }
            break;
        case DRIVE_REPLAY:
            if (x->depth < x->stack_depth) chosen = x->choice[x->depth];
            if (chosen >= options) {
                chosen = options - 1;
                if (x->misfit == 0) x->misfit = x->depth + 1;
            }
            break;
        }
    chosen = record_choice(x, options, chosen);
    if (costs && chosen != 0 && x->left.stale != OPPX_UNBOUNDED) x->left.stale--;
    if (is_early && chosen != 0 && x->left.early != OPPX_UNBOUNDED) x->left.early--;
    if (is_refusal && chosen != 0 && x->left.refusals != OPPX_UNBOUNDED) x->left.refusals--;
    return chosen;
}
