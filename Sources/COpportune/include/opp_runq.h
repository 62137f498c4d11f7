/*
 * The run queue: apps, levels and jobs, and who may take which.
 *
 * A job lives with its app, in the fifo of the thread that pushed it (its producer), at a rank: how many
 * steps below the top of the app's band it stands. A band maps ranks to levels, 0 to 63, higher first. A pool
 * is a set of levels that some workers serve; it is theirs to choose, as a mask, at each take.
 *
 * What is promised (runq.h and queue.c beside the sources say why it holds):
 *
 *  - Lock-free in the strict sense: a thread that is stopped at any instruction of a push or a take, for
 *    ever, keeps no other thread from completing and hides no other thread's jobs. A stopped consumer holds
 *    back at most the one job that it took and one segment of memory; a stopped pusher at most the one job
 *    that it was pushing.
 *  - Each pushed job is taken exactly once.
 *  - Order within one producer, app and rank: as pushed. Across producers, at one app and rank: no job is
 *    overtaken by more than OPP_BYPASS_MAX later ones of any one producer; and where consumers end their
 *    turns by time, a job of an outside thread waits for one turn of what a consumer's own jobs push, unless
 *    those are older than that bound allows. Across apps at one level: ready apps are served in turn,
 *    OPP_TURN jobs each at most per consumer, or its turn, while another waits. Across levels: a take returns
 *    a job of the highest level of its mask that held one when it looked; a job pushed meanwhile may be seen
 *    by the next take only. Across cores nothing more is promised: two consumers may run two jobs in either
 *    order. A take during which its app is suspended or moved may give its job back, to the front of its
 *    rank; others of the rank may have passed it by then.
 *  - Suspending, resuming and moving an app to another band are one atomic step each, whatever is queued; no
 *    job of a suspended app is handed out by a take that began after opp_app_suspend() returned.
 *  - Nothing is allocated once queues have been as long as they get; memory is kept until opp_core_destroy().
 */
#ifndef OPP_RUNQ_H
#define OPP_RUNQ_H

#include "opp_base.h"

OPP_BEGIN_DECLS

#define OPP_LEVELS 64
#define OPP_RANKS 64
#define OPP_BANDS 3
#ifndef OPP_CHECKED
#define OPP_MAX_APPS 65536
#define OPP_BYPASS_MAX 128
#define OPP_TURN 16
#endif

/* A job, as far as the core knows: what it hands back when the job is taken. */
typedef struct opp_job {
    void *_Nullable ptr;
    uint32_t tag;
} opp_job;

typedef struct opp_core opp_core;     /* the run queue of one scheduler */
typedef struct opp_app opp_app;       /* an app's jobs and its state word */
typedef struct opp_producer opp_producer; /* a thread's right to push */
typedef struct opp_consumer opp_consumer;   /* a worker's right to take, and its memory of where it looked */
typedef struct opp_worker opp_worker; /* a worker of a pool; see opp_pool.h */

typedef struct opp_core_config {
    uint32_t max_apps;                     /* 1 to OPP_MAX_APPS */
    /* true: a queued job keeps the band it was pushed in; false: it follows its app's */
    bool stay;
    uint8_t level_of[OPP_BANDS][OPP_RANKS]; /* rank to level, for each band; must not rise with the rank */

    /* Both are called on the thread that noticed, must not block, and may be called once too often. */
    void *_Nullable context;
    /* A consumer gave a job back that its app's new band or suspension had overtaken: wake somebody for
     * `level`. */
    void (*_Nullable on_ready)(void *_Nullable context, uint8_t level);
    /* The last consumer has left a suspended app. */
    void (*_Nullable on_quiet)(void *_Nullable context, opp_app *_Nonnull app);
} opp_core_config;

/* Returns 0, -EINVAL (a value is out of its range), -ENOMEM. */
int opp_core_create(const opp_core_config *_Nonnull config, opp_core *_Nullable *_Nonnull core);

/*
 * Hands every job still queued to `drop`, once each, and gives up the creator's hold. No worker may be inside
 * a call on `core` any more, and nobody may push. The memory goes with the last hold.
 */
void opp_core_destroy(opp_core *_Nonnull core, void (*_Nullable drop)(opp_job job, void *_Nullable context),
                      void *_Nullable context);

