/* libopportune as a C program sees it: each accepted job ends once, misuse is an error, waits end. */
#define _GNU_SOURCE
#include <opportune.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(condition)                                                                                \
    do {                                                                                                \
        if (!(condition)) {                                                                             \
            fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition,               \
                    opportune_last_error());                                                            \
            exit(1);                                                                                    \
        }                                                                                               \
    } while (0)

/* What is waited for comes, or the test fails; it is long enough for any machine. */
static const int64_t in_time = 60000000000;

static opportune_scheduler *create(void) {
    opportune_scheduler *scheduler = NULL;
    CHECK(opportune_scheduler_create(NULL, &scheduler) == 0 && scheduler);
    return scheduler;
}

static opportune_app *make_app(opportune_scheduler *scheduler, int band) {
    opportune_app *app = NULL;
    CHECK(opportune_app_create(scheduler, "app", band, &app) == 0 && app);
    return app;
}

static _Atomic int runs, cancels;

static void count_run(void *context) {
    atomic_fetch_add((_Atomic int *)context, 1);
}

static void count_cancel(void *context) {
    (void)context;
    atomic_fetch_add(&cancels, 1);
}

static opportune_app *apps[2];

static void *submit_many(void *unused) {
    for (int i = 0; i < 1000; i++)
        CHECK(opportune_submit_with(apps[i % 2], i % 5, count_run, count_cancel, &runs) == 0);
    return unused;
}

/* R-CPU-01: jobs of all bands and priorities run once each, from many threads. */
static void test_jobs(void) {
    opportune_scheduler *scheduler = create();
    apps[0] = make_app(scheduler, OPPORTUNE_FOREGROUND);
    apps[1] = make_app(scheduler, OPPORTUNE_BACKGROUND);
    CHECK(opportune_scheduler_width(scheduler) >= 1);
    pthread_t threads[4];
    atomic_store(&runs, 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, submit_many, NULL) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(opportune_scheduler_wait(scheduler, in_time) == 0);
    CHECK(atomic_load(&runs) == 4000);

    opportune_app_statistics figures;
    CHECK(opportune_app_read_statistics(apps[0], &figures, sizeof figures) == 0);
    CHECK(figures.submitted == 2000 && figures.pending == 0 && figures.cancelled == 0);
    /* A program of an earlier header gets what it knows, and nothing behind it is touched. */
    memset(&figures, 0x55, sizeof figures);
    CHECK(opportune_app_read_statistics(apps[0], &figures, 8) == 0);
    CHECK(figures.submitted == 2000 && figures.pending == 0x5555555555555555);
    opportune_scheduler_statistics all;
    CHECK(opportune_scheduler_read_statistics(scheduler, &all, sizeof all, in_time) == 0);
    CHECK(all.apps == 2 && all.pending == 0 && all.queue_memory > 0);

    CHECK(opportune_app_release(apps[0]) == 0 && opportune_app_release(apps[1]) == 0);
    CHECK(opportune_scheduler_destroy(scheduler, in_time) == 0);
}

static _Atomic bool is_inside, may_leave;

static void stay(void *unused) {
    (void)unused;
    atomic_store(&is_inside, true);
    while (!atomic_load(&may_leave)) sched_yield();
}

/* R-FTS-09: a suspended app executes nothing; resumed, it runs all. */
static void test_suspension(void) {
    opportune_scheduler *scheduler = create();
    opportune_app *app = make_app(scheduler, OPPORTUNE_FOREGROUND);
    CHECK(opportune_app_wait_suspended(app, in_time) == -EAGAIN);
    CHECK(opportune_app_activity(app) == OPPORTUNE_ACTIVE);
    atomic_store(&is_inside, false);
    atomic_store(&may_leave, false);
    CHECK(opportune_submit(app, stay, NULL) == 0);
    while (!atomic_load(&is_inside)) sched_yield();
    CHECK(opportune_app_suspend(app) == 0);
    CHECK(opportune_app_activity(app) == OPPORTUNE_SUSPENDING);
    CHECK(opportune_app_wait_suspended(app, 1000000) == -ETIMEDOUT);
    atomic_store(&may_leave, true);
    CHECK(opportune_app_wait_suspended(app, in_time) == 0);
    CHECK(opportune_app_activity(app) == OPPORTUNE_SUSPENDED);

    atomic_store(&runs, 0);
    for (int i = 0; i < 100; i++) CHECK(opportune_submit(app, count_run, &runs) == 0);
    CHECK(opportune_app_wait(app, 1000000) == -ETIMEDOUT && atomic_load(&runs) == 0);
    CHECK(strstr(opportune_last_error(), "suspended") && strstr(opportune_last_error(), "after 1 ms"));
    CHECK(opportune_app_background(app) == 0 && opportune_app_band(app) == OPPORTUNE_BACKGROUND);
    CHECK(opportune_app_activate(app) == 0 && opportune_app_band(app) == OPPORTUNE_FOREGROUND);
    CHECK(opportune_app_resume(app) == 0);
    CHECK(opportune_app_wait(app, in_time) == 0 && atomic_load(&runs) == 100);
    CHECK(opportune_app_release(app) == 0);
    CHECK(opportune_scheduler_destroy(scheduler, in_time) == 0);
}

/* The end of an app, and of a scheduler, cancels each job that has not begun, once. */
static void test_cancellation(void) {
    opportune_scheduler *scheduler = create();
    opportune_app *ended = make_app(scheduler, OPPORTUNE_FOREGROUND);
    opportune_app *left = make_app(scheduler, OPPORTUNE_BACKGROUND);
    opportune_strand *strand = NULL;
    CHECK(opportune_strand_create(ended, "log", OPPORTUNE_PRIORITY_NORMAL, OPPORTUNE_NO_CEILING, &strand) ==
          0);
    atomic_store(&runs, 0);
    atomic_store(&cancels, 0);
    CHECK(opportune_app_suspend(ended) == 0 && opportune_app_suspend(left) == 0);
    for (int i = 0; i < 100; i++) {
        CHECK(opportune_submit_with(ended, OPPORTUNE_PRIORITY_LOW, count_run, count_cancel, &runs) == 0);
        CHECK(opportune_strand_submit_with(strand, count_run, count_cancel, &runs) == 0);
    }
    CHECK(opportune_app_terminate(ended, in_time) == 0);
    CHECK(atomic_load(&runs) == 0 && atomic_load(&cancels) == 200);
    CHECK(opportune_app_terminate(ended, 0) == 0);
    CHECK(opportune_submit(ended, count_run, &runs) == -ESHUTDOWN);
    CHECK(opportune_strand_submit(strand, count_run, &runs) == -ESHUTDOWN);
    CHECK(opportune_app_suspend(ended) == -ESHUTDOWN && opportune_app_resume(ended) == -ESHUTDOWN);
    CHECK(strstr(opportune_last_error(), "terminated"));

    for (int i = 0; i < 100; i++)
        CHECK(opportune_submit_with(left, OPPORTUNE_PRIORITY_HIGH, count_run, count_cancel, &runs) == 0);
    CHECK(opportune_scheduler_destroy(scheduler, in_time) == 0);
    CHECK(atomic_load(&runs) == 0 && atomic_load(&cancels) == 300);
    CHECK(opportune_submit(left, count_run, &runs) == -ESHUTDOWN);
    CHECK(opportune_app_wait(left, in_time) == 0);
    CHECK(opportune_scheduler_wait(scheduler, 0) == -EINVAL);
    CHECK(opportune_strand_release(strand) == 0);
    CHECK(opportune_app_release(ended) == 0 && opportune_app_release(left) == 0);
}

