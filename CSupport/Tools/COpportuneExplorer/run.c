/*
 * Threads. Each step of a thread begins with run_point(), where another may be chosen to go on; a thread that
 * goes on is switched to directly. Choice 0 is always "as before": the running thread goes on.
 *
 * A thread that is stopped never runs again, and its being stopped is no failure; all else goes on without
 * it. When nobody can run, the target's quiet() judges whether the sleepers may sleep.
 */
#include "state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void thread_entry(void *argument);

/* --- Failing --------------------------------------------------------------------------------- */

_Noreturn void run_leave(oppx *x) {
    x->abandoned = true;
    oppx_fiber here;
    oppx_fiber_switch(&here, &x->main);
    __builtin_unreachable();
}


void oppx_fail(const char *format, ...) {
    oppx *x = oppx_self;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(x->message, sizeof(x->message), format, arguments);
    va_end(arguments);
    x->failed = true;
    if (NOTED(x)) note_step(x, "FAILS: %s", x->message);
    run_leave(x);
}

/* --- Who runs -------------------------------------------------------------------------------- */

static bool can_run(oppx *x, uint32_t number) {
    const thread *thread = &x->threads[number];
    if (thread->state == READY) return true;
    if (thread->state != WAITING) return false;
    for (uint32_t i = 0; i < TIMERS; i++)
        if (*thread->timers & 1u << i && x->timer_armed[i]) return true;
    return false;
}

static void go_to(oppx *x, uint32_t number) {
    uint32_t before = x->running;
    if (before == number) return;
    x->alone = 0;
    x->running = number;
    x->chosen = true;
    oppx_fiber_switch(&x->threads[before].fiber, &x->threads[number].fiber);
}

/* The running thread cannot go on: another does, or the execution ends. */
static void run_another(oppx *x) {
    uint8_t options[OPPX_THREADS];
    uint32_t count = 0, awake = 0;
    reduce_step_over(x);
    for (uint32_t i = 1; i < x->thread_count; i++)
        if (can_run(x, i)) {
            awake |= (~x->asleep >> i & 1) << count;
            options[count++] = (uint8_t)i;
        }
    if (count == 0) {
        oppx_fiber *own = &x->threads[x->running].fiber;
        oppx_fiber_switch(own, &x->main);
        return;
    }
    uint32_t chosen = x->driver == DRIVE_RANDOM ? choose_random_thread(x, options, count)
                                                : choose_thread(x, CHOOSE_THREAD, count, awake, false);
    x->chosen = true;
    go_to(x, options[chosen]);
    reduce_step_begins(x);
}

void run_point(oppx *x) {
    if (!x->concurrent) {
        if (++x->alone > STEPS_ALONE * 4) oppx_fail("livelock: %u steps of the main thread alone", x->alone);
        return;
    }
    if (++x->steps > STEPS_MAX) oppx_fail("livelock: no end after %u steps", STEPS_MAX);
    if (++x->alone > STEPS_ALONE) oppx_fail("livelock: thread %u does not finish alone", x->running);
    reduce_step_over(x);
    if (x->chosen) { /* it was chosen for this very step */
        x->chosen = false;
        reduce_step_begins(x);
        return;
    }
    uint8_t options[OPPX_THREADS + 1];
    uint32_t count = 0, awake = 1;
    options[count++] = (uint8_t)x->running;
    for (uint32_t i = 1; i < x->thread_count && x->left.preemptions > 0; i++)
        if (i != x->running && can_run(x, i)) {
            awake |= (~x->asleep >> i & 1) << count;
            options[count++] = (uint8_t)i;
        }
    uint32_t threads = count;
    bool stops = x->left.stalls > 0;
    if (stops) { /* the running thread is stopped */
        awake |= 1u << count;
        options[count++] = 0;
    }
    uint32_t chosen = count == 1                  ? 0
                      : x->driver == DRIVE_RANDOM ? choose_random_thread(x, options, count)
                                                  : choose_thread(x, CHOOSE_SWITCH, count, awake, stops);
    if (chosen == 0) {
        reduce_step_begins(x);
        return;
    }
    if (chosen < threads) {
        if (x->left.preemptions != OPPX_UNBOUNDED) x->left.preemptions--;
        reduce_preempted(x);
        go_to(x, options[chosen]);
        x->chosen = false;
        reduce_step_begins(x);
        return;
    }
    x->left.stalls--;
    reduce_stopped(x);
    x->threads[x->running].state = STOPPED;
    if (NOTED(x)) note_step(x, "-- stopped for ever --");
    run_another(x);
    __builtin_unreachable();
}

