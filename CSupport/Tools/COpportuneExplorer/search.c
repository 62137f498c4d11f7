/* Series of executions: exhaustive, random, from bytes, replayed. */
#include "state.h"

#include <stdlib.h>
#include <string.h>

#define ENDS_FIRST (1ull << 12)
#define TABLE_FIRST (1ull << 16)
#define TABLE_KEPT (1ull << 20) /* from one search to the next */
#define TABLE_LAST (1ull << 26) /* a gigabyte */

static void keep_finding(oppx *x, oppx_finding *finding) {
    finding->found = x->failed;
    memcpy(finding->message, x->message, sizeof(finding->message));
    finding->program = *x->program;
    finding->bounds = x->bounds;
    finding->foretold = x->later.use == LATER_FORETELL ? x->later.told : (oppx_foretold){0};
    finding->choice_count = x->depth;
    memcpy(finding->choice, x->choice, x->depth);
}

static bool is_over(const oppx_budget *budget, uint64_t executions, uint64_t begun) {
    if (budget->stop != NULL && *budget->stop) return true;
    if (budget->executions != 0 && executions >= budget->executions) return true;
    /* The clock is read rarely: it costs as much as a short execution. */
    return budget->milliseconds != 0 && executions % 16 == 0 && now_ms() - begun >= budget->milliseconds;
}

/* --- Exhaustive ------------------------------------------------------------------------------ */

static bool table_grow(oppx *x) {
    uint64_t size = x->table == NULL ? TABLE_FIRST : (x->table_mask + 1) * 4;
    if (size > TABLE_LAST) return false;
    seen_state *larger = calloc(size, sizeof(seen_state));
    if (larger == NULL) return false;
    for (uint64_t i = 0; x->table != NULL && i <= x->table_mask; i++) {
        if (!x->table[i].used) continue;
        uint64_t place = x->table[i].key >> 8 & (size - 1);
        while (larger[place].used) place = (place + 1) & (size - 1);
        larger[place] = x->table[i];
    }
    free(x->table);
    x->table = larger;
    x->table_mask = size - 1;
    return true;
}

/* The next option of a choice, or how many there are. */
static uint32_t next_option(oppx *x, uint32_t depth) {
    uint32_t next = x->choice[depth] + 1u, options = x->options[depth], threads = options - x->stops[depth];
    if (!x->reduces || x->kind[depth] > CHOOSE_THREAD) return next;
    if (x->kind[depth] == CHOOSE_SWITCH && next == 1 && !reduce_needs_switch(x, depth)) next = threads;
    while (next < threads && !(x->awake[depth] >> next & 1)) next++;
    return next == threads && x->stops[depth] && !reduce_needs_stop(x, depth) ? options : next;
}

/* The next list of choices in order. False when the last has been. */
static bool search_next(oppx *x) {
    if (x->reduces) reduce_fold_begins(x);
    for (uint32_t depth = x->depth; depth > 0; depth--) {
        if (x->reduces) reduce_fold(x, x->place[depth - 1]);
        uint32_t next = next_option(x, depth - 1);
        if (next >= x->options[depth - 1]) continue;
        x->choice[depth - 1] = (uint8_t)next;
        x->stack_depth = depth;
        return true;
    }
    return false;
}

/* How far they have been counted up: of the first choice's options, then of the second's under the one that
 * is tried... */
static double search_counted(const oppx *x) {
    double counted = 0, part = 1;
    for (uint32_t i = 0; i < x->stack_depth; i++) {
        part /= x->options[i];
        counted += part * x->choice[i];
    }
    return counted;
}

static void ends_begin(oppx *x, bool counts) {
    free(x->end_keys);
    x->end_mask = ENDS_FIRST - 1;
    x->end_count = x->end_hash = 0;
    x->end_keys = counts ? calloc(ENDS_FIRST, sizeof(uint64_t)) : NULL;
}

/* A set of hashes; what does not fit any more is counted each time. */
static void ends_add(oppx *x) {
    if (x->end_keys == NULL) return;
    if (x->end_count > x->end_mask / 2) {
        uint64_t size = (x->end_mask + 1) * 4, *larger = calloc(size, sizeof(uint64_t));
        if (larger == NULL) return;
        for (uint64_t i = 0; i <= x->end_mask; i++) {
            uint64_t place = x->end_keys[i] >> 8 & (size - 1);
            while (x->end_keys[i] != 0 && larger[place] != 0) place = (place + 1) & (size - 1);
            if (x->end_keys[i] != 0) larger[place] = x->end_keys[i];
        }
        free(x->end_keys);
        x->end_keys = larger;
        x->end_mask = size - 1;
    }
    uint64_t place = x->end >> 8 & x->end_mask;
    for (; x->end_keys[place] != 0; place = (place + 1) & x->end_mask)
        if (x->end_keys[place] == x->end) return;
    x->end_keys[place] = x->end;
    x->end_count++;
    x->end_hash += mix(x->end, 3);
}