typedef struct series {
    opportune_strand *strand;
    int count;
    bool in_order, is_inside;
} series;

typedef struct step {
    series *series;
    int number;
} step;

static void take_step(void *context) {
    step *own = context;
    series *all = own->series;
    if (all->is_inside || own->number != all->count || opportune_strand_is_current(all->strand) != 1)
        all->in_order = false;
    all->is_inside = true;
    all->count++;
    all->is_inside = false;
}

/* R-CPU-02: a strand runs its jobs one by one, in order. */
static void test_strand(void) {
    opportune_scheduler *scheduler = create();
    opportune_app *app = make_app(scheduler, OPPORTUNE_BACKGROUND);
    series all = {.in_order = true};
    CHECK(opportune_strand_create(app, NULL, OPPORTUNE_PRIORITY_HIGH, OPPORTUNE_FOREGROUND, &all.strand) ==
          0);
    CHECK(opportune_strand_is_current(all.strand) == 0);
    static step steps[1000];
    for (int i = 0; i < 1000; i++) {
        steps[i] = (step){&all, i};
        CHECK(opportune_strand_submit(all.strand, take_step, &steps[i]) == 0);
    }
    CHECK(opportune_app_wait(app, in_time) == 0);
    CHECK(all.in_order && all.count == 1000);
    CHECK(opportune_strand_release(all.strand) == 0);
    CHECK(opportune_app_release(app) == 0);
    CHECK(opportune_scheduler_destroy(scheduler, in_time) == 0);
}

/* A job cannot wait for itself. */
typedef struct inner {
    opportune_scheduler *scheduler;
    opportune_app *app;
    int results[5];
} inner;

static void wait_inside(void *context) {
    inner *own = context;
    own->results[0] = opportune_scheduler_wait(own->scheduler, in_time);
    own->results[1] = opportune_app_wait(own->app, in_time);
    own->results[2] = opportune_scheduler_destroy(own->scheduler, in_time);
    own->results[3] = opportune_app_wait_suspended(own->app, in_time);
    own->results[4] = opportune_app_terminate(own->app, in_time);
}

static void test_deadlock(void) {
    opportune_scheduler *scheduler = create();
    inner own = {scheduler, make_app(scheduler, OPPORTUNE_FOREGROUND), {0}};
    CHECK(opportune_submit(own.app, wait_inside, &own) == 0);
    CHECK(opportune_app_wait(own.app, in_time) == 0);
    for (int i = 0; i < 5; i++) CHECK(own.results[i] == -EDEADLK);
    /* The job has terminated its app all the same. */
    CHECK(opportune_submit(own.app, wait_inside, &own) == -ESHUTDOWN);
    CHECK(opportune_app_release(own.app) == 0);
    CHECK(opportune_scheduler_destroy(scheduler, in_time) == 0);
}

/* Every setting out of its range is refused, and named. */
static void refuse(const opportune_settings *settings, const char *name) {
    opportune_scheduler *scheduler = (opportune_scheduler *)1;
    CHECK(opportune_scheduler_create(settings, &scheduler) == -EINVAL);
    CHECK(scheduler == NULL && strstr(opportune_last_error(), name));
}

static void test_settings(void) {
    opportune_settings defaults, changed;
    CHECK(opportune_settings_init(&defaults, sizeof defaults) == 0);
    CHECK(defaults.size == sizeof defaults && defaults.quantum == 10000000 && defaults.overlap == 1);
#define REFUSE(field, value)                 \
    do {                                     \
        changed = defaults;                  \
        changed.field = (value);             \
        refuse(&changed, "");                \
    } while (0)
    REFUSE(size, 0);
    REFUSE(size, 3);
    REFUSE(size, 1u << 30);
    REFUSE(workers, 257);
    REFUSE(workers, UINT32_MAX);
    REFUSE(name, "");
    REFUSE(name, "\xff");
    REFUSE(name, "a\nb");
    REFUSE(quantum, 0);
    REFUSE(quantum, UINT64_MAX);
    REFUSE(blocking_gap, 0);
    REFUSE(off_cpu_share, 0);
    REFUSE(off_cpu_share, 1e300);
    REFUSE(off_cpu_share, __builtin_nan(""));
    REFUSE(demotion_step, 0);
    REFUSE(demotion_step, UINT32_MAX);
    REFUSE(recovery, -1);
    REFUSE(recovery, 3);
    REFUSE(overlap, 22);
    REFUSE(background_class, 3);
    REFUSE(demoted_per_core, 0);
    REFUSE(max_apps, 0);
    REFUSE(max_apps, 32768);
    REFUSE(spare_delay, 1);
    REFUSE(real_time, 2);
    REFUSE(statistics, UINT32_MAX);
    REFUSE(foreground_quantum, 99999);
    REFUSE(foreground_quantum, UINT64_MAX);
    REFUSE(foreground_share, 0.91);
    REFUSE(foreground_share, __builtin_nan(""));
#undef REFUSE
    changed = defaults;
    changed.recovery = 7;
    refuse(&changed, "recovery is 7");
    /* What an earlier header has no room for keeps its default. */
    changed = defaults;
    changed.size = offsetof(opportune_settings, foreground_quantum);
    changed.foreground_share = 7;
    opportune_scheduler *scheduler = NULL;
    CHECK(opportune_scheduler_create(&changed, &scheduler) == 0);
    CHECK(opportune_scheduler_destroy(scheduler, in_time) == 0);
    /* What a later header has behind the end, and this library does not know. */
    struct {
        opportune_settings known;
        uint64_t later;
    } longer = {defaults, 0};
    longer.known.size = sizeof longer;
    scheduler = NULL;
    CHECK(opportune_scheduler_create(&longer.known, &scheduler) == 0);
    CHECK(opportune_scheduler_destroy(scheduler, in_time) == 0);
    longer.later = 1;
    refuse(&longer.known, "does not know");

    changed = defaults;
    changed.workers = 2;
    changed.max_apps = 1;
    changed.quantum = 5000000;
    changed.recovery = OPPORTUNE_RECOVERY_NEVER;
    changed.background_class = OPPORTUNE_BACKGROUND_NICE19;
    changed.name = "small";
    CHECK(opportune_scheduler_create(&changed, &scheduler) == 0);
    CHECK(opportune_scheduler_width(scheduler) == 2);
    opportune_app *app = make_app(scheduler, OPPORTUNE_BACKGROUND), *second = app;
    CHECK(opportune_app_create(scheduler, "b", OPPORTUNE_BACKGROUND, &second) == -ENOSPC && second == NULL);
    CHECK(opportune_app_set_band(app, OPPORTUNE_REAL_TIME) == -ENOTSUP);
    CHECK(opportune_app_release(app) == 0);
    CHECK(opportune_scheduler_destroy(scheduler, in_time) == 0);
}

