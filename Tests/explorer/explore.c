/*
 * The explorer from a shell, without Swift: what scripts/explore and scripts/mutants run.
 *
 *   explore smoke              what every change must pass, in less than a minute: some of all this
 *   explore litmus             the explorer against what the language allows and forbids
 *   explore worlds [NAME]      the small worlds to the end; with NAME those whose names contain it
 *   explore reduction [NAME]   the reduced search against the whole one, in the worlds that this one ends in
 *   MS explore reduction-orders [FILE[:LINE]]  the same with each order above relaxed weakened
 *   explore fuzz [NAME]        random programs, each target for MS
 *   explore program TARGET TEXT  one program at random for MS
 *   explore replay FILE        an example of the tests once more: exit status 1 where it fails
 *   explore check [FILE]       worlds and targets by turns, until something is found: exit status 1; with
 *                              FILE those that have to do with that file of the core
 *   explore orders [WHICH]     weakens each order above relaxed in turn and says what catches it; WHICH is
 *                              PART/OF (every OFth from number PART on), FILE, or FILE:LINE
 *   explore knows FILE:LINE... whether each place names an order that `orders` weakens: exit status 2 where
 *                              one does not
 *
 * Options before the command: --ms MS (for each world or target), --seed N, --timeline, --no-worlds (a smoke
 * without the worlds, which the Swift tests explore too), --whole (searches without reduction), --weaken
 * FILE:LINE (the order there by one step)
 */
#include "opp_checked.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define QUICK_MS 40000 /* ten times what the longest of the quick worlds takes */

static uint64_t option_ms = 10000, option_seed = 1;
static bool option_timeline, option_worlds = true;
static oppx *explorer;
static oppx_finding finding;
static char text[1 << 20];

static double now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void show_finding(const oppx_target *target) {
    if (!option_timeline) return;
    oppx_shrink(explorer, target, &finding, 20000);
    oppx_finding_print(target, &finding, text, sizeof(text));
    puts(text);
    oppx_timeline(explorer, target, &finding, text, sizeof(text));
    puts(text);
}

static bool run_world(const oppx_world *world, uint64_t ms, oppx_figures *figures) {
    if (checked_explore_world(explorer, world, (oppx_budget){.milliseconds = ms}, figures, &finding) != 0) {
        fprintf(stderr, "world %s names what is not there\n", world->name);
        exit(2);
    }
    return finding.found;
}

static int litmus(void) {
    size_t count, wrong = 0;
    const checked_litmus_test *tests = checked_litmus_tests(&count);
    for (size_t i = 0; i < count; i++) {
        oppx_figures figures;
        bool appears = checked_litmus_appears(explorer, &tests[i], &figures);
        bool right = appears == tests[i].allowed && (appears || figures.complete);
        wrong += !right;
        printf("%-5s %-76s %-9s %6lu executions\n", right ? "ok" : "WRONG", tests[i].name,
               appears ? "appears" : "absent", (unsigned long)figures.executions);
    }
    printf("%zu tests, %zu wrong\n", count, wrong);
    return wrong != 0;
}

/* Some to their ends, the others for a moment; any that is not what it should be is a failure. */
static int worlds(const char *name, uint64_t quick_ms) {
    size_t count, wrong = 0;
    const oppx_world *all = checked_worlds(&count);
    for (size_t i = 0; i < count; i++) {
        if (name != NULL && strstr(all[i].name, name) == NULL) continue;
        oppx_figures figures;
        double begun = now();
        bool to_end = quick_ms != 0 && all[i].quick;
        bool failed = run_world(&all[i], to_end ? quick_ms : option_ms, &figures);
        double seconds = now() - begun;
        char outcome[40] = "complete";
        if (failed) strcpy(outcome, "FOUND");
        else if (!figures.complete)
            snprintf(outcome, sizeof(outcome), "%s at %.1f %%", to_end ? "CUT" : "cut",
                     100 * figures.counted);
        printf("%-24s %-12s %9lu executions %9lu states %10lu steps %6.2f s %5.2f M/s  %s\n", all[i].name,
               outcome,
               (unsigned long)figures.executions, (unsigned long)figures.states, (unsigned long)figures.steps,
               seconds,
               (double)figures.steps / seconds / 1e6,
               failed ? finding.message : to_end && !figures.complete ? "it was to end" : "");
        fflush(stdout);
        wrong += failed || (to_end && !figures.complete);
        if (failed) show_finding(checked_target_named(all[i].target));
    }
    return wrong != 0;
}