void oppx_search_by(oppx *x, oppx_reduction reduction, bool ends) {
    x->reduction = reduction;
    x->counts_ends = ends;
}

void oppx_exhaust(oppx *x, const oppx_target *target, const oppx_program *program, oppx_bounds bounds,
                  oppx_budget budget, oppx_figures *figures, oppx_finding *finding) {
    memset(figures, 0, sizeof(*figures));
    finding->found = false;
    x->target = target;
    x->program = program;
    x->driver = DRIVE_SEARCH;
    x->bounds = bounds;
    x->stack_depth = 0;
    x->cut = false;
    x->pruned = 0;
    if (x->table_mask >= TABLE_KEPT) {
        free(x->table);
        x->table = NULL;
    }
    if (x->table != NULL) memset(x->table, 0, (x->table_mask + 1) * sizeof(seen_state));
    else table_grow(x);
    x->table_count = 0;
    if (x->table == NULL || !reduce_search_begins(x)) return;
    ends_begin(x, x->counts_ends);
    uint64_t begun = now_ms();
    execute_prepare(x);
    while (!is_over(&budget, figures->executions, begun)) {
        execute(x);
        figures->executions++;
        figures->steps += x->steps;
        if (x->failed) {
            keep_finding(x, finding);
            break;
        }
        if (x->counts_ends && !x->is_known) ends_add(x);
        if (!search_next(x)) {
            figures->complete = !x->cut;
            x->stack_depth = 0;
            figures->counted = 1;
            break;
        }
        if (x->table_count > x->table_mask / 2) table_grow(x);
    }
    execute_done(x);
    reduce_search_ends(x);
    figures->counted += search_counted(x);
    figures->ends = x->end_count;
    figures->ends_hash = x->end_hash;
    figures->states = x->table_count;
    figures->pruned = x->pruned;
}

/* --- Random ---------------------------------------------------------------------------------- */

/* Where a program's numbers come from: `random`, or, if NULL, bytes, a byte a number. */
typedef struct draws {
    uint64_t *random;
    const uint8_t *bytes;
    size_t left;
} draws;

static uint32_t draw(draws *from, uint32_t limit) {
    if (from->random != NULL) return (uint32_t)(random_next(from->random) % limit);
    if (from->left == 0) return 0;
    from->left--;
    return *from->bytes++ % limit;
}

static void draw_program(const oppx_target *target, draws *from, oppx_program *program) {
    memset(program, 0, sizeof(*program));
    uint32_t most = target->threads_max;
    /* Now and then one thread alone: the promises hold there too, and more of them can be judged. */
    program->threads = most < 2 || draw(from, 16) == 15 ? 1 : 2 + draw(from, most - 1);
    for (uint32_t t = 0; t < program->threads; t++) {
        uint32_t total = 0;
        for (uint32_t k = 0; k < target->kind_count; k++) {
            const oppx_kind *kind = &target->kinds[k];
            if (kind->threads == 0 || kind->threads & 2u << t) total += kind->weight;
        }
        if (total == 0) continue;
        program->count[t] = 1 + draw(from, target->operations_max);
        for (uint32_t i = 0; i < program->count[t]; i++) {
            oppx_operation *operation = &program->operation[t][i];
            uint32_t drawn = draw(from, total);
            for (uint32_t k = 0; k < target->kind_count; k++) {
                const oppx_kind *kind = &target->kinds[k];
                if (kind->threads != 0 && !(kind->threads & 2u << t)) continue;
                operation->kind = (uint8_t)k;
                if (drawn < kind->weight) break;
                drawn -= kind->weight;
            }
            for (int a = 0; a < target->kinds[operation->kind].arguments; a++)
                operation->argument[a] = (uint8_t)draw(from, target->kinds[operation->kind].limit[a]);
        }
    }
}

/* Whether no execution of this explorer was like the one that is over: in what each thread did and saw, and
 * in what the objects hold. Two in ENDS are taken for one. */