/* What was lowered has again the nice value that it had, where the kernel lets it. */
static void *raise_own(void *scheduler) {
    int nice = getpriority(PRIO_PROCESS, 0);
    CHECK(setpriority(PRIO_PROCESS, 0, 15) == 0 && getpriority(PRIO_PROCESS, 0) == 15);
    int raised = opportune_scheduler_put_thread_in_foreground(scheduler);
    CHECK(raised == 0 || raised == 1);
    CHECK(getpriority(PRIO_PROCESS, 0) == (raised == 1 ? nice : 15));
    return NULL;
}

/* R-CPU-01: a thread of the program's own is of the foreground's class. */
static void test_own_thread(void) {
    opportune_scheduler *scheduler = create();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, raise_own, scheduler) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(opportune_scheduler_put_thread_in_foreground(NULL) == -EINVAL);
    CHECK(opportune_scheduler_destroy(scheduler, in_time) == 0);
}

static int class_of_job, class_at_end;

static int kernel_class(void) {
    return sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
}

static void stay_real_time(void *unused) {
    (void)unused;
    class_of_job = kernel_class();
    while (class_of_job == SCHED_RR && kernel_class() == SCHED_RR) continue;
    class_at_end = kernel_class();
}

static opportune_scheduler_statistics read_all(opportune_scheduler *scheduler) {
    opportune_scheduler_statistics all;
    CHECK(opportune_scheduler_read_statistics(scheduler, &all, sizeof all, in_time) == 0);
    return all;
}

/* R-CPU-01, R-CPU-06: a foreground job begins at SCHED_RR where that was asked for and is allowed, and leaves
 * it with its quantum; all leave it with their share of the CPU. */
static void test_real_time_foreground(void) {
    opportune_settings settings;
    CHECK(opportune_settings_init(&settings, sizeof settings) == 0);
    CHECK(settings.foreground_quantum == 0 && settings.foreground_share == 0.7);
    opportune_scheduler *scheduler = create();
    CHECK(read_all(scheduler).real_time_access == OPPORTUNE_ACCESS_UNASKED);
    CHECK(opportune_scheduler_destroy(scheduler, in_time) == 0);

    settings.foreground_quantum = 10000000;
    settings.foreground_share = 0.05; /* half of this quantum */
    CHECK(opportune_scheduler_create(&settings, &scheduler) == 0);
    uint32_t access = read_all(scheduler).real_time_access;
    CHECK(access >= OPPORTUNE_ACCESS_REFUSED && access <= OPPORTUNE_ACCESS_ROUND_ROBIN);
    if (access == OPPORTUNE_ACCESS_ROUND_ROBIN) {
        opportune_app *app = make_app(scheduler, OPPORTUNE_FOREGROUND);
        CHECK(opportune_submit(app, stay_real_time, NULL) == 0);
        CHECK(opportune_app_wait(app, in_time) == 0);
        CHECK(class_of_job == SCHED_RR && class_at_end == SCHED_OTHER);
        CHECK(read_all(scheduler).real_time_left > 0);
        /* Five quanta are far from the share of another setting. */
        for (int i = 0; i < 4 && !read_all(scheduler).real_time_exhausted; i++) {
            CHECK(opportune_submit(app, stay_real_time, NULL) == 0);
            CHECK(opportune_app_wait(app, in_time) == 0);
        }
        CHECK(read_all(scheduler).real_time_exhausted > 0);
        CHECK(opportune_app_release(app) == 0);
    } else {
        puts("skipped: jobs at SCHED_RR, which this process may not have");
    }
    CHECK(opportune_scheduler_destroy(scheduler, in_time) == 0);
}

