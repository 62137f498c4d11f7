/* For whose lock a thread waits, read from outside; and CPUs that a thread leaves. R-CPU-01, R-CPU-02 */
#include "opportune.h"

#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's numbers, which differ in headers. */
enum { WAIT_PRIVATE = 128, LOCK_PI_PRIVATE = 134 };

/* --- A thread that waits for what it is told to --------------------------------------------------- */

typedef struct guest {
    opp_thread_meter *meter;
    int32_t id;
    pthread_mutex_t *mutex; /* else a futex at `word` */
    uint32_t *word;
    pthread_t thread;
    sem_t ready;
} guest;

static void *guest_main(void *context) {
    guest *own = context;
    own->meter = opp_thread_meter_create();
    own->id = opp_thread_id();
    sem_post(&own->ready);
    if (own->mutex != NULL) {
        pthread_mutex_lock(own->mutex);
        pthread_mutex_unlock(own->mutex);
    } else {
        syscall(SYS_futex, own->word, WAIT_PRIVATE, 2, NULL);
    }
    return NULL;
}

static void guest_start(guest *own, pthread_mutex_t *mutex, uint32_t *word) {
    memset(own, 0, sizeof *own);
    own->mutex = mutex;
    own->word = word;
    sem_init(&own->ready, 0, 0);
    CHECK_EQUAL(pthread_create(&own->thread, NULL, guest_main, own), 0);
    while (sem_wait(&own->ready) != 0) continue;
    CHECK(own->meter != NULL);
    while (opp_thread_meter_is_blocked(own->meter) != OPP_BLOCKED) sched_yield();
}

static void guest_end(guest *own) {
    pthread_join(own->thread, NULL);
    opp_lock_wait wait;
    /* A thread that is gone has no lock. Its files in /proc may outlive it a little. */
    while (opp_thread_meter_lock_wait(own->meter, &wait) >= 0) sched_yield();
    opp_thread_meter_destroy(own->meter);
}

/* --- Tests ---------------------------------------------------------------------------------------- */

static void holder_is_named(int protocol) {
    pthread_mutexattr_t attributes;
    pthread_mutex_t mutex;
    pthread_mutexattr_init(&attributes);
    CHECK_EQUAL(pthread_mutexattr_setprotocol(&attributes, protocol), 0);
    CHECK_EQUAL(pthread_mutex_init(&mutex, &attributes), 0);
    pthread_mutex_lock(&mutex);
    guest waiter;
    guest_start(&waiter, &mutex, NULL);
    opp_lock_wait wait;
    CHECK_EQUAL(opp_thread_meter_lock_wait(waiter.meter, &wait), 1);
    CHECK_EQUAL(wait.holder, opp_thread_id());
    CHECK_EQUAL(wait.address, (uintptr_t)&mutex);
    pthread_mutex_unlock(&mutex);
    guest_end(&waiter);
    pthread_mutex_destroy(&mutex);
}

/* A futex with nobody's number behind it, and one whose memory has gone. */
static void what_is_no_mutex_is_passed_over(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    CHECK_EQUAL(munmap(memory + page, page), 0);
    /* The word is the last of its page: what would be the owner is not there. */
    uint32_t *last = (uint32_t *)(void *)(memory + page) - 1, *first = (uint32_t *)(void *)memory;
    uint32_t *const words[] = {last, first};
    for (int i = 0; i < 2; i++) {
        *words[i] = 2;
        guest waiter;
        guest_start(&waiter, NULL, words[i]);
        opp_lock_wait wait;
        CHECK_EQUAL(opp_thread_meter_lock_wait(waiter.meter, &wait), 0);
        if (i == 1) { /* and now none of it */
            CHECK_EQUAL(mprotect(memory, page, PROT_NONE), 0);
            CHECK_EQUAL(opp_thread_meter_lock_wait(waiter.meter, &wait), 0);
            CHECK_EQUAL(mprotect(memory, page, PROT_READ | PROT_WRITE), 0);
        }
        *words[i] = 0;
        syscall(SYS_futex, words[i], 129 /* FUTEX_WAKE_PRIVATE */, 1);
        guest_end(&waiter);
    }
    munmap(memory, page);
}

static void who_runs_waits_for_nothing(void) {
    opp_thread_meter *meter = opp_thread_meter_create();
    CHECK(meter != NULL);
    opp_lock_wait wait;
    CHECK_EQUAL(opp_thread_meter_lock_wait(meter, &wait), 0);
    int cpu = opp_thread_meter_cpu_number(meter);
    CHECK(cpu >= 0 && cpu < OPP_MAX_CPUS);
    opp_thread_meter_destroy(meter);
}

static void lines_are_read(void) {
    char line[160];
    uint64_t address, operation, value;
    snprintf(line, sizeof line, "%d 0x7f10 0x86 0x2 0x0 0x0 0x0 0x7ffc 0x7fe1\n", SYS_futex);
    CHECK_EQUAL(opp_lock_wait_parse(line, &address, &operation, &value), 1);
    CHECK_EQUAL(address, 0x7f10);
    CHECK_EQUAL(operation, LOCK_PI_PRIVATE);
    CHECK_EQUAL(value, 2);
    static const char *const others[] = {"running\n", "-1 0x7ffc 0x7fe1\n", "0 0x0 0x7f10 0x1\n", "", "x"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        CHECK_EQUAL(opp_lock_wait_parse(others[i], &address, &operation, &value), 0);
    snprintf(line, sizeof line, "%d 0x7f10", SYS_futex);
    CHECK_EQUAL(opp_lock_wait_parse(line, &address, &operation, &value), 0);
}

static void cpus_are_left_and_come_back(void) {
    cpu_set_t own;
    CHECK_EQUAL(sched_getaffinity(0, sizeof own, &own), 0);
    int left = -1;
    for (int cpu = 0; cpu < CPU_SETSIZE && left < 0; cpu++)
        if (CPU_ISSET(cpu, &own)) left = cpu;
    if (CPU_COUNT(&own) == 1) {
        CHECK_EQUAL(opp_thread_leave_cpu(0, left), -EINVAL);
    } else {
        cpu_set_t now;
        CHECK_EQUAL(opp_thread_leave_cpu(0, left), 1);
        CHECK_EQUAL(opp_thread_leave_cpu(0, left), 0);
        CHECK_EQUAL(sched_getaffinity(0, sizeof now, &now), 0);
        CHECK(!CPU_ISSET(left, &now) && CPU_COUNT(&now) == CPU_COUNT(&own) - 1);
        CHECK_EQUAL(opp_thread_return_to_cpu(0, left), 1);
    }
    CHECK_EQUAL(opp_thread_return_to_cpu(0, left), 0);
    CHECK_EQUAL(opp_thread_leave_cpu(0, -1), -EINVAL);
}

int main(void) {
    lines_are_read();
    cpus_are_left_and_come_back();
    if (!opp_lock_wait_is_readable()) SKIP("this kernel does not tell what a thread waits for");
    who_runs_waits_for_nothing();
    holder_is_named(PTHREAD_PRIO_NONE);
    holder_is_named(PTHREAD_PRIO_INHERIT);
    what_is_no_mutex_is_passed_over();
    return 0;
}
