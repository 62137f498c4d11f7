/*
 * Which switches the exhaustive search leaves out, since what comes of them comes of others too.
 *
 * Two steps of different threads commute unless one writes what the other touches. Touched are the atomic
 * object, a futex's sleepers, the timers, the clock, and what the judge keeps, all of it one object; with a
 * step goes all that its thread does up to its next step. Plain memory does not count: who is not ordered
 * there races, in either order. So what the compiler does not report must not be shared: memory that a call
 * of memset() or memcpy() touches.
 *
 *  1. A thread is preempted before a step only where some other thread can still do what does not commute
 *     with it. If none can, the switch may come behind the step instead, for the same price or less: so does
 *     every switch of such an execution, and the bound on preemptions cuts off nothing that it would not have
 *     cut off (which it does where reduced searches leave out a *cheaper* switch: Coons, Musuvathi and
 *     McKinley, "Bounded partial-order reduction"). What the others can still do is known when this is asked,
 *     as the executions in which the thread goes on are explored first: whatever another does before it comes
 *     to a step that does not commute, it does behind the step too.
 *  2. For the same reason a thread that was preempted goes on only when another has done what does not
 *     commute with its step: until then it sleeps, as in sleep sets. A state is known where it was explored
 *     with no more threads asleep. Where nobody can do such a thing any more the execution is left.
 *  3. A thread is not stopped for ever before a step that only reads, and that the judge does not see: it is
 *     stopped before the next. That is the same to all others.
 *
 * What a thread can still do is kept by its hash, that is by all that it did and saw. Each execution leaves a
 * log of steps, which is folded into that table, from its end, as search.c goes back behind them. An
 * execution that was left at a known state has in its place what the table says of each thread there.
 */
#include "state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { NO_OBJECT, JUDGE, CLOCK, ALARMS, STOPPED_ONES, OBJECTS_NAMED, OBJECTS = 256 };
/* What a step does besides: it writes its object, shows something to the judge, ... is its thread's last; it
 * stops its thread, or the judge asks who is stopped. */
enum { WRITES = 1, JUDGED = 2, EVERYTHING = 4, LAST = 8, STOPS = 16, ASKS = 32 };

#define FUTURES_FIRST (1ull << 14)
#define FUTURES_LAST (1ull << 23)

/* --- Objects and steps ------------------------------------------------------------------------ */

static uint8_t object_at(oppx *x, uint32_t offset) {
    uint8_t *number = &x->object_number[offset];
    /* the many share the last numbers: then some steps count as not commuting that do */
    if (*number == NO_OBJECT)
        *number = x->object_count < OBJECTS ? (uint8_t)x->object_count++
                                            : (uint8_t)(OBJECTS_NAMED + offset / 4 % 250);
    return *number;
}

static mark *open_mark(oppx *x) {
    return x->logged == 0 ? NULL : &x->log[x->open[x->running]].mark;
}

static void log_step(oppx *x, uint32_t number) {
    if (x->logged == LOG_MAX) {
        x->futures_full = true; /* nothing is left out any more */
        x->asleep = 0;
        return;
    }
    x->open[number] = x->logged;
    x->log[x->logged++] = (step){.key = x->threads[number].hash, .thread = number};
}

void reduce_step_begins(oppx *x) {
    if (!x->reduces) return;
    x->asleep &= ~(1u << x->running);
    log_step(x, x->running);
}

void reduce_woken(oppx *x, uint32_t number) {
    if (x->reduces) log_step(x, number);
}

void reduce_touch(oppx *x, uint32_t offset, bool writes) {
    if (!x->reduces || !x->concurrent) return;
    mark *mark = open_mark(x);
    mark->object[0] = object_at(x, offset);
    if (writes) mark->what |= WRITES;
}

void reduce_touch_futex(oppx *x, uint32_t offset) {
    if (!x->reduces || !x->concurrent) return;
    open_mark(x)->object[1] = object_at(x, offset + 2); /* no object begins inside of the word */
}

void reduce_touch_clock(oppx *x) {
    if (x->reduces && x->concurrent) open_mark(x)->object[1] = CLOCK;
}

void reduce_touch_timers(oppx *x) {
    if (x->reduces && x->concurrent) open_mark(x)->object[1] = ALARMS;
}

void reduce_touch_all(oppx *x) {
    if (x->reduces && x->concurrent) open_mark(x)->what |= EVERYTHING;
}

void reduce_touch_judge(oppx *x) {
    if (x->reduces && x->concurrent) open_mark(x)->what |= JUDGED;
}

void reduce_last_step(oppx *x) {
    if (x->reduces) open_mark(x)->what |= LAST;
}

