/* Waiting for memory pressure: an eventfd and a pressure stall trigger in one poll; and the alarm of the wall
 * clock. */
#include "opp_watch.h"
#include "opp_assert.h"
#include "opp_sync.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

int opp_watch_open(void) {
    return opp_notifier_open();
}

int opp_watch_stall(const char *path, uint32_t stall_us, uint32_t window_us) {
    int descriptor = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return -errno;
    char trigger[64];
    int length = snprintf(trigger, sizeof(trigger), "some %u %u", stall_us, window_us);
    OPP_ASSERT(length > 0);
    OPP_ASSERT((size_t)length < sizeof(trigger));
    /* The trigger includes the terminating zero. */
    if (write(descriptor, trigger, (size_t)length + 1) < 0) {
        int error = errno;
        close(descriptor);
        return -error;
    }
    return descriptor;
}

int opp_watch_clock(void) {
    int timer = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (timer < 0) return -errno;
    /* Due in 30,000 years: only the cancellation matters. */
    struct itimerspec due = {.it_value.tv_sec = (time_t)1 << 40};
    if (timerfd_settime(timer, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &due, NULL) < 0) {
        int error = errno;
        close(timer);
        return -error;
    }
    return timer;
}

void opp_watch_close(int descriptor) {
    close(descriptor);
}

void opp_watch_notify(int notifier) {
    opp_notifier_notify(notifier);
}

uint32_t opp_watch_wait(int notifier, int alarm, int timeout_ms) {
    /* poll() skips a descriptor below 0. */
    struct pollfd polled[2] = {{.fd = notifier, .events = POLLIN}, {.fd = alarm, .events = POLLPRI}};
    if (poll(polled, 2, timeout_ms) <= 0) return 0;
    uint32_t what = 0;
    /* opp_timer_read() reads eventfds as well. */
    if ((polled[0].revents & POLLIN) && opp_timer_read(notifier)) what |= OPP_WATCH_NOTIFIED;
    if (polled[1].revents & POLLPRI) what |= OPP_WATCH_STALL;
    return what;
}
