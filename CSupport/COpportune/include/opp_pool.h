/*
 * A pool: the workers that share one kernel class, with its run tokens, parked workers and wake-ups; and
 * submission to it.
 *
 * Each worker has a *state*, one atomic word that says what the worker may do. A pool has as many run tokens
 * as workers may take jobs at the same time. Beside them, one spare worker may run a job while all token
 * holders are stuck, and a bounded number of workers may run demoted jobs. A monitor may hand a worker's
 * token to another while the worker is stuck inside a job.
 *
 * Guarantees (worker_pool.c, worker_park.c and worker.c say why they hold):
 *  - No lost wake-up: if opp_submit(), or opp_pool_wake() after a push, finds fewer workers running than
 *    there are tokens, it wakes one; or one is already waking, and will look at the queues again.
 *  - No needless wake-up: with all tokens in use, neither makes a system call except to wake the spare
 *    worker. Each call wakes at most one worker.
 *  - A token, or a demoted worker's room, is returned once: by its worker or by the monitor.
 *  - A thread that is stopped inside any of these calls prevents no other thread from completing, except the
 *    one parked worker that it is about to wake. It keeps at most one token and the room of one demoted
 *    worker.
 */
#ifndef OPP_POOL_H
#define OPP_POOL_H

#include "opp_alarms.h"
#include "opp_base.h"
#include "opp_readiness.h"
#include "opp_report.h"
#include "opp_runq.h"

OPP_BEGIN_DECLS

#ifndef OPP_CHECKED
#define OPP_POOL_WORKERS 1024
#define OPP_PICKS 16          /* every such take begins with another level, in turn */
#define OPP_SEARCH_LOOKS 100  /* how often the queues are searched before a token is returned */
#endif

typedef struct opp_pool opp_pool;
typedef struct opp_worker opp_worker;

/* `tokens` is 1 to OPP_POOL_WORKERS. NULL where memory is short. */
opp_pool *_Nullable opp_pool_create(uint32_t tokens);
void opp_pool_destroy(opp_pool *_Nonnull pool);

/*
 * Sets the levels that the pool serves. `demoted`: those of them that hold demoted work only, which workers
 * run beside the tokens. `lowered_once`: those of these whose work was lowered once, and may be short. Called
 * once, before the first worker begins.
 */
void opp_pool_set_levels(opp_pool *_Nonnull pool, uint64_t levels, uint64_t demoted, uint64_t lowered_once);

/*
 * From now on the pool's workers take from `core`, and opp_submit() wakes them. Where something waits while
 * all tokens are in use, alarm `alarm` of `alarms` is armed; NULL arms none. Called once, before the first
 * worker begins.
 */
void opp_pool_serve(opp_pool *_Nonnull pool, opp_core *_Nonnull core, opp_alarms *_Nullable alarms,
                    uint32_t alarm);

/* From now on up to two of the parked workers wait in `readiness`, once a descriptor is watched there.
 * Called once, before the first worker begins. The readiness is the caller's, and outlives the pool. */
void opp_pool_set_readiness(opp_pool *_Nonnull pool, opp_readiness *_Nonnull readiness);

/* What the caller must do next. */
typedef enum OPP_CLOSED_ENUM opp_wake {
    OPP_WAKE_NOTHING = 0, /* nothing */
    OPP_WAKE_COUNT = 1,   /* count a wake-up, if it counts them: a worker was woken */
    OPP_WAKE_START = 2,   /* start a worker: a token is free, and no worker is parked */
} opp_wake;

typedef struct opp_submitted {
    int32_t level; /* what opp_push() returns */
    opp_wake wake; /* about the pool of that level */
} opp_submitted;

/*
 * Pushes a job, and wakes a worker of the level's pool for it. If the caller's slice is about to end, `self`
 * is its worker, which takes the job itself next; then no worker is woken. If that slice continues after all,
 * call opp_worker_goes_on().
 */
OPP_MUST_USE opp_submitted opp_submit(opp_producer *_Nonnull producer, opp_app *_Nonnull app, uint8_t rank,
                                      opp_job job, opp_worker *_Nullable self);

/* --- Any thread ----------------------------------------------------------------------------- */