static int fuzz(const char *name) {
    size_t count, found = 0;
    const oppx_target *const *all = checked_targets(&count);
    for (size_t i = 0; i < count; i++) {
        if (name != NULL ? strcmp(all[i]->name, name) != 0 : all[i]->hidden) continue;
        oppx_figures figures;
        double begun = now();
        oppx_fuzz(explorer, all[i], NULL, option_seed, (oppx_budget){.milliseconds = option_ms}, &figures,
                  &finding);
        double seconds = now() - begun;
        printf("%-10s %-6s %9lu executions %7.0f/s %11lu steps %5.2f M/s  %s\n", all[i]->name,
               finding.found ? "FOUND" : "ok", (unsigned long)figures.executions,
               (double)figures.executions / seconds,
               (unsigned long)figures.steps, (double)figures.steps / seconds / 1e6,
               finding.found ? finding.message : "");
        fflush(stdout);
        found += finding.found;
        if (finding.found) show_finding(all[i]);
    }
    return found != 0;
}

/* One program at random for MS. */
static int program(const char *name, const char *what) {
    const oppx_target *target = name == NULL ? NULL : checked_target_named(name);
    oppx_program program;
    if (target == NULL || what == NULL || oppx_program_parse(target, what, &program, text) != 0) {
        fprintf(stderr, "explore: %s\n",
                target == NULL ? "there is no such target" : what == NULL ? "no program" : text);
        return 2;
    }
    oppx_figures figures;
    oppx_fuzz(explorer, target, &program, option_seed, (oppx_budget){.milliseconds = option_ms}, &figures,
              &finding);
    printf("%lu executions: %s\n", (unsigned long)figures.executions,
           finding.found ? finding.message : "nothing found");
    if (finding.found) show_finding(target);
    return finding.found;
}

static int replay(const char *path) {
    char name[64] = "";
    FILE *file = path == NULL ? NULL : fopen(path, "r");
    size_t length = file == NULL ? 0 : fread(text, 1, sizeof(text) - 1, file);
    if (file != NULL) fclose(file);
    text[length] = 0;
    const oppx_target *target = oppx_finding_target(text, name, sizeof(name)) == 0 ?
        checked_target_named(name) : NULL;
    char error[OPPX_TEXT] = "there is no such file, or it names no target";
    if (target == NULL || oppx_finding_parse(target, text, &finding, error) != 0) {
        fprintf(stderr, "explore: %s: %s\n", path != NULL ? path : "", error);
        return 2;
    }
    bool found = oppx_replay(explorer, target, &finding);
    printf("%s: %s\n", path, found ? finding.message : "it does not fail");
    if (finding.misfit != 0)
        printf("choice %u of %u does not fit any more\n", finding.misfit, finding.choice_count);
    if (option_timeline && oppx_timeline(explorer, target, &finding, text, sizeof(text)) > 0) puts(text);
    return found;
}

/* --- Until something is found ----------------------------------------------------------------- */

static bool is_among(const char *name, const char *const *names) {
    for (; *names != NULL; names++)
        if (strcmp(name, *names) == 0) return true;
    return false;
}

/* Runs what may find something in a target of `names`, for `ms` each: short rounds first. Returns what found
 * it. */
static const char *hunt(const char *const *names, uint64_t ms, uint64_t *executions,
                        const oppx_target **found) {
    size_t world_count, target_count;
    const oppx_world *world = checked_worlds(&world_count);
    const oppx_target *const *target = checked_targets(&target_count);
    bool done[256] = {false}; /* worlds that were explored to the end */
    *executions = 0;
    for (uint64_t round = ms < 40 ? ms : 40;; round = round * 5 < ms ? round * 5 : ms) {
        for (size_t i = 0; i < world_count; i++) {
            oppx_figures figures;
            if (done[i % 256] || !is_among(world[i].target, names)) continue;
            bool failed = run_world(&world[i], round, &figures);
            *executions += figures.executions;
            done[i % 256] = figures.complete;
            if (!failed) continue;
            *found = checked_target_named(world[i].target);
            return world[i].name;
        }
        for (size_t i = 0; i < target_count; i++) {
            oppx_figures figures;
            if (!is_among(target[i]->name, names)) continue;
            oppx_fuzz(explorer, target[i], NULL, option_seed + round * 1000000,
                      (oppx_budget){.milliseconds = round},
                      &figures, &finding);
            *executions += figures.executions;
            if (!finding.found) continue;
            *found = target[i];
            return target[i]->name;
        }
        if (round >= ms) return NULL;
    }
}