static bool is_new_end(oppx *x) {
    if (x->ends == NULL) x->ends = calloc(1, ENDS / 8);
    if (x->ends == NULL) return false;
    uint32_t bit = (uint32_t)(mix(state_hash(x), 9) % ENDS);
    bool is_new = !(x->ends[bit / 8] >> bit % 8 & 1);
    x->ends[bit / 8] |= (uint8_t)(1u << bit % 8);
    return is_new;
}

void oppx_fuzz(oppx *x, const oppx_target *target, const oppx_program *program, uint64_t seed,
               oppx_budget budget,
               oppx_figures *figures, oppx_finding *finding) {
    memset(figures, 0, sizeof(*figures));
    finding->found = false;
    oppx_program drawn;
    x->target = target;
    x->driver = DRIVE_RANDOM;
    x->bounds = (oppx_bounds){OPPX_UNBOUNDED, OPPX_UNBOUNDED, 0, OPPX_UNBOUNDED, 0};
    x->expected_steps = 100;
    uint64_t begun = now_ms();
    execute_prepare(x);
    while (!is_over(&budget, figures->executions, begun)) {
        /* Of both, so that neither neighbouring numbers nor neighbouring seeds have draws in common. */
        x->random = mix(mix(seed, 2), budget.first + figures->executions);
        if (program == NULL) draw_program(target, &(draws){.random = &x->random}, &drawn);
        x->program = program != NULL ? program : &drawn;
        /* How long such a program is, roughly; drawn from the program alone, so that each execution stands
         * alone. */
        uint32_t operations = 0;
        for (uint32_t t = 0; t < x->program->threads; t++) operations += x->program->count[t];
        x->expected_steps = 12 * operations;
        x->bounds.stalls = target->stalls != 0 && random_next(&x->random) % 4 == 0 ? 1 : 0;
        x->bounds.refusals = random_next(&x->random) % 4 == 0 ? (uint8_t)target->refusals : 0;
        x->later.random = mix(x->random, 4);
        x->later.use = x->later.random % 4 == 0 ? LATER_WATCH : LATER_NONE;
        execute(x);
        figures->executions++;
        figures->steps += x->steps;
        figures->states += is_new_end(x);
        if (!x->failed && x->later.pairs > 0) {
            x->driver = DRIVE_REPLAY; /* the choices of the execution that is over */
            x->stack_depth = x->depth;
            execute_foretold(x);
            x->driver = DRIVE_RANDOM;
            figures->steps += x->steps;
        }
        if (x->failed) {
            keep_finding(x, finding);
            break;
        }
    }
    execute_done(x);
}

/* --- Given ----------------------------------------------------------------------------------- */

bool oppx_run_bytes(oppx *x, const oppx_target *target, const uint8_t *bytes, size_t size,
                    oppx_finding *finding) {
    oppx_program program;
    /* The program from the front, the choices from the back, so that a change of one leaves the other as it
     * was. */
    draws from = {.bytes = bytes, .left = size};
    draw_program(target, &from, &program);
    x->target = target;
    x->program = &program;
    x->driver = DRIVE_BYTES;
    x->bounds = (oppx_bounds){OPPX_UNBOUNDED, OPPX_UNBOUNDED, (uint8_t)target->stalls, OPPX_UNBOUNDED,
                              (uint8_t)target->refusals};
    x->bytes = from.bytes;
    x->byte_count = from.left;
    execute_prepare(x);
    execute(x);
    execute_done(x);
    finding->found = false;
    if (x->failed) keep_finding(x, finding);
    return x->failed;
}

bool oppx_replay(oppx *x, const oppx_target *target, oppx_finding *finding) {
    x->target = target;
    x->program = &finding->program;
    x->driver = DRIVE_REPLAY;
    x->bounds = finding->bounds;
    x->stack_depth = finding->choice_count < OPPX_CHOICES ? finding->choice_count : OPPX_CHOICES;
    memcpy(x->choice, finding->choice, x->stack_depth);
    execute_prepare(x);
    if (finding->foretold.load == 0) {
        execute(x);
    } else {
        record *records = x->records; /* of the second time only */
        x->records = NULL;
        x->later.use = LATER_LEARN;
        x->later.told = finding->foretold;
        execute(x);
        x->records = records;
        memcpy(x->choice, finding->choice, x->stack_depth);
        execute_foretold(x);
    }
    execute_done(x);
    finding->found = x->failed;
    finding->misfit = x->misfit != 0 ? x->misfit : x->depth < x->stack_depth ? x->depth + 1 : 0;
    memcpy(finding->message, x->message, sizeof(finding->message));
    return x->failed;
}
