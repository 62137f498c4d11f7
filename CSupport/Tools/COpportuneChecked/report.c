/*
 * Target report: what a worker tells of its running job. Promised: a reading is of one job, as a whole, and
 * of the job whose number it has; a worker that has ended a job knows its thread's priority, and nobody
 * changes that until it begins the next; the time of each job in the real-time foreground is counted; who
 * sees a job lowered sees what was said with it; the monitor does not sleep beside a job that it has not
 * seen.
 *
 * The kernel is left out: a thread's priority is one word. To change it is a system call, which takes a lock
 * of the kernel: of two changes one comes first, and shows the other what was done before it.
 */
#include "checked.h"

CHECKED_CORE_BEGIN
#include "../../COpportune/alarms.c"
#include "../../COpportune/report.c"
CHECKED_CORE_END

/* A meter is a word that its thread has written. */
void opp_thread_meter_destroy(opp_thread_meter *meter) {
    *(uint32_t *)(void *)meter = 0;
}

enum {
    REPORT_JOB, REPORT_RAISE, REPORT_OWN, REPORT_START, REPORT_METER, REPORT_LOOK, REPORT_CHANGE,
    REPORT_LEAVE, REPORT_DEEPEN, REPORT_WATCH, REPORT_END, REPORT_STOP
};
/* Of the worker's threads, one after the other. */
enum { LIFE_NONE, LIFE_BEGUN, LIFE_ENDED };
enum { WORKER = 1, MONITOR = 2, OWN = 10, RAISED = 20, THREAD = 7, MOST_JOBS = 16 };

static const oppx_kind report_kinds[] = {
    {.name = "job", .weight = 4, .threads = 1 << WORKER},
    {.name = "raise", .weight = 2, .threads = 1 << WORKER}, /* a job that raises its thread for a moment */
    /* between two jobs the worker changes the priority itself */
    {.name = "own", .arguments = 1, .limit = {4}, .weight = 1, .threads = 1 << WORKER},
    {.name = "start", .weight = 1, .threads = 1 << WORKER},
    {.name = "meter", .weight = 1, .threads = 0xFC},
    {.name = "look", .weight = 2, .threads = 0xFC},
    {.name = "change", .arguments = 1, .limit = {4}, .weight = 3, .threads = 1 << MONITOR},
    {.name = "leave", .weight = 1, .threads = 1 << MONITOR},
    {.name = "deepen", .weight = 1, .threads = 1 << MONITOR},
    {.name = "watch", .weight = 1, .threads = 1 << MONITOR}, /* waits for the alarm, and looks */
    /* The thread ends and says so, and the monitor, who alone looks then, makes room for the next. */
    {.name = "end", .threads = 1 << WORKER},
    {.name = "stop", .threads = 1 << MONITOR},
};

typedef struct report_state {
    opp_report *report;
    opp_alarms *alarms;
    _Atomic(uint32_t) *priority; /* of the worker's thread */
    uint32_t begun, ended;       /* jobs: the worker's */
    uint32_t armed, leaves;      /* ... of which the worker has told the monitor, and that it is about to end */
    uint32_t applied;            /* the priority that the worker knows */
    uint32_t deepened;           /* how deep the monitor has lowered last; deeper each time */
    uint32_t seen;               /* the job that the monitor has seen last, once it had waited */
    _Atomic(uint32_t) *life;
    bool counted[MOST_JOBS + 1]; /* its time in the real-time foreground */
} report_state;
static _Thread_local report_state *report_of_thread; /* see oppx_state() */
#define state (*report_of_thread)

/* The system call. */
static void set_priority(uint32_t priority) {
    opp_swap(state.priority, priority, acq_rel);
}

static void report_setup(const oppx_program *program) {
    (void)program;
    report_of_thread = oppx_state(OPPX_STATE_TARGET, sizeof(report_state));
    memset(report_of_thread, 0, sizeof(report_state));
    state.report = oppx_allocate(sizeof(opp_report), OPP_LINE);
    memset(state.report, 0, sizeof(opp_report));
    state.life = oppx_allocate(sizeof(*state.life), 16);
    opp_store(state.life, LIFE_NONE, relaxed);
    state.alarms = opp_alarms_create();
    state.priority = oppx_allocate(sizeof(*state.priority), 16);
    state.applied = OWN;
    opp_store(state.priority, OWN, relaxed);
}

/* All fields of a job tell its number. */
static opp_report_job job_of(uint32_t number) {
    return (opp_report_job){.identity = number, .app = (opp_app *)(uintptr_t)(number * 16), .start = number,
                            .cpu_before = number, .wait_before = number, .switches_before = number,
                            .priority = number, .depth = number, .band = (uint8_t)number, .rank = (uint8_t)number,
                            .base = (uint8_t)number, .is_real_time = number & 1};
}

static void expect_known_priority(const char *when) {
    uint32_t priority = opp_load(state.priority, relaxed);
    if (priority != state.applied)
        oppx_fail("%s job %u the thread has priority %u, and the worker knows of %u", when, state.begun,
                  priority, state.applied);
}

/* As Worker.waiting() does, and WorkerReport.releasePriority(). */
static void raise_for_a_moment(void) {
    (void)opp_report_keep_priority(state.report);
    set_priority(RAISED);
    if (opp_load(state.priority, relaxed) != RAISED)
        oppx_fail("job %u keeps its thread's priority, and somebody changes it", state.begun);
    (void)opp_report_release_priority(state.report);
    uint32_t given = 0;
    while (true) {
        uint32_t changed = (uint32_t)opp_report_settled(state.report);
        uint32_t wanted = changed != 0 ? changed : state.applied;
        if (wanted == given) return;
        set_priority(wanted);
        given = wanted;
    }
}

