/*
 * Opportune's C core as a library of its own: a scheduler that runs functions on two pools of worker threads,
 * the foreground's and the background's. It needs the C library and nothing else; no Swift.
 *
 *     oppc_scheduler *scheduler;
 *     oppc_app *ui, *indexer;
 *     if (oppc_scheduler_create(NULL, &scheduler) < 0) return 1;
 *     oppc_app_create(scheduler, "ui", OPPC_FOREGROUND, &ui);
 *     oppc_app_create(scheduler, "indexer", OPPC_BACKGROUND, &indexer);
 *     oppc_submit(indexer, index_everything, NULL); // every CPU, as long as nobody waits
 *     oppc_submit(ui, answer, &query);              // starts at once all the same
 *
 * An *app* is a part of the program that is foreground or background as a whole, and can be suspended. A
 * *job* is a function and its context; it runs once, to its end. A *strand* runs its jobs one after the
 * other.
 *
 * Promises
 *  - Each accepted job ends in exactly one of two ways: it runs once, or it is cancelled once, as the
 *    scheduler is destroyed.
 *  - Submitting takes no lock. No call of a foreground thread waits for a background thread that was stopped;
 *    but each submission allocates, and the allocator is the program's.
 *  - An idle scheduler makes no system call and wakes no thread.
 *
 * What it does not do: nothing watches the workers. A job that blocks keeps its worker until it returns, and
 * no other takes its place; so let there be as many workers as jobs may block at once. A long job is not
 * demoted. Both are done by the Swift package `Opportune`, of which this is the core.
 *
 * Rules for all calls
 *  - Thread safety: any thread may make any call at any time, jobs included, unless the call says otherwise.
 *    Signal handlers, and the child of a fork() that does not go on to exec(), may make none.
 *  - Errors: a call that may fail returns 0, or an error number with a minus sign. `errno` says
 *    nothing. NULL for a pointer that is not said to be optional is -EINVAL.
 *  - Handles: who creates one releases it once, when no call with it is in progress. One exception: a job may
 *    release the handle with which it was submitted, where the scheduler outlives that call.
 *  - Blocking: only oppc_scheduler_destroy(), oppc_scheduler_wait(), oppc_app_wait() and
 *    oppc_app_wait_quiet() wait for jobs.
 *  - Times are in nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef OPPORTUNE_CORE_H
#define OPPORTUNE_CORE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OPPC_API __attribute__((visibility("default")))
#define OPPC_MUST_USE __attribute__((warn_unused_result))

/* The version of this header: major, minor, patch. Before 1.0.0 a minor version may break the interface, and
 * the number in the library's soname then grows. */
#define OPPC_VERSION_MAJOR 0
#define OPPC_VERSION_MINOR 1
#define OPPC_VERSION_PATCH 0
#define OPPC_VERSION (OPPC_VERSION_MAJOR << 16 | OPPC_VERSION_MINOR << 8 | OPPC_VERSION_PATCH)

/* The version of the library that runs, as OPPC_VERSION. */
OPPC_API uint32_t oppc_version(void);

typedef struct oppc_scheduler oppc_scheduler;
typedef struct oppc_app oppc_app;
typedef struct oppc_strand oppc_strand;

/* What a job calls, with the context that was given with it. It must return: a job may end neither by
 * pthread_exit(), nor by longjmp() or an exception out of it. */
typedef void (*oppc_function)(void *context);

/* Bands and priorities are passed as `int`, so that a value out of range is an error and not undefined. */
enum oppc_band {
    OPPC_BACKGROUND = 0, /* nobody waits for it */
    OPPC_FOREGROUND = 1  /* somebody does */
};

/* How the kernel schedules the background's workers. Needs no privilege. */
enum oppc_class {
    OPPC_CLASS_IDLE = 0,   /* SCHED_IDLE: any other thread that wakes preempts it */
    OPPC_CLASS_NICE19 = 1, /* SCHED_OTHER at nice 19, with the longest slice where the kernel takes one */
    OPPC_CLASS_NORMAL = 2  /* as the thread that creates the scheduler */
};

/* Priorities of jobs within their app. Each app of a band has its turn at each priority; and even where
 * higher ones never end, one take in sixteen begins with another priority, in turn. */
enum oppc_priority {
    OPPC_PRIORITY_HIGH = 0,
    OPPC_PRIORITY_NORMAL = 1,
    OPPC_PRIORITY_LOW = 2
};

