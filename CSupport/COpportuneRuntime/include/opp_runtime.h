/*
 * Functions of the Swift runtime beyond its public interface. Each is a weak symbol and tested at start
 * (RuntimeProbe.swift tests the layout that opp_runtime_job_kind assumes). Where one is missing, the result
 * is "unknown".
 */
#ifndef OPP_RUNTIME_H
#define OPP_RUNTIME_H

#include <stdbool.h>
#include <stdint.h>

/* The kinds of jobs that the scheduler distinguishes. */
enum {
    OPP_RUNTIME_JOB_TASK = 0,
    OPP_RUNTIME_JOB_ACTOR_FIRST = 192, /* default actors' jobs: 192 to 194 */
    OPP_RUNTIME_JOB_ACTOR_LAST = 194,
    OPP_RUNTIME_JOB_CONTINUATION = 195, /* after Task.yield */
};

/* The id of the task that a job continues; 0 for jobs of actors and yields, and where the runtime has no such
 * function. */
uint64_t opp_runtime_task_id(const void *_Nonnull job);

/* Whether the runtime provides task ids. */
bool opp_runtime_has_task_ids(void);

/*
 * Whether the caller runs inside a task. Like withUnsafeCurrentTask, without its two atomic operations on the
 * task's reference count. True where the runtime has no such function.
 */
bool opp_runtime_is_in_task(void);

/* The id of the task that the caller runs inside; 0 outside of tasks, and where the runtime has no such
 * function. */
uint64_t opp_runtime_current_task_id(void);

/* The kind byte of a job: part of the flags after its two private words. */
static inline uint8_t opp_runtime_job_kind(const void *_Nonnull job) {
    return *((const uint8_t *)job + 32);
}

/* The priority with which a job was queued: the byte after its kind. */
static inline uint8_t opp_runtime_job_priority(const void *_Nonnull job) {
    return *((const uint8_t *)job + 33);
}

/* Whether the runtime has the hook for enqueues on the global executor. */
bool opp_runtime_has_global_hook(void);

/*
 * From now on calls `seen(job)` for each job that goes to the global pool, on the enqueuing thread, before it
 * goes there. Returns false where the runtime lacks the hook. The runtime does not officially support the
 * hook; once set it stays.
 */
bool opp_runtime_hook_global(void (*_Nonnull seen)(void *_Nonnull job));

#endif