typedef enum OPP_CLOSED_ENUM opp_notified {
    OPP_NOTIFIED_WOKEN = 0,    /* a parked worker was woken, and holds a token */
    OPP_NOTIFIED_BUSY = 1,     /* all tokens are in use; their holders will look at the queues */
    OPP_NOTIFIED_NOBODY = 2,   /* a token is free, but no worker is parked: start one */
} opp_notified;

/* Wakes one worker if a token is free. */
opp_notified opp_pool_notify(opp_pool *_Nonnull pool);

/* Called after a push: wakes one worker if a token is free. Otherwise wakes the spare worker if the pool is
 * stalled, or arms the alarm for a look at the pool. */
OPP_MUST_USE opp_wake opp_pool_wake(opp_pool *_Nonnull pool);

/* The same, but only if a job is queued that may begin now. */
OPP_MUST_USE opp_wake opp_pool_wake_if_ready(opp_pool *_Nonnull pool);

/* The levels of jobs that the pool's workers may begin now; fewer where all room for demoted work is in
 * use. */
uint64_t opp_pool_takeable(const opp_pool *_Nonnull pool);

/* opp_pool_watch() arms the alarm for a look at the pool, if the pool has an alarm.
 * opp_pool_set_watch_delay() sets its delay. */
void opp_pool_watch(opp_pool *_Nonnull pool);
void opp_pool_set_watch_delay(opp_pool *_Nonnull pool, uint64_t delay_ns);

/* Wakes one parked worker without a token: to run one job as the spare worker, or to end. False if none is
 * parked. */
bool opp_pool_wake_spare(opp_pool *_Nonnull pool);

/* Wakes all workers, for good: opp_pool_park() returns OPP_WOKEN_CLOSED from now on. */
void opp_pool_close(opp_pool *_Nonnull pool);

/* Sets the number of tokens, at any time. A smaller number takes effect as workers return theirs. */
void opp_pool_set_tokens(opp_pool *_Nonnull pool, uint32_t tokens);

uint32_t opp_pool_tokens(const opp_pool *_Nonnull pool);

/* Whether more tokens are in use than there are, so that a holder should return its token. */
bool opp_pool_has_too_many(const opp_pool *_Nonnull pool);

/* Tokens in use. May be above the number of tokens for a while after it was lowered. */
uint32_t opp_pool_working(const opp_pool *_Nonnull pool);
uint32_t opp_pool_sleeping(const opp_pool *_Nonnull pool);
/* The number of system calls made so far to wake a worker. */
uint64_t opp_pool_wakeups(const opp_pool *_Nonnull pool);

/* Takes a token if one is free: for a caller that is not a worker of the pool, or sets its state itself. */
OPP_MUST_USE bool opp_pool_enter(opp_pool *_Nonnull pool);
void opp_pool_leave(opp_pool *_Nonnull pool);

/* --- Room for demoted work, beside the tokens -------------------------------------------------- */

/* Why a worker is to be counted among the demoted; it decides the limit that applies. One rule for all. */
typedef enum OPP_CLOSED_ENUM opp_demotion {
    OPP_DEMOTION_KNOWN = 0,  /* a known hog is to begin; it can wait: the limit */
    /* what was lowered once is to begin, and may be no hog: twice the limit, so that known hogs and long jobs
     * that have yielded leave room for it, and what was added */
    OPP_DEMOTION_ONCE = 1,
    /* it turned out to be a hog while it runs, and cannot be sent back: three times the limit */
    OPP_DEMOTION_FOUND = 2,
    /* it keeps a token that fresh work waits for, and no other ends: sixteen times the limit */
    OPP_DEMOTION_STARVES = 3
} opp_demotion;

void opp_pool_set_demoted_limit(opp_pool *_Nonnull pool, uint32_t limit);
uint32_t opp_pool_demoted_limit(const opp_pool *_Nonnull pool);
uint32_t opp_pool_demoted(const opp_pool *_Nonnull pool);
/* How many workers may be counted, for that reason. */
uint32_t opp_pool_room(const opp_pool *_Nonnull pool, opp_demotion why);
/* Counts one more, if there is room. */
OPP_MUST_USE bool opp_pool_enter_demoted(opp_pool *_Nonnull pool, opp_demotion why);
void opp_pool_leave_demoted(opp_pool *_Nonnull pool);

