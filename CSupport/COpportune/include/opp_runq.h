/*
 * The run queue: apps, levels and jobs, and which worker may take which job.
 *
 * A job is queued in its app, in the fifo of the thread that pushed it (its producer), at a rank: the number
 * of levels below the top of the app's band. A band maps ranks to levels, 0 to 63; higher levels run first. A
 * pool serves a set of levels, given as a mask at each take.
 *
 * Guarantees (runq.h and queue.c beside the sources say why they hold):
 *
 *  - Lock-free: a thread that is stopped for ever, at any instruction of a push or a take, prevents no other
 *    thread from completing, and hides no other thread's jobs. A stopped consumer holds back at most the one
 *    job that it has taken, and one segment of memory. A stopped pusher holds back at most its own job.
 *  - Each pushed job is taken exactly once.
 *  - Order. One producer, app and rank: as pushed.
 *    One app and rank, several producers: of the jobs that any one other producer pushes later, at most
 *    OPP_BYPASS_MAX overtake a job. Where consumers end their turns by time, an outside thread's job waits
 *    for one turn at most while a consumer runs what its own jobs push, unless that bound demands more.
 *    Several apps of one level: round-robin. While another app waits, a consumer takes at most OPP_TURN jobs
 *    of an app, and none after its turn has ended.
 *    Several levels: a take returns a job of the highest level of its mask at which it found one. A job that
 *    is pushed while it looks may have to wait for the next take.
 *    Several cores: nothing more. Two consumers may run two jobs in either order.
 *    If an app is suspended or moved during a take, the take may put the job back to the front of its rank.
 *    Later jobs of the rank may have passed it by then.
 *  - Suspending, resuming and moving an app to another band are one atomic step each, whatever is queued,
 *    and queued jobs follow their app; no job of a suspended app is handed out by a take that began after
 *    opp_app_suspend() returned.
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

/* A job as the core knows it: the values that are returned when the job is taken. */
typedef struct opp_job {
    void *_Nullable ptr;
    uint32_t tag;
} opp_job;

typedef struct opp_core opp_core;     /* the run queue of one scheduler */
typedef struct opp_app opp_app;       /* an app's jobs and its state word */
typedef struct opp_producer opp_producer; /* a thread's right to push */
typedef struct opp_consumer opp_consumer;   /* a worker's right to take, and its memory of where it looked */

typedef struct opp_core_config {
    uint32_t max_apps;                     /* 1 to OPP_MAX_APPS */
    uint8_t level_of[OPP_BANDS][OPP_RANKS]; /* rank to level, for each band; must not rise with the rank */

    /* Each is called on the thread that detects the condition, and must not block. A call may come when there
     * is nothing to do any more. */
    void *_Nullable context;
    /* A consumer has put a job back, because the app was suspended or moved during the take. The job is now
     * ready at `level`: wake a worker for it. */
    void (*_Nullable on_ready)(void *_Nullable context, uint8_t level);
    /* The last consumer has left a suspended app. */
    void (*_Nullable on_quiet)(void *_Nullable context, opp_app *_Nonnull app);
    /* The calling consumer has taken jobs of `app`, and is about to leave it. What it writes here is visible
     * to any thread that then reads 0 from opp_app_running(). */
    void (*_Nullable on_leave)(void *_Nullable context, opp_app *_Nonnull app);
} opp_core_config;

/* Returns 0, -EINVAL (a value is out of its range), -ENOMEM. */
int opp_core_create(const opp_core_config *_Nonnull config, opp_core *_Nullable *_Nonnull core);

/*
 * Passes every job still queued to `drop`, once each, and drops the creator's reference. No worker may be
 * inside a call on `core` any more, and no thread may push. The memory is freed with the last reference.
 */
void opp_core_destroy(opp_core *_Nonnull core, void (*_Nullable drop)(opp_job job, void *_Nullable context),
                      void *_Nullable context);

/*
 * Passes what is queued now to `drop`, including suspended apps' jobs, but not the contents of strands'
 * queues. Any thread, also while others push and take.
 */
void opp_core_drain(opp_core *_Nonnull core, void (*_Nonnull drop)(opp_job job, void *_Nullable context),
                    void *_Nullable context);

/* A further reference to the memory, for a thread that has a producer and may outlive the scheduler. */
void opp_core_retain(opp_core *_Nonnull core);
void opp_core_release(opp_core *_Nonnull core);

/* Whether opp_core_destroy() was called; holders should then drop their reference. */
bool opp_core_is_destroyed(const opp_core *_Nonnull core);

/* --- Producers -------------------------------------------------------------------------------- */

/*
 * A producer for the calling thread: one that an ended thread has released, with its queued jobs, or a new
 * one. `node` is the NUMA node (0 to 63) to which its jobs are near. Never blocks. NULL where memory is
 * short.
 */
opp_producer *_Nullable opp_producer_acquire(opp_core *_Nonnull core, uint8_t node);

/* Releases the producer for reuse by another thread. Its queued jobs stay and are taken as before. */
void opp_producer_release(opp_producer *_Nonnull producer);

/* --- Apps ----------------------------------------------------------------------------------- */

