/*
 * The report of a worker: a sequence lock of its running job, and a claim on its thread's priority.
 *
 * Jobs. `sequence` is odd while the worker is inside a job, and only grows, also from one of its threads to
 * the next: so what was read of a thread that has ended is never taken for its successor's. The worker writes
 * the fields, then the odd number, and at the job's end the even one. A reader reads the number, the fields
 * and the number again; the reading is valid if the number was odd and has not changed. The fields are
 * atomics only to avoid a data race: a reading that was overtaken is discarded.
 *
 * Priority. The monitor, one thread, may change the priority of the running worker. It claims `change`, looks
 * whether the worker is still inside the job that it has read, makes the system call, and records what it has
 * given. A worker that ends its job waits for a change that has begun: one system call of less than a
 * microsecond, if the monitor is not preempted in it. While the worker keeps its priority, as it waits for a
 * device with a lock of the kernel in hand, the monitor records what it gives and leaves the thread as it is;
 * the worker applies that once it has released its priority.
 *
 * Invariants:
 *  - A reading is of one job, as a whole.
 *  - When a job has ended, its thread has the priority that opp_report_end() has returned, or that with which
 *    the worker began it; and the monitor changes nothing until the next job begins.
 *  - While a worker keeps its priority, nobody else changes it.
 *  - The time of a job in the real-time foreground is counted by its worker, by the monitor, or by both.
 */
#include "report.h"
#include "opp_alarms.h"
#include "opp_assert.h"

enum { CHANGE_NONE, CHANGE_BEGUN, CHANGE_DONE };

/* --- The worker ------------------------------------------------------------------------------- */

void opp_report_start(opp_report *report, int32_t thread, opp_thread_meter *meter) {
    OPP_ASSERT(!(opp_load(&report->sequence, relaxed) & 1));
    OPP_ASSERT(opp_load(&report->meter, relaxed) == NULL);
    /* [start] release, both: the meter is seen with what it is made of, the thread with its meter. */
    opp_store(&report->meter, meter, release);
    opp_store(&report->thread, thread, release);
}

static uint64_t standing_of(const opp_report_job *job) {
    return (uint64_t)job->depth << 32 | (uint64_t)job->is_real_time << 24 | (uint64_t)job->base << 16
        | (uint64_t)job->rank << 8 | job->band;
}

void opp_report_begin(opp_report *report, const opp_report_job *job) {
    uint64_t sequence = opp_load(&report->sequence, relaxed); /* its own */
    OPP_ASSERT(!(sequence & 1));
    /* [fields] release, each: no field of this job is seen before the even number that ended the last job.
     * Pairs with the acquire loads of opp_report_read(): who reads one of these reads that number, or a later
     * one, when it reads it again. */
    opp_store(&report->standing, standing_of(job), release);
    opp_store(&report->priority, job->priority, release);
    opp_store(&report->identity, job->identity, release);
    opp_store(&report->app, job->app, release);
    opp_store(&report->start, job->start, release);
    opp_store(&report->cpu_before, job->cpu_before, release);
    opp_store(&report->wait_before, job->wait_before, release);
    opp_store(&report->switches_before, job->switches_before, release);
    opp_store(&report->depth, job->depth, relaxed); /* the worker's own, or a hint */
    /* [job] release: publishes the fields to opp_report_read(). seq_cst: precedes the worker's look at the
     * alarm (opp_alarms_arm()), which the monitor disarms before it reads this: one sees the other. */
    opp_store(&report->sequence, sequence + 1, seq_cst);
}

opp_report_ended opp_report_end(opp_report *report) {
    uint64_t sequence = opp_load(&report->sequence, relaxed); /* its own */
    OPP_ASSERT(sequence & 1);
    /* [claim] seq_cst, both: pair with opp_report_begin_change(), which claims before it looks at the number.
     * Either it sees the even number, or this load the claim. */
    opp_store(&report->sequence, sequence + 1, seq_cst);
    bool is_changed = opp_load(&report->change, seq_cst) != CHANGE_NONE;
    opp_report_ended ended = {.priority = is_changed ? opp_report_settled(report) : 0};
    ended.depth = opp_report_depth(report);
    /* relaxed: the number alone tells; the two count with atomics. */
    ended.left_class = opp_load(&report->left_class, relaxed) == sequence;
    if (!is_changed) return ended;
    /* relaxed: the monitor claims nothing more of this job; and a claim that begins now, and is overwritten
     * here, finds that the job has ended. */
    opp_store(&report->change, CHANGE_NONE, relaxed);
    opp_store(&report->changed_to, 0, relaxed);
    return ended;
}

uint64_t opp_report_settled(opp_report *report) {
    /* [change] acquire: pairs with opp_report_end_change(). It need be no more: a system call that the worker
     * has made before comes, for the kernel, before the monitor's or after it; before, and nothing is amiss;
     * after, and the kernel has shown it what the monitor did before that call. */
    opp_spin_while(&report->change, CHANGE_BEGUN, acquire);
    return opp_load(&report->changed_to, relaxed);
}

/* [keeps] seq_cst, all: pair with the monitor, which claims `change` before it looks at `keeps`. Either it
 * sees the worker's store, or the worker sees the claim, and waits for the change's end. */

uint64_t opp_report_keep_priority(opp_report *report) {
    opp_store(&report->keeps, true, seq_cst);
    return opp_load(&report->change, seq_cst) == CHANGE_NONE ? 0 : opp_report_settled(report);
}

uint64_t opp_report_release_priority(opp_report *report) {
    opp_store(&report->keeps, false, seq_cst);
    return opp_load(&report->change, seq_cst) == CHANGE_NONE ? 0 : opp_report_settled(report);
}