/* --- The explorer's own tests ----------------------------------------------------------------- */

enum { DRAWS = 1000 };
static uint8_t drawn[2][DRAWS][2];
static uint32_t drawn_by, drawn_count;

/* With one operation of two arguments, the last two draws of an execution are these. */
static void keep_draws(const oppx_program *program) {
    memcpy(drawn[drawn_by][drawn_count++], program->operation[0][0].argument, 2);
}

static void nothing(void) {}
static void no_operation(uint32_t thread, const oppx_operation *operation) { (void)thread, (void)operation; }

/* Executions draw apart: one's numbers are not those of the one before, one on; nor those of a neighbouring
 * seed. */
static int draws(void) {
    static const oppx_kind kind = {.name = "draw", .arguments = 2, .limit = {255, 255}, .weight = 1};
    static const oppx_target target = {.name = "draws", .kinds = &kind, .kind_count = 1, .threads_max = 1,
                                       .operations_max = 1, .setup = keep_draws, .perform = no_operation,
                                       .finish = nothing};
    uint32_t shifted = 0, shared = 0;
    for (drawn_by = 0; drawn_by < 2; drawn_by++) {
        oppx_figures figures;
        drawn_count = 0;
        oppx_fuzz(explorer, &target, NULL, option_seed + drawn_by, (oppx_budget){.executions = DRAWS},
                  &figures, &finding);
    }
    for (uint32_t i = 1; i < DRAWS; i++) {
        shifted += drawn[0][i][0] == drawn[0][i - 1][1];
        shared += memcmp(drawn[0][i], drawn[1][i - 1], 2) == 0;
    }
    printf("of %u executions %u begin as the one before goes on, %u are of the next seed as well\n", DRAWS,
           shifted, shared);
    return shifted > 50 || shared > 5;
}

static _Thread_local void *loaded;
static void one_object(const oppx_program *program) {
    (void)program;
    loaded = oppx_allocate(16, 16);
}

static void load_often(uint32_t thread, const oppx_operation *operation) {
    (void)thread;
    oppx_site site = {.file = "explore.c", .object = "loaded", .order = memory_order_relaxed};
    for (uint32_t i = 0; i < (operation->kind == 0 ? 3900u : 400u); i++) oppx_load(&site, loaded, 4);
}

/* A search in which an execution had more to choose than is remembered is not complete, though its last had
 * not. */
static int long_executions(void) {
    static const oppx_kind kinds[] = {{.name = "many"}, {.name = "few"}};
    static const oppx_target target = {.name = "long", .kinds = kinds, .kind_count = 2, .setup = one_object,
                                       .perform = load_often, .finish = nothing};
    oppx_program program;
    oppx_figures figures;
    if (oppx_program_parse(&target, "many | many | few", &program, text) != 0) return 1;
    oppx_exhaust(explorer, &target, &program, (oppx_bounds){.stalls = 1}, (oppx_budget){0}, &figures,
                 &finding);
    printf("%lu executions, some of them too long: %s\n", (unsigned long)figures.executions,
           figures.complete ? "WRONG, complete" : "cut");
    return figures.complete || finding.found;
}

static int reduction(const char *name);
static const char *const *targets_of(const char *file);

/* A program of litmus operations that is no test: nothing is wanted of it. */
static int litmus_program(void) {
    uint64_t ms = option_ms;
    option_ms = 10;
    int result = program("litmus", "rlx_copy 0; plain_if 1; rlx_load 0");
    option_ms = ms;
    return result;
}