static void report_start(void) {
    if (opp_load(state.life, acquire) != LIFE_NONE) return;
    uint64_t ns;
    if (opp_report_ordinary(state.report, &ns) != 0 || ns != 0)
        oppx_fail("a thread begins with what another has counted");
    opp_store(state.life, LIFE_BEGUN, relaxed);
    uint32_t *meter = oppx_allocate(sizeof(*meter), 16);
    *meter = THREAD;
    opp_report_start(state.report, THREAD, (opp_thread_meter *)(void *)meter);
}

static void report_end(void) {
    if (opp_load(state.life, relaxed) != LIFE_BEGUN) return;
    opp_report_add_ordinary(state.report, 1);
    opp_store(state.life, LIFE_ENDED, release);
}

static void report_stop(void) {
    if (opp_load(state.life, acquire) != LIFE_ENDED) return;
    opp_report_stop(state.report);
    opp_store(state.life, LIFE_NONE, release);
}

static void report_work(bool raises) {
    if (state.begun == MOST_JOBS) return;
    expect_known_priority("before");
    opp_report_job job = job_of(++state.begun);
    opp_report_begin(state.report, &job);
    opp_alarms_arm(state.alarms, 0, 1000);
    state.armed = state.begun;
    if (raises) raise_for_a_moment();
    state.leaves = state.begun;
    opp_report_ended ended = opp_report_end(state.report);
    if (ended.priority != 0) state.applied = (uint32_t)ended.priority;
    expect_known_priority("after");
    uint32_t depth = ended.depth;
    uint64_t off = opp_report_off_when_deepened(state.report);
    if (depth > MOST_JOBS && off < depth)
        oppx_fail("after job %u, lowered to %u, its time off the CPU is that of %u", state.begun, depth,
                  (uint32_t)off);
    if (!ended.left_class) state.counted[state.begun] = true;
    state.ended = state.begun;
}

/* The number of the job that was read; 0: none was. */
static uint32_t report_look(opp_reading *reading) {
    if (!opp_report_read(state.report, reading)) return 0;
    uint32_t number = (uint32_t)(reading->sequence + 1) / 2;
    opp_report_job is = reading->job, one = job_of(number);
    if (is.identity != one.identity || is.app != one.app || is.start != one.start
        || is.cpu_before != one.cpu_before || is.wait_before != one.wait_before
        || is.switches_before != one.switches_before || is.priority != one.priority || is.depth != one.depth
        || is.band != one.band || is.rank != one.rank || is.base != one.base || is.is_real_time != one.is_real_time)
        oppx_fail("the reading of job %u has something of another", number);
    return number;
}

static void report_meter(void) {
    int32_t thread = opp_report_thread(state.report);
    opp_thread_meter *meter = opp_report_meter(state.report);
    if (thread != 0 && meter == NULL) oppx_fail("a thread is told of before its meter");
    if (meter != NULL && *(volatile uint32_t *)(void *)meter != THREAD) oppx_fail("a meter is not what it was");
}

static void report_perform(uint32_t thread, const oppx_operation *operation) {
    (void)thread;
    opp_reading reading;
    uint32_t number;
    switch (operation->kind) {
    case REPORT_JOB:
    case REPORT_RAISE: report_work(operation->kind == REPORT_RAISE); break;
    case REPORT_OWN:
        state.applied = OWN + operation->argument[0];
        set_priority(state.applied);
        break;
    case REPORT_START: report_start(); break;
    case REPORT_METER: report_meter(); break;
    case REPORT_LOOK: report_look(&reading); break;
    case REPORT_CHANGE:
        if (report_look(&reading) == 0 || !opp_report_begin_change(state.report, reading.sequence)) return;
        /* What the system refuses, 0, changes nothing. */
        if (operation->argument[0] != 0 && !opp_report_keeps_priority(state.report))
            set_priority(operation->argument[0]);
        opp_report_end_change(state.report, operation->argument[0]);
        break;
    case REPORT_LEAVE:
        number = report_look(&reading);
        if (number != 0 && opp_report_leave_class(state.report, reading.sequence))
            state.counted[number] = true;
        break;
    case REPORT_DEEPEN:
        if (report_look(&reading) == 0) return;
        if (state.deepened == 0) state.deepened = MOST_JOBS; /* no job begins as deep */
        state.deepened++;
        opp_report_deepen(state.report, reading.sequence, state.deepened, state.deepened);
        break;
    case REPORT_END: report_end(); break;
    case REPORT_STOP: report_stop(); break;
    default:
        opp_alarms_wait(state.alarms);
        number = report_look(&reading);
        if (number != 0) state.seen = number;
    }
}

/* The monitor sleeps, so the alarm is not set. */
static void report_quiet(void) {
    if (oppx_is_stopped(MONITOR) || !oppx_is_asleep(MONITOR)) return;
    if (state.armed > state.leaves && state.seen != state.armed)
        oppx_fail("job %u runs, the monitor has not seen it, and the alarm is not set", state.armed);
}

static void report_finish(void) {
    for (uint32_t job = 1; job <= state.ended; job++)
        if (!state.counted[job]) oppx_fail("the time of job %u in the real-time foreground is not counted", job);
}

const oppx_target checked_report = {
    .name = "report",
    .summary = "What a worker tells of its job: read as a whole; its priority changed only inside of a job, "
               "not while that keeps it, and known after it.",
    .kinds = report_kinds, .kind_count = sizeof(report_kinds) / sizeof(report_kinds[0]),
    .threads_max = 4, .operations_max = 6, .stalls = 0,
    .setup = report_setup, .perform = report_perform, .quiet = report_quiet, .finish = report_finish,
};