/*
 * Hands what is queued now to `drop`, suspended apps' jobs too, but not what is in the queues of strands.
 * Any thread, also while others push and take.
 */
void opp_core_drain(opp_core *_Nonnull core, void (*_Nonnull drop)(opp_job job, void *_Nullable context),
                    void *_Nullable context);

/* A further hold on the memory, for a thread that has a producer and may outlive the scheduler. */
void opp_core_retain(opp_core *_Nonnull core);
void opp_core_release(opp_core *_Nonnull core);

/* Whether opp_core_destroy() was called; for holders, who should then let go. */
bool opp_core_is_destroyed(const opp_core *_Nonnull core);

/* --- Producers -------------------------------------------------------------------------------- */

/*
 * A producer for the calling thread: one that a finished thread left, with whatever it still has queued, or a
 * new one. `node` is the NUMA node (0 to 63) that its jobs are near to. Never blocks. NULL where memory is
 * short.
 */
opp_producer *_Nullable opp_producer_acquire(opp_core *_Nonnull core, uint8_t node);

/* Leaves the producer to the next thread. Its queued jobs stay and are taken as before. */
void opp_producer_release(opp_producer *_Nonnull producer);

/* --- Apps ----------------------------------------------------------------------------------- */

/* NULL where max_apps are in use (errno-free: it is the only reason besides memory). `band` is 0 to 2. */
opp_app *_Nullable opp_app_create(opp_core *_Nonnull core, uint8_t band, bool suspended);

/* The app must have no queued job and nobody may push to it any more. Its place is used again. */
void opp_app_destroy(opp_app *_Nonnull app);

/* The caller's own pointer, to find its object from a taken job. Set once, before the first push. */
void opp_app_set_context(opp_app *_Nonnull app, void *_Nullable context);
void *_Nullable opp_app_context(const opp_app *_Nonnull app);

/* Each is one atomic step, from any thread, and returns whether it changed anything. */
bool opp_app_suspend(opp_app *_Nonnull app);
bool opp_app_resume(opp_app *_Nonnull app);
bool opp_app_set_band(opp_app *_Nonnull app, uint8_t band);

typedef struct opp_app_state {
    uint8_t band;
    bool suspended;
    uint64_t generation; /* 0 at first, and grows with every step */
} opp_app_state;

opp_app_state opp_app_state_read(const opp_app *_Nonnull app);

/* The same of suspension alone, in the one order of all sequentially consistent operations, as the step
 * itself. */
bool opp_app_is_suspended(const opp_app *_Nonnull app);

/* Mask of the levels at which the app may have jobs now (a hint, never too small); 0 while it is
 * suspended. */
uint64_t opp_app_levels(const opp_app *_Nonnull app);

/* Jobs queued now, by a walk over its queues; exact only while nobody pushes or takes. */
uint64_t opp_app_queued(const opp_app *_Nonnull app);

/* How many consumers are inside a job of this app. */
uint32_t opp_app_running(const opp_app *_Nonnull app);

/* --- Push and take -------------------------------------------------------------------------- */

/* What opp_push() returns for an app that is suspended: nobody needs to be woken. */
#define OPP_LEVEL_NONE 64

/*
 * Queues `job`. The producer's own thread only; never blocks. Returns the level at which it is ready (0 to
 * 63), OPP_LEVEL_NONE, or -ENOMEM, in which case nothing was queued.
 */
OPP_MUST_USE int opp_push(opp_producer *_Nonnull producer, opp_app *_Nonnull app, uint8_t rank, opp_job job);

/* What the caller is to do next. */
typedef enum OPP_CLOSED_ENUM opp_wake {
    OPP_WAKE_NOTHING = 0, /* nothing */
    OPP_WAKE_COUNT = 1,   /* count a wake-up, if it counts them: a worker was woken */
    OPP_WAKE_START = 2,   /* start a worker: a token is free, and nobody sleeps */
} opp_wake;

typedef struct opp_submitted {
    int32_t level; /* what opp_push() returns */
    opp_wake wake; /* about the pool of that level */
} opp_submitted;

/*
 * Pushes, and wakes a worker of the level's pool for it. `self` is the worker that the caller is, where its
 * slice is about to end and it takes the job itself next: then nobody is woken. A slice that goes on after
 * all calls opp_worker_goes_on().
 */