/* What every change must pass, in less than a minute: the quick worlds to their ends, the other worlds and
 * each target for a moment, and the canaries found. */
static int smoke(void) {
    size_t count, blind = 0;
    option_timeline = true;
    option_ms = 500;
    if (draws() != 0 || long_executions() != 0 || litmus_program() != 0) return 1;
    if (litmus() != 0 || (option_worlds && worlds(NULL, QUICK_MS) != 0)) return 1;
    option_ms = 100;
    if (reduction(NULL) != 0) return 1;
    option_ms = 1000;
    if (fuzz(NULL) != 0) return 1;
    const oppx_target *const *all = checked_targets(&count);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(all[i]->name, "canary", 6) != 0) continue;
        oppx_figures figures;
        oppx_fuzz(explorer, all[i], NULL, option_seed, (oppx_budget){.milliseconds = 10000}, &figures,
                  &finding);
        printf("%-14s %s after %lu executions\n", all[i]->name, finding.found ? "found" : "NOT FOUND",
               (unsigned long)figures.executions);
        blind += !finding.found;
    }
    return blind != 0;
}

static int check(const char *file) {
    static const char *const all[] = {"queue", "runq", "pool", "parking", "inbox", "alarms",
                                      "ring", "closers", "table", "purge", "records", NULL};
    const char *const *names = file != NULL ? targets_of(file) : all;
    if (names == NULL) {
        fprintf(stderr, "explore: '%s' is not a file that is checked\n", file);
        return 2;
    }
    uint64_t executions;
    double begun = now();
    const oppx_target *target = NULL;
    const char *where = hunt(names, option_ms, &executions, &target);
    printf("%s\t%lu\t%.2f\t%s\n", where == NULL ? "-" : where, (unsigned long)executions, now() - begun,
           where == NULL ? "nothing found" : finding.message);
    if (where != NULL) show_finding(target);
    return where != NULL;
}

/* --- Orders ----------------------------------------------------------------------------------- */

/* The orders just below `order` for what a site does; ends with 255. */
static const uint8_t *weaker(const oppx_site *site) {
    enum { RLX = memory_order_relaxed, ACQ = memory_order_acquire, REL = memory_order_release,
           AR = memory_order_acq_rel, END = 255 };
    static const uint8_t acquire[] = {ACQ, END}, release[] = {REL, END}, both[] = {AR, END},
        halves[] = {ACQ, REL, END},
                         relaxed[] = {RLX, END}, none[] = {END};
    switch (site->order) {
    case memory_order_seq_cst:
        return site->kind == OPPX_LOAD ? acquire : site->kind == OPPX_STORE ? release : both;
    case memory_order_acq_rel: return halves;
    case memory_order_acquire:
    case memory_order_release: return relaxed;
    default: return none;
    }
}

static const char *base_of(const char *file) {
    const char *slash = strrchr(file, '/');
    return slash != NULL ? slash + 1 : file;
}

static bool is_same_site(const oppx_site *a, const oppx_site *b) {
    return a->line == b->line && a->kind == b->kind && a->order == b->order &&
        strcmp(base_of(a->file), base_of(b->file)) == 0 &&
           strcmp(a->object, b->object) == 0;
}

static const char *const *targets_of(const char *file) {
    static const char *const queue_files[] = {
        "app.c", "app_suspend.c", "queue.c", "queue.h", "queue_strand.c", "core.c", "fifo.c", "fifo.h",
        "ready_bits.h", "segments.c", "push.c", "runq.h", "producer.c", "take.c", "consumer.c"};
    static const char *const queues[] = {"queue", "runq", "parking", "records", NULL};
    static const char *const pools[] = {"pool", "parking", NULL};
    static const char *const alarms[] = {"alarms", NULL}, *const inboxes[] = {"inbox", NULL};
    static const char *const tables[] = {"table", NULL}, *const purges[] = {"purge", NULL},
        *const closers[] = {"closers", NULL}, *const reports[] = {"report", NULL},
        *const readiness[] = {"readiness", "parking", NULL};
    static const char *const rings[] = {"ring", "closers", NULL};
    for (size_t i = 0; i < sizeof(queue_files) / sizeof(queue_files[0]); i++)
        if (strcmp(file, queue_files[i]) == 0) return queues;
    static const char *const pool_files[] = {"worker_pool.c", "worker_park.c", "worker.c"};
    for (size_t i = 0; i < sizeof(pool_files) / sizeof(pool_files[0]); i++)
        if (strcmp(file, pool_files[i]) == 0) return pools;
    if (strcmp(file, "alarms.c") == 0) return alarms;
    if (strcmp(file, "inbox.c") == 0) return inboxes;
    if (strcmp(file, "ring.c") == 0 || strcmp(file, "ring_threads.c") == 0) return rings;
    if (strcmp(file, "ring_closers.c") == 0) return closers;
    if (strcmp(file, "table.c") == 0) return tables;
    if (strcmp(file, "purge.c") == 0) return purges;
    if (strcmp(file, "report.c") == 0) return reports;
    if (strcmp(file, "readiness.c") == 0) return readiness;
    return NULL;
}

