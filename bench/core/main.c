/*
 * The C core's operations beside plain rivals. In each repeat all contenders of a table take turns, beginning
 * with another one each time, so that whatever else the machine does falls on all of them. A ratio is taken
 * within a repeat; printed is the median of those. Queues that spin are left out where threads outnumber
 * processors: each of their waits would last a time slice.
 *
 *   core-bench [--json FILE] [--repeats N] [--only WORD]...
 *   core-bench --ops OPERATION N      does N operations and ends, for counting; core-bench --ops lists them
 *
 * OPPORTUNE_BENCH_SMOKE=1: little work, only to see that everything runs.
 */
#include "check.h"
#include "contender.h"
#include "operations.h"
#include "park.h"
#include "queues.h"
#include "notifier.h"
#include "sample.h"
#include "steps.h"

#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/utsname.h>

typedef struct options {
    const char *json;
    unsigned repeats;
    bool is_smoke;
    unsigned cpus;
    int words;
    char **word;
} options;

static FILE *json_file;
static bool json_is_first = true;

static bool is_wanted(const options *options, const char *title) {
    if (options->words == 0) return true;
    for (int i = 0; i < options->words; i++)
        if (strstr(title, options->word[i]) != NULL) return true;
    return false;
}

static void json_item(void) {
    if (!json_is_first) fputs(",\n", json_file);
    json_is_first = false;
}

static void finish(const table *table) {
    table_print(table);
    if (json_file == NULL) return;
    json_item();
    table_json(table, json_file);
}

/* --- Queues ------------------------------------------------------------------------------------ */

typedef enum measure { CYCLE_1, CYCLE_1000, STEAL, STEAL_TOGETHER, PUSH, INJECT } measure;

typedef struct plan {
    const char *title, *unit;
    measure measure;
    unsigned producers;
    uint64_t items;
    double aim_ns, aim_ratio;
    const contender *contenders[ROWS_MAX]; /* the one with the aim first */
} plan;

#define SINGLE &runq_contender, &queue_contender, &inbox_contender, &chase_lev_contender, &mutex_contender
#define MULTI                                                                                            \
    &runq_contender, &runq_notify_contender, &queue_contender, &inbox_contender, &ck_fifo_contender,       \
        &boost_contender, &ck_ring_contender, &moodycamel_contender, &mutex_contender

static const plan plans[] = {
    {"push and pop, one thread, one at a time", "push + pop", CYCLE_1, 1, 200000, 20, 0, {SINGLE}},
    {"push and pop, one thread, 1000 at a time", "push + pop", CYCLE_1000, 1, 200000, 20, 0, {SINGLE}},
    {"steal, by one thief alone", "take", STEAL, 1, 60000, 150, 0,
     {&runq_contender, &queue_contender, &chase_lev_contender, &mutex_contender}},
    {"steal, thief and owner together", "take", STEAL_TOGETHER, 1, 60000, 150, 0,
     {&runq_contender, &queue_contender, &chase_lev_contender, &mutex_contender}},
    {"push, 1 producer, nobody takes", "push", PUSH, 1, 240000, 0, 0, {MULTI}},
    {"push, 2 producers, nobody takes", "push", PUSH, 2, 240000, 0, 0.5, {MULTI}},
    {"push, 4 producers, nobody takes", "push", PUSH, 4, 240000, 0, 0, {MULTI}},
    {"injection, 1 producer, 1 consumer", "job", INJECT, 1, 240000, 0, 0, {MULTI}},
    {"injection, 2 producers, 1 consumer", "job", INJECT, 2, 240000, 0, 0.5, {MULTI}},
    {"injection, 3 producers, 1 consumer", "job", INJECT, 3, 240000, 0, 0, {MULTI}},
    {"injection, 4 producers, 1 consumer", "job", INJECT, 4, 240000, 0, 0, {MULTI}},
};

static double measure_once(const plan *plan, const contender *contender, void *queue, uint64_t items) {
    uint64_t each = items / plan->producers;
    switch (plan->measure) {
    case CYCLE_1: return queue_cycle(contender, queue, items, 1);
    case CYCLE_1000: return queue_cycle(contender, queue, items, 1000);
    case STEAL: return queue_steal(contender, queue, items, false);
    case STEAL_TOGETHER: return queue_steal(contender, queue, items, true);
    case PUSH: return queue_inject(contender, queue, plan->producers, each, false);
    case INJECT: return queue_inject(contender, queue, plan->producers, each, true);
    }
    return 0;
}

