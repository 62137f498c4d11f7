/* From the start of main() until the first job has run, and what a job costs, by either library: prints three
 * numbers, in microseconds, nanoseconds a submission, nanoseconds a job. scripts/bench-libraries builds it
 * twice. */
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#ifdef CORE
#include <opportune-core.h>
#define S oppc_scheduler
#define A oppc_app
#define create(s) oppc_scheduler_create(NULL, s)
#define app(s, a) oppc_app_create(s, "a", OPPC_FOREGROUND, a)
#define submit(a, f, c) oppc_submit(a, f, c)
#define waitfor(a) oppc_app_wait(a, -1)
#define destroy(s) oppc_scheduler_destroy(s)
#else
#include <opportune.h>
#define S opportune_scheduler
#define A opportune_app
#define create(s) opportune_scheduler_create(NULL, s)
#define app(s, a) opportune_app_create(s, "a", OPPORTUNE_FOREGROUND, a)
#define submit(a, f, c) opportune_submit(a, f, c)
#define waitfor(a) opportune_app_wait(a, -1)
#define destroy(s) opportune_scheduler_destroy(s, -1)
#endif

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static _Atomic int done;

static void mark(void *context) {
    *(double *)context = now();
}

static void count(void *context) {
    (void)context;
    atomic_fetch_add(&done, 1);
}

int main(int count_given, char **given) {
    double begun = now(), first;
    S *s;
    A *a;
    if (create(&s) || app(s, &a) || submit(a, mark, &first)) return 1;
    if (waitfor(a)) return 1;
    /* With an argument no more than that. */
    if (count_given > 1 && given[1]) return destroy(s) < 0;
    double before = now();
    enum { N = 200000 };
    for (int i = 0; i < N; i++)
        if (submit(a, count, NULL)) return 1;
    double queued = now();
    if (waitfor(a) || atomic_load(&done) != N) return 1;
    double end = now();
    printf("%.0f %.0f %.0f\n", first - begun, (queued - before) * 1e3 / N, (end - before) * 1e3 / N);
    return destroy(s) < 0;
}