static int compare_sites(const void *a, const void *b) {
    const oppx_site *first = *(oppx_site *const *)a, *second = *(oppx_site *const *)b;
    int files = strcmp(base_of(first->file), base_of(second->file));
    return files != 0 ? files : (int)first->line - (int)second->line;
}

/* Whether a site is chosen by "FILE", "FILE:LINE" or, if NULL, at all. */
static bool is_chosen(const oppx_site *site, const char *place) {
    char whole[300];
    if (place == NULL || strcmp(base_of(site->file), place) == 0) return true;
    snprintf(whole, sizeof(whole), "%s:%u", base_of(site->file), site->line);
    return strcmp(whole, place) == 0;
}

static int orders(const char *place, int part, int of) {
    size_t count, listed = 0;
    oppx_site *sites = oppx_sites(&count), *list[1024];
    for (size_t i = 0; i < count && listed < 1024; i++) {
        bool known = targets_of(base_of(sites[i].file)) == NULL || !is_chosen(&sites[i], place);
        for (size_t k = 0; k < listed; k++) known |= is_same_site(list[k], &sites[i]);
        if (!known) list[listed++] = &sites[i];
    }
    qsort(list, listed, sizeof(list[0]), compare_sites);
    int number = 0, survived = 0;
    for (size_t k = 0; k < listed; k++)
        for (const uint8_t *order = weaker(list[k]); *order != 255; order++) {
            if (number++ % of != part) continue;
            for (size_t i = 0; i < count; i++)
                if (is_same_site(list[k], &sites[i])) sites[i].weakened = (uint8_t)(*order + 1);
            uint64_t executions;
            double begun = now();
            const oppx_target *target;
            const char *where = hunt(targets_of(base_of(list[k]->file)), option_ms, &executions, &target);
            for (size_t i = 0; i < count; i++) sites[i].weakened = 0;
            survived += where == NULL;
            printf("%s:%u\t%s\t%s\t%s\t%s\t%lu\t%.2f\t%s\n", base_of(list[k]->file), list[k]->line,
                   list[k]->object,
                   oppx_order_name(list[k]->order), oppx_order_name(*order),
                   where == NULL ? "SURVIVED" : where,
                   (unsigned long)executions, now() - begun, where == NULL ? "" : finding.message);
            fflush(stdout);
        }
    return survived != 0;
}

/* All orders of a place by one step. */
static bool weaken(const char *place) {
    size_t count, found = 0;
    oppx_site *sites = oppx_sites(&count);
    for (size_t i = 0; i < count; i++) {
        if (!is_chosen(&sites[i], place) || *weaker(&sites[i]) == 255) continue;
        sites[i].weakened = (uint8_t)(*weaker(&sites[i]) + 1);
        found++;
    }
    return found != 0;
}

/* Where a file of the core has atomics that no target runs, or none that is hunted for, `orders` says nothing
 * of it. */
static int knows(char *const *places) {
    size_t count, unknown = 0;
    oppx_site *sites = oppx_sites(&count);
    for (; *places != NULL; places++) {
        bool known = false;
        for (size_t i = 0; i < count && !known; i++)
            known = *weaker(&sites[i]) != 255 && targets_of(base_of(sites[i].file)) != NULL &&
                is_chosen(&sites[i], *places);
        if (!known) fprintf(stderr, "explore: no target runs the order at %s\n", *places);
        unknown += !known;
    }
    return unknown != 0 ? 2 : 0;
}