void run_step(oppx *x, uint64_t what) {
    thread *thread = &x->threads[x->running];
    thread->hash = mix(thread->hash, what);
}

/* --- Sleeping and waking --------------------------------------------------------------------- */

int oppx_futex_wait(const volatile void *word, uint32_t expected) {
    oppx *x = oppx_self;
    if (x == NULL) return -EAGAIN;
    run_point(x);
    uint32_t offset = (uint32_t)((uintptr_t)word - (uintptr_t)x->arena);
    uint32_t value = (uint32_t)memory_newest(x, word, 4, __builtin_return_address(0));
    reduce_touch(x, offset, false);
    run_step(x, mix(value, 1));
    if (value != expected) {
        if (NOTED(x)) note_step(x, "futex wait: the word has changed");
        return 0;
    }
    if (!x->concurrent) oppx_fail("the main thread sleeps for ever");
    if (choose(x, CHOOSE_EARLY, 2) != 0) {
        run_step(x, 6);
        if (NOTED(x)) note_step(x, "futex wait: returns, and nobody has woken it");
        return -EINTR;
    }
    thread *thread = &x->threads[x->running];
    reduce_touch_futex(x, offset);
    if (NOTED(x)) note_step(x, "futex wait: sleeps");
    thread->state = ASLEEP;
    thread->word = word;
    thread->queue = x->sleeps++;
    run_another(x);
    if (NOTED(x)) note_step(x, "wakes up");
    return 0;
}

int oppx_futex_wake(const volatile void *word, int count) {
    oppx *x = oppx_self;
    if (x == NULL) return 0;
    run_point(x);
    x->threads[x->running].futex_calls++;
    reduce_touch_futex(x, (uint32_t)((uintptr_t)word - (uintptr_t)x->arena));
    int woken = 0;
    while (woken < count) {
        thread *oldest = NULL;
        for (uint32_t i = 1; i < x->thread_count; i++) {
            thread *thread = &x->threads[i];
            if (thread->state == ASLEEP && thread->word == word &&
                (oldest == NULL || thread->queue < oldest->queue))
                oldest = thread;
        }
        if (oldest == NULL) break;
        oldest->state = READY;
        reduce_woken(x, (uint32_t)(oldest - x->threads));
        oldest->hash = mix(oldest->hash, x->threads[x->running].hash);
        woken++;
    }
    run_step(x, mix((uint64_t)woken, 2));
    x->threads[x->running].visible = x->threads[x->running].hash;
    if (NOTED(x)) note_step(x, "futex wake: %d woken", woken);
    return woken;
}

bool oppx_refuses(void) {
    oppx *x = oppx_self;
    if (x == NULL || choose(x, CHOOSE_REFUSAL, 2) == 0) return false;
    x->refused[x->running]++;
    run_step(x, 9);
    if (NOTED(x)) note_step(x, "-- refused --");
    return true;
}

uint32_t oppx_refusals(void) {
    return oppx_self->refused[oppx_self->running];
}

/* Time goes on with each look at it. It is a choice too: an armed timer may go off at any moment from now
 * on. */
uint64_t oppx_now(void) {
    oppx *x = oppx_self;
    if (x == NULL) return 0;
    run_point(x);
    reduce_touch_clock(x);
    x->hash += mix(x->now + 1, 7) - mix(x->now, 7);
    run_step(x, mix(++x->now, 7));
    x->threads[x->running].visible = x->threads[x->running].hash;
    if (NOTED(x)) note_step(x, "clock: %llu", (unsigned long long)x->now);
    return x->now;
}

/* The kernel's tick is longer than an execution. */
uint64_t oppx_tick(void) {
    return 1;
}

int oppx_timer_open(void) {
    oppx *x = oppx_self;
    for (uint32_t i = 0; x != NULL && i < TIMERS; i++)
        if (!x->timer_open[i]) {
            x->timer_open[i] = true;
            return (int)i;
        }
    return -EMFILE;
}

void oppx_timer_close(int timer) {
    oppx_self->timer_open[timer] = false;
}

/* The order of what is done to a timer is part of the state: of two sets and a read, what is left depends on
 * it. */