/* opp_pool_add_room() makes room for one more of what was lowered once, if all room is in use and the
 * maximum of extra ones is not reached. opp_pool_take_room() takes one back. */
bool opp_pool_add_room(opp_pool *_Nonnull pool);
void opp_pool_take_room(opp_pool *_Nonnull pool);

/* --- The spare worker --------------------------------------------------------------------------- */

/* All token holders have been inside their jobs for long: from now on a push calls the spare worker. */
void opp_pool_set_stalled(opp_pool *_Nonnull pool, bool stalled);
bool opp_pool_is_stalled(const opp_pool *_Nonnull pool);

/* Wakes the spare worker unless it is awake. False if no worker is parked. */
bool opp_pool_call_spare(opp_pool *_Nonnull pool);
/* The first half of opp_pool_call_spare(), for tests of a caller that is stopped in between. Returns 0 if the
 * spare worker is awake or being woken. */
uint32_t opp_pool_begin_call(opp_pool *_Nonnull pool);

/* The spare worker has no more work beside the tokens. */
void opp_pool_spare_parks(opp_pool *_Nonnull pool);

/*
 * Called by the monitor at intervals. A caller of the spare worker that is stopped before its wake-up is
 * waited for from one look to the next, and no longer. If it continues later, one more worker may be awake.
 */
void opp_pool_look_at_spare(opp_pool *_Nonnull pool);

/* One worker of a pool at a time may search before it parks. True for that worker, until it ends the
 * search. */
OPP_MUST_USE bool opp_pool_begin_search(opp_pool *_Nonnull pool);
void opp_pool_end_search(opp_pool *_Nonnull pool);

/* --- The worker of slot `slot`, 0 to OPP_POOL_WORKERS - 1, as it parks --------------------------- */

/*
 * The worker is about to park; it must not hold a token any more. Afterwards it looks at the queues once
 * more. If it finds something, it calls opp_pool_cancel_park(). If it finds nothing, or that call says so, it
 * calls opp_pool_park().
 */
void opp_pool_prepare_park(opp_pool *_Nonnull pool, uint32_t slot);

typedef enum OPP_CLOSED_ENUM opp_woken {
    OPP_WOKEN_TOKEN = 0,  /* it holds a token */
    OPP_WOKEN_SPARE = 1, /* it may run one job as the spare worker */
    OPP_WOKEN_CLOSED = 2,  /* the pool was closed */
    OPP_WOKEN_TO_LEAD = 4, /* it is to park again, and to wait in the pool's readiness */
    /* opp_pool_cancel_park() only: no token is free, it is still parked, and is to sleep */
    OPP_WOKEN_NOTHING = 3,
} opp_woken;

/*
 * Cancels the parking, if a token is free; the caller then holds it (OPP_WOKEN_TOKEN). If another thread has
 * just woken the worker, returns for what, and the caller must act on that.
 */
OPP_MUST_USE opp_woken opp_pool_cancel_park(opp_pool *_Nonnull pool, uint32_t slot);

/* Sleeps until woken. What the waker did before is visible after it, here and after
 * opp_pool_cancel_park(). */
OPP_MUST_USE opp_woken opp_pool_park(opp_pool *_Nonnull pool, uint32_t slot);

/* --- Workers: the transitions of their states, built from the calls above ---------------------------- */

typedef enum OPP_CLOSED_ENUM opp_worker_state {
    OPP_WORKER_IDLE = 0,       /* awake, or without a thread: it may take no job */
    OPP_WORKER_PARKED = 1,     /* about to sleep, or asleep */
    OPP_WORKER_WOKEN = 2,      /* woken with a token; not running yet */
    OPP_WORKER_CALLED = 3,     /* woken as the spare worker, or to end; not running yet */
    OPP_WORKER_CLOSED = 4,     /* woken to end */
    OPP_WORKER_APPOINTED = 5,  /* woken to park again and lead */
    OPP_WORKER_RUNNING = 6,    /* holds a token */
    OPP_WORKER_SPARE = 7,      /* runs a job beside the tokens */
    OPP_WORKER_DEMOTED = 8,    /* runs demoted jobs beside the tokens, counted */
    OPP_WORKER_HANDED_OFF = 9, /* inside a job; another worker has its token */
    OPP_WORKER_SUNK = 10,      /* the same, and counted among the demoted until the job ends */
} opp_worker_state;