/* --- The scheduler ------------------------------------------------------------------------------ */

#define OPPC_WORKERS_MAX 1024 /* of each pool */
#define OPPC_APPS_MAX 65536
#define OPPC_NAME_MAX 63      /* bytes */

/* `size` is sizeof(oppc_options); 0 in every other field is its default. */
typedef struct oppc_options {
    uint32_t size;
    /* How many threads serve each band: 1 to OPPC_WORKERS_MAX. All are started at once. By default as many as
     * the CPUs that the process may use, its CPU quota rounded up; in the foreground twice as many, so that
     * the kernel gives a short job the CPU of a long one. */
    uint32_t foreground_workers;
    uint32_t background_workers;
    uint32_t background_class; /* OPPC_CLASS_... */
    uint32_t max_apps;         /* 1 to OPPC_APPS_MAX; 1,024 by default */
    uint32_t reserved;         /* 0 */
    uint64_t stack_bytes;      /* of a worker; less than 256 KiB counts as that. By default the program's */
    const char *name;          /* begins the names of the threads; up to OPPC_NAME_MAX bytes, 9 are shown */
} oppc_options;

/*
 * Creates a scheduler and starts its workers. They inherit the CPU affinity, the kernel's class and the nice
 * value of the calling thread, from where the background's are lowered. `options` is optional. On failure
 * *scheduler is NULL.
 *
 * -EINVAL: a value is out of its range. -ENOMEM: memory is short. -EAGAIN: the process may have no more
 * threads. -EPERM: the kernel refuses the background's class, as where a sandbox forbids it.
 */
OPPC_MUST_USE OPPC_API int oppc_scheduler_create(const oppc_options *options, oppc_scheduler **scheduler);

/*
 * Ends the scheduler: jobs that run are waited for, those that have not begun are cancelled. Then its threads
 * have ended. Of all calls on its apps and strands the submissions return -ESHUTDOWN from now on; the handles
 * are to be released all the same, before or after. NULL does nothing. The scheduler's own handle must not be
 * used any more, by any thread.
 *
 * -EDEADLK: called by one of its own jobs; nothing was done.
 */
OPPC_API int oppc_scheduler_destroy(oppc_scheduler *scheduler);

/*
 * Waits until no job of any app waits or runs. A suspended app's jobs wait. `timeout` is in nanoseconds;
 * negative waits without an end, 0 only looks.
 *
 * -ETIMEDOUT; -EDEADLK: called by one of its own jobs.
 */
OPPC_API int oppc_scheduler_wait(oppc_scheduler *scheduler, int64_t timeout);

/* --- Apps --------------------------------------------------------------------------------------- */

/*
 * Creates an app. `name` is optional, for the program's own use, at most OPPC_NAME_MAX bytes.
 *
 * -EINVAL: the band or the name is out of range. -ENOSPC: there are max_apps. -ENOMEM. -ESHUTDOWN.
 */
OPPC_MUST_USE OPPC_API int oppc_app_create(oppc_scheduler *scheduler, const char *name, int band,
                                           oppc_app **app);

/* Releases the handle. The app's jobs run all the same; those of a suspended app wait until the scheduler is
 * destroyed, which cancels them. NULL does nothing. */
OPPC_API void oppc_app_release(oppc_app *app);

/* Valid until the handle is released. "" where it has none. */
OPPC_API const char *oppc_app_name(const oppc_app *app);

/* Moves the app, and what it has queued, to a band in one step. Jobs that run go on where they are.
 * -EINVAL. */
OPPC_API int oppc_app_set_band(oppc_app *app, int band);
OPPC_API int oppc_app_band(const oppc_app *app);

/*
 * Suspends the app in one step: no job of it begins from now on, those that run go on to their end. What is
 * submitted waits. Resuming lets all of that begin. 0 too where that changes nothing.
 */
OPPC_API int oppc_app_suspend(oppc_app *app);
OPPC_API int oppc_app_resume(oppc_app *app);
OPPC_API bool oppc_app_is_suspended(const oppc_app *app);

/*
 * Waits until none of the jobs of a suspended app runs any more. `timeout` as for oppc_scheduler_wait().
 *
 * -EAGAIN: the app is not suspended, or was resumed meanwhile. -ETIMEDOUT. -EDEADLK: called by a job of the
 * scheduler.
 */
