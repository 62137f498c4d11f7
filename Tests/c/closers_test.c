/* The threads that close files for a ring: each close is answered once, the threads sleep, serve again and
 * end. */
#include "check.h"
#include "opportune.h"
#include "ring.h"

#include <dirent.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_NS UINT64_C(20000000000)

static opp_ring *make_ring(void) {
    opp_ring_config config = {.backend = OPP_RING_THREADS, .entries = 8, .threads = 1};
    opp_ring *ring;
    CHECK_EQUAL(opp_ring_create(&config, &ring), 0);
    return ring; /* never started: nobody sleeps on it */
}

static opp_ring_op close_of(int fd, uint64_t tag) {
    return (opp_ring_op){.code = OPP_RING_CLOSE, .fd = fd, .tag = tag};
}

static void wait_for_news(ring_closers *all) {
    uint64_t end = opp_now_ns() + PATIENCE_NS;
    while (!ring_closers_has_news(all)) {
        CHECK(opp_now_ns() < end);
        sched_yield();
    }
}

/* As many at once as there are threads; taken one at a time, the first that ended not lost behind the
 * second. */
static void test_each_once_and_again(void) {
    opp_ring *ring = make_ring();
    ring_closers *all = ring_closers_create(ring, 2);
    CHECK(all != NULL);
    ring_closers_start(all);
    opp_ring_completion taken[2];
    for (int turn = 0; turn < 300; turn++) {
        int ends[2];
        CHECK_EQUAL(pipe(ends), 0);
        opp_ring_op first = close_of(ends[0], 1), second = close_of(turn % 2 ? ends[1] : -1, 2),
            third = close_of(-1, 3);
        CHECK(!ring_closers_has_news(all));
        CHECK(ring_closers_ask(all, &first));
        wait_for_news(all);
        CHECK_EQUAL(ring_closers_take(all, taken, 0), 0);
        CHECK(!ring_closers_has_news(all));
        CHECK(ring_closers_ask(all, &second));
        CHECK(!ring_closers_ask(all, &third));
        wait_for_news(all);
        taken[1] = (opp_ring_completion){.tag = 99};
        unsigned seen = 0;
        for (int i = 0; i < 2; i++) {
            CHECK_EQUAL(ring_closers_take(all, taken, 1), 1);
            CHECK_EQUAL(taken[1].tag, 99);
            CHECK_EQUAL(taken[0].result, taken[0].tag == 1 || turn % 2 ? 0 : -EBADF);
            seen |= 1u << taken[0].tag;
        }
        CHECK_EQUAL(seen, 6);
        CHECK_EQUAL(ring_closers_take(all, taken, 2), 0);
        if (turn % 2 == 0) CHECK_EQUAL(close(ends[1]), 0);
        CHECK_EQUAL(close(ends[0]), -1);
    }
    ring_closers_destroy(all);
    opp_ring_destroy(ring);
}

/* The threads of that name, and how many of them sleep. */
static int count_asleep(int *asleep) {
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    int count = 0;
    *asleep = 0;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[300], line[300];
        snprintf(path, sizeof(path), "/proc/self/task/%s/stat", task->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL) continue; /* ended since */
        if (fgets(line, sizeof(line), file) != NULL && strstr(line, "(opportune-close)") != NULL) {
            count++;
            *asleep += strstr(line, ") ")[2] == 'S';
        }
        fclose(file);
    }
    closedir(tasks);
    return count;
}

/* One close, from the asking to what came of it. */
static void close_one(ring_closers *all) {
    opp_ring_op op = close_of(-1, 1);
    opp_ring_completion taken;
    CHECK(ring_closers_ask(all, &op));
    wait_for_news(all);
    CHECK_EQUAL(ring_closers_take(all, &taken, 1), 1);
}

/* Before and after a close: no thread looks for work. */
static void test_idle(void) {
    opp_ring *ring = make_ring();
    ring_closers *all = ring_closers_create(ring, 3);
    ring_closers_start(all);
    for (int turn = 0; turn < 2; turn++) {
        int asleep;
        uint64_t end = opp_now_ns() + PATIENCE_NS;
        while (count_asleep(&asleep) != 3 || asleep != 3) CHECK(opp_now_ns() < end);
        close_one(all);
    }
    ring_closers_destroy(all);
    opp_ring_destroy(ring);
}

/* Over and over, so that the thread sanitizer sees who still touches what is freed. */
static void test_ends(void) {
    opp_ring *ring = make_ring();
    for (int turn = 0; turn < 200; turn++) {
        ring_closers *all = ring_closers_create(ring, 4);
        if (turn % 4 != 0) ring_closers_start(all);
        if (turn % 4 > 1) close_one(all);
        ring_closers_destroy(all);
    }
    opp_ring_destroy(ring);
}

/* A system that gives no more threads: what there is none for is refused, and the end waits for none that
 * never was. */
static void test_no_threads(void) {
#if defined(__SANITIZE_THREAD__)
    return; /* it starts a thread of its own in a child */
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
    return;
#endif
#endif
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct rlimit none = {0, 0};
        opp_ring *ring = make_ring();
        ring_closers *all = ring_closers_create(ring, 2);
        CHECK(setrlimit(RLIMIT_NPROC, &none) == 0);
        if (geteuid() == 0) CHECK(setuid(65534) == 0); /* root has no such limit */
        ring_closers_start(all);
        opp_ring_op op = close_of(-1, 1);
        CHECK(!ring_closers_ask(all, &op));
        ring_closers_destroy(all);
        _exit(0);
    }
    int status;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(status, 0);
}

/* The ring's owner, who may sleep, is told of each; and is not left behind by those that end as it wakes. */
static void test_owner_is_woken(void) {
    opp_ring_config config = {.backend = OPP_RING_URING, .entries = 8, .threads = 1, .closers = 2};
    opp_ring *ring;
    int error = opp_ring_create(&config, &ring);
    if (error != 0) {
        fprintf(stderr, "skipped: the owner of a ring: %s\n", strerror(-error));
        return;
    }
    CHECK_EQUAL(opp_ring_start(ring), 0);
    for (int turn = 0; turn < 5000; turn++) {
        opp_ring_completion taken;
        uint64_t end = opp_now_ns() + PATIENCE_NS;
        for (uint64_t i = 0; i < 2; i++) {
            opp_ring_op op = close_of(-1, i);
            CHECK_EQUAL(opp_ring_prepare(ring, &op), 0);
        }
        for (int left = 2; left > 0;) {
            int count = opp_ring_wait(ring, &taken, 1, end);
            CHECK(count >= 0);
            CHECK(opp_now_ns() < end);
            left -= count;
            CHECK(count == 0 || taken.result == -EBADF);
        }
    }
    opp_ring_destroy(ring);
    int asleep;
    uint64_t end = opp_now_ns() + PATIENCE_NS;
    while (count_asleep(&asleep) != 0) CHECK(opp_now_ns() < end); /* none is left behind */
}

int main(void) {
    test_each_once_and_again();
    test_idle();
    test_ends();
    test_no_threads();
    test_owner_is_woken();
    return 0;
}
