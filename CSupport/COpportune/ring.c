/*
 * What both backends share: the messages, and the owner's sleep.
 *
 * Messages are a stack that is pushed by compare-and-swap and taken as a whole by exchange, as in inbox.c;
 * the links are in the posters' memory. Sleep follows Dekker's pattern. A poster pushes and then reads
 * `sleeping`; the owner sets `sleeping` and then reads the stack. Both pairs are seq_cst, so one of them sees
 * the other, and the owner sleeps only if every later poster will write the eventfd.
 *
 * Every poster that finds the owner asleep writes, even where another is about to. The other one may be a
 * background thread which the kernel has stopped between its push and its write, and no message may wait for
 * it. A poster that has written ends the sleep for the others, by the number of the sleep: a thread that was
 * stopped in between must not end a later sleep.
 */
#include "ring.h"
#include "links.h"
#include "opp_pool.h" /* opp_pause() */

#include <stdlib.h>
#include <sys/eventfd.h>

static int check(const opp_ring_config *config) {
    if (config->backend > OPP_RING_THREADS) return -EINVAL;
    if (config->entries < 1 || config->entries > RING_OP_COUNT_MAX) return -EINVAL;
    if (config->completions != 0 && config->completions > 16 * RING_OP_COUNT_MAX) return -EINVAL;
    if (config->threads < 1 || config->threads > RING_THREADS_MAX) return -EINVAL;
    if (config->closers > RING_CLOSERS_MAX) return -EINVAL;
    if (config->busy_poll_ns > RING_BUSY_POLL_NS_MAX) return -EINVAL;
    return 0;
}

int opp_ring_create(const opp_ring_config *config, opp_ring **created) {
    *created = NULL;
    int error = check(config);
    if (error != 0) return error;
    opp_ring *ring = aligned_alloc(64, (sizeof(opp_ring) + 63) / 64 * 64);
    if (ring == NULL) return -ENOMEM;
    *ring = (opp_ring){.config = *config};
    /* Blocking, so that the ring's read of it waits for the write. */
    ring->event = eventfd(0, EFD_CLOEXEC);
    if (ring->event < 0) {
        error = -errno;
        free(ring);
        return error;
    }
    error = -ENOSYS;
    if (config->backend != OPP_RING_THREADS) error = ring_uring_create(ring);
    if (error != 0 && config->backend != OPP_RING_URING) {
        int32_t refused = config->backend == OPP_RING_AUTOMATIC ? error : 0;
        error = ring_threads_create(ring);
        ring->can.refused = refused;
    }
    if (error != 0) {
        close(ring->event);
        free(ring);
        return error;
    }
    OPP_ASSERT(ring->backend != NULL);
    OPP_ASSERT(ring->state != NULL);
    *created = ring;
    return 0;
}

int opp_ring_start(opp_ring *ring) {
    return ring->backend->start(ring);
}

void opp_ring_destroy(opp_ring *ring) {
    ring->backend->destroy(ring);
    close(ring->event);
    free(ring);
}

opp_ring_capabilities opp_ring_can(const opp_ring *ring) {
    return ring->can;
}

int opp_ring_register_buffers(opp_ring *ring, const void *vectors, uint32_t count) {
    return ring->backend->register_buffers(ring, vectors, count);
}

int opp_ring_prepare(opp_ring *ring, const opp_ring_op *op) {
    if (op->code >= OPP_RING_CODES || op->tag >= OPP_RING_TAGS) return -EINVAL;
    OPP_ASSERT(ring->fault_count <= RING_FAULTS);
    if (ring->config.fault != NULL) {
        if (ring->fault_count == RING_FAULTS) return -EBUSY;
        int32_t result = ring->config.fault(ring->config.context, op);
        if (result != OPP_RING_NO_FAULT) {
            ring->faults[ring->fault_count++] = (opp_ring_completion){.tag = op->tag, .result = result};
            return 0;
        }
    }
    return ring->backend->prepare(ring, op);
}

/*
 * Submits, and polls until `end_ns`. Returns true if there are completions or a message. Posters see that the
 * owner is awake and save the write to the eventfd; the owner saves the sleep.
 */
