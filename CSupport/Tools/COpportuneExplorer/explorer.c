/* An explorer's life, and crashes of the checked code, which are findings like others. */
#include "state.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STACK_BYTES (256u << 10)
#define SIGNAL_STACK_BYTES (64u << 10)

static struct sigaction former[32];
static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
static pthread_once_t catch_once = PTHREAD_ONCE_INIT;

static void on_crash(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    oppx *x = oppx_self;
    if (x == NULL || !x->executing) {
        /* not ours: the instruction fails again, and its owner is told */
        sigaction(number, &former[number], NULL);
        return;
    }
    snprintf(x->message, sizeof(x->message), "a crash: thread %u, signal %d", x->running, number);
    x->failed = true;
    if (NOTED(x)) note_step(x, "FAILS: %s", x->message);
    run_leave(x); /* leaves the signal's stack, which is free again then, as SA_NODEFER masks nothing */
}

static void catch_crashes(void) {
    struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
        sigaction(crashes[i], &action, &former[crashes[i]]);
}

oppx *oppx_create(void) {
    oppx *x = calloc(1, sizeof(oppx));
    if (x == NULL) return NULL;
    bool fine = memory_create(x) == 0;
    for (int i = 0; fine && i < OPPX_THREADS; i++) {
        oppx_fiber *fiber = &x->threads[i].fiber;
        fiber->stack_bytes = STACK_BYTES;
        fiber->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (fiber->stack == MAP_FAILED) {
            fiber->stack = NULL;
            fine = false;
        } else {
            mprotect(fiber->stack, 4096, PROT_NONE);
        }
    }
    if (!fine) {
        oppx_destroy(x);
        return NULL;
    }
    pthread_once(&catch_once, catch_crashes);
    return x;
}

void oppx_destroy(oppx *x) {
    memory_destroy(x);
    for (int i = 0; i < OPPX_THREADS; i++)
        if (x->threads[i].fiber.stack != NULL) munmap(x->threads[i].fiber.stack, STACK_BYTES);
    for (int i = 0; i < OPPX_STATES; i++) free(x->state[i]);
    free(x->table);
    free(x->end_keys);
    reduce_destroy(x);
    free(x->ends);
    free(x->records);
    free(x->uses);
    free(x);
}

void *oppx_state(int which, size_t size) {
    oppx *x = oppx_self;
    if (x->state_size[which] < size) {
        free(x->state[which]);
        x->state[which] = calloc(1, size);
        x->state_size[which] = x->state[which] != NULL ? size : 0;
        if (x->state[which] == NULL) oppx_fail("memory is short");
    }
    return x->state[which];
}

/* One execution on the calling thread, with a signal stack lent to it. */
void execute(oppx *x) {
    oppx_self = x;
    x->executing = true;
    run_execution(x);
    x->executing = false;
    oppx_self = NULL;
}

void execute_prepare(oppx *x) {
    x->later.use = LATER_NONE;
    if (x->signal_stack != NULL) return;
    x->signal_stack = malloc(SIGNAL_STACK_BYTES);
    stack_t stack = {.ss_sp = x->signal_stack, .ss_size = SIGNAL_STACK_BYTES};
    if (x->signal_stack != NULL) sigaltstack(&stack, &x->former_stack);
}

void execute_done(oppx *x) {
    if (x->signal_stack == NULL) return;
    sigaltstack(&x->former_stack, NULL);
    free(x->signal_stack);
    x->signal_stack = NULL;
}
