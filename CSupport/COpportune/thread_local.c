/*
 * Thread-local registrations. Only the thread itself touches its own, so there is no synchronisation here but
 * the cores' reference counts.
 */
#include "opp_stats.h"
#include "opp_assert.h"
#include "opp_sync.h"
#include "opp_thread.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct registration {
    opp_core *core;
    opp_producer *producer;
    struct registration *next;
} registration;

static _Thread_local registration *registrations;
static _Thread_local void *current_worker;
static _Thread_local bool ending;
static _Thread_local uint64_t number;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static _Atomic(uint64_t) numbers;

/* Drops the registrations with destroyed cores, or with `all` cores. */
static void forget(bool all) {
    for (registration **link = &registrations, *entry; (entry = *link) != NULL;) {
        if (!all && !opp_core_is_destroyed(entry->core)) {
            link = &entry->next;
            continue;
        }
        *link = entry->next;
        opp_producer_release(entry->producer);
        opp_core_release(entry->core);
        free(entry);
    }
}

static void thread_ends(void *unused) {
    (void)unused;
    ending = true;
    forget(true);
    OPP_ASSERT(registrations == NULL);
}

static void set_up(void) {
    pthread_key_create(&key, thread_ends);
}

static __attribute__((noinline)) opp_producer *thread_register(opp_core *core, uint8_t node, int *error) {
    if (ending) {
        *error = -ESHUTDOWN;
        return NULL;
    }
    pthread_once(&once, set_up);
    forget(false); /* a thread that outlives many schedulers keeps the memory of few */
    registration *entry = malloc(sizeof(registration));
    opp_producer *producer = entry == NULL ? NULL : opp_producer_acquire(core, node);
    if (producer == NULL) {
        free(entry);
        *error = -ENOMEM;
        return NULL;
    }
    OPP_ASSERT(entry != NULL);
    opp_core_retain(core);
    *entry = (registration){.core = core, .producer = producer, .next = registrations};
    registrations = entry;
    pthread_setspecific(key, entry); /* any value but NULL makes pthread call thread_ends() */
    return producer;
}

static inline opp_producer *thread_producer(opp_core *core, uint8_t node, int *error) {
    for (registration *entry = registrations; entry != NULL; entry = entry->next)
        if (entry->core == core) return entry->producer;
    return thread_register(core, node, error);
}

opp_producer *opp_thread_producer(opp_core *core, uint8_t node, int *error) {
    return thread_producer(core, node, error);
}

opp_here opp_thread_here(opp_core *core, const opp_app *app) {
    opp_here here = {.worker = current_worker, .band = opp_app_state_read(app).band};
    here.producer = thread_producer(core, 0, &here.error);
    OPP_ASSERT((here.producer != NULL) == (here.error == 0));
    here.number = opp_thread_number();
    here.is_sample = opp_stats_is_sample();
    return here;
}

unsigned opp_thread_registrations(void) {
    unsigned count = 0;
    for (const registration *entry = registrations; entry != NULL; entry = entry->next) count++;
    return count;
}

uint64_t opp_thread_number(void) {
    /* relaxed: only uniqueness matters */
    if (number == 0) number = opp_add(&numbers, 1, relaxed) + 1;
    OPP_ASSERT(number != 0);
    return number;
}

void *opp_thread_worker(void) {
    return current_worker;
}

void opp_thread_set_worker(void *worker) {
    current_worker = worker;
}