static bool busy_poll(opp_ring *ring, opp_ring_completion *completions, uint32_t room, uint64_t end_ns,
                      int *count) {
    bool look = true;
    do {
        *count = look ? ring->backend->wait(ring, completions, room, false, 0) : 0;
        /* relaxed: the message is fetched with acquire. */
        if (*count != 0 || opp_load(&ring->posted, relaxed) != NULL) return true;
        opp_pause();
        look = ring->backend->has_news(ring);
    } while (look || opp_sync_now() < end_ns);
    return false;
}

static int wait_asleep(opp_ring *ring, opp_ring_completion *completions, uint32_t room, uint64_t until_ns) {
    OPP_ASSERT(ring->sleeps + 1 != 0); /* 0 says that the owner is awake */
    /* [sleep] before the read of the stack: pairs with opp_ring_post() */
    opp_store(&ring->sleeping, ++ring->sleeps, seq_cst);
    bool sleep = opp_load(&ring->posted, seq_cst) == NULL;
    int count = ring->backend->wait(ring, completions, room, sleep, until_ns);
    opp_store(&ring->sleeping, 0, relaxed); /* a write too many only costs its time */
    OPP_ASSERT(count <= (int)room);
    return count;
}

static int wait_busy_polling(opp_ring *ring, opp_ring_completion *completions, uint32_t room,
                             uint64_t until_ns) {
    uint64_t start = opp_sync_now(), end = start + ring->config.busy_poll_ns;
    if (end > until_ns) end = until_ns;
    int count;
    bool found = ring->last_wait_ns <= ring->config.busy_poll_ns &&
        busy_poll(ring, completions, room, end, &count);
    if (!found) count = wait_asleep(ring, completions, room, until_ns);
    ring->last_wait_ns = opp_sync_now() - start;
    return count;
}

int opp_ring_wait(opp_ring *ring, opp_ring_completion *completions, uint32_t room, uint64_t until_ns) {
    uint32_t taken = 0;
    while (taken < room && ring->fault_count > 0) completions[taken++] = ring->faults[--ring->fault_count];
    if (taken == 0 && until_ns != 0) {
        return ring->config.busy_poll_ns > 0 ? wait_busy_polling(ring, completions, room, until_ns)
                                          : wait_asleep(ring, completions, room, until_ns);
    }
    OPP_ASSERT(taken <= room);
    int count = ring->backend->wait(ring, completions + taken, room - taken, false, 0);
    OPP_ASSERT(count <= (int)(room - taken));
    return count < 0 ? count : (int)taken + count;
}

void ring_wake(opp_ring *ring) {
    /* [sleep] seq_cst: follows the caller's seq_cst exchange. The owner reads that location after it has set
     * `sleeping`. */
    uint64_t sleep = opp_load(&ring->sleeping, seq_cst);
    if (sleep == 0) return;
    opp_notifier_notify(ring->event);
    /* relaxed: a poster that reads 0 has pushed before, which the owner will see. It does not affect a later
     * sleep. */
    (void)opp_cas(&ring->sleeping, &sleep, 0, relaxed);
}

void opp_ring_post(opp_ring *ring, opp_link *link) {
    OPP_ASSERT(link != NULL);
    opp_link *top = opp_load(&ring->posted, relaxed);
    do {
        link->next = top;
        /* [post] release: pairs with opp_ring_fetch(), which sees the message. seq_cst: precedes the read of
         * `sleeping`, [sleep]. */
    } while (!opp_cas(&ring->posted, &top, link, seq_cst));
    ring_wake(ring);
}

opp_link *opp_ring_fetch(opp_ring *ring) {
    if (opp_load(&ring->posted, relaxed) == NULL) return NULL;
    opp_link *taken = opp_swap(&ring->posted, NULL, acquire); /* [post]; it hands nothing to posters */
    return links_oldest_first(taken);
}

uint64_t opp_ring_wakeups(const opp_ring *ring) {
    return opp_load(&ring->wakeups, relaxed);
}