/* How long a worker takes from one app and from its own queue, before others have their turn. */
typedef struct opp_turn {
    uint64_t began;  /* 0 before the first job */
    uint64_t credit; /* how long the others' turn lasts, now or next; 0 is OPP_TURN_NS */
    bool serves_others; /* the last job came from another's queue */
} opp_turn;

#define OPP_TURN_NS 32000u         /* the shortest turn: some hundred looks at all queues would fit into it */
#define OPP_TURN_NS_MAX 10000000u  /* what a job may take by default before it counts as a hog */

/*
 * Whether the turn is over at `now`, in nanoseconds of a monotonic clock; called between two jobs. If so, the
 * next turn begins. A turn of the own queue ends with the first job that reaches OPP_TURN_NS. A turn of the
 * others lasts as long as the own turn before it. So after 5 ms of the worker's own jobs the outside queues
 * have 5 ms too, and not only one short job of many.
 */
bool opp_turn_is_over(opp_turn *_Nonnull turn, uint64_t now);

/* The worker of slot `slot` of a pool that serves a core. Its address does not change. */
opp_worker *_Nonnull opp_pool_worker(opp_pool *_Nonnull pool, uint32_t slot);

/* What the worker tells of its running job: a part of it. */
opp_report *_Nonnull opp_worker_report(opp_worker *_Nonnull worker);

/* The thread of a worker begins, idle. `consumer` is its own until it ends. */
void opp_worker_begin(opp_worker *_Nonnull worker, opp_consumer *_Nonnull consumer);

typedef enum OPP_CLOSED_ENUM opp_next {
    OPP_NEXT_JOB = 0,   /* run the job in `taken`, then call opp_worker_job_ended(), and this again */
    OPP_NEXT_PARK = 1,  /* there is nothing to do: call opp_worker_park(), or end the thread */
    /* give the thread its own kernel priority and call this again; or opp_worker_end(), and end it */
    OPP_NEXT_RAISE = 2,
} opp_next;

/*
 * What the worker's thread must do next. `now` is when the last job ended, or 0. `is_lowered` says whether
 * the thread has a lower kernel priority than the pool's; with that it may begin demoted jobs only.
 */
OPP_MUST_USE opp_next opp_worker_next(opp_worker *_Nonnull worker, uint64_t now, bool is_lowered,
                                      opp_taken *_Nonnull taken);

/*
 * The taken job is demoted, and was lowered `depth` times. A worker with a token runs it beside the tokens,
 * if there is room. The result is as of opp_pool_wake().
 */
OPP_MUST_USE opp_wake opp_worker_to_demoted(opp_worker *_Nonnull worker, uint32_t depth);

/* The job has ended. Returns the state in which it did: RUNNING where the worker has kept the token with
 * which the job began, HANDED_OFF or SUNK where another has taken it. */
opp_worker_state opp_worker_job_ended(opp_worker *_Nonnull worker);

/* The slice continues after it has queued a job that its worker was to take next: wakes another worker for
 * it. */
OPP_MUST_USE opp_wake opp_worker_goes_on(opp_worker *_Nonnull worker);

/*
 * The job is about to wait in the kernel for a short time, as for a block of a file: returns the worker's
 * token, so that another works meanwhile, whom `wake` names as opp_pool_wake() does. False if the worker has
 * no token: then nothing was done. After the wait opp_worker_end_wait() takes a token again if one is free;
 * else the job goes on beside the tokens.
 */
OPP_MUST_USE bool opp_worker_begin_wait(opp_worker *_Nonnull worker, opp_wake *_Nonnull wake);
OPP_MUST_USE opp_wake opp_worker_end_wait(opp_worker *_Nonnull worker);

typedef enum OPP_CLOSED_ENUM opp_parked {
    OPP_PARKED_WORKS = 0, /* call opp_worker_next() */
    OPP_PARKED_SPARE = 1, /* the same; or opp_worker_end(), if the thread is one too many, and end it */
    OPP_PARKED_ENDS = 2,  /* the pool is closed: end the thread */
    OPP_PARKED_SLEEPS = 3, /* resume what was harvested, if anything, and call opp_worker_end_park() */
    OPP_PARKED_AGAIN = 4,  /* of these two: park once more, to wait in the pool's readiness */
} opp_parked;