/* --- The reduction ----------------------------------------------------------------------------- */

/* Whether a search ends, or finds something. */
static bool ends(const oppx_world *world, oppx_reduction reduction, uint64_t ms, oppx_figures *figures) {
    oppx_search_by(explorer, reduction, true);
    if (checked_explore_world(explorer, world, (oppx_budget){.milliseconds = ms}, figures, &finding) != 0)
        exit(2);
    oppx_search_by(explorer, OPPX_REDUCED, false);
    return figures->complete || finding.found;
}

/* Whether the reduced search finds something where the whole one does, and else comes to the same ends. */
static bool is_same(const oppx_world *world, oppx_reduction reduction, const oppx_figures *whole, bool found,
                    oppx_figures *reduced) {
    if (!ends(world, reduction, 0, reduced) || finding.found != found) return false;
    return found || (whole->ends == reduced->ends && whole->ends_hash == reduced->ends_hash);
}

static const char *const blind[] = {[OPPX_BLIND_TO_READS] = "reads", [OPPX_BLIND_TO_SLEEPERS] = "sleepers",
                                    [OPPX_BLIND_TO_JUDGE] = "the judge"};

/*
 * The reduced search against the whole one: in each litmus program, and each world that the whole one ends in
 * MS, both come to the same ends of executions. Where the reduction is made too much of on purpose, some
 * world must show it.
 */
static int reduction(const char *name) {
    size_t count, test_count, wrong = 0, compared = 0, noticed[OPPX_BLIND_TO_JUDGE + 1] = {0};
    const oppx_world *all = checked_worlds(&count);
    const checked_litmus_test *tests = checked_litmus_tests(&test_count);
    for (size_t i = 0; i < count + test_count; i++) {
        oppx_world test = {.target = "litmus", .preemptions = OPPX_UNBOUNDED, .stale = OPPX_UNBOUNDED};
        if (i >= count) test.name = tests[i - count].name, test.program = tests[i - count].program;
        const oppx_world *world = i < count ? &all[i] : &test;
        if (name != NULL && strstr(world->name, name) == NULL) continue;
        oppx_figures whole, reduced, less;
        double begun = now();
        if (!ends(world, OPPX_WHOLE, option_ms, &whole)) continue;
        bool found = finding.found;
        double whole_ended = now();
        bool same = is_same(world, OPPX_REDUCED, &whole, found, &reduced);
        double ended = now();
        for (oppx_reduction r = OPPX_BLIND_TO_READS; r <= OPPX_BLIND_TO_JUDGE; r++) {
            if (is_same(world, r, &whole, found, &less)) continue;
            if (noticed[r]++ < 2) printf("blind to %s, %s ends otherwise\n", blind[r], world->name);
        }
        compared++;
        wrong += !same;
        if (i < count || !same)
            printf("%-24s %-5s %9lu executions %6.2f s, reduced %9lu, %6.2f s; %8lu ends, reduced %8lu\n",
                   world->name,
                   same ? "same" : "OTHER", (unsigned long)whole.executions, whole_ended - begun,
                   (unsigned long)reduced.executions, ended - whole_ended, (unsigned long)whole.ends,
                   (unsigned long)reduced.ends);
        fflush(stdout);
    }
    printf("%zu worlds and litmus programs compared\n", compared);
    for (oppx_reduction r = OPPX_BLIND_TO_READS; r <= OPPX_BLIND_TO_JUDGE && name == NULL; r++) {
        printf("blind to %s: noticed in %zu worlds\n", blind[r], noticed[r]);
        wrong += noticed[r] == 0;
    }
    return wrong != 0 || compared == 0;
}

/* The same with each order weakened, in the worlds that the whole search ends, or finds something in, in
 * MS. */
