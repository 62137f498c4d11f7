/*
 * What Opportune asks of the Swift runtime beyond its public interface. Everything is looked up weakly and
 * tested at start (opp_runtime_job_kind's layout by RuntimeProbe.swift); what is missing is answered with
 * "unknown".
 */
#ifndef OPP_RUNTIME_H
#define OPP_RUNTIME_H

#include <stdbool.h>
#include <stdint.h>

/* Kinds of job, as far as they matter here. */
enum {
    OPP_RUNTIME_JOB_TASK = 0,
    OPP_RUNTIME_JOB_ACTOR_FIRST = 192, /* default actors' jobs: 192 to 194 */
    OPP_RUNTIME_JOB_ACTOR_LAST = 194,
    OPP_RUNTIME_JOB_CONTINUATION = 195, /* of Task.yield */
};

/* The id of the task that a job continues; 0 for jobs of actors and yields, and where the runtime does not
 * tell. */
uint64_t opp_runtime_task_id(const void *_Nonnull job);

/* Whether the runtime tells them. */
bool opp_runtime_has_task_ids(void);

/*
 * Whether the caller runs inside a task. As withUnsafeCurrentTask tells, but without two atomic steps on the
 * task's count of references. True where the runtime does not tell.
 */
bool opp_runtime_is_in_task(void);

/* The id of the task that the caller runs inside; 0 if in none, or where the runtime does not tell. */
uint64_t opp_runtime_current_task_id(void);

/* The kind byte of a job, from the flags behind its two private words. */
static inline uint8_t opp_runtime_job_kind(const void *_Nonnull job) {
    return *((const uint8_t *)job + 32);
}

/* The priority that a job was queued with, from the byte behind its kind. */
static inline uint8_t opp_runtime_job_priority(const void *_Nonnull job) {
    return *((const uint8_t *)job + 33);
}

/* Whether the runtime has the hook that enqueues on the global executor go through. */
bool opp_runtime_has_global_hook(void);

/*
 * From now on calls `seen(job)` for each job that goes to the global pool, on the thread that enqueues it. If
 * `seen` returns true it has taken the job over; otherwise the job goes where it would have gone. Returns
 * false where the runtime lacks the hook. Unsupported by the runtime's makers; once set it stays.
 */
bool opp_runtime_hook_global(bool (*_Nonnull seen)(void *_Nonnull job));

#endif