static unsigned threads_of(const plan *plan) {
    switch (plan->measure) {
    case CYCLE_1:
    case CYCLE_1000: return 1;
    case STEAL:
    case STEAL_TOGETHER: return 2;
    case PUSH: return plan->producers;
    case INJECT: return plan->producers + 1;
    }
    return 0;
}

static void run_plan(const options *options, const plan *plan) {
    static table table;
    table = (struct table){.title = plan->title, .unit = plan->unit, .aim_ns = plan->aim_ns,
                           .aim_ratio = plan->aim_ratio, .is_queue = true, .repeats = options->repeats};
    uint64_t items = options->is_smoke ? 4000 : plan->items;
    void *queue[ROWS_MAX];
    const contender *taking_part[ROWS_MAX];
    for (int i = 0; i < ROWS_MAX && plan->contenders[i] != NULL; i++) {
        const contender *contender = plan->contenders[i];
        if (contender->spins && threads_of(plan) > options->cpus) continue;
        taking_part[table.rows] = contender;
        row *row = &table.row[table.rows++];
        row->name = contender->name;
        row->is_ours = contender->is_ours;
        row->is_lock_free = contender->is_lock_free;
        row->why = contender->why;
        queue[table.rows - 1] = CHECKED(contender->make(plan->producers, items / plan->producers));
        measure_once(plan, contender, queue[table.rows - 1], items);
    }
    for (unsigned repeat = 0; repeat < table.repeats; repeat++)
        for (unsigned i = 0; i < table.rows; i++) {
            unsigned which = (i + repeat) % table.rows;
            table.row[which].sample[repeat] = measure_once(plan, taking_part[which], queue[which], items);
        }
    for (unsigned i = 0; i < table.rows; i++) taking_part[i]->destroy(queue[i]);
    finish(&table);
}

/* --- Waking ------------------------------------------------------------------------------------ */

/* Contenders that are told apart by a number; number 0 is ours. */
static void run_kinds(const options *options, table *table, unsigned kinds, const char *const names[],
                      double (*measure)(unsigned kind, uint64_t n), uint64_t n) {
    if (!is_wanted(options, table->title)) return;
    table->repeats = options->repeats;
    table->rows = kinds;
    for (unsigned kind = 0; kind < kinds; kind++) {
        table->row[kind].name = names[kind];
        table->row[kind].is_ours = kind == 0;
    }
    for (unsigned repeat = 0; repeat < table->repeats; repeat++)
        for (unsigned i = 0; i < kinds; i++) {
            unsigned kind = (i + repeat) % kinds;
            table->row[kind].sample[repeat] = measure(kind, options->is_smoke ? 100 : n);
        }
    finish(table);
}

static double measure_park(unsigned kind, uint64_t n) {
    return park_round_trip((park_kind)kind, n);
}

static double measure_notifier(unsigned kind, uint64_t n) {
    return notifier_call((notifier_kind)kind, n);
}

static void run_waking(const options *options) {
    static table park = {.title = "park and wake, two threads", .unit = "round trip"};
    static table notifier = {.title = "make the monitor look", .unit = "call"};
    run_kinds(options, &park, PARK_KINDS, park_name, measure_park, 2000);
    run_kinds(options, &notifier, NOTIFIER_KINDS, notifier_name, measure_notifier, 2000);
}

static void run_notify(const options *options) {
    static table table = {.title = "wake-up call to a busy pool", .unit = "call", .rows = 1};
    if (!is_wanted(options, table.title)) return;
    table.repeats = options->repeats;
    table.row[0].name = "opportune pool";
    table.row[0].is_ours = true;
    for (unsigned i = 0; i < table.repeats; i++)
        table.row[0].sample[i] = park_busy_notify(options->is_smoke ? 1000 : 1000000);
    finish(&table);
}

/* --- Steps of an app --------------------------------------------------------------------------- */

enum { SIZES = 4 };
static const uint64_t sizes[SIZES] = {1, 100, 10000, 100000};