/* NULL, numbers out of range, released and invented handles: -EINVAL, and no trap. */
static void test_misuse(void) {
    opportune_scheduler *scheduler = create();
    opportune_app *app = make_app(scheduler, OPPORTUNE_FOREGROUND), *other = NULL;
    opportune_strand *strand = NULL;
    opportune_app_statistics figures;
    opportune_scheduler_statistics all;
    CHECK(opportune_version() == OPPORTUNE_VERSION);
    CHECK(opportune_settings_init(NULL, sizeof(opportune_settings)) == -EINVAL);
    CHECK(opportune_scheduler_create(NULL, NULL) == -EINVAL);
    CHECK(opportune_scheduler_destroy(NULL, 0) == 0 && opportune_app_release(NULL) == 0);
    CHECK(opportune_strand_release(NULL) == 0);
    CHECK(opportune_app_create(scheduler, "a", OPPORTUNE_FOREGROUND, NULL) == -EINVAL);
    CHECK(opportune_app_create(scheduler, "\xc0\x80", OPPORTUNE_FOREGROUND, &other) == -EINVAL);
    CHECK(opportune_app_create(scheduler, NULL, OPPORTUNE_FOREGROUND, &other) == 0);
    CHECK(opportune_app_release(other) == 0);
    int wrong[] = {-1, 3, 256, 257, INT32_MIN, INT32_MAX};
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(opportune_app_create(scheduler, "a", wrong[i], &other) == -EINVAL && other == NULL);
        CHECK(opportune_app_set_band(app, wrong[i]) == -EINVAL);
        int beyond = wrong[i] == 3 ? 5 : wrong[i];
        CHECK(opportune_submit_with(app, beyond, count_run, NULL, &runs) == -EINVAL);
        CHECK(opportune_strand_create(app, "s", beyond, OPPORTUNE_NO_CEILING, &strand) == -EINVAL);
        int ceiling = wrong[i] == -1 ? -2 : wrong[i];
        CHECK(opportune_strand_create(app, "s", OPPORTUNE_PRIORITY_LOW, ceiling, &strand) == -EINVAL);
        CHECK(strand == NULL);
    }
    CHECK(opportune_submit(app, NULL, NULL) == -EINVAL && strstr(opportune_last_error(), "run is NULL"));
    CHECK(opportune_strand_create(app, "s", 0, -1, NULL) == -EINVAL);
    CHECK(opportune_app_read_statistics(app, NULL, 8) == -EINVAL);
    CHECK(opportune_app_read_statistics(app, &figures, 0) == -EINVAL);
    CHECK(opportune_scheduler_read_statistics(scheduler, NULL, 8, in_time) == -EINVAL);
    CHECK(opportune_scheduler_read_statistics(scheduler, &all, 0, in_time) == -EINVAL);

    void *strange[] = {NULL, (void *)1, (void *)-1, &figures, scheduler, (char *)scheduler + 1,
                       (char *)app + 1, (char *)app + (1ll << 32), (char *)scheduler + (1ll << 24)};
    for (unsigned i = 0; i < sizeof strange / sizeof *strange; i++) {
        opportune_app *none = strange[i];
        CHECK(opportune_submit(none, count_run, &runs) == -EINVAL);
        CHECK(opportune_app_set_band(none, 0) == -EINVAL && opportune_app_band(none) == -EINVAL);
        CHECK(opportune_app_suspend(none) == -EINVAL && opportune_app_resume(none) == -EINVAL);
        CHECK(opportune_app_activity(none) == -EINVAL && opportune_app_wait(none, 0) == -EINVAL);
        CHECK(opportune_app_activate(none) == -EINVAL && opportune_app_background(none) == -EINVAL);
        CHECK(opportune_app_wait_suspended(none, 0) == -EINVAL);
        CHECK(opportune_app_terminate(none, 0) == -EINVAL);
        CHECK(opportune_app_read_statistics(none, &figures, sizeof figures) == -EINVAL);
        CHECK(opportune_strand_create(none, "s", 0, -1, &strand) == -EINVAL);
        CHECK(!none || opportune_app_release(none) == -EINVAL);
        opportune_strand *no_strand = (void *)none;
        CHECK(opportune_strand_submit(no_strand, count_run, &runs) == -EINVAL);
        CHECK(opportune_strand_is_current(no_strand) == -EINVAL);
        CHECK(!none || opportune_strand_release(no_strand) == -EINVAL);
        opportune_scheduler *no_scheduler = none == (void *)scheduler ? (void *)app : (void *)none;
        CHECK(opportune_app_create(no_scheduler, "a", 0, &other) == -EINVAL);
        CHECK(opportune_scheduler_wait(no_scheduler, 0) == -EINVAL);
        CHECK(opportune_scheduler_width(no_scheduler) == -EINVAL);
        CHECK(opportune_scheduler_read_statistics(no_scheduler, &all, sizeof all, 0) == -EINVAL);
        CHECK(!no_scheduler || opportune_scheduler_destroy(no_scheduler, 0) == -EINVAL);
    }
    /* A released handle stays stale, also where its slot is used again. */
    CHECK(opportune_app_release(app) == 0 && opportune_app_release(app) == -EINVAL);
    for (int i = 0; i < 100; i++) {
        opportune_app *next = make_app(scheduler, OPPORTUNE_FOREGROUND);
        CHECK(next != app && opportune_submit(app, count_run, &runs) == -EINVAL);
        CHECK(opportune_app_release(next) == 0);
    }
    CHECK(opportune_scheduler_destroy(scheduler, in_time) == 0);
    CHECK(opportune_scheduler_destroy(scheduler, in_time) == -EINVAL);
}

/* Threads that use a handle while another releases it get 0 or -EINVAL. */
static _Atomic(opportune_app *) shared;
static _Atomic bool is_over;
static _Atomic long accepted, refused;

static void *use_shared(void *unused) {
    while (!atomic_load(&is_over)) {
        int result = opportune_submit(atomic_load(&shared), count_run, &runs);
        CHECK(result == 0 || result == -EINVAL);
        atomic_fetch_add(result == 0 ? &accepted : &refused, 1);
    }
    return unused;
}

static void test_release_in_use(void) {
    opportune_scheduler *scheduler = create();
    atomic_store(&runs, 0);
    atomic_store(&shared, make_app(scheduler, OPPORTUNE_FOREGROUND));
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, use_shared, NULL) == 0);
    for (int i = 0; i < 500; i++) {
        long before = atomic_load(&accepted);
        CHECK(opportune_app_release(atomic_load(&shared)) == 0);
        atomic_store(&shared, make_app(scheduler, OPPORTUNE_FOREGROUND));
        while (atomic_load(&accepted) == before) sched_yield();
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(opportune_scheduler_wait(scheduler, in_time) == 0);
    CHECK(atomic_load(&runs) == (int)atomic_load(&accepted));
    CHECK(opportune_app_release(atomic_load(&shared)) == 0);
    CHECK(opportune_scheduler_destroy(scheduler, in_time) == 0);
}

/* A job that does not end is told by its app's name, and the wait ends. */
static void test_destroy_in_time(void) {
    opportune_scheduler *scheduler = create();
    opportune_app *app = NULL;
    CHECK(opportune_app_create(scheduler, "stubborn", OPPORTUNE_FOREGROUND, &app) == 0);
    atomic_store(&is_inside, false);
    atomic_store(&may_leave, false);
    CHECK(opportune_submit(app, stay, NULL) == 0);
    while (!atomic_load(&is_inside)) sched_yield();
    CHECK(opportune_scheduler_destroy(scheduler, 1000000) == -ETIMEDOUT);
    CHECK(strstr(opportune_last_error(), "stubborn"));
    atomic_store(&may_leave, true);
    CHECK(opportune_app_wait(app, in_time) == 0);
    CHECK(opportune_app_release(app) == 0);
}

/* Files, by waiting and by completion: what was written is read. */
typedef struct told {
    _Atomic int count;
    int64_t result;
    opportune_app *app;
    int waited;
} told;

static void tell(void *context, int64_t result) {
    told *own = context;
    own->result = result;
    own->waited = opportune_app_wait(own->app, in_time);
    atomic_fetch_add(&own->count, 1);
}

