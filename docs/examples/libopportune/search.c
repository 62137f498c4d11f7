/* A search in the foreground beside an indexer in the background, in C, without Swift:
 *     cc -o search search.c $(pkg-config --cflags --libs opportune) */
#include <opportune.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { DOCUMENTS = 2000, QUERIES = 200 };

static opportune_app *indexer;
static _Atomic(unsigned) indexed;
static _Atomic(unsigned long) found;
static unsigned logged; /* guarded by the log's strand */

/* Ends the program where a call has failed, and says why. */
static void must(int result) {
    if (result >= 0) return;
    fprintf(stderr, "%s\n", opportune_last_error());
    exit(1);
}

static unsigned long hash(unsigned long seed, int rounds) {
    while (rounds-- > 0) seed = seed * 6364136223846793005ul + 1442695040888963407ul;
    return seed;
}

/* One document, and then the next of this chain. */
static void index_next(void *context) {
    unsigned document = atomic_fetch_add(&indexed, 1);
    (void)context;
    atomic_fetch_add(&found, hash(document, 20000) & 1);
    if (document + 4 < DOCUMENTS) must(opportune_submit(indexer, index_next, NULL));
}

static void log_query(void *context) {
    (void)context;
    logged++;
}

static void answer(void *context) {
    atomic_fetch_add(&found, hash(1, 2000) & 1);
    must(opportune_strand_submit(context, log_query, NULL));
}

int main(void) {
    opportune_scheduler *scheduler;
    opportune_app *ui;
    opportune_strand *log;
    opportune_settings settings;
    must(opportune_settings_init(&settings, sizeof settings));
    settings.name = "search";
    settings.quantum = 5000000; /* 5 ms of CPU time until a job is demoted */
    must(opportune_scheduler_create(&settings, &scheduler));
    must(opportune_app_create(scheduler, "ui", OPPORTUNE_FOREGROUND, &ui));
    must(opportune_app_create(scheduler, "indexer", OPPORTUNE_BACKGROUND, &indexer));
    must(opportune_strand_create(ui, "log", OPPORTUNE_PRIORITY_LOW, OPPORTUNE_NO_CEILING, &log));

    for (int i = 0; i < 4; i++) must(opportune_submit(indexer, index_next, NULL));
    for (int i = 0; i < QUERIES; i++) must(opportune_submit(ui, answer, log));
    must(opportune_app_wait(ui, -1));
    printf("%u queries answered, %u of %d documents indexed meanwhile\n", logged, atomic_load(&indexed),
           DOCUMENTS);

    must(opportune_app_suspend(indexer));
    must(opportune_app_wait_suspended(indexer, -1));
    printf("the indexer stands still at %u, and ", atomic_load(&indexed));
    must(opportune_app_resume(indexer));
    must(opportune_scheduler_wait(scheduler, -1));
    printf("ends at %u\n", atomic_load(&indexed));

    opportune_app_statistics figures;
    must(opportune_app_read_statistics(ui, &figures, sizeof figures));
    printf("%llu jobs of the foreground, waiting p99 %llu us\n", (unsigned long long)figures.submitted,
           (unsigned long long)figures.waiting.p99 / 1000);
    must(opportune_strand_release(log));
    must(opportune_app_release(ui));
    must(opportune_app_release(indexer));
    must(opportune_scheduler_destroy(scheduler, -1));
    return logged == QUERIES && atomic_load(&indexed) == DOCUMENTS ? 0 : 1;
}
