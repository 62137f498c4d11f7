#include "operations.h"
#include "check.h"
#include "park.h"
#include "queues.h"
#include "notifier.h"
#include "setup.h"

#include <string.h>

static void cycle(const contender *contender, uint64_t n, uint64_t batch) {
    void *queue = CHECKED(contender->make(1, batch < 64 ? 64 : batch));
    queue_cycle(contender, queue, n, batch);
    contender->destroy(queue);
}

/* `queued` jobs wait; the app is suspended and resumed, or lowered and raised, n times. */
static void toggle(uint64_t n, uint64_t queued, bool suspends) {
    opp_core *core = CHECKED(setup_core());
    opp_producer *producer = CHECKED(opp_producer_acquire(core, 0));
    opp_app *app = CHECKED(opp_app_create(core, SETUP_FOREGROUND, false));
    for (uint64_t i = 0; i < queued; i++) CHECK(opp_push(producer, app, SETUP_RANK, (opp_job){core, 0}) >= 0);
    for (uint64_t i = 0; i < n; i++)
        CHECK(suspends ? opp_app_suspend(app) && opp_app_resume(app)
                       : opp_app_set_band(app, SETUP_BACKGROUND) && opp_app_set_band(app, SETUP_FOREGROUND));
    opp_core_destroy(core, NULL, NULL);
}

/* n jobs, of so many apps: one of each is queued, then all are taken; or the last app's alone, one at a time,
 * and a take that finds nothing comes after each. */
static void of_apps(uint64_t n, uint32_t count, bool in_vain) {
    static opp_app *apps[4096];
    opp_core *core = CHECKED(setup_core());
    opp_producer *producer = CHECKED(opp_producer_acquire(core, 0));
    opp_consumer *consumer = CHECKED(opp_consumer_create(core, producer, NULL));
    opp_taken taken;
    for (uint32_t i = 0; i < count; i++) apps[i] = CHECKED(opp_app_create(core, SETUP_FOREGROUND, false));
    uint32_t first = in_vain ? count - 1 : 0;
    for (uint64_t done = 0; done < n;) {
        uint32_t end = n - done < count - first ? first + (uint32_t)(n - done) : count;
        for (uint32_t i = first; i < end; i++)
            CHECK(opp_push(producer, apps[i], SETUP_RANK, (opp_job){core, 0}) >= 0);
        for (uint32_t i = first; i < end; i++) CHECK(opp_take(consumer, ~UINT64_C(0), &taken));
        if (in_vain) CHECK(!opp_take(consumer, ~UINT64_C(0), &taken));
        done += end - first;
    }
    opp_consumer_destroy(consumer);
    opp_core_destroy(core, NULL, NULL);
}

static void apps_64(uint64_t n) { of_apps(n, 64, false); }
static void vain_1(uint64_t n) { of_apps(n, 1, true); }
static void vain_64(uint64_t n) { of_apps(n, 64, true); }
static void vain_4096(uint64_t n) { of_apps(n, 4096, true); }
static void push_take(uint64_t n) { cycle(&runq_contender, n, 1); }
static void push_take_batch(uint64_t n) { cycle(&runq_contender, n, 1000); }
static void strand(uint64_t n) { cycle(&queue_contender, n, 1); }
static void inbox(uint64_t n) { cycle(&inbox_contender, n, 1); }
static void deque(uint64_t n) { cycle(&mutex_contender, n, 1); }
static void chase_lev(uint64_t n) { cycle(&chase_lev_contender, n, 1); }
static void boost(uint64_t n) { cycle(&boost_contender, n, 1); }
static void ck_fifo(uint64_t n) { cycle(&ck_fifo_contender, n, 1); }
static void busy_notify(uint64_t n) { park_busy_notify(n); }
static void park_pool(uint64_t n) { park_round_trip(PARK_POOL, n); }
static void park_futex(uint64_t n) { park_round_trip(PARK_FUTEX, n); }
static void park_condition(uint64_t n) { park_round_trip(PARK_CONDITION, n); }
static void notifier_alarms(uint64_t n) { notifier_call(NOTIFIER_ALARMS, n); }
static void notifier_event(uint64_t n) { notifier_call(NOTIFIER_EVENT, n); }
static void suspend_1(uint64_t n) { toggle(n, 1, true); }
static void suspend_100000(uint64_t n) { toggle(n, 100000, true); }
static void band_1(uint64_t n) { toggle(n, 1, false); }
static void band_100000(uint64_t n) { toggle(n, 100000, false); }

static const struct {
    const char *name, *what;
    void (*run)(uint64_t n);
} operations[] = {
    {"push-take", "run queue, one at a time", push_take},
    {"push-take-1000", "run queue, 1000 at a time", push_take_batch},
    {"apps-64", "run queue, a job of each of 64 apps", apps_64},
    {"vain-1", "push, take, and a take that finds nothing", vain_1},
    {"vain-64", "the same, of one of 64 apps", vain_64},
    {"vain-4096", "the same, of one of 4,096 apps", vain_4096},
    {"strand", "a strand's queue, push and take", strand},
    {"inbox", "inbox, push and fetch", inbox},
    {"mutex", "deque under a mutex", deque},
    {"chase-lev", "Chase-Lev deque", chase_lev},
    {"boost", "Boost.Lockfree queue", boost},
    {"ck-fifo", "ConcurrencyKit fifo_mpmc", ck_fifo},
    {"notify-busy", "wake-up call to a busy pool", busy_notify},
    {"park", "park and wake round trip, pool", park_pool},
    {"park-futex", "the same, bare futex", park_futex},
    {"park-condition", "the same, condition variable", park_condition},
    {"notifier", "make the monitor look", notifier_alarms},
    {"notifier-eventfd", "the same, eventfd", notifier_event},
    {"suspend-1", "suspend and resume with 1 job queued", suspend_1},
    {"suspend-100000", "the same with 100,000", suspend_100000},
    {"band-1", "to the background and back with 1 job queued", band_1},
    {"band-100000", "the same with 100,000", band_100000},
};

#define COUNT (sizeof(operations) / sizeof(operations[0]))

int operation_list(void) {
    for (size_t i = 0; i < COUNT; i++) printf("%-16s %s\n", operations[i].name, operations[i].what);
    return 0;
}

int operation_run(const char *name, const char *number) {
    char *end;
    unsigned long long n = strtoull(number, &end, 10);
    if (*end != 0 || n == 0) {
        fprintf(stderr, "error: %s is not a number of operations\n", number);
        return 2;
    }
    for (size_t i = 0; i < COUNT; i++)
        if (strcmp(name, operations[i].name) == 0) {
            operations[i].run(n);
            return 0;
        }
    fprintf(stderr, "error: there is no operation %s; they are:\n", name);
    operation_list();
    return 2;
}