static void test_files(void) {
    opportune_scheduler *scheduler = create();
    opportune_app *app = make_app(scheduler, OPPORTUNE_BACKGROUND);
    char path[] = "/tmp/libopportune-XXXXXX", bytes[64] = "";
    int made = mkstemp(path);
    CHECK(made >= 0);
    CHECK(opportune_open(app, "/none/such", O_RDONLY, 0, in_time, NULL, NULL) == -ENOENT);
    int64_t file = opportune_open(app, path, O_RDWR | O_TRUNC, 0600, in_time, NULL, NULL);
    CHECK(file >= 0);
    CHECK(opportune_write(app, (int)file, "0123456789", 10, 0, in_time, NULL, NULL) == 10);
    CHECK(opportune_sync(app, (int)file, in_time, NULL, NULL) == 0);
    CHECK(opportune_read(app, (int)file, bytes, sizeof bytes, 6, in_time, NULL, NULL) == 4);
    CHECK(memcmp(bytes, "6789", 5) == 0);
    CHECK(opportune_read(app, (int)file, bytes, 4, -1, in_time, NULL, NULL) == 4);
    CHECK(memcmp(bytes, "0123", 4) == 0);
    CHECK(opportune_read(app, (int)file, bytes, 4, 10, in_time, NULL, NULL) == 0);

    told own = {.app = app};
    CHECK(opportune_read(app, (int)file, bytes, 3, 7, in_time, tell, &own) == 0);
    CHECK(opportune_app_wait(app, in_time) == 0);
    CHECK(atomic_load(&own.count) == 1 && own.result == 3 && memcmp(bytes, "789", 3) == 0);
    CHECK(own.waited == -EDEADLK); /* a completion is a job of the app */

    /* A suspended app's request waits; its completion is not told before. */
    CHECK(opportune_app_suspend(app) == 0);
    own.result = 0;
    CHECK(opportune_read(app, (int)file, bytes, 2, 0, -1, tell, &own) == 0);
    CHECK(opportune_app_wait(app, 1000000) == -ETIMEDOUT && atomic_load(&own.count) == 1);
    CHECK(opportune_app_resume(app) == 0 && opportune_app_wait(app, in_time) == 0);
    CHECK(atomic_load(&own.count) == 2 && own.result == 2);
    CHECK(opportune_close(app, (int)file, NULL, NULL) == 0);
    CHECK(opportune_read(app, (int)file, bytes, 2, 0, in_time, NULL, NULL) == -EBADF);
    close(made);
    unlink(path);
    CHECK(opportune_app_release(app) == 0);
    CHECK(opportune_scheduler_destroy(scheduler, in_time) == 0);
}

/* R-FTS-07: sockets, and what becomes of a request whose app ends. */
static void test_sockets(void) {
    opportune_scheduler *scheduler = create();
    opportune_app *server = make_app(scheduler, OPPORTUNE_FOREGROUND);
    opportune_app *client = make_app(scheduler, OPPORTUNE_BACKGROUND);
    opportune_listener *listener = NULL, *second = (void *)1;
    CHECK(opportune_listen(server, "127.0.0.1:0", 16, &listener) == 0);
    int port = opportune_listener_port(listener);
    CHECK(port > 0);
    char address[32], bytes[8] = "";
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    CHECK(opportune_listen(server, address, 16, &second) == -EADDRINUSE && second == NULL);
    CHECK(opportune_accept(listener, 1000000, NULL, NULL) == -ETIMEDOUT);

    told accepted = {.app = server};
    CHECK(opportune_accept(listener, in_time, tell, &accepted) == 0);
    int64_t near = opportune_connect(client, address, in_time, NULL, NULL);
    CHECK(near >= 0);
    CHECK(opportune_app_wait(server, in_time) == 0 && atomic_load(&accepted.count) == 1);
    int64_t far = accepted.result;
    CHECK(far >= 0 && far != near);
    CHECK(opportune_send(client, (int)near, "hello", 5, in_time, NULL, NULL) == 5);
    CHECK(opportune_receive(server, (int)far, bytes, sizeof bytes, in_time, NULL, NULL) == 5);
    CHECK(memcmp(bytes, "hello", 6) == 0);
    CHECK(opportune_receive(server, (int)far, bytes, 1, 1000000, NULL, NULL) == -ETIMEDOUT);

    /* One direction ends: the peer reads what was sent and the end of it, and the other goes on. */
    CHECK(opportune_send(server, (int)far, "x", 1, in_time, NULL, NULL) == 1);
    CHECK(opportune_shutdown(server, (int)far, OPPORTUNE_SENDING, in_time, NULL, NULL) == 0);
    CHECK(opportune_receive(client, (int)near, bytes, 1, in_time, NULL, NULL) == 1);
    CHECK(opportune_receive(client, (int)near, bytes, 1, in_time, NULL, NULL) == 0);
    CHECK(opportune_send(server, (int)far, "x", 1, in_time, NULL, NULL) == -EPIPE);
    CHECK(opportune_send(client, (int)near, "y", 1, in_time, NULL, NULL) == 1);
    CHECK(opportune_receive(server, (int)far, bytes, 1, in_time, NULL, NULL) == 1);
    int64_t other = opportune_connect(client, address, in_time, NULL, NULL);
    int64_t peer = opportune_accept(listener, in_time, NULL, NULL);
    told shut = {.app = client};
    CHECK(opportune_shutdown(client, (int)other, OPPORTUNE_BOTH, in_time, tell, &shut) == 0);
    CHECK(opportune_app_wait(client, in_time) == 0 && atomic_load(&shut.count) == 1 && shut.result == 0);
    CHECK(opportune_receive(client, (int)other, bytes, 1, in_time, NULL, NULL) == 0);
    CHECK(opportune_receive(server, (int)peer, bytes, 1, in_time, NULL, NULL) == 0);
    CHECK(opportune_close(server, (int)peer, NULL, NULL) == 0);
    near = opportune_connect(client, address, in_time, NULL, NULL);
    CHECK(opportune_close(server, (int)far, NULL, NULL) == 0);
    far = opportune_accept(listener, in_time, NULL, NULL);
    CHECK(near >= 0 && far >= 0);

    told ended = {.app = client};
    CHECK(opportune_receive(client, (int)near, bytes, 1, -1, tell, &ended) == 0);
    CHECK(opportune_app_terminate(client, in_time) == 0);
    CHECK(atomic_load(&ended.count) == 1 && ended.result == -ESHUTDOWN);
    CHECK(opportune_send(client, (int)near, "x", 1, in_time, NULL, NULL) == -ESHUTDOWN);
    /* Its descriptors were closed. */
    CHECK(opportune_receive(server, (int)far, bytes, 1, in_time, NULL, NULL) == 0);
    told cut = {.app = server};
    CHECK(opportune_accept(listener, -1, tell, &cut) == 0);
    CHECK(opportune_scheduler_destroy(scheduler, in_time) == 0);
    CHECK(opportune_app_wait(server, in_time) == 0);
    CHECK(atomic_load(&cut.count) == 1 && cut.result == -ESHUTDOWN);
    CHECK(opportune_connect(server, address, in_time, NULL, NULL) == -ESHUTDOWN);
    CHECK(opportune_listener_close(listener) <= 0 && opportune_listener_close(listener) == -EINVAL);
    CHECK(opportune_app_release(server) == 0 && opportune_app_release(client) == 0);
}

/* The kernel's value of an option. */
static int option(int socket, int level, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    CHECK(getsockopt(socket, level, name, &value, &size) == 0);
    return value;
}

