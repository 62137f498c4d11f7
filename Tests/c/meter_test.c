/* CPU time, wait and blocking of another thread, read from outside. R-CPU-06, R-CPU-08, R-CARD-01 */
#include "opportune.h"

#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- A thread that works or blocks as it is told -------------------------------------------- */

typedef struct guest {
    opp_thread_meter *meter;
    int32_t thread_id;
    sem_t ready, go, done;
    atomic_bool is_spinning;
} guest;

static void wait_for(sem_t *semaphore) {
    while (sem_wait(semaphore) != 0) continue;
}

/* Spins, is stopped, blocks, ends. */
static void guest_main(void *context) {
    guest *own = context;
    own->meter = opp_thread_meter_create();
    own->thread_id = opp_thread_id();
    sem_post(&own->ready);
    while (atomic_load(&own->is_spinning)) continue;
    wait_for(&own->go);
    sem_post(&own->done);
}

static void guest_start(guest *own) {
    memset(own, 0, sizeof *own);
    sem_init(&own->ready, 0, 0);
    sem_init(&own->go, 0, 0);
    sem_init(&own->done, 0, 0);
    atomic_store(&own->is_spinning, true);
    CHECK_EQUAL(opp_thread_start("guest", 0, guest_main, own), 0);
    wait_for(&own->ready);
    CHECK(own->meter != NULL);
}

static uint64_t cpu_of(const guest *own) {
    uint64_t cpu_ns = 0;
    CHECK_EQUAL(opp_thread_meter_cpu(own->meter, &cpu_ns), 0);
    return cpu_ns;
}

static opp_thread_usage usage_of(const guest *own) {
    opp_thread_usage usage;
    CHECK_EQUAL(opp_thread_meter_read(own->meter, &usage), 0);
    return usage;
}

/* --- Tests ---------------------------------------------------------------------------------- */

/* Grows while the thread runs, as soon as it runs: no tick is waited for, none of these loops has a time
 * limit. */
static void sees_cpu_time_grow(guest *own) {
    uint64_t first = cpu_of(own);
    while (cpu_of(own) < first + 20u * 1000 * 1000) sched_yield();
    CHECK(usage_of(own).cpu_ns >= first + 20u * 1000 * 1000);
    CHECK(opp_thread_meter_is_blocked(own->meter) <= 0);
}

/* Two threads that both want one CPU: the wait is that of the guest. */
static void sees_waiting(guest *own) {
    unsigned long long ran, waited, turns = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "re");
    if (file != NULL && fscanf(file, "%llu %llu %llu", &ran, &waited, &turns) == 3 && turns > 0)
        CHECK(usage_of(own).wait_known);
    if (file != NULL) fclose(file);
    if (usage_of(own).wait_known == 0) {
        fprintf(stderr, "note: this kernel does not count waiting\n");
        return;
    }
    cpu_set_t before, one;
    CHECK_EQUAL(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
    /* Children inherit the affinity, so the second guest lives on the CPU that we are on. */
    CHECK_EQUAL(sched_setaffinity(0, sizeof one, &one), 0);
    guest rival;
    guest_start(&rival);
    uint64_t first = usage_of(&rival).wait_ns;
    while (usage_of(&rival).wait_ns < first + 1000 * 1000) continue;
    atomic_store(&rival.is_spinning, false);
    sem_post(&rival.go);
    wait_for(&rival.done);
    opp_thread_meter_destroy(rival.meter);
    CHECK_EQUAL(sched_setaffinity(0, sizeof before, &before), 0);
}

static void sees_blocking(guest *own) {
    int64_t first = opp_thread_meter_voluntary_switches(own->meter);
    if (first == -ENOENT || first == -EACCES) {
        fprintf(stderr, "note: no /proc here\n");
        atomic_store(&own->is_spinning, false);
        return;
    }
    CHECK(first >= 0);
    atomic_store(&own->is_spinning, false); /* now it blocks */
    while (opp_thread_meter_is_blocked(own->meter) != 1) sched_yield();
    CHECK(opp_thread_meter_voluntary_switches(own->meter) > first);
    uint64_t cpu_ns = cpu_of(own);
    CHECK_EQUAL(cpu_of(own), cpu_ns); /* blocked: it uses none */
}

/* --- The lock of the memory map --- */

