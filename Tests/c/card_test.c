/*
 * The C core by itself, as a C program uses it that knows nothing of Swift: one header, one library, a worker
 * thread, a queue. R-CARD-01, R-CARD-02, R-CARD-07
 * Compiled as C++ as well, so the header has to suit both.
 */
#include "opportune.h"

#include "check.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static int32_t worker_id;

static void work(void *context) {
    pthread_mutex_lock(&lock);
    worker_id = opp_thread_id();
    *(int *)context += 1;
    pthread_cond_signal(&ended);
    pthread_mutex_unlock(&lock);
}

int main(void) {
    static opp_topology topology;
    CHECK_EQUAL(opp_topology_read(&topology), 0);
    CHECK(topology.cpu_count >= 1 && topology.node_count >= 1);
    CHECK(opp_topology_width(&topology) >= 1);

    int calls = 0;
    CHECK_EQUAL(opp_thread_start("worker", 0, work, &calls), 0);
    pthread_mutex_lock(&lock);
    while (calls == 0) pthread_cond_wait(&ended, &lock);
    CHECK(worker_id > 0 && worker_id != opp_thread_id());
    pthread_mutex_unlock(&lock);

    opp_system_probe probe;
    memset(&probe, 0xff, sizeof probe);
    CHECK_EQUAL(opp_system_probe_run(&probe), 0);
    CHECK(probe.io_uring <= 0);
    CHECK(probe.numa == 0 || probe.numa == 1);
    return 0;
}
