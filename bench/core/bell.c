/* Making a waiting thread look, as every post to the monitor does: what the caller pays. */
#include "bell.h"
#include "check.h"
#include "opportune.h"
#include "sample.h"

#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

const char *const bell_name[BELL_KINDS] = {"opportune bell", "eventfd", "bare futex"};

typedef struct bell {
    bell_kind kind;
    opp_alarms *alarms;
    int event;
    _Atomic(uint32_t) word;
    _Atomic(uint32_t) ends;
} bell;

static void bell_ring(bell *bell) {
    const uint64_t one = 1;
    switch (bell->kind) {
    case BELL_ALARMS: opp_alarms_ring(bell->alarms); break;
    case BELL_EVENT: CHECK(write(bell->event, &one, sizeof(one)) == sizeof(one)); break;
    default:
        atomic_fetch_add(&bell->word, 1);
        syscall(SYS_futex, &bell->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

static void bell_wait(bell *bell, uint32_t *seen) {
    uint64_t count;
    struct pollfd polled = {.fd = bell->event, .events = POLLIN};
    switch (bell->kind) {
    case BELL_ALARMS: (void)opp_alarms_wait(bell->alarms); break;
    case BELL_EVENT:
        while (poll(&polled, 1, -1) <= 0) {}
        CHECK(read(bell->event, &count, sizeof(count)) == sizeof(count));
        break;
    default:
        while (atomic_load(&bell->word) == *seen) syscall(SYS_futex, &bell->word, FUTEX_WAIT_PRIVATE, *seen, NULL, NULL, 0);
        *seen = atomic_load(&bell->word);
    }
}

static void *waiter_main(void *object) {
    bell *bell = object;
    uint32_t seen = 0;
    while (!atomic_load(&bell->ends)) bell_wait(bell, &seen);
    return NULL;
}

double bell_call(bell_kind kind, uint64_t n) {
    bell bell = {.kind = kind, .alarms = CHECKED(opp_alarms_create()), .event = eventfd(0, EFD_CLOEXEC)};
    pthread_t thread;
    CHECK(bell.event >= 0 && pthread_create(&thread, NULL, waiter_main, &bell) == 0);
    uint64_t start = now_ns();
    for (uint64_t i = 0; i < n; i++) bell_ring(&bell);
    uint64_t end = now_ns();
    atomic_store(&bell.ends, 1);
    bell_ring(&bell);
    CHECK(pthread_join(thread, NULL) == 0);
    close(bell.event);
    opp_alarms_destroy(bell.alarms);
    return (double)(end - start) / (double)n;
}