/* NULL where max_apps are in use, or memory is short. `band` is 0 to 2. */
opp_app *_Nullable opp_app_create(opp_core *_Nonnull core, uint8_t band, bool suspended);

/* The app must have no queued job, and no thread may push to it any more. Its index is reused. */
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

/* Like opp_app_state_read(), for suspension alone; seq_cst, like the step itself. */
bool opp_app_is_suspended(const opp_app *_Nonnull app);

/* Mask of the levels at which the app may have jobs now (a hint, never too small); 0 while it is
 * suspended. */
uint64_t opp_app_levels(const opp_app *_Nonnull app);

/* The number of jobs queued now, by a walk over the queues; exact only while no thread pushes or takes. */
uint64_t opp_app_queued(const opp_app *_Nonnull app);

/* How many consumers are inside a job of this app. */
uint32_t opp_app_running(const opp_app *_Nonnull app);

/* --- Push and take -------------------------------------------------------------------------- */

/* The result of opp_push() for a suspended app: no worker need be woken. */
#define OPP_LEVEL_NONE 64

/*
 * Queues `job`. The producer's own thread only; never blocks. Returns the level at which it is ready (0 to
 * 63), OPP_LEVEL_NONE, or, where nothing was queued, -EINVAL (rank out of range) or -ENOMEM.
 */
OPP_MUST_USE int opp_push(opp_producer *_Nonnull producer, opp_app *_Nonnull app, uint8_t rank, opp_job job);

/*
 * A consumer for a worker. `own` is the worker's producer, whose jobs it prefers. `distance[n]` is the
 * distance of node n (10 is local), for n from 0 to 63; NULL where all are alike. NULL where memory is short.
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
    uint8_t band;   /* of the app */
    bool stolen;    /* from another producer's fifo */
} opp_taken;

/*
 * Takes one job of the highest level in `levels` that has any. From then until the consumer's next opp_take()
 * or opp_consumer_leave_app(), the consumer counts as running that job's app. Returns whether `taken` was
 * filled.
 *
 * If the app is suspended or moved meanwhile, the job returns to the front of its rank. Where memory is short
 * it cannot. Rather than lose the job, the take then returns it, even if its app is suspended or its level
 * was not asked for.
 */
OPP_MUST_USE bool opp_take(opp_consumer *_Nonnull consumer, uint64_t levels, opp_taken *_Nonnull taken);

/*
 * Consumers of one group serve the same levels, each its own producer first, so the others do not prefer that
 * producer. 0, the initial value, is no group: other consumers then treat its producer as an outside
 * thread's. Any thread.
 */
void opp_consumer_set_group(opp_consumer *_Nonnull consumer, uint32_t group);

/*
 * Ends the consumer's turn. Its next take goes to another app, if one waits at the level. After a turn of the
 * consumer's own producer it goes to outside producers: those that no consumer of its group has as its own. A
 * worker calls it between two takes when its turn is over by time.
 */
void opp_consumer_end_turn(opp_consumer *_Nonnull consumer);

/* The worker says that it runs no job now, so that its last app no longer counts as running. */
void opp_consumer_leave_app(opp_consumer *_Nonnull consumer);

/*
 * Whether the app of the consumer's last job was suspended meanwhile. A worker asks after each job. If so, it
 * leaves the app at once, because others may wait for the end of the suspension's last job.
 */
bool opp_consumer_should_leave_app(const opp_consumer *_Nonnull consumer);

/* The app of the consumer's current job, or NULL. Any thread; for comparison only, the app may have been
 * destroyed. */
const opp_app *_Nullable opp_consumer_current(const opp_consumer *_Nonnull consumer);

/* Levels out of `levels` at which something may be queued; never too small. Cheap: a hint. */
uint64_t opp_ready_levels(const opp_core *_Nonnull core, uint64_t levels);

/* Whether something is really queued for `levels`; follows the ready bits down to the queues. */
bool opp_has_ready(opp_core *_Nonnull core, uint64_t levels);

/* Memory held, in bytes: segments in use or free, and queues. */
uint64_t opp_core_memory(const opp_core *_Nonnull core);

/* --- A queue alone: the queue of a strand ------------------------------------------------------ */

/*
 * A queue with many producers, many consumers and an exact order: entries leave in the order of their
 * tickets, which are drawn at the start of each push. A stopped pusher holds back its own entry only.
 */
typedef struct opp_queue opp_queue;

opp_queue *_Nullable opp_queue_create(opp_core *_Nonnull core);
/* Passes the remaining entries to `drop`. No thread may use the queue any more. */
void opp_queue_destroy(opp_queue *_Nonnull queue,
                       void (*_Nullable drop)(opp_job job, void *_Nullable context),
                       void *_Nullable context);
OPP_MUST_USE int opp_queue_push(opp_queue *_Nonnull queue, opp_producer *_Nonnull producer, opp_job job);
/* Takes the oldest entry. False if it found none: each was taken by another consumer before this call came to
 * it, or pushed after that. So beside other consumers false does not mean that the queue was ever empty. */
OPP_MUST_USE bool opp_queue_take(opp_queue *_Nonnull queue, opp_job *_Nonnull job);
bool opp_queue_is_empty(const opp_queue *_Nonnull queue);

OPP_END_DECLS

#endif
