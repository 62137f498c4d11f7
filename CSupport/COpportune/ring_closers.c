/*
 * Closes of the io_uring backend, on threads of the ring. The last close of a file frees it, which takes as
 * long as its file system needs. The kernel's own threads do that after they have answered. By then the
 * kernel counts them as idle, and gives them the next request, which waits. Here a close has ended when it is
 * answered, and no request waits behind it.
 *
 * Each thread has one close at a time. The thread that may access a closer, by its place:
 *     in `idle`, in `ended`    the owner
 *     its `state` is ASKED     its thread
 *     in `done`                none; the owner takes the whole list
 *
 * There is no lock, and the threads allocate nothing, so no thread of the program is waited for.
 */
#include "opp_system.h"
#include "ring.h"

#include <stdlib.h>

enum { IDLE, ASKED, LEAVE };

typedef struct closer {
    struct ring_closers *all;
    struct closer *next;
    opp_ring_op op;
    int32_t result;
    _Atomic(uint32_t) state;
} closer;

struct ring_closers {
    opp_ring *ring;
    uint32_t count;
    closer *idle, *ended;
    _Atomic(uint32_t) alive;
    _Alignas(64) _Atomic(closer *) done; /* a stack */
    closer closers[];
};

static void push_done(ring_closers *all, closer *closer) {
    OPP_ASSERT(closer->all == all);
    struct closer *top = opp_load(&all->done, relaxed);
    do {
        closer->next = top;
        /* [closed] release: the thread that takes the stack sees the result. seq_cst: precedes the read of
         * `sleeping`, which the owner sets before it reads `done`. */
    } while (!opp_cas(&all->done, &top, closer, seq_cst));
    ring_wake(all->ring);
}

static void run(void *context) {
    closer *closer = context;
    for (;;) {
        uint32_t state;
        /* [ask] acquire: pairs with ring_closers_ask(), which wrote the request. */
        while ((state = opp_load(&closer->state, acquire)) == IDLE)
            (void)opp_futex_wait(&closer->state, IDLE);
        if (state == LEAVE) break;
        OPP_ASSERT(state == ASKED);
        closer->result = ring_call(&closer->op);
        opp_store(&closer->state, IDLE, relaxed); /* no other thread reads it before it is in `done` */
        push_done(closer->all, closer);
    }
    ring_closers *all = closer->all;
    /* [leave] release: this thread has finished with the memory. From now on only the address is used. */
    if (opp_sub(&all->alive, 1, release) == 1) (void)opp_futex_wake(&all->alive, 1);
}

ring_closers *ring_closers_create(opp_ring *ring, uint32_t count) {
    size_t size = (sizeof(ring_closers) + count * sizeof(closer) + 63) / 64 * 64;
    ring_closers *all = aligned_alloc(64, size);
    if (all == NULL) return NULL;
    *all = (ring_closers){.ring = ring, .count = count};
    return all;
}

void ring_closers_start(ring_closers *all) {
    OPP_ASSERT(all->idle == NULL);
    OPP_ASSERT(all->count <= RING_CLOSERS_MAX);
    for (uint32_t i = 0; i < all->count; i++) {
        closer *closer = &all->closers[i];
        *closer = (struct closer){.all = all};
        opp_add(&all->alive, 1, relaxed);
        if (opp_thread_start("opportune-close", 256 << 10, run, closer) != 0) {
            opp_sub(&all->alive, 1, relaxed);
            return; /* fewer will do */
        }
        closer->next = all->idle;
        all->idle = closer;
    }
}

void ring_closers_destroy(ring_closers *all) {
    for (closer *closer = all->idle; closer != NULL; closer = closer->next) {
        /* nothing is published with it that did not exist when the thread began */
        opp_store(&closer->state, LEAVE, relaxed);
        (void)opp_futex_wake(&closer->state, 1);
    }
    uint32_t alive;
    /* [leave] */
    while ((alive = opp_load(&all->alive, acquire)) != 0) (void)opp_futex_wait(&all->alive, alive);
    free(all);
}

bool ring_closers_ask(ring_closers *all, const opp_ring_op *op) {
    closer *closer = all->idle;
    if (closer == NULL) return false;
    OPP_ASSERT(closer->all == all);
    all->idle = closer->next;
    closer->op = *op;
    opp_store(&closer->state, ASKED, release); /* [ask] */
    (void)opp_futex_wake(&closer->state, 1);
    return true;
}

bool ring_closers_has_news(ring_closers *all) {
    return opp_load(&all->done, relaxed) != NULL; /* relaxed: taken with acquire later */
}

uint32_t ring_closers_take(ring_closers *all, opp_ring_completion *completions, uint32_t room) {
    if (opp_load(&all->done, seq_cst) != NULL) { /* after `sleeping`: see push_done() */
        closer *top = opp_swap(&all->done, NULL, acquire), *last = top; /* [closed] */
        while (last->next != NULL) last = last->next;
        last->next = all->ended;
        all->ended = top;
    }
    uint32_t taken = 0;
    while (taken < room && all->ended != NULL) {
        closer *closer = all->ended;
        OPP_ASSERT(closer->all == all);
        all->ended = closer->next;
        completions[taken++] = (opp_ring_completion){.tag = closer->op.tag, .result = closer->result};
        closer->next = all->idle;
        all->idle = closer;
    }
    OPP_ASSERT(taken <= room);
    return taken;
}