static void timer_step(oppx *x, int timer, uint64_t what) {
    reduce_touch_timers(x);
    x->hash -= x->timer_past[timer];
    x->timer_past[timer] = mix(x->timer_past[timer], mix(x->threads[x->running].hash, what));
    x->hash += x->timer_past[timer];
    run_step(x, x->timer_past[timer]);
    x->threads[x->running].visible = x->threads[x->running].hash;
}

void oppx_timer_set(int timer) {
    oppx *x = oppx_self;
    run_point(x);
    x->timer_armed[timer] = true;
    timer_step(x, timer, 3);
    if (NOTED(x)) note_step(x, "timer %d is set", timer);
}

void oppx_timer_disarm(int timer) {
    oppx *x = oppx_self;
    run_point(x);
    x->timer_armed[timer] = false;
    timer_step(x, timer, 9);
    if (NOTED(x)) note_step(x, "timer %d is disarmed", timer);
}

void oppx_notifier_ring(int timer) {
    oppx *x = oppx_self;
    run_point(x);
    x->timer_armed[timer] = true;
    vector_join(&x->notified[timer], &x->threads[x->running].known);
    x->threads[x->running].known.at[x->running]++;
    timer_step(x, timer, 5);
    if (NOTED(x)) note_step(x, "notifier %d is notified", timer);
}

/* Returns the mask of those that have gone off. */
static uint32_t wait_for_timers(oppx *x, const uint32_t *mask) {
    run_point(x);
    uint32_t ready = 0;
    reduce_touch_timers(x);
    thread *thread = &x->threads[x->running];
    thread->state = WAITING;
    thread->timers = mask;
    if (!can_run(x, x->running)) {
        if (!x->concurrent) oppx_fail("the main thread waits for a timer that nobody sets");
        if (NOTED(x)) note_step(x, "waits for timers");
        run_another(x);
    }
    thread->state = READY;
    reduce_touch_timers(x); /* a step of its own, where it waited */
    for (uint32_t i = 0; i < TIMERS; i++)
        if (*mask & 1u << i && x->timer_armed[i]) ready |= 1u << i;
    run_step(x, mix(ready, 4));
    if (NOTED(x)) note_step(x, "timers have gone off: 0x%x", ready);
    return ready;
}

uint32_t oppx_timer_wait(const int *timers, uint32_t count) {
    uint32_t mask = 0, ready = 0;
    for (uint32_t i = 0; i < count; i++) mask |= 1u << timers[i];
    uint32_t gone_off = wait_for_timers(oppx_self, &mask);
    for (uint32_t i = 0; i < count; i++)
        if (gone_off & 1u << timers[i]) ready |= 1u << i;
    return ready;
}

bool oppx_timer_read(int timer) {
    oppx *x = oppx_self;
    run_point(x);
    bool was = x->timer_armed[timer];
    x->timer_armed[timer] = false;
    vector_join(&x->threads[x->running].known, &x->notified[timer]);
    timer_step(x, timer, was);
    return was;
}

/* --- An epoll of notifiers, edge-triggered --------------------------------------------------------- */

int oppx_poller_open(void) {
    oppx *x = oppx_self;
    return x->poller_count < POLLERS ? (int)x->poller_count++ : -EMFILE;
}

/* Who waits in it already waits for this one too. What has come for it before is an edge. Who reads it knows
 * what was done before the addition; see "The kernel's order" in readiness.c. */
int oppx_poller_add(int number_of_poller, int timer, uint32_t number) {
    oppx *x = oppx_self;
    poller *poller = &x->pollers[number_of_poller];
    if (poller->count == TIMERS) return -ENOSPC;
    run_point(x);
    poller->timers[poller->count] = timer;
    poller->numbers[poller->count++] = number;
    poller->mask |= 1u << timer;
    vector_join(&x->notified[timer], &x->threads[x->running].known);
    x->threads[x->running].known.at[x->running]++;
    timer_step(x, timer, 7);
    if (NOTED(x)) note_step(x, "notifier %d is added", timer);
    return 0;
}

int oppx_poller_wait(int number_of_poller, uint32_t *numbers, int most, bool waits) {
    oppx *x = oppx_self;
    const poller *poller = &x->pollers[number_of_poller];
    int count = 0;
    do {
        if (waits) (void)wait_for_timers(x, &poller->mask);
        for (uint32_t i = 0; i < poller->count && count < most; i++)
            if (oppx_timer_read(poller->timers[i])) numbers[count++] = poller->numbers[i];
    } while (waits && count == 0); /* another has taken what this one was woken for: the kernel waits on */
    return count;
}

