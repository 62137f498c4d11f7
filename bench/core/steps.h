#ifndef BENCH_STEPS_H
#define BENCH_STEPS_H

#include <stdint.h>

/* Each step of an app that has jobs queued, and the first take of another app's job right after it. */
typedef enum step {
    STEP_SUSPEND,
    STEP_AFTER_SUSPEND,
    STEP_RESUME,
    STEP_AFTER_RESUME,
    STEP_LOWER,
    STEP_AFTER_LOWER,
    STEP_RAISE,
    STEP_AFTER_RAISE,
    STEP_SUSPEND_RESUME, /* both, on average over many: finer than the clock */
    STEP_LOWER_RAISE,
    STEPS
} step;

extern const char *const step_name[STEPS];

/* Medians over `rounds` (at most 101), in ns, less the clock's own time; with `queued` jobs of the app. */
void steps_of_run_queue(uint64_t queued, unsigned rounds, double *ns);

/* The same with one list for each level under a mutex, where a step moves the app's jobs. */
void steps_of_lists(uint64_t queued, unsigned rounds, double *ns);

#endif
