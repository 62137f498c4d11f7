/* Making a waiting thread look, as every post to the monitor does: what the caller pays. */
#include "notifier.h"
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

const char *const notifier_name[NOTIFIER_KINDS] = {"opportune notifier", "eventfd", "bare futex"};

typedef struct notifier {
    notifier_kind kind;
    opp_alarms *alarms;
    int event;
    _Atomic(uint32_t) word;
    _Atomic(uint32_t) ends;
} notifier;

static void notifier_ring(notifier *notifier) {
    const uint64_t one = 1;
    switch (notifier->kind) {
    case NOTIFIER_ALARMS: opp_alarms_notify(notifier->alarms); break;
    case NOTIFIER_EVENT: CHECK(write(notifier->event, &one, sizeof(one)) == sizeof(one)); break;
    default:
        atomic_fetch_add(&notifier->word, 1);
        syscall(SYS_futex, &notifier->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

static void notifier_wait(notifier *notifier, uint32_t *seen) {
    uint64_t count;
    struct pollfd polled = {.fd = notifier->event, .events = POLLIN};
    switch (notifier->kind) {
    case NOTIFIER_ALARMS: (void)opp_alarms_wait(notifier->alarms); break;
    case NOTIFIER_EVENT:
        while (poll(&polled, 1, -1) <= 0) {}
        CHECK(read(notifier->event, &count, sizeof(count)) == sizeof(count));
        break;
    default:
        while (atomic_load(&notifier->word) == *seen)
            syscall(SYS_futex, &notifier->word, FUTEX_WAIT_PRIVATE, *seen, NULL, NULL, 0);
        *seen = atomic_load(&notifier->word);
    }
}

static void *waiter_main(void *object) {
    notifier *notifier = object;
    uint32_t seen = 0;
    while (!atomic_load(&notifier->ends)) notifier_wait(notifier, &seen);
    return NULL;
}

double notifier_call(notifier_kind kind, uint64_t n) {
    notifier notifier = {.kind = kind, .alarms = CHECKED(opp_alarms_create()),
        .event = eventfd(0, EFD_CLOEXEC)};
    pthread_t thread;
    CHECK(notifier.event >= 0 && pthread_create(&thread, NULL, waiter_main, &notifier) == 0);
    uint64_t start = now_ns();
    for (uint64_t i = 0; i < n; i++) notifier_ring(&notifier);
    uint64_t end = now_ns();
    atomic_store(&notifier.ends, 1);
    notifier_ring(&notifier);
    CHECK(pthread_join(thread, NULL) == 0);
    close(notifier.event);
    opp_alarms_destroy(notifier.alarms);
    return (double)(end - start) / (double)n;
}