void opp_report_add_ordinary(opp_report *report, uint64_t cpu_ns) {
    /* relaxed, one writer: statistics for the monitor, to which it is no matter if the two do not fit. */
    opp_store(&report->ordinary, opp_load(&report->ordinary, relaxed) + 1, relaxed);
    opp_store(&report->ordinary_ns, opp_load(&report->ordinary_ns, relaxed) + cpu_ns, relaxed);
}

void opp_report_set_short_waits(opp_report *report, uint64_t ns) {
    /* relaxed, one writer: a look that misses the last wait takes it for time off the CPU until the next. */
    opp_store(&report->short_waits, ns, relaxed);
}

uint64_t opp_report_began(const opp_report *report) {
    return opp_load(&report->start, relaxed);
}

/* --- Any thread ------------------------------------------------------------------------------- */

int32_t opp_report_thread(const opp_report *report) {
    return opp_load(&report->thread, acquire); /* [start] */
}

opp_thread_meter *opp_report_meter(const opp_report *report) {
    return opp_load(&report->meter, acquire); /* [start] */
}

bool opp_report_read(const opp_report *report, opp_reading *reading) {
    uint64_t sequence = opp_load(&report->sequence, seq_cst); /* [job] */
    if (!(sequence & 1)) return false;
    /* [fields] acquire, each: the second read of the number comes after them. */
    uint64_t standing = opp_load(&report->standing, acquire);
    *reading = (opp_reading){
        .sequence = sequence,
        .job = {
            .identity = opp_load(&report->identity, acquire),
            .app = opp_load(&report->app, acquire),
            .start = opp_load(&report->start, acquire),
            .cpu_before = opp_load(&report->cpu_before, acquire),
            .wait_before = opp_load(&report->wait_before, acquire),
            .switches_before = opp_load(&report->switches_before, acquire),
            .priority = opp_load(&report->priority, acquire),
            .depth = (uint32_t)(standing >> 32), .is_real_time = standing >> 24 & 1,
            .base = (uint8_t)(standing >> 16), .rank = (uint8_t)(standing >> 8), .band = (uint8_t)standing}};
    return opp_load(&report->sequence, relaxed) == sequence;
}

bool opp_report_is_inside(const opp_report *report, uint64_t sequence) {
    return opp_load(&report->sequence, seq_cst) == sequence; /* [claim] */
}

bool opp_report_keeps_priority(const opp_report *report) {
    return opp_load(&report->keeps, seq_cst); /* [keeps] */
}

uint64_t opp_report_count(const opp_report *report) {
    return opp_load(&report->sequence, relaxed);
}

uint32_t opp_report_depth(const opp_report *report) {
    return opp_load(&report->depth, acquire); /* [deeper] */
}

uint64_t opp_report_off_when_deepened(const opp_report *report) {
    return opp_load(&report->deepened_off, relaxed); /* after [deeper], which brings it */
}

uint64_t opp_report_ordinary(const opp_report *report, uint64_t *cpu_ns) {
    *cpu_ns = opp_load(&report->ordinary_ns, relaxed);
    return opp_load(&report->ordinary, relaxed);
}

uint64_t opp_report_short_waits(const opp_report *report) {
    return opp_load(&report->short_waits, relaxed);
}

/* --- The monitor ------------------------------------------------------------------------------ */

void opp_report_stop(opp_report *report) {
    /* relaxed, all: the thread has ended, and the next one starts after this. */
    opp_thread_meter *meter = opp_load(&report->meter, relaxed);
    if (meter != NULL) opp_thread_meter_destroy(meter);
    opp_store(&report->meter, NULL, relaxed);
    opp_store(&report->thread, 0, relaxed);
    /* What it has counted is none of the next one's. */
    opp_store(&report->ordinary, 0, relaxed);
    opp_store(&report->ordinary_ns, 0, relaxed);
    opp_store(&report->short_waits, 0, relaxed);
}

bool opp_report_begin_change(opp_report *report, uint64_t sequence) {
    OPP_ASSERT(opp_load(&report->change, relaxed) != CHANGE_BEGUN); /* there is one monitor */
    opp_store(&report->change, CHANGE_BEGUN, seq_cst); /* [claim] */
    if (opp_report_is_inside(report, sequence)) return true;
    opp_report_end_change(report, 0); /* a worker that has seen the claim waits for this */
    return false;
}

void opp_report_end_change(opp_report *report, uint64_t word) {
    if (word != 0) opp_store(&report->changed_to, word, relaxed);
    opp_store(&report->change, CHANGE_DONE, release); /* [change] pairs with opp_report_settled() */
    opp_spin_over(&report->change);
}

uint64_t opp_report_changed(const opp_report *report) {
    return opp_load(&report->changed_to, relaxed);
}

bool opp_report_deepen(opp_report *report, uint64_t sequence, uint32_t depth, uint64_t off_ns) {
    if (!opp_report_is_inside(report, sequence)) return false;
    opp_store(&report->deepened_off, off_ns, relaxed);
    /* [deeper] release: who sees the depth sees the time that was said with it, or a later one. */
    opp_store(&report->depth, depth, release);
    return true;
}

bool opp_report_leave_class(opp_report *report, uint64_t sequence) {
    if (!opp_report_is_inside(report, sequence)) return false;
    opp_store(&report->left_class, sequence, relaxed); /* see opp_report_end() */
    return true;
}

bool opp_report_has_left_class(const opp_report *report, uint64_t sequence) {
    return opp_load(&report->left_class, relaxed) == sequence; /* written by the caller */
}
