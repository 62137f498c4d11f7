/*
 * Opportune for programs without Swift: libopportune, over the whole of the scheduler.
 *
 *     opportune_scheduler *scheduler;
 *     opportune_app *ui, *indexer;
 *     if (opportune_scheduler_create(NULL, &scheduler) < 0) return 1;
 *     opportune_app_create(scheduler, "ui", OPPORTUNE_FOREGROUND, &ui);
 *     opportune_app_create(scheduler, "indexer", OPPORTUNE_BACKGROUND, &indexer);
 *     opportune_submit(indexer, index_everything, NULL); // every CPU, as long as nobody waits
 *     opportune_submit(ui, answer, &query);              // starts at once all the same
 *
 * An *app* is a part of the program that is foreground or background as a whole, and can be suspended. A
 * *job* is a function and its context; it runs once, to its end. A *strand* runs its jobs one after the
 * other.
 *
 * Beyond libopportune-core, which is a two-hundredth of its size: a worker whose job blocks is replaced; a
 * job that uses up its quantum of CPU time is demoted while it runs; files and sockets are in two classes, as
 * their apps are; memory of apps behind gives way where it is short.
 *
 * Promises
 *  - Each accepted job ends in exactly one of two ways: it runs once, or it is cancelled once, as its app is
 *    terminated or the scheduler destroyed.
 *  - Submitting takes no lock of ours. No call of a foreground thread waits for a background thread that was
 *    stopped; but a submission allocates, and the allocator is the program's.
 *  - An idle scheduler wakes no thread.
 *
 * Rules for all calls
 *  - Thread safety: any thread may make any call at any time, jobs included, unless the call says otherwise.
 *    Signal handlers, and the child of a fork() that does not go on to exec(), may make none.
 *  - Errors: a call that may fail returns 0 or more, or an error number with a minus sign, and
 *    opportune_last_error() then says it in words. `errno` says nothing. NULL for a pointer that is not said
 *    to be optional is -EINVAL.
 *  - Handles are no addresses. One that was released, that is of another kind or that never was one is
 *    -EINVAL, and never touches memory. A release may come while other calls with the handle are in progress;
 *    these end as if it came after them.
 *  - Blocking: only calls that take a `timeout` wait, and the few that listen or close something, for as long
 *    as the kernel takes. It is in nanoseconds; negative waits without an end, 0 only looks. A time-out is
 *    -ETIMEDOUT.
 *  - Waiting for oneself: a call that says -EDEADLK refuses to wait for jobs where a job of the same
 *    scheduler calls it.
 *  - Strings are UTF-8. Times are in nanoseconds.
 *  - Structures with a `size`, or that are read with one: sizeof of what the program knows. A later library
 *    takes and fills in that much.
 */
#ifndef OPPORTUNE_LIBRARY_H
#define OPPORTUNE_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OPPORTUNE_API __attribute__((visibility("default")))
#define OPPORTUNE_MUST_USE __attribute__((warn_unused_result))

/* The version of this header: major, minor, patch. Before 1.0.0 a minor version may break the interface, and
 * the number in the library's soname then grows. */
#define OPPORTUNE_VERSION_MAJOR 0
#define OPPORTUNE_VERSION_MINOR 1
#define OPPORTUNE_VERSION_PATCH 0
#define OPPORTUNE_VERSION \
    (OPPORTUNE_VERSION_MAJOR << 16 | OPPORTUNE_VERSION_MINOR << 8 | OPPORTUNE_VERSION_PATCH)

/* The version of the library that runs, as OPPORTUNE_VERSION. Never fails. */
OPPORTUNE_API uint32_t opportune_version(void);

/* What the calling thread's last call that failed says to people, in one sentence with the value and the
 * limit: "" before the first. Valid until another call of this thread fails, or it ends. */
OPPORTUNE_API const char *opportune_last_error(void);

typedef struct opportune_scheduler opportune_scheduler;
typedef struct opportune_app opportune_app;
typedef struct opportune_strand opportune_strand;
typedef struct opportune_listener opportune_listener;
typedef struct opportune_region opportune_region;