/* A host by its name, and options of sockets. */
static void test_hosts_and_options(void) {
    opportune_scheduler *scheduler = create();
    opportune_app *app = make_app(scheduler, OPPORTUNE_FOREGROUND);
    opportune_listener *listener = NULL, *beside = NULL;
    char address[OPPORTUNE_ADDRESS_SIZE], bytes[4] = "";
    CHECK(opportune_listen_with(app, "127.0.0.1:0", 16, 0, 1, &listener) == 0);
    int port = opportune_listener_port(listener);
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    CHECK(opportune_listen(app, address, 16, &beside) == -EADDRINUSE);
    CHECK(opportune_listen_with(app, address, 16, 1, 1, &beside) == 0);
    CHECK(opportune_listener_close(beside) == 0);

    int near = (int)opportune_connect_host(app, "localhost", port, in_time, NULL, NULL);
    CHECK(near >= 0);
    int far = (int)opportune_accept(listener, in_time, NULL, NULL);
    CHECK(far >= 0);
    CHECK(opportune_send(app, near, "name", 4, in_time, NULL, NULL) == 4);
    CHECK(opportune_receive(app, far, bytes, sizeof bytes, in_time, NULL, NULL) == 4);
    CHECK(memcmp(bytes, "name", 4) == 0);
    told found = {.app = app};
    CHECK(opportune_connect_host(app, "127.0.0.1", port, in_time, tell, &found) == 0);
    CHECK(opportune_app_wait(app, in_time) == 0 && atomic_load(&found.count) == 1 && found.result >= 0);
    CHECK(opportune_connect_host(app, "no host", port, in_time, NULL, NULL) == -EHOSTUNREACH);
    CHECK(strstr(opportune_last_error(), "no host"));

    CHECK(option(far, IPPROTO_TCP, TCP_NODELAY) == 0 && option(near, IPPROTO_TCP, TCP_NODELAY) != 0);
    CHECK(opportune_get_socket_option(app, near, OPPORTUNE_NO_DELAY) == 1);
    CHECK(opportune_get_socket_option(app, far, OPPORTUNE_NO_DELAY) == 0);
    CHECK(opportune_set_socket_option(app, near, OPPORTUNE_NO_DELAY, 0) == 0);
    CHECK(option(near, IPPROTO_TCP, TCP_NODELAY) == 0);
    struct {
        int option, name;
    } flags[] = {{OPPORTUNE_KEEP_ALIVE, SO_KEEPALIVE},
                 {OPPORTUNE_REUSE_ADDRESS, SO_REUSEADDR},
                 {OPPORTUNE_REUSE_PORT, SO_REUSEPORT}};
    for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++)
        for (int on = 1; on >= 0; on--) {
            CHECK(opportune_set_socket_option(app, near, flags[i].option, on) == 0);
            CHECK(option(near, SOL_SOCKET, flags[i].name) == on);
            CHECK(opportune_get_socket_option(app, near, flags[i].option) == on);
        }
    CHECK(opportune_set_socket_option(app, near, OPPORTUNE_RECEIVE_BUFFER, 8192) == 0);
    CHECK(opportune_set_socket_option(app, near, OPPORTUNE_SEND_BUFFER, 16384) == 0);
    CHECK(option(near, SOL_SOCKET, SO_RCVBUF) == 16384 && option(near, SOL_SOCKET, SO_SNDBUF) == 32768);
    CHECK(opportune_get_socket_option(app, near, OPPORTUNE_RECEIVE_BUFFER) == 16384);
    CHECK(opportune_get_socket_option(app, near, OPPORTUNE_SEND_BUFFER) == 32768);

    CHECK(opportune_set_socket_option(app, near, OPPORTUNE_KEEP_ALIVE, 2) == -EINVAL);
    CHECK(strstr(opportune_last_error(), "value is 2"));
    CHECK(opportune_set_socket_option(app, near, OPPORTUNE_SEND_BUFFER, -1) == -EINVAL);
    CHECK(opportune_set_socket_option(app, near, OPPORTUNE_SEND_BUFFER, INT64_MAX) == -EINVAL);
    CHECK(opportune_set_socket_option(app, near, 6, 0) == -EINVAL);
    CHECK(opportune_get_socket_option(app, near, -1) == -EINVAL);
    CHECK(opportune_get_socket_option(app, -1, OPPORTUNE_NO_DELAY) == -EBADF);
    CHECK(opportune_get_socket_option(NULL, near, OPPORTUNE_NO_DELAY) == -EINVAL);
    CHECK(opportune_listener_close(listener) == 0);
    CHECK(opportune_app_terminate(app, in_time) == 0);
    CHECK(opportune_set_socket_option(app, near, OPPORTUNE_NO_DELAY, 1) == -ESHUTDOWN);
    CHECK(opportune_connect_host(app, "localhost", port, in_time, NULL, NULL) == -ESHUTDOWN);
    CHECK(opportune_app_release(app) == 0);
    CHECK(opportune_scheduler_destroy(scheduler, in_time) == 0);
}