OPPC_API int oppc_app_wait_quiet(oppc_app *app, int64_t timeout);

/* Waits until no job of the app waits or runs; as oppc_scheduler_wait(). */
OPPC_API int oppc_app_wait(oppc_app *app, int64_t timeout);

/* --- Jobs --------------------------------------------------------------------------------------- */

/*
 * Queues a job of the app at normal priority: `run(context)` is called once, on a worker of the app's band.
 * Jobs that one thread submits to one app at one priority begin in that order; several may run at once. Where
 * the scheduler is destroyed first, the job is dropped without a word: see oppc_submit_with().
 *
 * -ENOMEM. -ESHUTDOWN: the scheduler was destroyed, or the calling thread is ending and its thread-local
 * storage is gone. Nothing was queued then.
 */
OPPC_MUST_USE OPPC_API int oppc_submit(oppc_app *app, oppc_function run, void *context);

/*
 * The same at a priority (OPPC_PRIORITY_...). `cancelled` is optional: it is called with the context, once,
 * instead of `run`, where the scheduler is destroyed before the job has begun; on any thread.
 *
 * -EINVAL: also where the priority is none.
 */
OPPC_MUST_USE OPPC_API int oppc_submit_with(oppc_app *app, int priority, oppc_function run,
                                            oppc_function cancelled, void *context);

/* --- Strands ------------------------------------------------------------------------------------ */

/* Creates a strand of the app; its jobs run at `priority` (OPPC_PRIORITY_...). It keeps the app. -EINVAL.
 * -ENOMEM. -ESHUTDOWN. -ENOSPC: the app has more than sixteen million. */
OPPC_MUST_USE OPPC_API int oppc_strand_create(oppc_app *app, int priority, oppc_strand **strand);

/* Releases the handle; what the strand has queued runs all the same. NULL does nothing. */
OPPC_API void oppc_strand_release(oppc_strand *strand);

/* Queue a job behind all that the strand has. No two of its jobs run at the same time, and each sees what the
 * ones before it did. Otherwise like oppc_submit() and oppc_submit_with(). */
OPPC_MUST_USE OPPC_API int oppc_strand_submit(oppc_strand *strand, oppc_function run, void *context);
OPPC_MUST_USE OPPC_API int oppc_strand_submit_with(oppc_strand *strand, oppc_function run,
                                                   oppc_function cancelled, void *context);

/* Whether the caller is a job of the strand. */
OPPC_API bool oppc_strand_is_current(const oppc_strand *strand);

/* --- Statistics --------------------------------------------------------------------------------- */

/*
 * How long jobs waited from their submission to their beginning, in nanoseconds; of one job in eight, drawn
 * at random. Each is the upper end of a bucket a quarter of an octave wide, 9 minutes at most; 0 without
 * samples.
 */
typedef struct oppc_waiting {
    uint64_t samples;
    uint64_t p50, p90, p99, max;
} oppc_waiting;

/* Of an app, since it was created; jobs of strands included. Read one by one while others count: the figures
 * fit together only where nothing is submitted and nothing runs. */
typedef struct oppc_app_statistics {
    uint64_t submitted; /* accepted */
    uint64_t run;       /* begun and ended */
    uint64_t cancelled;
    uint64_t pending;   /* wait or run now */
    uint64_t running;   /* workers inside of a job now */
    uint64_t busy;      /* nanoseconds by the clock that workers were inside of its jobs */
    oppc_waiting waiting;
} oppc_app_statistics;

/* Of a pool, and of the jobs that it ran; of apps that are gone as well. */
typedef struct oppc_pool_statistics {
    uint32_t workers;
    uint32_t working; /* workers that run a job or look for one */
    uint64_t wakeups; /* system calls that woke a worker */
    oppc_waiting waiting;
} oppc_pool_statistics;

/* `size` is sizeof of what `statistics` points to: a later library fills in what the program knows of.
 * -EINVAL where it is 0 or the band is none. */
OPPC_API int oppc_app_read_statistics(const oppc_app *app, oppc_app_statistics *statistics, uint32_t size);
OPPC_API int oppc_pool_read_statistics(const oppc_scheduler *scheduler, int band,
                                       oppc_pool_statistics *statistics, uint32_t size);

#ifdef __cplusplus
}
#endif

#endif