static int reduction_orders(const char *place) {
    size_t count, world_count, wrong = 0, compared = 0, found_in = 0;
    oppx_site *sites = oppx_sites(&count);
    const oppx_world *all = checked_worlds(&world_count);
    for (size_t s = 0; s < count; s++) {
        const char *const *targets = targets_of(base_of(sites[s].file));
        if (targets == NULL || !is_chosen(&sites[s], place)) continue;
        bool is_later = false; /* of those of one place */
        for (size_t i = 0; i < s; i++) is_later |= is_same_site(&sites[i], &sites[s]);
        for (const uint8_t *order = weaker(&sites[s]); !is_later && *order != 255; order++) {
            for (size_t i = 0; i < count; i++)
                if (is_same_site(&sites[s], &sites[i])) sites[i].weakened = (uint8_t)(*order + 1);
            for (size_t i = 0; i < world_count; i++) {
                oppx_figures whole, reduced;
                if (!is_among(all[i].target, targets) || !ends(&all[i], OPPX_WHOLE, option_ms, &whole))
                    continue;
                bool found = finding.found;
                compared++;
                found_in += found;
                if (is_same(&all[i], OPPX_REDUCED, &whole, found, &reduced)) continue;
                wrong++;
                printf("%s:%u %s to %s, %s: OTHER\n", base_of(sites[s].file), sites[s].line, sites[s].object,
                       oppx_order_name(*order), all[i].name);
            }
            for (size_t i = 0; i < count; i++) sites[i].weakened = 0;
        }
    }
    printf("%zu worlds with an order weakened compared, something is found in %zu; %zu differ\n", compared,
           found_in, wrong);
    return wrong != 0 || compared == 0;
}

int main(int count, char **arguments) {
    int at = 1;
    const char *weakened = NULL;
    bool whole = false;
    for (; at < count && strncmp(arguments[at], "--", 2) == 0; at++) {
        if (strcmp(arguments[at], "--timeline") == 0) option_timeline = true;
        else if (strcmp(arguments[at], "--no-worlds") == 0) option_worlds = false;
        else if (at + 1 < count && strcmp(arguments[at], "--ms") == 0) option_ms =
            strtoull(arguments[++at], NULL, 10);
        else if (at + 1 < count && strcmp(arguments[at], "--weaken") == 0) weakened = arguments[++at];
        else if (strcmp(arguments[at], "--whole") == 0) whole = true;
        else if (at + 1 < count && strcmp(arguments[at], "--seed") == 0) option_seed =
            strtoull(arguments[++at], NULL, 10);
        else count = 0;
    }
    const char *command = at < count ? arguments[at] : "", *name = at + 1 < count ? arguments[at + 1] : NULL;
    explorer = oppx_create();
    if (explorer == NULL) {
        fputs("explore: memory is short\n", stderr);
        return 2;
    }
    if (whole) oppx_search_by(explorer, OPPX_WHOLE, false);
    if (weakened != NULL && !weaken(weakened)) return fputs("explore: there is no such order\n", stderr), 2;
    if (strcmp(command, "smoke") == 0) return smoke();
    if (strcmp(command, "litmus") == 0) return litmus();
    if (strcmp(command, "worlds") == 0) return worlds(name, 0);
    if (strcmp(command, "reduction") == 0) return reduction(name);
    if (strcmp(command, "reduction-orders") == 0) return reduction_orders(name);
    if (strcmp(command, "fuzz") == 0) return fuzz(name);
    if (strcmp(command, "check") == 0) return check(name);
    if (strcmp(command, "replay") == 0) return replay(name);
    if (strcmp(command, "program") == 0) return program(name, at + 2 < count ? arguments[at + 2] : NULL);
    if (strcmp(command, "knows") == 0) return knows(arguments + at + 1);
    int part = 0, of = 1;
    if (strcmp(command, "orders") == 0) {
        bool is_part = name != NULL && sscanf(name, "%d/%d", &part, &of) == 2 && of > 0 && part < of;
        return orders(is_part ? NULL : name, is_part ? part : 0, is_part ? of : 1);
    }
    fputs("usage: explore [--ms MS] [--seed N] [--timeline] [--no-worlds] [--whole] [--weaken FILE:LINE] "
          "smoke|litmus|worlds [NAME]|reduction [NAME]|reduction-orders [FILE[:LINE]]|fuzz [NAME]|"
          "program TARGET TEXT|"
          "replay FILE|check [FILE]|orders [PART/OF|FILE[:LINE]]\n",
          stderr);
    return 2;
}