void reduce_stopped(oppx *x) {
    if (!x->reduces) return;
    log_step(x, x->running);
    open_mark(x)->what |= STOPS;
}

void reduce_asks_stopped(oppx *x) {
    if (x->reduces && x->concurrent) open_mark(x)->what |= ASKS;
}

/* --- What does not commute -------------------------------------------------------------------- */

static bool is_in(const uint64_t *set, uint32_t object) {
    return set[object / 64] >> object % 64 & 1;
}

static void set_add(uint64_t *set, uint32_t object) {
    set[object / 64] |= 1ull << object % 64;
}

static void touched_add(touched *set, const mark *mark) {
    if (mark->object[0] != NO_OBJECT)
        set_add(mark->what & WRITES ? set->written : set->read, mark->object[0]);
    if (mark->object[1] != NO_OBJECT) set_add(set->written, mark->object[1]);
    if (mark->what & JUDGED) set_add(set->written, JUDGE);
    if (mark->what & STOPS) set_add(set->written, STOPPED_ONES);
    if (mark->what & ASKS) set_add(set->read, STOPPED_ONES);
    if (mark->what & EVERYTHING) memset(set->written, 0xFF, sizeof(set->written));
}

static bool is_empty(const touched *set) {
    uint64_t all = 0;
    for (int i = 0; i < OBJECT_WORDS; i++) all |= set->read[i] | set->written[i];
    return all == 0;
}

/* Whether the step does not commute with all that `later` names. */
static bool meets(const oppx *x, const mark *mark, const touched *later) {
    if (mark->what & EVERYTHING) return !is_empty(later);
    uint32_t object = mark->object[0];
    bool writes = mark->what & WRITES;
    /* What tests/explorer breaks on purpose, to see that it is noticed. */
    bool reads_count = x->reduction != OPPX_BLIND_TO_READS,
        judge_counts = x->reduction != OPPX_BLIND_TO_JUDGE;
    bool second_counts = x->reduction != OPPX_BLIND_TO_SLEEPERS;
    if (object != NO_OBJECT && (writes || reads_count) && is_in(later->written, object)) return true;
    if (object != NO_OBJECT && writes && reads_count && is_in(later->read, object)) return true;
    if (mark->what & STOPS && is_in(later->read, STOPPED_ONES)) return true;
    if (mark->what & ASKS && is_in(later->written, STOPPED_ONES)) return true;
    if (mark->object[1] != NO_OBJECT && second_counts && is_in(later->written, mark->object[1])) return true;
    return mark->what & JUDGED && judge_counts && is_in(later->written, JUDGE);
}

/* --- What a thread can still do --------------------------------------------------------------- */

static bool futures_grow(oppx *x) {
    uint64_t size = x->futures == NULL ? FUTURES_FIRST : (x->futures_mask + 1) * 4;
    if (size > FUTURES_LAST) return false;
    future *larger = calloc(size, sizeof(future));
    if (larger == NULL) return false;
    for (uint64_t i = 0; x->futures != NULL && i <= x->futures_mask; i++) {
        if (x->futures[i].key == 0) continue;
        uint64_t place = x->futures[i].key >> 8 & (size - 1);
        while (larger[place].key != 0) place = (place + 1) & (size - 1);
        larger[place] = x->futures[i];
    }
    free(x->futures);
    x->futures = larger;
    x->futures_mask = size - 1;
    return true;
}

static future *future_of(oppx *x, uint64_t hash, bool create) {
    uint64_t key = hash | 1;
    for (uint64_t i = key >> 8 & x->futures_mask;; i = (i + 1) & x->futures_mask) {
        future *entry = &x->futures[i];
        if (entry->key == key) return entry;
        if (entry->key != 0) continue;
        if (!create) return NULL;
        if (x->future_count > x->futures_mask / 2) {
            if (futures_grow(x)) return future_of(x, hash, true);
            if (x->future_count > x->futures_mask / 4 * 3) {
                x->futures_full = true;
                return NULL;
            }
        }
        entry->key = key;
        x->future_count++;
        return entry;
    }
}

/* Whether some other thread, whose hashes are `keys`, can still do what does not commute with the step. */
static bool is_met(oppx *x, const mark *mark, uint32_t thread, const uint64_t *keys) {
    if (x->futures_full) return true;
    for (uint32_t i = 1; i < x->thread_count; i++) {
        if (i == thread) continue;
        const future *future = future_of(x, keys[i], false);
        if (future != NULL && meets(x, mark, &future->later)) return true;
    }
    return false;
}

