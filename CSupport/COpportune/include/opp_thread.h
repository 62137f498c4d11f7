/*
 * A thread's registrations with the schedulers of its process: its producer in each, and the worker that it
 * is, if any. Kept in thread-local storage, and released when the thread ends.
 */
#ifndef OPP_THREAD_H
#define OPP_THREAD_H

#include "opp_base.h"
#include "opp_runq.h"

OPP_BEGIN_DECLS

#define OPP_ESHUTDOWN 108 /* ESHUTDOWN, as a number that Swift imports too */

/*
 * The calling thread's producer in `core`. The first call registers the thread; that keeps the memory of
 * `core` until the thread ends, or until it registers with another core after this one was destroyed. NULL if
 * the thread is ending (its thread-local storage is being torn down) or memory is short: then *error is
 * -ESHUTDOWN or -ENOMEM.
 */
opp_producer *_Nullable opp_thread_producer(opp_core *_Nonnull core, uint8_t node, int *_Nonnull error);

/* All that a submission needs to know about its thread, in one call. */
typedef struct opp_here {
    opp_producer *_Nullable producer; /* as opp_thread_producer() for node 0 */
    void *_Nullable worker;       /* as opp_thread_worker() */
    uint64_t number;              /* as opp_thread_number() */
    int32_t error;                /* of opp_thread_producer(); 0 where there is a producer */
    uint8_t band;                 /* of the app */
    bool is_sample;               /* as opp_stats_is_sample() */
} opp_here;

/* `app` is one of `core`. */
opp_here opp_thread_here(opp_core *_Nonnull core, const opp_app *_Nonnull app);

/* How many cores the calling thread is registered with. */
unsigned opp_thread_registrations(void);

/* The worker that the calling thread is; NULL on other threads. */
void *_Nullable opp_thread_worker(void);
void opp_thread_set_worker(void *_Nullable worker);

/*
 * The calling thread's number in this process, from 1 on. Unlike a producer or a kernel id it is never
 * reused. A few nanoseconds.
 */
uint64_t opp_thread_number(void);

OPP_END_DECLS

#endif