static void steps_print(const char *name, double ns[SIZES][STEPS]) {
    printf("\n%s, ns by jobs queued\n%-34s", name, "");
    for (int size = 0; size < SIZES; size++) printf(" %11llu", (unsigned long long)sizes[size]);
    printf("  most / least\n");
    for (int step = 0; step < STEPS; step++) {
        double least = ns[0][step], most = ns[0][step];
        printf("%-34s", step_name[step]);
        for (int size = 0; size < SIZES; size++) {
            printf(" %11.0f", ns[size][step]);
            if (ns[size][step] < least) least = ns[size][step];
            if (ns[size][step] > most) most = ns[size][step];
        }
        printf(" %13.1f\n", most / (least > 1 ? least : 1));
    }
    if (json_file == NULL) return;
    json_item();
    fprintf(json_file, "{\"title\":\"%s\",\"steps\":[", name);
    for (int step = 0; step < STEPS; step++) {
        fprintf(json_file, "%s{\"step\":\"%s\",\"ns\":{", step ? "," : "", step_name[step]);
        for (int size = 0; size < SIZES; size++)
            fprintf(json_file, "%s\"%llu\":%.1f", size ? "," : "", (unsigned long long)sizes[size],
                    ns[size][step]);
        fprintf(json_file, "}}");
    }
    fprintf(json_file, "]}");
}

static void run_steps(const options *options) {
    const char *title = "steps of an app";
    double ours[SIZES][STEPS], lists[SIZES][STEPS];
    unsigned rounds = options->is_smoke ? 3 : REPEATS_MAX;
    if (!is_wanted(options, title)) return;
    for (int size = 0; size < SIZES; size++) {
        steps_of_run_queue(sizes[size], rounds, ours[size]);
        steps_of_lists(sizes[size], options->is_smoke ? 3 : 21, lists[size]);
    }
    steps_print("steps of an app, opportune", ours);
    steps_print("steps of an app, lists under a mutex", lists);
}

/* --- The program ------------------------------------------------------------------------------- */

static int usage(void) {
    fprintf(stderr, "usage: core-bench [--json FILE] [--repeats 1...%d] [--only WORD]...\n"
                    "       core-bench --ops OPERATION N\n", REPEATS_MAX);
    return 2;
}

static void describe_machine(const options *options) {
    struct utsname name;
    CHECK(uname(&name) == 0);
    printf("%s %s, %s, %u CPUs, %u repeats, interleaved%s\n", name.sysname, name.release, name.machine,
           options->cpus,
           options->repeats, options->is_smoke ? "; a smoke run: the figures mean nothing" : "");
    if (json_file != NULL)
        fprintf(json_file,
                "{\"kernel\":\"%s\",\"machine\":\"%s\",\"cpus\":%u,\"repeats\":%u,\"smoke\":%s,\"tables\":[\n",
                name.release, name.machine, options->cpus, options->repeats,
                options->is_smoke ? "true" : "false");
}

int main(int count, char **argument) {
    const char *smoke = getenv("OPPORTUNE_BENCH_SMOKE");
    options options = {.repeats = 21, .is_smoke = smoke != NULL && strcmp(smoke, "1") == 0};
    if (options.is_smoke) options.repeats = 2;
    cpu_set_t usable;
    CHECK(sched_getaffinity(0, sizeof(usable), &usable) == 0);
    options.cpus = (unsigned)CPU_COUNT(&usable);
    if (count >= 2 && strcmp(argument[1], "--ops") == 0)
        return count == 4 ? operation_run(argument[2], argument[3]) : operation_list();
    options.word = calloc((size_t)count, sizeof(char *));
    if (options.word == NULL) return 1;
    for (int i = 1; i < count; i++) {
        const char *value = i + 1 < count ? argument[i + 1] : NULL;
        if (value == NULL) return usage();
        if (strcmp(argument[i], "--json") == 0) {
            options.json = value;
        } else if (strcmp(argument[i], "--only") == 0) {
            options.word[options.words++] = argument[i + 1];
        } else if (strcmp(argument[i], "--repeats") == 0) {
            char *end;
            unsigned long repeats = strtoul(value, &end, 10);
            if (*end != 0 || repeats < 1 || repeats > REPEATS_MAX) return usage();
            options.repeats = (unsigned)repeats;
        } else {
            return usage();
        }
        i++;
    }
    if (options.json != NULL && (json_file = fopen(options.json, "w")) == NULL) {
        perror(options.json);
        return 1;
    }
    describe_machine(&options);
    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++)
        if (is_wanted(&options, plans[i].title)) run_plan(&options, &plans[i]);
    run_waking(&options);
    run_notify(&options);
    run_steps(&options);
    free(options.word);
    if (json_file == NULL) return 0;
    fputs("\n]}\n", json_file);
    return fclose(json_file) == 0 ? 0 : 1;
}