/* What a job calls, with the context that was given with it. It must return: a job may end neither by
 * pthread_exit(), nor by longjmp() or an exception out of it. */
typedef void (*opportune_function)(void *context);

/* Enumerations are passed as `int`, so that a value out of range is an error and not undefined. */
enum opportune_band {
    OPPORTUNE_BACKGROUND = 0, /* nobody waits for it */
    OPPORTUNE_FOREGROUND = 1, /* somebody does */
    OPPORTUNE_REAL_TIME = 2   /* it has deadlines, as audio has; needs the setting real_time */
};

/* Priorities of jobs within their app. */
enum opportune_priority {
    OPPORTUNE_PRIORITY_LOWEST = 0,
    OPPORTUNE_PRIORITY_LOW = 1,
    OPPORTUNE_PRIORITY_NORMAL = 2,
    OPPORTUNE_PRIORITY_HIGH = 3,
    OPPORTUNE_PRIORITY_HIGHEST = 4
};

/* How the kernel schedules the background's workers. Needs no privilege. */
enum opportune_background_class {
    OPPORTUNE_BACKGROUND_IDLE = 0,            /* SCHED_IDLE: any other thread that wakes preempts it */
    OPPORTUNE_BACKGROUND_NICE19 = 1,          /* SCHED_OTHER at nice 19 */
    OPPORTUNE_BACKGROUND_NICE19_LONG_SLICE = 2 /* the same, with the longest slice that the kernel takes */
};

/* What blocking gives back to a job that was demoted. */
enum opportune_recovery {
    OPPORTUNE_RECOVERY_FULL = 0,     /* its level */
    OPPORTUNE_RECOVERY_ONE_STEP = 1, /* one step */
    OPPORTUNE_RECOVERY_NEVER = 2     /* nothing, but a new quantum */
};

/* --- The scheduler ------------------------------------------------------------------------------ */

/* Filled in by opportune_settings_init() with the defaults, then changed. */
typedef struct opportune_settings {
    uint32_t size;             /* sizeof(opportune_settings); set by opportune_settings_init() */
    uint32_t workers;          /* that run at once in each pool: 1 to 256; 0, the default: one for each CPU
                                  that the process may use, two in the foreground, followed as that changes */
    const char *name;          /* begins the names of the threads; 1 to 64 bytes of UTF-8; NULL is the
                                  default, "opportune" */
    uint64_t quantum;          /* CPU time without blocking after which a job is demoted, in nanoseconds: 1 ms
                                  to 500 ms; 10 ms */
    uint64_t blocking_gap;     /* how long nothing must be queued or run to count as blocking, in nanoseconds:
                                  250 us to 1 s; 1 ms */
    double off_cpu_share;      /* the share of a quantum off the CPU that counts as blocking: 0.01 to 0.125;
                                  0.05 */
    uint32_t demotion_step;    /* levels that a quantum costs: 1 to 63; 1 */
    int32_t recovery;          /* OPPORTUNE_RECOVERY_...; full */
    uint32_t overlap;          /* levels that foreground and background share: 0 to 21; 1. With 0 a foreground
                                  hog may starve the background */
    int32_t background_class;  /* OPPORTUNE_BACKGROUND_...; idle */
    uint32_t demoted_per_core; /* demoted jobs that run beside the pool's own, for each core: 1 to 64; 4 */
    uint32_t max_apps;         /* 1 to 32,767; 4,096 */
    uint64_t spare_delay;      /* how long all workers must have been inside their jobs before one more is
                                  woken, in nanoseconds: 50 us to 10 ms; 500 us */
    uint32_t real_time;        /* 1: there is a pool for OPPORTUNE_REAL_TIME, at SCHED_RR where the process
                                  may; 0, the default: there is none */
    uint32_t statistics;       /* 1, the default: apps' jobs, CPU time and waiting are counted; 0: not */
    uint64_t memory_budget;    /* bytes for the regions of all apps, beyond which volatile ones go; 0, the
                                  default: the machine's memory, or what its cgroup leaves to the program */
    uint64_t foreground_quantum; /* CPU time that a foreground job may use at SCHED_RR, before every ordinary
                                  thread of the machine, in nanoseconds: 100 us to 10 ms; 0, the default: no
                                  foreground job is at SCHED_RR. What the process is allowed of it, statistics
                                  of the scheduler say */
    double foreground_share;   /* the share of each CPU, in any 100 ms, after which all foreground jobs leave
                                  SCHED_RR for a while: 0.05 to 0.9; 0.7 */
} opportune_settings;

