/* What a worker tells of its running job, and how the monitor changes the priority of the worker's thread. */
#ifndef OPP_REPORT_H
#define OPP_REPORT_H

#include "opp_runq.h"
#include "opp_system.h"

OPP_BEGIN_DECLS

typedef struct opp_report opp_report;

/* A running job. Times are in nanoseconds. */
typedef struct opp_report_job {
    uint64_t identity;
    opp_app *_Nullable app; /* remains valid after the app's end */
    uint64_t start;
    /* CPU time of the thread when it was last measured, before this job; its time in run queues and in short
     * waits at that moment; its voluntary context switches when it was last parked. */
    uint64_t cpu_before, wait_before;
    int64_t switches_before;
    uint64_t priority; /* that of the thread, as one word */
    uint32_t depth;
    uint8_t band, rank;
    uint8_t base; /* priority before demotion: BasePriority */
    bool is_real_time; /* it began in the real-time foreground */
} opp_report_job;

/* A job as it was read, and the number by which it is known from now on. */
typedef struct opp_reading {
    uint64_t sequence;
    opp_report_job job;
} opp_reading;

/* What the monitor has made of a job until its end. */
typedef struct opp_report_ended {
    uint64_t priority; /* given to the thread, as it was told to opp_report_end_change(); 0: none */
    uint32_t depth;
    /* The job had left the real-time foreground: then the monitor has counted its time there. If the two meet
     * it may be counted twice, but not missed. */
    bool left_class;
} opp_report_ended;

/* --- The worker ------------------------------------------------------------------------------- */

/* The thread begins. The report owns `meter` from now on, until opp_report_stop(). */
void opp_report_start(opp_report *_Nonnull report, int32_t thread, opp_thread_meter *_Nullable meter);

void opp_report_begin(opp_report *_Nonnull report, const opp_report_job *_Nonnull job);

/* The job has ended. */
opp_report_ended opp_report_end(opp_report *_Nonnull report);

/* Waits for a change that has begun, and returns the last priority that the monitor has given to the job that
 * still runs; 0: none. To be asked again once the worker has changed the priority itself. */
uint64_t opp_report_settled(opp_report *_Nonnull report);

/* The running job keeps the thread's priority, which the worker may change: what the monitor gives takes
 * effect when it is released. Both return the last priority that the monitor has given to this job, 0 for
 * none; after the release the worker applies it, and asks opp_report_settled() once more. */
uint64_t opp_report_keep_priority(opp_report *_Nonnull report);
uint64_t opp_report_release_priority(opp_report *_Nonnull report);

/* Counts a job that was neither a hog nor blocked for long. */
void opp_report_add_ordinary(opp_report *_Nonnull report, uint64_t cpu_ns);

/* Tells how long the thread has spent so far in waits that do not count as blocking. */
void opp_report_set_short_waits(opp_report *_Nonnull report, uint64_t ns);

/* When the running job began. */
uint64_t opp_report_began(const opp_report *_Nonnull report);

/* --- Any thread ------------------------------------------------------------------------------- */

/* 0 and NULL until the thread has begun. */
int32_t opp_report_thread(const opp_report *_Nonnull report);
opp_thread_meter *_Nullable opp_report_meter(const opp_report *_Nonnull report);

/* Reads the current job. False if the worker is inside no job, or has changed jobs during the read. */
bool opp_report_read(const opp_report *_Nonnull report, opp_reading *_Nonnull reading);
bool opp_report_is_inside(const opp_report *_Nonnull report, uint64_t sequence);
/* Whether the running job keeps the thread's priority. */
bool opp_report_keeps_priority(const opp_report *_Nonnull report);
/* A number that increases with each job that begins or ends. */
uint64_t opp_report_count(const opp_report *_Nonnull report);
/* The depth of the running job. The monitor may increase it while the job runs. */
uint32_t opp_report_depth(const opp_report *_Nonnull report);

/* What was said with the last increase of that depth. */
uint64_t opp_report_off_when_deepened(const opp_report *_Nonnull report);
/* How many jobs were counted by opp_report_add_ordinary(), and their CPU time, about. */
uint64_t opp_report_ordinary(const opp_report *_Nonnull report, uint64_t *_Nonnull cpu_ns);
uint64_t opp_report_short_waits(const opp_report *_Nonnull report);

/* --- The monitor ------------------------------------------------------------------------------ */

/* The thread has ended, or never began, or the pool is about to be destroyed: destroys the meter. */
void opp_report_stop(opp_report *_Nonnull report);

/*
 * Changes the priority of the thread while it is inside a job: if opp_report_begin_change() returns true the
 * caller makes its system call, unless the job keeps its priority, and ends the change at once, for the
 * worker waits for that at its job's end.
 * `word` stands for the new priority; 0: the system has refused, and it is what it was.
 */
bool opp_report_begin_change(opp_report *_Nonnull report, uint64_t sequence);
void opp_report_end_change(opp_report *_Nonnull report, uint64_t word);
/* The word of the last change of the running job; 0: there was none. */
uint64_t opp_report_changed(const opp_report *_Nonnull report);

/* What the job submits from now on starts at this depth. Returns whether the worker is inside the job; if so
 * the job's end does not charge for this demotion again. If the job has just ended, the next one may count as
 * demoted until it ends. `off_ns`: how long the job has been off the CPU by then, see
 * opp_report_off_when_deepened(). */
bool opp_report_deepen(opp_report *_Nonnull report, uint64_t sequence, uint32_t depth, uint64_t off_ns);

/* The job leaves the real-time foreground, and the caller counts its time there. Returns false if the job has
 * ended, whose worker counts it then. */
bool opp_report_leave_class(opp_report *_Nonnull report, uint64_t sequence);
bool opp_report_has_left_class(const opp_report *_Nonnull report, uint64_t sequence);

OPP_END_DECLS

#endif
