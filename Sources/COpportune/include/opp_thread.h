/*
 * What a thread is to the schedulers of its process: its producer in each, and the worker that it is, if any.
 * Kept in thread-local storage and given back when the thread ends.
 */
#ifndef OPP_THREAD_H
#define OPP_THREAD_H

#include "opp_base.h"
#include "opp_runq.h"

OPP_BEGIN_DECLS

/*
 * The calling thread's producer in `core`; registers the thread on first use, which keeps the memory of
 * `core` until the thread ends, or registers with another core after this one was destroyed. NULL where the
 * thread is already ending (its thread-local storage is being torn down) or memory is short: then *error is
 * -ESHUTDOWN or -ENOMEM.
 */
#define OPP_ESHUTDOWN 108 /* ESHUTDOWN, as a number that Swift imports too */

opp_producer *_Nullable opp_thread_producer(opp_core *_Nonnull core, uint8_t node, int *_Nonnull error);

/* All that a submission asks about its thread, in one call. */
typedef struct opp_here {
    /* as opp_thread_producer() gives it, of node 0; else NULL, and `error` */
    opp_producer *_Nullable producer;
    void *_Nullable worker;       /* as opp_thread_worker() */
    uint64_t number;              /* as opp_thread_number() */
    /* -ESHUTDOWN, -ENOMEM, or -ECHILD: there was a fork() since `forks` was asked for */
    int32_t error;
    uint8_t band;                 /* of the app */
    bool is_sample;               /* as opp_stats_is_sample() */
} opp_here;

/* `forks` is what opp_fork_generation() was when `core` was made; `app` is one of that core. */
opp_here opp_thread_here(opp_core *_Nonnull core, uint32_t forks, const opp_app *_Nonnull app);

/* How many cores the calling thread is registered with. */
unsigned opp_thread_registrations(void);

/* The worker that the calling thread is; NULL on threads that are none. */
void *_Nullable opp_thread_worker(void);
void opp_thread_set_worker(void *_Nullable worker);

/*
 * The calling thread's own number in this process, from 1 on and never given to another; a producer and a
 * kernel id are. A few nanoseconds.
 */
uint64_t opp_thread_number(void);

/* Grows by one in the child of each fork(); a scheduler made before that has no threads there. */
uint32_t opp_fork_generation(void);

OPP_END_DECLS

#endif
