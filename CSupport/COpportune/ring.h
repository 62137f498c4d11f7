/* What the two backends of a ring share. */
#ifndef RING_H
#define RING_H

#include "opp_assert.h"
#include "opp_ring.h"
#include "opp_sync.h"

typedef struct ring_backend {
    int (*start)(opp_ring *ring);
    void (*destroy)(opp_ring *ring);
    int (*prepare)(opp_ring *ring, const opp_ring_op *op);
    /* Submits, then takes completions; if there is none and `sleep` is set, waits. */
    int (*wait)(opp_ring *ring, opp_ring_completion *completions, uint32_t room, bool sleep,
                uint64_t until_ns);
    int (*register_buffers)(opp_ring *ring, const void *vectors, uint32_t count);
    /* Whether wait() would find something, without a system call; may miss what only a system call shows. */
    bool (*has_news)(opp_ring *ring);
} ring_backend;

#define RING_FAULTS 64

struct opp_ring {
    const ring_backend *backend;
    opp_ring_config config;
    opp_ring_capabilities can;
    void *state; /* the backend's */
    int event;   /* an eventfd: written to wake the owner */

    /* Completions that config.fault made. */
    opp_ring_completion faults[RING_FAULTS];
    uint32_t fault_count;
    /* the duration of the last wait that did not end at once; measured only for busy-polling */
    uint64_t last_wait_ns;

    _Alignas(64) _Atomic(opp_link *) posted; /* any thread */
    _Alignas(64) _Atomic(uint64_t) sleeping; /* the number of the owner's sleep, or 0; cleared by its waker */
    uint64_t sleeps;                         /* the owner, as the next */
    _Atomic(uint64_t) wakeups;
};

int ring_uring_create(opp_ring *ring);
int ring_threads_create(opp_ring *ring);

/* Wakes the owner if it sleeps. Before, the caller has published something for the owner by a seq_cst
 * exchange. */
void ring_wake(opp_ring *ring);

/* Performs `op` by blocking system calls. In ring_call.c. */
int32_t ring_call(const opp_ring_op *op);

/* The I/O priority of the calling thread: OPP_RING_PRIORITY_*. In ring_call.c. */
void ring_set_thread_priority(uint8_t priority);

/* The state of a request that waits in poll(2), between attempts. */
typedef struct ring_attempt {
    short events;     /* what poll(2) is asked for */
    int old_flags;    /* of a connection: the descriptor's flags; -1 at first */
    bool calls_again; /* of a connection: no event says when to call again */
} ring_attempt;

/* Whether the request waits in poll(2), and for what. In ring_polled.c, as the next. */
bool ring_is_polled(const opp_ring_op *op, short *events);

/* Tries the request without waiting: -EAGAIN where it would have to wait. */
int32_t ring_try_polled(const opp_ring_op *op, ring_attempt *attempt);

/* Owner. It is the only writer, so no atomic addition is needed. */
static inline void ring_count_wakeup(opp_ring *ring) {
    opp_store(&ring->wakeups, opp_load(&ring->wakeups, relaxed) + 1, relaxed); /* statistics */
}

/* Threads that close files, one each at a time. In ring_closers.c. Except for the creation, all calls are the
 * owner's. */
typedef struct ring_closers ring_closers;

ring_closers *ring_closers_create(opp_ring *ring, uint32_t count);

/* Starts as many of the threads as the system allows. */
void ring_closers_start(ring_closers *all);

/* Nothing may be in flight. */
void ring_closers_destroy(ring_closers *all);

/* False where all are busy. */
bool ring_closers_ask(ring_closers *all, const opp_ring_op *op);

bool ring_closers_has_news(ring_closers *all);
uint32_t ring_closers_take(ring_closers *all, opp_ring_completion *completions, uint32_t room);

/* Tags above OPP_RING_TAGS are the backends' own. */
#define RING_TAG_WAKE (OPP_RING_TAGS + 1)

#define RING_OP_COUNT_MAX 4096u
#define RING_THREADS_MAX 96u
#define RING_CLOSERS_MAX 16u
#define RING_BUSY_POLL_NS_MAX 1000000u

#endif
