/* A trap is caught by stopping the thread for ever in the signal's handler. Jumping out of it would leave the
 * Swift runtime's lists of accesses, on that thread, pointing into frames that are gone. */
#include "opp_trap.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { STACK = 2 << 20, SIGNAL_STACK = 64 << 10 };

struct trial {
    void (*body)(void *);
    void *context;
    sem_t ended; /* orders all that the trial did before what its starter does next */
    int signal;
    char stack[SIGNAL_STACK]; /* the handler's: a trap may be the end of the other one */
};

static const int traps[] = {SIGILL, SIGTRAP, SIGSEGV, SIGBUS, SIGFPE, SIGABRT};
static struct sigaction former[NSIG];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local struct trial *current;

static void on_trap(int number, siginfo_t *info, void *where) {
    (void)info;
    (void)where;
    if (current == NULL) {
        /* not ours: the instruction fails again, and its owner is told */
        sigaction(number, &former[number], NULL);
        return;
    }
    current->signal = number;
    sem_post(&current->ended);
    for (;;) pause();
}

static void install(void) {
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++) sigaction(traps[i], &action, &former[traps[i]]);
}

static void *run(void *argument) {
    struct trial *trial = argument;
    stack_t own = {.ss_sp = trial->stack, .ss_size = SIGNAL_STACK}, before;
    sigaltstack(&own, &before);
    current = trial;
    trial->body(trial->context);
    current = NULL;
    sigaltstack(&before, NULL);
    sem_post(&trial->ended);
    return NULL;
}

int oppx_trap_run(void (*body)(void *), void *context, uint64_t milliseconds) {
    pthread_once(&once, install);
    struct trial *trial = calloc(1, sizeof *trial);
    if (trial == NULL) return -ENOMEM;
    trial->body = body;
    trial->context = context;
    sem_init(&trial->ended, 0, 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_t thread;
    int result = pthread_create(&thread, &attributes, run, trial);
    pthread_attr_destroy(&attributes);
    if (result != 0) {
        sem_destroy(&trial->ended);
        free(trial);
        return -result;
    }
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    uint64_t nanoseconds = (uint64_t)end.tv_nsec + milliseconds % 1000 * 1000000;
    end.tv_sec += (time_t)(milliseconds / 1000 + nanoseconds / 1000000000);
    end.tv_nsec = (long)(nanoseconds % 1000000000);
    do result = sem_clockwait(&trial->ended, CLOCK_MONOTONIC, &end) == 0 ? 0 : errno;
    while (result == EINTR);
    if (result != 0 || trial->signal != 0) {
        /* The thread has the trial, its stack and all for itself. */
        pthread_detach(thread);
        return result != 0 ? -ETIMEDOUT : trial->signal;
    }
    pthread_join(thread, NULL);
    sem_destroy(&trial->ended);
    free(trial);
    return 0;
}
