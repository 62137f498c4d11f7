/* The targets and worlds that check the C core. Each target says what is promised, and judges whether it was
 * kept. */
#ifndef OPP_CHECKED_H
#define OPP_CHECKED_H

#include "opp_explorer.h"

extern const oppx_target checked_litmus, checked_queue, checked_runq, checked_parking, checked_pool,
    checked_inbox,
    checked_records, checked_report, checked_table, checked_purge, checked_alarms, checked_ring,
    checked_closers, checked_readiness,
    checked_canary, checked_canary_sleep, checked_canary_old, checked_canary_stopped;

/* All targets, in the order of a listing. */
const oppx_target *_Nonnull const *_Nonnull checked_targets(size_t *_Nonnull count);
const oppx_target *_Nullable checked_target_named(const char *_Nonnull name);

/* Small programs that are explored to the end. */
const oppx_world *_Nonnull checked_worlds(size_t *_Nonnull count);

/* Explores a world within its bounds. Returns 0, or -EINVAL if it names what is not there. */
int checked_explore_world(oppx *_Nonnull explorer, const oppx_world *_Nonnull world, oppx_budget budget,
                          oppx_figures *_Nonnull figures, oppx_finding *_Nonnull finding);

/* --- Litmus tests: programs whose outcomes the language allows or forbids, to check the explorer itself. */
typedef struct checked_litmus_test {
    const char *_Nonnull name;
    const char *_Nonnull program; /* of the target checked_litmus */
    const char *_Nonnull outcome; /* what the reads gave, by thread */
    bool allowed;
} checked_litmus_test;

const checked_litmus_test *_Nonnull checked_litmus_tests(size_t *_Nonnull count);

/* Explores the test's program. Returns whether its outcome appeared. */
bool checked_litmus_appears(oppx *_Nonnull explorer, const checked_litmus_test *_Nonnull test,
                            oppx_figures *_Nonnull figures);

#endif