static void join(touched *into, const touched *other) {
    for (int i = 0; i < OBJECT_WORDS; i++) {
        into->read[i] |= other->read[i];
        into->written[i] |= other->written[i];
    }
}

/* --- What search.c asks ----------------------------------------------------------------------- */

bool reduce_search_begins(oppx *x) {
    x->reduces = false;
    if (x->reduction == OPPX_WHOLE) return true;
    if (x->log == NULL) x->log = malloc(LOG_MAX * sizeof(step));
    if (x->object_number == NULL) {
        x->object_number = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                                -1, 0);
        if (x->object_number == MAP_FAILED) x->object_number = NULL;
    } else {
        madvise(x->object_number, ARENA_BYTES, MADV_DONTNEED);
    }
    free(x->futures);
    x->futures = NULL;
    x->future_count = 0;
    x->futures_full = false;
    x->object_count = OBJECTS_NAMED;
    x->reduces = x->log != NULL && x->object_number != NULL && futures_grow(x);
    return x->reduces;
}

void reduce_search_ends(oppx *x) {
    x->reduces = false;
}

void reduce_destroy(oppx *x) {
    free(x->log);
    free(x->futures);
    if (x->object_number != NULL) munmap(x->object_number, ARENA_BYTES);
}

void reduce_begin(oppx *x) {
    x->logged = 0;
    x->asleep = 0;
    x->is_known = false;
}

void reduce_fold_begins(oppx *x) {
    x->folded = x->logged;
    memset(x->folding, 0, sizeof(x->folding));
    /* Also where the execution has ended by itself: who sleeps for ever here is woken in others. */
    for (uint32_t i = 1; i < x->thread_count; i++) {
        const future *future = future_of(x, x->threads[i].hash, false);
        if (future != NULL) x->folding[i] = future->later;
    }
}

void reduce_fold(oppx *x, uint32_t place) {
    for (; x->folded > place; x->folded--) {
        const step *step = &x->log[x->folded - 1];
        touched *folding = &x->folding[step->thread];
        future *future = future_of(x, step->key, true);
        if (future == NULL) continue;
        for (int i = 0; i < 2; i++)
            if (step->mark.object[i] != NO_OBJECT) future->step.object[i] = step->mark.object[i];
        future->step.what |= step->mark.what;
        touched_add(&future->later, &step->mark);
        join(&future->later, folding);
        *folding = future->later;
    }
}

void reduce_note_choice(oppx *x, uint32_t depth) {
    for (uint32_t i = 1; i < x->thread_count; i++) x->keys[depth][i] = x->threads[i].hash;
    x->chooser[depth] = (uint8_t)x->running;
}

bool reduce_needs_switch(oppx *x, uint32_t depth) {
    uint32_t thread = x->chooser[depth];
    const future *future = future_of(x, x->keys[depth][thread], false);
    if (future == NULL) return true;
    mark step = future->step;
    /* who goes on may be stopped behind the step; who is let on, a step later */
    if (x->stops[depth]) step.what |= STOPS;
    return is_met(x, &step, thread, x->keys[depth]);
}

bool reduce_needs_stop(oppx *x, uint32_t depth) {
    const future *future = future_of(x, x->keys[depth][x->chooser[depth]], false);
    return future == NULL || x->futures_full || future->step.object[1] != NO_OBJECT ||
           (future->step.what & ~ASKS) != 0;
}

/* --- Threads that were preempted -------------------------------------------------------------- */

void reduce_preempted(oppx *x) {
    if (!x->reduces || x->futures_full) return;
    const future *future = future_of(x, x->threads[x->running].hash, false);
    if (future == NULL) return;
    x->asleep |= 1u << x->running;
    x->asleep_step[x->running] = future->step;
    if (x->left.stalls > 0) x->asleep_step[x->running].what |= STOPS; /* as in reduce_needs_switch() */
}

void reduce_step_over(oppx *x) {
    if (x->asleep == 0) return;
    touched done = {0};
    touched_add(&done, open_mark(x));
    for (uint32_t i = 1; i < x->thread_count; i++)
        if (x->asleep >> i & 1 && i != x->running && meets(x, &x->asleep_step[i], &done))
            x->asleep &= ~(1u << i);
}

bool reduce_is_left(oppx *x) {
    uint64_t keys[OPPX_THREADS];
    for (uint32_t i = 1; i < x->thread_count && x->asleep != 0; i++) keys[i] = x->threads[i].hash;
    for (uint32_t i = 1; i < x->thread_count; i++)
        if (x->asleep >> i & 1 && !is_met(x, &x->asleep_step[i], i, keys)) return true;
    return false;
}
