/* A search in the foreground beside an indexer in the background, in C:
 *     cc -o search search.c $(pkg-config --cflags --libs opportune-core) */
#include <opportune-core.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DOCUMENTS = 2000, QUERIES = 200 };

static oppc_app *indexer;
static _Atomic(unsigned) indexed;
static _Atomic(unsigned long) found;
static unsigned logged; /* guarded by the log's strand */

/* Ends the program where a call has failed, and says why. */
static void must(int result, const char *what) {
    if (result >= 0) return;
    fprintf(stderr, "%s: %s\n", what, strerror(-result));
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
    if (document + 4 < DOCUMENTS) must(oppc_submit(indexer, index_next, NULL), "index");
}

static void log_query(void *context) {
    (void)context;
    logged++;
}

static void answer(void *context) {
    atomic_fetch_add(&found, hash(1, 2000) & 1);
    must(oppc_strand_submit(context, log_query, NULL), "log");
}

int main(void) {
    oppc_scheduler *scheduler;
    oppc_app *ui;
    oppc_strand *log;
    must(oppc_scheduler_create(NULL, &scheduler), "scheduler");
    must(oppc_app_create(scheduler, "ui", OPPC_FOREGROUND, &ui), "ui");
    must(oppc_app_create(scheduler, "indexer", OPPC_BACKGROUND, &indexer), "indexer");
    must(oppc_strand_create(ui, OPPC_PRIORITY_LOW, &log), "log");

    for (int i = 0; i < 4; i++) must(oppc_submit(indexer, index_next, NULL), "index");
    for (int i = 0; i < QUERIES; i++) must(oppc_submit(ui, answer, log), "query");
    must(oppc_app_wait(ui, -1), "wait");
    printf("%u queries answered, %u of %d documents indexed meanwhile\n", logged, atomic_load(&indexed),
           DOCUMENTS);

    must(oppc_app_suspend(indexer), "suspend");
    must(oppc_app_wait_quiet(indexer, -1), "wait");
    unsigned before = atomic_load(&indexed);
    printf("the indexer stands still at %u, and ", before);
    must(oppc_app_resume(indexer), "resume");
    must(oppc_scheduler_wait(scheduler, -1), "wait");
    printf("ends at %u\n", atomic_load(&indexed));

    oppc_app_statistics figures;
    must(oppc_app_read_statistics(ui, &figures, sizeof figures), "statistics");
    printf("%llu jobs of the foreground, waiting p99 %llu us\n", (unsigned long long)figures.run,
           (unsigned long long)figures.waiting.p99 / 1000);
    oppc_strand_release(log);
    oppc_app_release(ui);
    oppc_app_release(indexer);
    must(oppc_scheduler_destroy(scheduler), "destroy");
    return logged == QUERIES && atomic_load(&indexed) == DOCUMENTS ? 0 : 1;
}