/* Fills in the defaults. `size` is sizeof(opportune_settings). -EINVAL. */
OPPORTUNE_API int opportune_settings_init(opportune_settings *settings, uint32_t size);

/*
 * Creates a scheduler and starts its workers, for each pool those that run at once, and more, and a monitor.
 * `settings` is optional. On failure *scheduler is NULL.
 *
 * -EINVAL: a setting is out of its range. -ENOMEM: memory is short. -EAGAIN: the process may have no more
 * threads.
 */
OPPORTUNE_MUST_USE OPPORTUNE_API int opportune_scheduler_create(const opportune_settings *settings,
    opportune_scheduler **scheduler);

/*
 * Ends the scheduler and releases its handle: it ends its requests, as the end of an app does, takes no more
 * jobs, runs what is queued, and ends its threads. Jobs of suspended apps, and those that have not begun
 * within the `timeout`, are cancelled. Handles of its apps and strands are to be released all the same,
 * before or after; submissions by them return -ESHUTDOWN. NULL does nothing.
 *
 * -EDEADLK: called by one of its own jobs; nothing was done. -ETIMEDOUT: a job has not ended within the
 * timeout; opportune_last_error() names its app. The handle is released, and the job's thread ends when the
 * job does.
 */
OPPORTUNE_API int opportune_scheduler_destroy(opportune_scheduler *scheduler, int64_t timeout);

/* Waits until no job of any app is queued or runs, and no request that has a completion. Those of a suspended
 * app count. -EINVAL. -ETIMEDOUT. -EDEADLK. */
OPPORTUNE_API int opportune_scheduler_wait(opportune_scheduler *scheduler, int64_t timeout);

/* The setting `workers`, or the CPUs that the process may use now, for each of which the foreground has two
 * workers that run at once and the other pools one. -EINVAL. */
OPPORTUNE_API int opportune_scheduler_width(opportune_scheduler *scheduler);

/*
 * Gives the calling thread the kernel's class of foreground workers, nice value and slice, for good: for a
 * thread of the program's own that foreground work waits for, such as an event loop that hands requests to an
 * app. It is neither demoted nor bounded, and should compute little. Waits for nothing.
 *
 * 1 where the kernel has accepted the nice value; 0 where it has not: without privilege a thread that was
 * lowered before gets the slice alone. -EINVAL.
 */
OPPORTUNE_API int opportune_scheduler_put_thread_in_foreground(opportune_scheduler *scheduler);

/* --- Apps --------------------------------------------------------------------------------------- */

/*
 * Creates an app. `name` is optional, for people, and need not be unique. On failure *app is NULL.
 *
 * -EINVAL: the band is none, or the name is not UTF-8. -ENOSPC: there are max_apps. -ENOTSUP: the real-time
 * band, without the setting. -ENOMEM. -ESHUTDOWN.
 */
OPPORTUNE_MUST_USE OPPORTUNE_API int opportune_app_create(opportune_scheduler *scheduler, const char *name,
    int band, opportune_app **app);

/* Releases the handle. The app's jobs run all the same; those of a suspended app wait until the scheduler is
 * destroyed, which cancels them. NULL does nothing. -EINVAL. */
OPPORTUNE_API int opportune_app_release(opportune_app *app);

/*
 * Moves the app, and all that it has queued, to a band in one step. Jobs that run and go to the background
 * are lowered within a moment; those that come to the foreground are raised where the process may do that.
 *
 * -EINVAL. -ENOTSUP: as for opportune_app_create(). -ESHUTDOWN: the app was terminated.
 */