static opp_thread_meter *_Atomic mapper_meter;
static _Atomic(bool) mapping_is_over;

static void map_and_unmap(size_t bytes, int flags) {
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    CHECK(map != MAP_FAILED);
    munmap(map, bytes);
}

static void *map_little(void *unused) {
    (void)unused;
    atomic_store(&mapper_meter, opp_thread_meter_create());
    while (!atomic_load(&mapping_is_over)) map_and_unmap(4096, 0);
    return NULL;
}

static void *map_much(void *unused) {
    (void)unused;
    while (!atomic_load(&mapping_is_over)) map_and_unmap(32u << 20, MAP_POPULATE);
    return NULL;
}

/* R-CPU-02: to tell it from other blocking, since another worker in its place would only wait for the lock
 * too. */
static void sees_the_memory_map_locked(guest *own) {
    char text[64] = "";
    snprintf(text, sizeof text, "/proc/self/task/%d/wchan", (int)own->thread_id);
    FILE *file = fopen(text, "re");
    bool is_told = file != NULL && fgets(text, sizeof text, file) != NULL && strcmp(text, "0") != 0;
    if (file != NULL) fclose(file);
    if (!is_told) {
        fprintf(stderr, "skipped: this kernel does not tell what a thread waits in\n");
        return;
    }
    pthread_t threads[2];
    CHECK_EQUAL(pthread_create(&threads[0], NULL, map_little, NULL), 0);
    CHECK_EQUAL(pthread_create(&threads[1], NULL, map_much, NULL), 0);
    opp_thread_meter *meter;
    while ((meter = atomic_load(&mapper_meter)) == NULL) sched_yield();
    /* Some hundred times a second; ended from outside where it never comes. */
    while (opp_thread_meter_is_blocked(meter) != OPP_BLOCKED_ON_MEMORY_MAP) continue;
    atomic_store(&mapping_is_over, true);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    opp_thread_meter_destroy(meter);
}

/* A meter may outlive its thread. */
static void survives_its_thread(guest *own) {
    sem_post(&own->go);
    wait_for(&own->done);
    uint64_t cpu_ns;
    int result;
    while ((result = opp_thread_meter_cpu(own->meter, &cpu_ns)) == 0) sched_yield();
    CHECK_EQUAL(result, -ESRCH);
    opp_thread_usage usage;
    CHECK_EQUAL(opp_thread_meter_read(own->meter, &usage), -ESRCH);
    CHECK(opp_thread_meter_voluntary_switches(own->meter) < 0);
    CHECK(opp_thread_meter_is_blocked(own->meter) < 0);
    opp_thread_meter_destroy(own->meter);
}

/* Descriptors are handed out from the lowest free one on; the one that is kept is closed in programs that are
 * started. */
static void keeps_one_descriptor(void) {
    int before = dup(0);
    CHECK(before >= 0);
    close(before);
    opp_thread_meter *meter = opp_thread_meter_create();
    CHECK(meter != NULL);
    int flags = fcntl(before, F_GETFD);
    CHECK(flags < 0 || (flags & FD_CLOEXEC) != 0);
    /* A program with hundreds of blocked jobs has as many workers. Nor do the readings keep any. */
    opp_thread_meter_voluntary_switches(meter);
    opp_thread_meter_is_blocked(meter);
    CHECK(fcntl(before + 1, F_GETFD) < 0);
    opp_thread_meter_destroy(meter);
    opp_thread_meter_destroy(NULL);
    CHECK(fcntl(before, F_GETFD) < 0);
}

/* A name such as "a) R (" must not be taken for the state. */
static void name_is_no_state(void) {
    CHECK_EQUAL(pthread_setname_np(pthread_self(), "a) D (b) S c"), 0);
    opp_thread_meter *meter = opp_thread_meter_create();
    CHECK(meter != NULL);
    CHECK(opp_thread_meter_is_blocked(meter) <= 0); /* it runs: it asks */
    opp_thread_meter_destroy(meter);
}

int main(void) {
    guest own;
    guest_start(&own);
    sees_cpu_time_grow(&own);
    sees_waiting(&own);
    sees_blocking(&own);
    sees_the_memory_map_locked(&own);
    survives_its_thread(&own);
    keeps_one_descriptor();
    name_is_no_state();
    return 0;
}