/* R-FTS-07: datagrams say who sent them, also those that wait for an app that is suspended. */
static void test_datagrams(void) {
    opportune_scheduler *scheduler = create();
    opportune_app *app = make_app(scheduler, OPPORTUNE_FOREGROUND);
    char here[OPPORTUNE_ADDRESS_SIZE], there[OPPORTUNE_ADDRESS_SIZE], sender[OPPORTUNE_ADDRESS_SIZE];
    char bytes[8] = "";
    int near = opportune_datagram_socket(app, "127.0.0.1:0", 1);
    int far = opportune_datagram_socket(app, "127.0.0.1:0", 0);
    CHECK(near >= 0 && far >= 0);
    CHECK(opportune_socket_address(app, near, here) == 0 && opportune_socket_address(app, far, there) == 0);
    CHECK(strncmp(here, "127.0.0.1:", 10) == 0 && atoi(here + 10) > 0 && strcmp(here, there) != 0);
    CHECK(opportune_datagram_socket(app, there, 1) == -EADDRINUSE);
    int beside = opportune_datagram_socket(app, here, 1);
    CHECK(beside >= 0 && opportune_close(app, beside, NULL, NULL) == 0);

    CHECK(opportune_send_to(app, near, "hello", 5, there, in_time, NULL, NULL) == 5);
    CHECK(opportune_receive_from(app, far, bytes, 8, sender, in_time, NULL, NULL) == 5);
    CHECK(memcmp(bytes, "hello", 6) == 0 && strcmp(sender, here) == 0);
    /* One that is empty, and one that is too long: what is left of it is not the next one's. */
    CHECK(opportune_send_to(app, near, "", 0, there, in_time, NULL, NULL) == 0);
    CHECK(opportune_send_to(app, near, "too long", 8, there, in_time, NULL, NULL) == 8);
    CHECK(opportune_send_to(app, near, "last", 4, there, in_time, NULL, NULL) == 4);
    CHECK(opportune_receive_from(app, far, bytes, 8, NULL, in_time, NULL, NULL) == 0);
    memset(sender, 0, sizeof sender);
    CHECK(opportune_receive_from(app, far, bytes, 3, sender, in_time, NULL, NULL) == -EMSGSIZE);
    CHECK(memcmp(bytes, "toolo", 5) == 0 && strcmp(sender, here) == 0);
    CHECK(opportune_receive_from(app, far, bytes, 8, NULL, in_time, NULL, NULL) == 4);
    CHECK(opportune_receive_from(app, far, bytes, 8, NULL, 1000000, NULL, NULL) == -ETIMEDOUT);

    told own = {.app = app};
    memset(sender, 0, sizeof sender);
    CHECK(opportune_app_suspend(app) == 0);
    CHECK(opportune_receive_from(app, far, bytes, 8, sender, -1, tell, &own) == 0);
    CHECK(opportune_send_to(app, near, "again", 5, there, -1, tell, &own) == 0);
    CHECK(opportune_app_resume(app) == 0 && opportune_app_wait(app, in_time) == 0);
    CHECK(atomic_load(&own.count) == 2 && own.result == 5);
    CHECK(memcmp(bytes, "again", 5) == 0 && strcmp(sender, here) == 0);

    /* By IPv6 where it is there, and by paths; who has no address says none. */
    int six = opportune_datagram_socket(app, "[::1]:0", 0);
    CHECK(six >= 0 || six == -EADDRNOTAVAIL || six == -EAFNOSUPPORT);
    if (six >= 0) {
        CHECK(opportune_socket_address(app, six, here) == 0 && strncmp(here, "[::1]:", 6) == 0);
        CHECK(opportune_send_to(app, six, "six", 3, here, in_time, NULL, NULL) == 3);
        CHECK(opportune_receive_from(app, six, bytes, 8, sender, in_time, NULL, NULL) == 3);
        CHECK(strcmp(sender, here) == 0);
    } else {
        puts("skipped: datagrams by IPv6, which is not here");
    }
    char folder[] = "/tmp/libopportune-XXXXXX";
    CHECK(mkdtemp(folder));
    snprintf(there, sizeof there, "unix:%s/socket", folder);
    int path = opportune_datagram_socket(app, there, 0);
    CHECK(path >= 0 && opportune_socket_address(app, path, here) == 0 && strcmp(here, there) == 0);
    int unbound = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(unbound >= 0);
    CHECK(opportune_send_to(app, unbound, "path", 4, there, in_time, NULL, NULL) == 4);
    CHECK(opportune_receive_from(app, path, bytes, 8, sender, in_time, NULL, NULL) == 4 && !*sender);
    CHECK(opportune_socket_address(app, unbound, here) == 0 && !*here);
    CHECK(close(unbound) == 0 && unlink(there + 5) == 0 && rmdir(folder) == 0);

    CHECK(opportune_send_to(app, near, bytes, 8, "nowhere", in_time, NULL, NULL) == -EINVAL);
    CHECK(opportune_send_to(app, near, bytes, 8, NULL, in_time, NULL, NULL) == -EINVAL);
    CHECK(opportune_send_to(app, near, NULL, 8, here, in_time, NULL, NULL) == -EINVAL);
    static char much[70000];
    CHECK(opportune_socket_address(app, far, there) == 0);
    CHECK(opportune_send_to(app, near, much, sizeof much, there, in_time, NULL, NULL) == -EMSGSIZE);
    CHECK(opportune_receive_from(app, far, bytes, 0, NULL, in_time, NULL, NULL) == -EINVAL);
    CHECK(opportune_receive_from(app, -1, bytes, 8, NULL, in_time, NULL, NULL) == -EBADF);
    CHECK(opportune_datagram_socket(app, "127.0.0.1:0", 2) == -EINVAL);
    CHECK(opportune_datagram_socket(app, NULL, 0) == -EINVAL);
    CHECK(opportune_socket_address(app, near, NULL) == -EINVAL);
    CHECK(opportune_app_terminate(app, in_time) == 0);
    CHECK(opportune_datagram_socket(app, "127.0.0.1:0", 0) == -ESHUTDOWN);
    CHECK(opportune_socket_address(app, near, here) == -ESHUTDOWN);
    CHECK(opportune_app_release(app) == 0);
    CHECK(opportune_scheduler_destroy(scheduler, in_time) == 0);
}

typedef struct use {
    int intact, result;
    unsigned char first;
    size_t count;
} use;

static int fill_region(void *context, void *bytes, size_t count, int intact) {
    use *own = context;
    own->intact = intact;
    own->count = count;
    own->first = *(unsigned char *)bytes;
    memset(bytes, 7, count);
    return own->result;
}

/* R-MEM-05: what was taken is told to the next use, which makes it again. */
static void test_regions(void) {
    opportune_scheduler *scheduler = create();
    opportune_app *app = make_app(scheduler, OPPORTUNE_FOREGROUND);
    opportune_region *region = NULL, *none = (void *)1;
    CHECK(opportune_app_purge(app) == 0);
    CHECK(opportune_region_create(app, 1 << 16, &region) == 0);
    CHECK(opportune_region_create(app, 0, &none) == -EINVAL && none == NULL);
    CHECK(opportune_region_create(app, SIZE_MAX, &none) == -EINVAL);
    CHECK(opportune_region_create(app, 1, NULL) == -EINVAL);
    use own = {.result = 5};
    CHECK(opportune_region_use(region, fill_region, &own) == 5);
    CHECK(own.intact == 1 && own.first == 0 && own.count == 1 << 16);
    CHECK(opportune_region_use(region, fill_region, &own) == 5 && own.intact == 1 && own.first == 7);
    CHECK(opportune_app_background(app) == 0);
    CHECK(opportune_app_purge(app) == 1 << 16 && opportune_region_is_purged(region) == 1);
    own.result = -1; /* what it makes is dropped */
    CHECK(opportune_region_use(region, fill_region, &own) == -1 && own.intact == 0 && own.first == 0);
    own.result = 0;
    CHECK(opportune_region_use(region, fill_region, &own) == 0 && own.intact == 0 && own.first == 0);
    CHECK(opportune_region_use(region, fill_region, &own) == 0 && own.intact == 1 && own.first == 7);
    CHECK(opportune_region_use(region, NULL, NULL) == -EINVAL);
    CHECK(opportune_region_use((void *)app, fill_region, &own) == -EINVAL);
    CHECK(opportune_app_terminate(app, in_time) == 0);
    CHECK(opportune_region_is_purged(region) == 1);
    CHECK(opportune_region_create(app, 1, &none) == -ESHUTDOWN);
    CHECK(opportune_region_release(region) == 0 && opportune_region_release(region) == -EINVAL);
    CHECK(opportune_region_is_purged(region) == -EINVAL);
    CHECK(opportune_app_release(app) == 0);
    CHECK(opportune_scheduler_destroy(scheduler, in_time) == 0);
}