OPPORTUNE_API int opportune_app_set_band(opportune_app *app, int band);
/* The same by name: to OPPORTUNE_FOREGROUND, and to OPPORTUNE_BACKGROUND. */
OPPORTUNE_API int opportune_app_activate(opportune_app *app);
OPPORTUNE_API int opportune_app_background(opportune_app *app);
/* The app's band now, OPPORTUNE_BACKGROUND to OPPORTUNE_REAL_TIME. -EINVAL. */
OPPORTUNE_API int opportune_app_band(opportune_app *app);

/*
 * Suspends the app in one step: no job of it begins from now on, those that run go on to their end. What is
 * submitted waits. Resuming lets all of that begin, in order. 0 too where that changes nothing.
 *
 * -EINVAL. -ESHUTDOWN: the app was terminated.
 */
OPPORTUNE_API int opportune_app_suspend(opportune_app *app);
OPPORTUNE_API int opportune_app_resume(opportune_app *app);

enum opportune_activity {
    OPPORTUNE_ACTIVE = 0,
    OPPORTUNE_SUSPENDING = 1, /* a job that ran as it was suspended has not ended */
    OPPORTUNE_SUSPENDED = 2   /* it executes nothing */
};

/* OPPORTUNE_ACTIVE to OPPORTUNE_SUSPENDED. -EINVAL. */
OPPORTUNE_API int opportune_app_activity(opportune_app *app);

/* Waits until a suspended app executes nothing. -EINVAL. -EAGAIN: it is not suspended, or was resumed
 * meanwhile. -ETIMEDOUT. -EDEADLK. */
OPPORTUNE_API int opportune_app_wait_suspended(opportune_app *app, int64_t timeout);

/* Waits until no job of the app, or of its strands, is queued or runs, and no request that has a completion;
 * what a completion submits counts before that request is over. Where it is suspended, what waits in it
 * counts. -EINVAL. -ETIMEDOUT. -EDEADLK. */
OPPORTUNE_API int opportune_app_wait(opportune_app *app, int64_t timeout);

/*
 * Ends the app for good: submissions and requests return -ESHUTDOWN from now on, what it has queued is
 * cancelled, also where it is suspended, its requests end with -ESHUTDOWN, descriptors that it opened are
 * closed, its regions are purged, and what runs is waited for. The handle is to be released all the same. May
 * be called again.
 *
 * -EINVAL. -ETIMEDOUT: a job still runs; the rest was done. -EDEADLK: the same, without having waited.
 */
OPPORTUNE_API int opportune_app_terminate(opportune_app *app, int64_t timeout);

/* --- Jobs --------------------------------------------------------------------------------------- */

/*
 * Queues a job of the app at normal priority: `run(context)` is called once, on a worker of the app's band.
 * Where the app is terminated or the scheduler destroyed first, the job is dropped without a word: see
 * opportune_submit_with(). `context` is the program's and may be NULL.
 *
 * -EINVAL. -ENOMEM. -ESHUTDOWN: the app was terminated, the scheduler destroyed, or the calling thread is
 * ending and its thread-local storage is gone. Nothing was queued then.
 */
OPPORTUNE_MUST_USE OPPORTUNE_API int opportune_submit(opportune_app *app, opportune_function run,
                                                      void *context);

/*
 * The same at a priority (OPPORTUNE_PRIORITY_...). `cancelled` is optional: it is called with the context,
 * once, instead of `run`, where the job will never run; on any thread.
 */
OPPORTUNE_MUST_USE OPPORTUNE_API int opportune_submit_with(opportune_app *app, int priority,
    opportune_function run, opportune_function cancelled, void *context);

/* --- Strands ------------------------------------------------------------------------------------ */

/* For `ceiling`: the strand is served in its app's band, or in that of who waits for it. */
#define OPPORTUNE_NO_CEILING (-1)

/*
 * Creates a strand of the app. `name` is optional. Its jobs run at `priority` (OPPORTUNE_PRIORITY_...), and
 * never below the band `ceiling`, whoever has queued them: state that the foreground needs as well belongs on
 * a strand with the ceiling OPPORTUNE_FOREGROUND. On failure *strand is NULL.
 *
 * -EINVAL. -ENOMEM. -ENOSPC: with a ceiling; the first of an app counts as one more app. -ENOTSUP: as for
 * opportune_app_create(). -ESHUTDOWN.
 */
