/* The notifier, and the kernel's alarms for memory stalls and the wall clock. R-MEM-01 */
#include "check.h"
#include "opportune.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

static void *ring(void *notifier) {
    opp_watch_notify(*(int *)notifier);
    return NULL;
}

int main(void) {
    alarm(60);
    int notifier = opp_watch_open();
    CHECK(notifier >= 0);
    CHECK_EQUAL(opp_watch_wait(notifier, -1, 0), 0);
    /* However often it was notified, it is seen once. */
    opp_watch_notify(notifier);
    opp_watch_notify(notifier);
    CHECK_EQUAL(opp_watch_wait(notifier, -1, -1), OPP_WATCH_NOTIFIED);
    CHECK_EQUAL(opp_watch_wait(notifier, -1, 0), 0);
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, ring, &notifier), 0);
    CHECK_EQUAL(opp_watch_wait(notifier, -1, -1), OPP_WATCH_NOTIFIED);
    pthread_join(thread, NULL);

    CHECK_EQUAL(opp_watch_stall("/nowhere", 150000, 2000000), -ENOENT);
    int alarm = opp_watch_stall("/proc/pressure/memory", 150000, 2000000);
    if (alarm < 0) {
        printf("no stall alarm here (error %d): only its refusal was tested\n", -alarm);
    } else {
        CHECK_EQUAL(opp_watch_stall("/proc/pressure/memory", 2000000, 1000), -EINVAL);
        opp_watch_notify(notifier);
        CHECK(opp_watch_wait(notifier, alarm, -1) & OPP_WATCH_NOTIFIED);
        opp_watch_close(alarm);
    }
    opp_watch_close(notifier);

    /* Quiet until somebody sets the clock, which no test does. */
    int clock = opp_watch_clock();
    CHECK(clock >= 0);
    uint64_t count;
    CHECK(read(clock, &count, sizeof(count)) < 0 && errno == EAGAIN);
    opp_watch_close(clock);
    return 0;
}