/* R-MEM-03: a budget takes the regions of the background, those of the foreground stay. */
static void test_budget(void) {
    opportune_settings settings;
    CHECK(opportune_settings_init(&settings, sizeof settings) == 0);
    settings.memory_budget = 1 << 20;
    opportune_scheduler *scheduler = NULL;
    CHECK(opportune_scheduler_create(&settings, &scheduler) == 0);
    opportune_app *behind = make_app(scheduler, OPPORTUNE_BACKGROUND);
    opportune_app *front = make_app(scheduler, OPPORTUNE_FOREGROUND);
    opportune_region *first = NULL, *second = NULL;
    use own = {.result = 0};
    CHECK(opportune_region_create(behind, 700000, &first) == 0);
    CHECK(opportune_region_use(first, fill_region, &own) == 0);
    CHECK(opportune_region_create(front, 700000, &second) == 0);
    CHECK(opportune_region_use(second, fill_region, &own) == 0);
    CHECK(opportune_region_is_purged(first) == 1 && opportune_region_is_purged(second) == 0);
    CHECK(opportune_region_release(first) == 0 && opportune_region_release(second) == 0);
    CHECK(opportune_app_release(behind) == 0 && opportune_app_release(front) == 0);
    CHECK(opportune_scheduler_destroy(scheduler, in_time) == 0);
}

static void test_requests_misuse(void) {
    opportune_scheduler *scheduler = create();
    opportune_app *app = make_app(scheduler, OPPORTUNE_FOREGROUND), *none = NULL;
    opportune_listener *listener = NULL;
    char byte = 0;
    CHECK(opportune_open(app, NULL, 0, 0, 0, NULL, NULL) == -EINVAL);
    CHECK(opportune_open(app, "/", O_ACCMODE, 0, in_time, NULL, NULL) == -EINVAL);
    CHECK(opportune_read(app, 0, NULL, 1, 0, 0, NULL, NULL) == -EINVAL);
    CHECK(opportune_read(app, 0, &byte, 0, 0, 0, NULL, NULL) == -EINVAL);
    CHECK(opportune_read(app, 0, &byte, SIZE_MAX, 0, 0, NULL, NULL) == -EINVAL);
    CHECK(opportune_read(app, 0, &byte, 1, -2, 0, NULL, NULL) == -EINVAL);
    CHECK(opportune_read(app, -1, &byte, 1, 0, 0, NULL, NULL) == -EBADF);
    CHECK(opportune_write(app, INT32_MAX, &byte, 1, 0, in_time, NULL, NULL) == -EBADF);
    CHECK(opportune_send(app, INT32_MIN, &byte, 1, 0, NULL, NULL) == -EBADF);
    CHECK(opportune_close(app, -5, NULL, NULL) == -EBADF);
    CHECK(opportune_sync(app, INT32_MAX, in_time, NULL, NULL) == -EBADF);
    const char *strange[] = {NULL, "", "a", ":", ":1", "[::1]", "1.2.3.4:65536", "1.2.3.4:-1", "[x]:1",
                             "unix:", "localhost:80", "\xff:1"};
    for (unsigned i = 0; i < sizeof strange / sizeof *strange; i++) {
        CHECK(opportune_connect(app, strange[i], in_time, NULL, NULL) == -EINVAL);
        CHECK(opportune_listen(app, strange[i], 1, &listener) == -EINVAL && listener == NULL);
    }
    CHECK(opportune_listen(app, "127.0.0.1:0", 0, &listener) == -EINVAL);
    CHECK(opportune_listen(app, "127.0.0.1:0", 1, NULL) == -EINVAL);
    CHECK(opportune_listen_with(app, "127.0.0.1:0", 1, 2, 0, &listener) == -EINVAL);
    CHECK(opportune_listen_with(app, "127.0.0.1:0", 1, 0, -1, &listener) == -EINVAL && listener == NULL);
    const char *no_host[] = {NULL, "", "\xff"};
    for (unsigned i = 0; i < sizeof no_host / sizeof *no_host; i++)
        CHECK(opportune_connect_host(app, no_host[i], 80, in_time, NULL, NULL) == -EINVAL);
    const int no_port[] = {-1, 0, 65536, INT32_MAX};
    for (unsigned i = 0; i < sizeof no_port / sizeof *no_port; i++)
        CHECK(opportune_connect_host(app, "localhost", no_port[i], in_time, NULL, NULL) == -EINVAL);
    CHECK(opportune_connect_host(none, "localhost", 80, in_time, NULL, NULL) == -EINVAL);
    CHECK(opportune_datagram_socket(none, "127.0.0.1:0", 0) == -EINVAL);
    CHECK(opportune_send_to(none, 0, &byte, 1, "127.0.0.1:1", 0, NULL, NULL) == -EINVAL);
    CHECK(opportune_receive_from(none, 0, &byte, 1, NULL, 0, NULL, NULL) == -EINVAL);
    CHECK(opportune_listener_port((void *)app) == -EINVAL && opportune_listener_port(NULL) == -EINVAL);
    CHECK(opportune_accept((void *)app, 0, NULL, NULL) == -EINVAL);
    CHECK(opportune_listener_close(NULL) == 0 && opportune_listener_close((void *)app) == -EINVAL);
    CHECK(opportune_open(none, "/", 0, 0, 0, NULL, NULL) == -EINVAL);
    CHECK(opportune_read(none, 0, &byte, 1, 0, 0, NULL, NULL) == -EINVAL);
    CHECK(opportune_write(none, 0, &byte, 1, 0, 0, NULL, NULL) == -EINVAL);
    CHECK(opportune_close(none, 0, NULL, NULL) == -EINVAL);
    CHECK(opportune_sync(none, 0, 0, NULL, NULL) == -EINVAL);
    CHECK(opportune_receive(none, 0, &byte, 1, 0, NULL, NULL) == -EINVAL);
    CHECK(opportune_send(none, 0, &byte, 1, 0, NULL, NULL) == -EINVAL);
    CHECK(opportune_shutdown(none, 0, OPPORTUNE_SENDING, 0, NULL, NULL) == -EINVAL);
    CHECK(opportune_shutdown(app, 0, -1, 0, NULL, NULL) == -EINVAL);
    CHECK(opportune_shutdown(app, 0, 3, 0, NULL, NULL) == -EINVAL);
    CHECK(strstr(opportune_last_error(), "half is 3; expected 0 to 2") != NULL);
    CHECK(opportune_shutdown(app, -1, OPPORTUNE_BOTH, 0, NULL, NULL) == -EBADF);
    CHECK(opportune_connect(none, "[::1]:1", 0, NULL, NULL) == -EINVAL);
    CHECK(opportune_app_purge(none) == -EINVAL && opportune_region_release(NULL) == 0);
    CHECK(opportune_app_release(app) == 0);
    CHECK(opportune_scheduler_destroy(scheduler, in_time) == 0);
}

int main(void) {
    test_jobs();
    test_suspension();
    test_cancellation();
    test_strand();
    test_deadlock();
    test_settings();
    test_own_thread();
    test_real_time_foreground();
    test_misuse();
    test_release_in_use();
    test_destroy_in_time();
    test_files();
    test_sockets();
    test_hosts_and_options();
    test_datagrams();
    test_regions();
    test_budget();
    test_requests_misuse();
    puts("libopportune: all of it holds");
    return 0;
}