OPPORTUNE_MUST_USE OPPORTUNE_API int opportune_strand_create(opportune_app *app, const char *name,
    int priority, int ceiling, opportune_strand **strand);

/* Releases the handle; what the strand has queued runs all the same. NULL does nothing. -EINVAL. */
OPPORTUNE_API int opportune_strand_release(opportune_strand *strand);

/* Queue a job behind all that the strand has. No two of its jobs run at the same time, and each sees what the
 * ones before it did. Otherwise like opportune_submit() and opportune_submit_with(). */
OPPORTUNE_MUST_USE OPPORTUNE_API int opportune_strand_submit(opportune_strand *strand,
    opportune_function run, void *context);
OPPORTUNE_MUST_USE OPPORTUNE_API int opportune_strand_submit_with(opportune_strand *strand,
    opportune_function run, opportune_function cancelled, void *context);

/* 1 where the caller is a job of the strand, else 0. -EINVAL. */
OPPORTUNE_API int opportune_strand_is_current(opportune_strand *strand);

/* --- Files and sockets -------------------------------------------------------------------------- */

/*
 * Requests of an app are of the class of its band: background waits where foreground has requests, before
 * the kernel sees either. A suspended app's requests wait until it is resumed. They go through io_uring, or
 * a few threads where that is not to be had.
 *
 * Each call takes a completion. With one, the call returns 0 once the request is queued, and the completion
 * is called once, on a worker of the app, with the result; where the call returns an error, it never is. What
 * a completion gets has no words of ours: strerror() says what the number is. Without one (NULL), the call
 * waits and returns the result: a count, a descriptor, 0, or an error number with a minus sign. `timeout`
 * ends the request with -ETIMEDOUT. After any result `bytes` is the caller's again: the library has copied
 * it.
 *
 * Errors of all: what the kernel says; -EINVAL; -EBADF for a negative descriptor; -ETIMEDOUT; -ECANCELED
 * where the descriptor was closed meanwhile; -ESHUTDOWN where the app was terminated or the scheduler
 * destroyed; -ENODATA where the peer has closed or the file ended before all was transferred. A completion is
 * called too where an app is terminated or the scheduler destroyed, then perhaps on another thread.
 */
typedef void (*opportune_completion)(void *context, int64_t result);

/* Opens a file, with the flags and the mode of open(2), always close-on-exec: a descriptor. It is closed by
 * opportune_close(), or as its app is terminated. */
OPPORTUNE_API int64_t opportune_open(opportune_app *app, const char *path, int flags, uint32_t mode,
                                     int64_t timeout, opportune_completion completion, void *context);

/* Closes a descriptor. Other requests on it end with -ECANCELED before. */
OPPORTUNE_API int64_t opportune_close(opportune_app *app, int descriptor, opportune_completion completion,
                                      void *context);

/* Reads at most `count` bytes, 1 to 2^30, from `offset`, or where it is -1 from the descriptor's own
 * position: the bytes read, 0 at the end. */
OPPORTUNE_API int64_t opportune_read(opportune_app *app, int descriptor, void *bytes, size_t count,
                                     int64_t offset, int64_t timeout, opportune_completion completion,
                                     void *context);

/* Writes all of `count` bytes, 1 to 2^30; `offset` as above: the count. After an error a part may have been
 * written. */
OPPORTUNE_API int64_t opportune_write(opportune_app *app, int descriptor, const void *bytes, size_t count,
                                      int64_t offset, int64_t timeout, opportune_completion completion,
                                      void *context);

/* Has the device store what was written (fsync): 0. */
OPPORTUNE_API int64_t opportune_sync(opportune_app *app, int descriptor, int64_t timeout,
                                     opportune_completion completion, void *context);

/* Connects a stream socket to a numeric address, "127.0.0.1:80", "[::1]:80" or "unix:/path": a descriptor. */
OPPORTUNE_API int64_t opportune_connect(opportune_app *app, const char *address, int64_t timeout,
                                        opportune_completion completion, void *context);

