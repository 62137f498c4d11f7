/* What the two backends of a ring share. */
#ifndef RING_H
#define RING_H

#include "opp_ring.h"
#include "opp_sync.h"

typedef struct ring_backend {
    int (*start)(opp_ring *ring);
    void (*destroy)(opp_ring *ring);
    int (*prepare)(opp_ring *ring, const opp_ring_op *op);
    /* Submits, then takes completions; waits where `sleep` says so and there is none. */
    int (*wait)(opp_ring *ring, opp_ring_completion *completions, uint32_t room, bool sleep,
                uint64_t until_ns);
    int (*register_buffers)(opp_ring *ring, const void *vectors, uint32_t count);
    /* Whether wait() would find something, without a system call; may miss what only one shows. */
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
    /* how long the last wait took that found nothing at once; kept where the owner busy-polls */
    uint64_t last_wait_ns;

    _Alignas(64) _Atomic(opp_link *) posted; /* any thread */
    _Alignas(64) _Atomic(uint64_t) sleeping; /* the owner: the number of its sleep, or 0; who wakes it */
    uint64_t sleeps;                         /* the owner, as the next */
    _Atomic(uint64_t) wakeups;
};

int ring_uring_create(opp_ring *ring);
int ring_threads_create(opp_ring *ring);

/* Wakes the owner if it sleeps, after the caller has put something where the owner looks, by a seq_cst
 * exchange. */
void ring_wake(opp_ring *ring);

/* Carries `op` out by system calls, waiting as they do. In ring_call.c. */
int32_t ring_call(const opp_ring_op *op);

/* Between the attempts at a request that waits in poll(2). */
typedef struct ring_attempt {
    short events;     /* what poll(2) is asked for */
    int old_flags;    /* of a connection: the descriptor's flags; -1 at first */
    bool calls_again; /* of a connection: nobody tells when it is worth another call */
} ring_attempt;

/* Whether the request waits in poll(2), and for what. In ring_polled.c, as the next. */
bool ring_is_polled(const opp_ring_op *op, short *events);

/* Carries it out as far as that takes no waiting: -EAGAIN where it has to wait. */
int32_t ring_try_polled(const opp_ring_op *op, ring_attempt *attempt);

/* The owner. Only it writes, so no locked addition is needed. */
static inline void ring_count_wakeup(opp_ring *ring) {
    opp_store(&ring->wakeups, opp_load(&ring->wakeups, relaxed) + 1, relaxed); /* statistics */
}

/* Threads that close, one file each at a time. In ring_closers.c; but for the creation all of it is the
 * owner's. */
typedef struct ring_closers ring_closers;

ring_closers *ring_closers_create(opp_ring *ring, uint32_t count);

/* Starts as many of the threads as the system lets it. */
void ring_closers_start(ring_closers *all);

/* Nothing may be in flight. */
void ring_closers_destroy(ring_closers *all);

/* False where all have something to do. */
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
