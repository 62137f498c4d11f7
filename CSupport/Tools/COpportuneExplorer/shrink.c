/*
 * Makes a failure smaller. First the program: operations and threads are left out one at a time, and a
 * failure of what is left is searched for by the same choices, then at random for a moment. Then the choices:
 * each that is not the default is tried as the default, which removes switches of threads and old values.
 *
 * Every try that failed the same way becomes the finding, so the loops end at one from which nothing more can
 * be left out.
 */
#include "state.h"

#include <ctype.h>
#include <string.h>

#define TRIES 400 /* random executions for each program */

static uint32_t program_size(const oppx_program *program) {
    uint32_t size = program->threads;
    for (uint32_t t = 0; t < program->threads; t++) size += program->count[t];
    return size;
}

static void remove_operation(oppx_program *program, uint32_t thread, uint32_t index) {
    uint32_t rest = program->count[thread] - index - 1;
    memmove(&program->operation[thread][index], &program->operation[thread][index + 1],
            rest * sizeof(oppx_operation));
    program->count[thread]--;
}

/* Threads keep their numbers, which may decide what they may do; only empty ones at the end go. */
static void remove_empty(oppx_program *program) {
    while (program->threads > 1 && program->count[program->threads - 1] == 0) program->threads--;
}

/* Whether two messages say the same, but for numbers: the failure is not exchanged for another on the way. */
static bool is_same_failure(const char *a, const char *b) {
    for (;;) {
        while (isxdigit((unsigned char)*a)) a++;
        while (isxdigit((unsigned char)*b)) b++;
        if (*a != *b) return false;
        if (*a == 0) return true;
        a++, b++;
    }
}

static bool fails_too(oppx *x, const oppx_target *target, oppx_finding *finding, const oppx_program *program,
                      oppx_finding *attempt) {
    *attempt = *finding;
    attempt->program = *program;
    if (oppx_replay(x, target, attempt) && is_same_failure(attempt->message, finding->message)) return true;
    uint64_t seed = program_size(program) * 1000003u;
    for (uint64_t tries = 0; tries < TRIES;) {
        oppx_figures figures;
        oppx_budget budget = {.executions = TRIES - tries, .first = tries};
        oppx_fuzz(x, target, program, seed, budget, &figures, attempt);
        if (!attempt->found) return false;
        if (is_same_failure(attempt->message, finding->message)) return true;
        tries += figures.executions;
    }
    return false;
}

static bool shrink_program(oppx *x, const oppx_target *target, oppx_finding *finding, oppx_finding *attempt,
                           uint64_t end) {
    for (uint32_t t = 0; t < finding->program.threads; t++)
        for (uint32_t i = 0; i < finding->program.count[t]; i++) {
            if (now_ms() > end) return false;
            oppx_program smaller = finding->program;
            remove_operation(&smaller, t, i);
            remove_empty(&smaller);
            if (!fails_too(x, target, finding, &smaller, attempt)) continue;
            *finding = *attempt;
            return true;
        }
    return false;
}

/* Those at the end. */
static void cut_default(oppx_finding *finding) {
    while (finding->choice_count > 0 && finding->choice[finding->choice_count - 1] == 0)
        finding->choice_count--;
}

static bool try_choices(oppx *x, const oppx_target *target, oppx_finding *finding, oppx_finding *attempt) {
    if (!oppx_replay(x, target, attempt) || !is_same_failure(attempt->message, finding->message))
        return false;
    *finding = *attempt;
    return true;
}

static void shrink_choices(oppx *x, const oppx_target *target, oppx_finding *finding, oppx_finding *attempt,
                           uint64_t end) {
    bool smaller = true;
    while (smaller && now_ms() < end) {
        smaller = false;
        /* The end first: what comes after is the default. */
        for (uint32_t cut = finding->choice_count; cut > 0; cut /= 2) {
            *attempt = *finding;
            attempt->choice_count = finding->choice_count - cut;
            if (try_choices(x, target, finding, attempt)) {
                smaller = true;
                break;
            }
        }
        for (uint32_t i = 0; i < finding->choice_count && now_ms() < end; i++) {
            if (finding->choice[i] == 0) continue;
            *attempt = *finding;
            attempt->choice[i] = 0;
            if (try_choices(x, target, finding, attempt)) {
                smaller = true;
                continue;
            }
            /* Without the choice at all: when the others no longer fit because fewer are asked. */
            *attempt = *finding;
            memmove(&attempt->choice[i], &attempt->choice[i + 1], attempt->choice_count - i - 1);
            attempt->choice_count--;
            smaller |= try_choices(x, target, finding, attempt);
        }
    }
    cut_default(finding);
}

void oppx_shrink(oppx *x, const oppx_target *target, oppx_finding *finding, uint64_t milliseconds) {
    oppx_finding *attempt = oppx_finding_create();
    if (attempt == NULL) return;
    uint64_t end = now_ms() + milliseconds;
    while (milliseconds > 0 && shrink_program(x, target, finding, attempt, end)) {}
    shrink_choices(x, target, finding, attempt, end);
    oppx_finding_destroy(attempt);
    if (!oppx_replay(x, target, finding)) return;
    /* What was chosen where a choice did not fit is what is kept. */
    finding->choice_count = x->depth;
    memcpy(finding->choice, x->choice, x->depth);
    finding->misfit = 0;
    cut_default(finding);
}