/*
 * Connects a stream socket to a port, 1 to 65,535, of a host by its name, or by a numeric address without
 * brackets: a descriptor. The name is looked up as getaddrinfo(3) does, elsewhere. Its addresses are tried
 * one after the other, and what is left of `timeout` is divided evenly among those that are left.
 *
 * -EHOSTUNREACH: the name has no address, or it could not be looked up. Otherwise the last address's error.
 */
OPPORTUNE_API int64_t opportune_connect_host(opportune_app *app, const char *host, int port,
                                             int64_t timeout, opportune_completion completion,
                                             void *context);

/* Receives what has come, at most `count` bytes: the count, 0 where the peer has closed its side. */
OPPORTUNE_API int64_t opportune_receive(opportune_app *app, int socket, void *bytes, size_t count,
                                        int64_t timeout, opportune_completion completion, void *context);

/* Sends all of `count` bytes: the count. One send at a time on a socket. */
OPPORTUNE_API int64_t opportune_send(opportune_app *app, int socket, const void *bytes, size_t count,
                                     int64_t timeout, opportune_completion completion, void *context);

/* Directions of a connection. */
enum opportune_half {
    OPPORTUNE_RECEIVING = 0, /* no more is received */
    OPPORTUNE_SENDING = 1,   /* the peer reads what was sent, and then the end */
    OPPORTUNE_BOTH = 2
};

/* Ends one or both directions of a connection (OPPORTUNE_RECEIVING to OPPORTUNE_BOTH): 0. The descriptor
 * stays open. -ENOTCONN. */
OPPORTUNE_API int64_t opportune_shutdown(opportune_app *app, int socket, int half, int64_t timeout,
                                         opportune_completion completion, void *context);

/* Listens on an address; port 0 is a free one. `backlog` is 1 to 65,535. -EADDRINUSE and other errors of the
 * kernel; -EINVAL. */
OPPORTUNE_MUST_USE OPPORTUNE_API int opportune_listen(opportune_app *app, const char *address, int backlog,
                                                      opportune_listener **listener);

/* The same. With `no_delay` 0 the connections have OPPORTUNE_NO_DELAY off, with 1, as above, on. With
 * `reuses_port` 1 others of the same user that ask for it too may listen there as well; 0 as above. */
OPPORTUNE_MUST_USE OPPORTUNE_API int opportune_listen_with(opportune_app *app, const char *address,
    int backlog, int no_delay, int reuses_port, opportune_listener **listener);

/* The port on which it listens; 0 for a path. -EINVAL. */
OPPORTUNE_API int opportune_listener_port(opportune_listener *listener);

/* Waits for a connection: its descriptor. */
OPPORTUNE_API int64_t opportune_accept(opportune_listener *listener, int64_t timeout,
                                       opportune_completion completion, void *context);

/* Closes the socket and releases the handle; accepts that wait end with an error. NULL does nothing.
 * -EINVAL. */
OPPORTUNE_API int opportune_listener_close(opportune_listener *listener);

/* Options of a socket. Those that are on or off are 1 or 0. */
enum opportune_socket_option {
    OPPORTUNE_NO_DELAY = 0,       /* TCP_NODELAY, of TCP alone: what is small is sent at once. On at first */
    OPPORTUNE_KEEP_ALIVE = 1,     /* SO_KEEPALIVE: a silent peer is asked whether it is still there */
    OPPORTUNE_REUSE_ADDRESS = 2,  /* SO_REUSEADDR; on for listeners */
    OPPORTUNE_REUSE_PORT = 3,     /* SO_REUSEPORT; before the bind it is an argument of the call that binds */
    OPPORTUNE_RECEIVE_BUFFER = 4, /* SO_RCVBUF: bytes, 0 to 2^31 - 1. The kernel takes twice as many, within
                                     its limits, and that is what is read */
    OPPORTUNE_SEND_BUFFER = 5     /* SO_SNDBUF; otherwise the same */
};