/* Parks the worker's thread until it is woken, in a pool without readiness. Only after OPP_NEXT_PARK. */
OPP_MUST_USE opp_parked opp_worker_park(opp_worker *_Nonnull worker);

/* The same in two steps, for what a thread has to do before it sleeps and not after it is woken. Between the
 * two it is parked, and may be woken already. */
OPP_MUST_USE opp_parked opp_worker_begin_park(opp_worker *_Nonnull worker);
/* `harvest` is empty unless the worker waited in the pool's readiness: the caller resumes who is in it, first
 * of all. It has a token then if one was free; what its thread queues meanwhile it takes next.
 * OPP_PARKED_SLEEPS where another thread has chosen it and has not said for what: once they are resumed, this
 * is called again. */
OPP_MUST_USE opp_parked opp_worker_end_park(opp_worker *_Nonnull worker, opp_harvest *_Nonnull harvest);

/*
 * The worker parks no more, but works or ends: has another wait in the pool's readiness, where none does.
 * OPP_WAKE_START: a worker is to be started for it. One load where somebody waits there.
 */
OPP_MUST_USE opp_wake opp_worker_passes_lead(opp_worker *_Nonnull worker);

/* The same after the first descriptor was added to the pool's readiness; any thread. */
OPP_MUST_USE opp_wake opp_pool_needs_leader(opp_pool *_Nonnull pool);

/* Whether one was woken to wait there, or is to be started for it, and does not wait yet; any thread. */
bool opp_pool_awaits_leader(const opp_pool *_Nonnull pool);

/* The one that is awaited may not come: it could not be started, or was not since another seemed to be
 * parked, or it has ended. Has another wait, as above; any thread. */
OPP_MUST_USE opp_wake opp_pool_needs_leader_still(opp_pool *_Nonnull pool);

/*
 * Between two jobs of a worker with a token, at `now`: claims the waiters of events that have come, if nobody
 * waits in the pool's readiness, and nobody has looked for OPP_HARVEST_NS.
 */
uint32_t opp_worker_harvest(opp_worker *_Nonnull worker, uint64_t now, opp_harvest *_Nonnull harvest);
#define OPP_HARVEST_NS 50000u /* a system call of a third of a microsecond, then, for each */

/* Returns whatever the worker holds: its thread is about to end. */
void opp_worker_end(opp_worker *_Nonnull worker);

/* --- Any thread, of a worker --------------------------------------------------------------------- */

opp_worker_state opp_worker_read_state(const opp_worker *_Nonnull worker);

/*
 * 0 while the worker may have taken a job, begun or not. Otherwise a number that changes before the worker
 * may take another job. seq_cst.
 */
uint64_t opp_worker_idle_version(const opp_worker *_Nonnull worker);

/* --- The monitor's, of a worker that it has just seen inside a job ------------------------------- */

typedef enum OPP_CLOSED_ENUM opp_handed {
    OPP_HANDED_OFF = 0,  /* done: let another work instead */
    OPP_HANDED_NOT = 1,  /* it keeps what it holds */
    OPP_HANDED_LATE = 2, /* the same, but other work may have found no room: check for it */
} opp_handed;

/* Hands its token, or the call of the spare worker, to another worker. Never OPP_HANDED_LATE. */
OPP_MUST_USE opp_handed opp_worker_hand_off(opp_worker *_Nonnull worker);

/* The same, and counts it among the demoted, if there is room. */
OPP_MUST_USE opp_handed opp_worker_sink(opp_worker *_Nonnull worker, opp_demotion why);

/* A handed-off worker has turned out to run a hog: counts it among the demoted, even beyond the limit. */
OPP_MUST_USE opp_handed opp_worker_count(opp_worker *_Nonnull worker);

/* A worker that is counted among the demoted is blocked: counts it no more. Never OPP_HANDED_LATE. */
OPP_MUST_USE opp_handed opp_worker_uncount(opp_worker *_Nonnull worker);

OPP_END_DECLS

#endif