OPP_MUST_USE opp_submitted opp_submit(opp_producer *_Nonnull producer, opp_app *_Nonnull app, uint8_t rank,
                                      opp_job job,
                                      opp_worker *_Nullable self);

/*
 * A consumer for a worker. `own` is the worker's producer, whose jobs it prefers; `distance[n]` is how far
 * node n is (10 is local), for n from 0 to 63, or NULL where all are alike. NULL where memory is short.
 */
opp_consumer *_Nullable opp_consumer_create(opp_core *_Nonnull core, opp_producer *_Nonnull own,
                                            const uint8_t *_Nullable distance);
void opp_consumer_destroy(opp_consumer *_Nonnull consumer);

typedef struct opp_taken {
    opp_job job;
    opp_app *_Nonnull app;
    void *_Nullable context; /* of the app */
    uint8_t level;
    uint8_t rank;
    uint8_t band;   /* in whose place it was queued */
    bool stolen;    /* from another producer's fifo */
} opp_taken;

/*
 * Takes one job of the highest level in `levels` that has any. From then until the consumer's next opp_take()
 * or opp_consumer_leave(), the consumer counts as running that job's app. Returns whether `taken` was filled.
 */
/* Where the app is suspended or moved meanwhile the job goes back to the front of its rank. Where memory is
 * short it cannot: rather than lose it the take gives it, though its app is suspended, or its level not asked
 * for. */
OPP_MUST_USE bool opp_take(opp_consumer *_Nonnull consumer, uint64_t levels, opp_taken *_Nonnull taken);

/*
 * Consumers of one group serve the same levels, each its own producer first; so the others need not care for
 * that. 0, as at first, is no group: then other consumers treat its producer as an outside thread's. Any
 * thread.
 */
void opp_consumer_join(opp_consumer *_Nonnull consumer, uint32_t group);

/*
 * Ends the consumer's turn: its next take goes to another app, if one waits at the level, and, after a turn
 * of the consumer's own producer, to outside producers: those that no consumer of its group has. A worker
 * calls it between two takes when it has been at it for long enough that others should have a turn.
 */
void opp_consumer_end_turn(opp_consumer *_Nonnull consumer);

/* The consumer is inside no job any more. */
void opp_consumer_leave(opp_consumer *_Nonnull consumer);

/*
 * Whether the app that the consumer is inside of is suspended by now: a worker asks at the end of each job
 * and rests at once if it is, so that whoever waits for the suspension learns of it.
 */
bool opp_consumer_should_leave(const opp_consumer *_Nonnull consumer);

/* The app that the consumer is inside of, or NULL. Any thread; compare it only, it may be gone. */
const opp_app *_Nullable opp_consumer_current(const opp_consumer *_Nonnull consumer);

/* Levels out of `levels` at which something may be queued; never too small. Cheap: a hint. */
uint64_t opp_ready_levels(const opp_core *_Nonnull core, uint64_t levels);

/* Whether something is really queued for `levels`; follows the ready bits down to the queues. */
bool opp_has_ready(opp_core *_Nonnull core, uint64_t levels);

/* Memory held, in bytes: segments in use or free, and queues. */
uint64_t opp_core_memory(const opp_core *_Nonnull core);

/* --- A queue alone: the queue of a strand ------------------------------------------------------ */

/*
 * Many pushers, many consumers, and an exact order: entries leave in the order of their tickets, taken at the
 * start of each push, except that a pusher which is stopped holds back its own entry only.
 */
typedef struct opp_queue opp_queue;

opp_queue *_Nullable opp_queue_create(opp_core *_Nonnull core);
/* Entries left are handed to `drop`. Nobody may use the queue any more. */
void opp_queue_destroy(opp_queue *_Nonnull queue,
                       void (*_Nullable drop)(opp_job job, void *_Nullable context),
                       void *_Nullable context);
OPP_MUST_USE int opp_queue_push(opp_queue *_Nonnull queue, opp_producer *_Nonnull producer, opp_job job);
/* The oldest entry. False where nothing waited all through; with other consumers beside it, also where there
 * was never a
 * moment without any, but each was gone when it looked, or came after. */
OPP_MUST_USE bool opp_queue_take(opp_queue *_Nonnull queue, opp_job *_Nonnull job);
bool opp_queue_is_empty(const opp_queue *_Nonnull queue);

OPP_END_DECLS

#endif