/*
 * Set and read an option (OPPORTUNE_NO_DELAY to OPPORTUNE_SEND_BUFFER) of a socket of the app; the value.
 * They wait for nothing.
 *
 * -EINVAL: an option or a value that there is not. -EBADF, -ENOTSOCK and what else the kernel says, such as
 * -EOPNOTSUPP where such a socket has no such option. -ESHUTDOWN.
 */
OPPORTUNE_API int opportune_set_socket_option(opportune_app *app, int socket, int option, int64_t value);
OPPORTUNE_API int64_t opportune_get_socket_option(opportune_app *app, int socket, int option);

/* Bytes for any address as text, in the form that opportune_connect() takes, with the zero at its end. */
#define OPPORTUNE_ADDRESS_SIZE 128

/* Writes the address that a socket is bound to into OPPORTUNE_ADDRESS_SIZE bytes; "" for a Unix socket that
 * is bound to none. -EINVAL. -EBADF, -ENOTSOCK. -ESHUTDOWN. */
OPPORTUNE_API int opportune_socket_address(opportune_app *app, int socket, char *address);

/* --- Datagrams ---------------------------------------------------------------------------------- */

/* Makes a datagram socket (UDP, or Unix) that is bound to an address: a descriptor, which is closed like that
 * of a file. Port 0 is a free one; opportune_socket_address() says which. With `reuses_port` 1 others of the
 * same user that ask for it too may be bound to it as well. -EINVAL. -EADDRINUSE and other errors of the
 * kernel. -ESHUTDOWN. */
OPPORTUNE_MUST_USE OPPORTUNE_API int opportune_datagram_socket(opportune_app *app, const char *address,
                                                               int reuses_port);

/* Sends `count` bytes, 0 to 2^30, as one datagram to an address: the count. -EMSGSIZE: it is longer than the
 * kernel sends. */
OPPORTUNE_API int64_t opportune_send_to(opportune_app *app, int socket, const void *bytes, size_t count,
                                        const char *address, int64_t timeout,
                                        opportune_completion completion, void *context);

/*
 * Receives a datagram, at most `count` bytes: the count, which may be 0. `sender` is optional: into
 * OPPORTUNE_ADDRESS_SIZE bytes there the address comes that sent it, "" where it has none. They are the
 * caller's again after the result, like `bytes`.
 *
 * -EMSGSIZE: it was longer. `bytes` has its first `count` bytes, and `sender` who sent it; the rest is lost.
 */
OPPORTUNE_API int64_t opportune_receive_from(opportune_app *app, int socket, void *bytes, size_t count,
                                             char *sender, int64_t timeout,
                                             opportune_completion completion, void *context);

/* --- Purgeable memory --------------------------------------------------------------------------- */

/*
 * Creates a region of memory, zero at first, for content that can be made again. While it is not in use, and
 * its app is not in the foreground, the kernel may get it back where memory is short: of suspended apps
 * first. `bytes` is 1 to 2^46, rounded up to pages.
 *
 * -EINVAL. -ESHUTDOWN. Errors of the kernel, such as -ENOMEM.
 */
OPPORTUNE_MUST_USE OPPORTUNE_API int opportune_region_create(opportune_app *app, size_t bytes,
    opportune_region **region);

/* Releases the handle, and the memory with the last use. NULL does nothing. -EINVAL. */
OPPORTUNE_API int opportune_region_release(opportune_region *region);

/* What a use does: with `intact` 1 the content is as it was left; with 0 it was taken, the bytes are zero,
 * and it makes them again. A negative result drops what it was making. */
typedef int (*opportune_region_body)(void *context, void *bytes, size_t count, int intact);

/*
 * Calls `body` on the calling thread with the content, which stays where it is until that returns, and
 * returns what it does. Uses may be nested and overlap; one that finds another thread making the content
 * again gets memory of its own (`intact` is 0), and nobody waits. -EINVAL.
 */
OPPORTUNE_API int opportune_region_use(opportune_region *region, opportune_region_body body, void *context);

/* 1 where the content is known to have been taken, else 0. -EINVAL. */
OPPORTUNE_API int opportune_region_is_purged(opportune_region *region);