/* --- An execution ---------------------------------------------------------------------------- */

static void thread_entry(void *argument) {
    oppx *x = oppx_self;
    uint32_t number = (uint32_t)(uintptr_t)argument;
    reduce_step_begins(x);
    for (uint32_t i = 0; i < x->program->count[number - 1]; i++) {
        const oppx_operation *operation = &x->program->operation[number - 1][i];
        if (NOTED(x)) {
            const oppx_kind *kind = &x->target->kinds[operation->kind];
            char arguments[40] = "";
            for (int a = 0, at = 0; a < kind->arguments; a++)
                at += snprintf(arguments + at, sizeof(arguments) - (size_t)at, " %u", operation->argument[a]);
            note_step(x, "[%s%s]", kind->name, arguments);
        }
        x->target->perform(number, operation);
    }
    if (x->target->end != NULL) x->target->end(number);
    reduce_last_step(x);
    x->threads[number].state = DONE;
    run_another(x);
    __builtin_unreachable();
}

/* Main's part, on a fiber of its own so that it can be left anywhere. */
static void main_entry(void *argument) {
    (void)argument;
    oppx *x = oppx_self;
    x->target->setup(x->program);
    for (uint32_t i = 1; i < x->thread_count; i++) {
        x->threads[i].known = x->threads[0].known;
        x->threads[i].known.at[i] = 1;
    }
    x->threads[0].known.at[0]++;
    x->concurrent = true;
    x->running = 0;
    run_another(x); /* returns never: main is left for good when nobody can run any more */
    __builtin_unreachable();
}

static void judge_entry(void *argument) {
    (void)argument;
    oppx *x = oppx_self;
    bool all_done = true;
    for (uint32_t i = 1; i < x->thread_count; i++) {
        all_done &= x->threads[i].state == DONE || x->threads[i].state == STOPPED;
        vector_join(&x->threads[0].known, &x->threads[i].known);
    }
    if (!all_done) {
        if (x->target->quiet != NULL) x->target->quiet();
        else oppx_fail("deadlock: nobody can run, and not all have finished");
    }
    x->target->finish();
    run_leave(x);
}

void run_execution(oppx *x) {
    x->execution++;
    x->thread_count = x->program->threads + 1;
    x->running = 0;
    x->concurrent = false;
    x->steps = x->alone = x->sleeps = 0;
    memset(x->refused, 0, sizeof(x->refused));
    x->now = 0;
    x->failed = x->abandoned = x->chosen = false;
    x->message[0] = 0;
    x->left = x->bounds;
    memory_begin(x);
    later_begin(x);
    choose_begin(x);
    reduce_begin(x);
    for (uint32_t i = 0; i < x->thread_count; i++) {
        thread *thread = &x->threads[i];
        thread->state = READY;
        thread->hash = thread->visible = i + 1;
        memset(&thread->known, 0, sizeof(thread->known));
        memset(&thread->learned, 0, sizeof(thread->learned));
        memset(&thread->released, 0, sizeof(thread->released));
        thread->known.at[i] = 1;
        thread->futex_calls = 0;
        oppx_fiber_prepare(&thread->fiber, i == 0 ? main_entry : thread_entry, (void *)(uintptr_t)i);
    }
    oppx_fiber_switch(&x->main, &x->threads[0].fiber);
    if (!x->abandoned) {
        x->end = end_hash(x);
        x->concurrent = false;
        x->running = 0;
        x->alone = 0;
        oppx_fiber_prepare(&x->threads[0].fiber, judge_entry, NULL);
        oppx_fiber_switch(&x->main, &x->threads[0].fiber);
    }
}

/* --- What targets ask ------------------------------------------------------------------------ */

void oppx_remember(uint64_t what) {
    run_step(oppx_self, mix(what, 8));
}

uint32_t oppx_thread(void) {
    return oppx_self->running;
}

bool oppx_is_stopped(uint32_t thread) {
    reduce_asks_stopped(oppx_self);
    return oppx_self->threads[thread].state == STOPPED;
}

bool oppx_is_asleep(uint32_t thread) {
    return oppx_self->threads[thread].state == ASLEEP || oppx_self->threads[thread].state == WAITING;
}

uint64_t oppx_futex_calls(void) {
    return oppx_self->threads[oppx_self->running].futex_calls;
}