/* Gives back now all regions of the app that are not in use, in whatever band it is: the bytes. -EINVAL. */
OPPORTUNE_API int64_t opportune_app_purge(opportune_app *app);

/* --- Statistics --------------------------------------------------------------------------------- */

/* How long jobs waited in the queue, in nanoseconds; one in eight is measured, of a strand one turn in eight.
 * So an app of few jobs may have no sample. Each is the upper end of a bucket, at most a quarter too long; 0
 * without samples. */
typedef struct opportune_waiting {
    uint64_t samples;
    uint64_t p50, p90, p99, max;
} opportune_waiting;

/* Of an app, since it was created; its strands included. Read one by one while others count. All but
 * `pending` are 0 without the setting `statistics`. */
typedef struct opportune_app_statistics {
    uint64_t submitted; /* accepted jobs */
    uint64_t pending;   /* accepted jobs that are queued or run now */
    uint64_t turns;     /* jobs and turns of strands that workers have run, where a turn may be several jobs;
                           the completions of requests too, which `submitted` does not count */
    uint64_t cancelled; /* jobs that ended by their cancellation */
    uint64_t cpu_time;  /* nanoseconds */
    uint64_t demotions; /* levels lost by using up quanta */
    uint64_t restored;  /* levels given back by blocking */
    uint64_t stolen;    /* turns that another worker took than the one that had queued them */
    uint64_t wakeups;   /* system calls that woke a worker */
    opportune_waiting waiting;
} opportune_app_statistics;

/* Of a pool, now, and since the start. */
typedef struct opportune_pool_statistics {
    uint32_t working;  /* workers with a job or looking for one */
    uint32_t demoted;  /* workers beside these that run demoted jobs */
    uint32_t sleeping; /* workers that are parked */
    uint32_t reserved;
    uint64_t wakeups;  /* system calls that woke a worker */
    uint64_t replaced; /* how often a worker blocked inside of a job and another took its place */
} opportune_pool_statistics;

/* What the process is allowed of the setting foreground_quantum. */
enum opportune_real_time_access {
    OPPORTUNE_ACCESS_UNASKED = 0,      /* the setting is 0 */
    OPPORTUNE_ACCESS_REFUSED = 1,      /* nothing: it may not enter SCHED_RR, which needs CAP_SYS_NICE or
                                          RLIMIT_RTPRIO of 3, of 67 with the setting real_time */
    OPPORTUNE_ACCESS_REALTIME_KIT = 2, /* the threads of files and sockets alone, by leave of RealtimeKit */
    OPPORTUNE_ACCESS_ROUND_ROBIN = 3   /* foreground jobs and these threads */
};

/* Of a scheduler. */
typedef struct opportune_scheduler_statistics {
    uint64_t apps;                /* that exist */
    uint64_t pending;             /* accepted jobs of all apps that are queued or run now */
    uint64_t queue_memory;        /* bytes */
    uint64_t lock_inversions;     /* times that the foreground waited for a lock of the program's whose holder
                                     stood below it, and something was done about it */
    uint64_t lock_holders_raised; /* what was: these were raised, */
    uint64_t cpus_cleared;        /* and where that is not allowed, demoted work left them its CPU */
    opportune_pool_statistics pools[3]; /* by band; all 0 for one that there is not */
    uint32_t real_time_access;    /* OPPORTUNE_ACCESS_... */
    uint32_t reserved;
    uint64_t real_time_left;      /* foreground jobs that left SCHED_RR while they ran */
    uint64_t real_time_exhausted; /* times that foreground jobs had used their share, and all left it */
} opportune_scheduler_statistics;

/* `size` is sizeof of what `statistics` points to. -EINVAL where it is 0. That of a scheduler asks its
 * monitor, and waits for the answer. */
OPPORTUNE_API int opportune_app_read_statistics(opportune_app *app, opportune_app_statistics *statistics,
                                                uint32_t size);
OPPORTUNE_API int opportune_scheduler_read_statistics(opportune_scheduler *scheduler,
                                                      opportune_scheduler_statistics *statistics,
                                                      uint32_t size, int64_t timeout);

#ifdef __cplusplus
}
#endif

#endif
