/*
 * The backend for kernels that refuse io_uring: system calls on a few threads for files, poll(2) in the owner
 * for sockets and pipes.
 *
 * A request has a slot from prepare to completion. The thread that may access it, by state:
 *     FREE, WAITING  the owner
 *     QUEUED         the holder of `lock`; the slot is in the list `first`..`last`
 *     RUNNING        the thread that took it; it then pushes the slot to `done`, by compare-and-swap
 *     DONE           the owner, which takes the whole list `done`
 *
 * All threads have the owner's scheduling class, and `lock` is held for a few instructions only, never in a
 * call that waits. No background thread of the program ever holds it.
 */
#include "opp_system.h"
#include "ring.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define NONE UINT32_MAX
#define SLOTS_MIN 4096u
#define SLOTS_KEPT 256u /* reserved from requests in poll(2), for the requests that cancel those */
#define CALL_AGAIN_NS 10000000u

typedef enum slot_state { FREE, WAITING, QUEUED, RUNNING, DONE } slot_state;

typedef struct slot {
    opp_ring_op op;
    slot_state state;
    uint32_t next;
    int32_t result;
    ring_attempt attempt; /* WAITING */
} slot;

typedef struct threads {
    opp_ring *ring;
    uint32_t slot_count;
    slot *slots;
    struct pollfd *polls;  /* [0] is the eventfd */
    uint32_t *waiting;     /* slots; polls[i + 1] is of waiting[i] */
    uint32_t waiting_count;
    uint32_t free;
    uint32_t ready_first, ready_last; /* DONE, in order; the owner's fields */

    pthread_mutex_t lock;
    pthread_cond_t work;
    uint32_t first, last; /* QUEUED */
    uint32_t alive;
    bool closing;

    _Alignas(64) _Atomic(uint32_t) done; /* a stack */
} threads;

/* --- The threads ---------------------------------------------------------------------------- */

static void push_done(threads *state, uint32_t index) {
    OPP_ASSERT(index < state->slot_count);
    uint32_t top = opp_load(&state->done, relaxed);
    do {
        state->slots[index].next = top;
        /* [done] release: the thread that takes the stack sees the result. seq_cst: precedes the read of
         * `sleeping`, which the owner sets before it reads `done`. */
    } while (!opp_cas(&state->done, &top, index, seq_cst));
    ring_wake(state->ring);
}

static void run(void *context) {
    threads *state = context;
    uint8_t priority = OPP_RING_PRIORITY_NONE;
    pthread_mutex_lock(&state->lock);
    for (;;) {
        while (state->first == NONE && !state->closing) pthread_cond_wait(&state->work, &state->lock);
        if (state->first == NONE) break;
        uint32_t index = state->first;
        slot *slot = &state->slots[index];
        OPP_ASSERT(index < state->slot_count);
        OPP_ASSERT(slot->state == QUEUED);
        state->first = slot->next;
        slot->state = RUNNING;
        pthread_mutex_unlock(&state->lock);
        if (slot->op.priority != priority) ring_set_thread_priority(priority = slot->op.priority);
        slot->result = ring_call(&slot->op);
        push_done(state, index);
        pthread_mutex_lock(&state->lock);
    }
    OPP_ASSERT(state->closing);
    OPP_ASSERT(state->alive > 0);
    state->alive--;
    pthread_cond_broadcast(&state->work);
    pthread_mutex_unlock(&state->lock);
}

/* --- The owner: completions ----------------------------------------------------------------- */

static void finish(threads *state, uint32_t index, int32_t result) {
    slot *slot = &state->slots[index];
    OPP_ASSERT(slot->state != DONE);
    slot->state = DONE;
    slot->result = result;
    slot->next = NONE;
    if (state->ready_first == NONE) {
        state->ready_first = index;
    } else {
        state->slots[state->ready_last].next = index;
    }
    state->ready_last = index;
}

static void take_done(threads *state) {
    if (opp_load(&state->done, seq_cst) == NONE) return; /* after `sleeping`: see push_done() */
    /* [done]; slots return to the threads under the lock */
    uint32_t index = opp_swap(&state->done, NONE, acquire);
    uint32_t oldest = NONE;
    while (index != NONE) {
        uint32_t next = state->slots[index].next;
        state->slots[index].next = oldest;
        oldest = index;
        index = next;
    }
    while (oldest != NONE) {
        uint32_t next = state->slots[oldest].next;
        finish(state, oldest, state->slots[oldest].result);
        oldest = next;
    }
}

static uint32_t take_ready(threads *state, opp_ring_completion *completions, uint32_t room) {
    uint32_t taken = 0;
    while (taken < room && state->ready_first != NONE) {
        uint32_t index = state->ready_first;
        slot *slot = &state->slots[index];
        OPP_ASSERT(slot->state == DONE);
        state->ready_first = slot->next;
        completions[taken++] = (opp_ring_completion){.tag = slot->op.tag, .result = slot->result};
        slot->state = FREE;
        slot->next = state->free;
        state->free = index;
    }
    return taken;
}

/* --- The owner: sockets --------------------------------------------------------------------- */

static void finish_waiting(threads *state, uint32_t index, int32_t result) {
    slot *slot = &state->slots[index];
    if (slot->attempt.old_flags >= 0) (void)fcntl(slot->op.fd, F_SETFL, slot->attempt.old_flags);
    finish(state, index, result);
}

/* Tries it without waiting. Returns whether it ended. */
static bool try_waiting(threads *state, uint32_t index) {
    slot *slot = &state->slots[index];
    OPP_ASSERT(slot->state == WAITING);
    int32_t result = ring_try_polled(&slot->op, &slot->attempt);
    if (result == -EAGAIN) return false;
    finish_waiting(state, index, result);
    return true;
}

/* --- The owner: cancelling ------------------------------------------------------------------ */

static uint32_t cancel_waiting(threads *state, const opp_ring_op *wanted) {
    uint32_t count = 0, kept = 0;
    OPP_ASSERT(state->waiting_count <= state->slot_count);
    for (uint32_t i = 0; i < state->waiting_count; i++) {
        const opp_ring_op *op = &state->slots[state->waiting[i]].op;
        bool matches = wanted->code == OPP_RING_CANCEL ? op->tag == wanted->second : op->fd == wanted->fd;
        if (matches) {
            finish_waiting(state, state->waiting[i], -ECANCELED);
            count++;
        } else {
            state->waiting[kept++] = state->waiting[i];
        }
    }
    state->waiting_count = kept;
    return count;
}

static int32_t cancel(threads *state, const opp_ring_op *wanted) {
    uint32_t count = cancel_waiting(state, wanted);
    bool running = false;
    pthread_mutex_lock(&state->lock);
    for (uint32_t *link = &state->first, previous = NONE; *link != NONE;) {
        uint32_t index = *link;
        slot *slot = &state->slots[index];
        bool matches = wanted->code == OPP_RING_CANCEL ? slot->op.tag == wanted->second
                                                       : slot->op.fd == wanted->fd;
        OPP_ASSERT(slot->state == QUEUED);
        if (matches) {
            *link = slot->next;
            if (state->last == index) state->last = previous;
            finish(state, index, -ECANCELED);
            count++;
        } else {
            previous = index;
            link = &slot->next;
        }
    }
    for (uint32_t i = 0; i < state->slot_count && wanted->code == OPP_RING_CANCEL && count == 0; i++) {
        if (state->slots[i].state == RUNNING && state->slots[i].op.tag == wanted->second) running = true;
    }
    pthread_mutex_unlock(&state->lock);
    if (wanted->code == OPP_RING_CANCEL_FD) return (int32_t)count;
    return count > 0 ? 0 : running ? -EALREADY : -ENOENT;
}

/* --- The verbs ------------------------------------------------------------------------------ */

/* Sends and receives with MSG_DONTWAIT, which return -EAGAIN as with io_uring. */
static bool answers_again(const opp_ring_op *op) {
    switch ((opp_ring_code)op->code) {
    case OPP_RING_SEND:
    case OPP_RING_SEND_ZERO_COPY:
    case OPP_RING_SEND_MESSAGE:
    case OPP_RING_RECEIVE:
    case OPP_RING_RECEIVE_MESSAGE: return (op->flags & MSG_DONTWAIT) != 0;
    default: return false;
    }
}

static int threads_prepare(opp_ring *ring, const opp_ring_op *op) {
    threads *state = ring->state;
    uint32_t index = state->free;
    if (index == NONE) return -EBUSY;
    OPP_ASSERT(index < state->slot_count);
    slot *slot = &state->slots[index];
    OPP_ASSERT(slot->state == FREE);
    state->free = slot->next;
    slot->op = *op;
    slot->attempt = (ring_attempt){.old_flags = -1};
    if (op->code == OPP_RING_NOP) {
        finish(state, index, 0);
    } else if (op->code == OPP_RING_CANCEL || op->code == OPP_RING_CANCEL_FD) {
        finish(state, index, cancel(state, op));
    } else if (ring_is_polled(op, &slot->attempt.events)) {
        slot->state = WAITING;
        if (try_waiting(state, index)) return 0;
        if (answers_again(op)) {
            finish(state, index, -EAGAIN);
        } else if (state->waiting_count >= state->slot_count - SLOTS_KEPT) {
            finish_waiting(state, index, -ENOBUFS);
        } else {
            state->waiting[state->waiting_count++] = index;
        }
    } else {
        slot->next = NONE;
        pthread_mutex_lock(&state->lock);
        slot->state = QUEUED;
        if (state->first == NONE) {
            state->first = index;
        } else {
            state->slots[state->last].next = index;
        }
        state->last = index;
        pthread_cond_signal(&state->work);
        pthread_mutex_unlock(&state->lock);
    }
    return 0;
}

/* poll(2) accepts at most RLIMIT_NOFILE descriptors: the newest requests fail, so that the others
 * continue. */
static void refuse_newest(threads *state) {
    struct rlimit limit;
    uint32_t kept = 0;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > 0 &&
        limit.rlim_cur <= state->waiting_count) {
        kept = (uint32_t)limit.rlim_cur - 1; /* and one for the eventfd */
    }
    while (state->waiting_count > kept)
        finish_waiting(state, state->waiting[--state->waiting_count], -ENOBUFS);
}

/* Waits in ppoll(2); tries the requests that became ready. False if the time is over. */
static bool poll_all(threads *state, uint64_t until_ns) {
    uint64_t now = opp_sync_now(), end_ns = until_ns;
    OPP_ASSERT(state->waiting_count <= state->slot_count); /* `polls` has one more */
    state->polls[0] = (struct pollfd){.fd = state->ring->event, .events = POLLIN};
    for (uint32_t i = 0; i < state->waiting_count; i++) {
        const slot *slot = &state->slots[state->waiting[i]];
        state->polls[i + 1] = (struct pollfd){.fd = slot->attempt.calls_again ? -1 : slot->op.fd,
                                                 .events = slot->attempt.events};
        if (slot->attempt.calls_again && end_ns > now + CALL_AGAIN_NS) end_ns = now + CALL_AGAIN_NS;
    }
    struct timespec time, *limit = NULL;
    if (end_ns != UINT64_MAX) {
        uint64_t left = end_ns > now ? end_ns - now : 0;
        time = (struct timespec){.tv_sec = (time_t)(left / 1000000000u),
            .tv_nsec = (long)(left % 1000000000u)};
        limit = &time;
    }
    int ready = ppoll(state->polls, state->waiting_count + 1, limit, NULL);
    if (ready < 0) {
        if (errno != EINTR) refuse_newest(state);
        return true;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < state->waiting_count; i++) {
        uint32_t index = state->waiting[i];
        bool is_ready = state->polls[i + 1].revents != 0 || state->slots[index].attempt.calls_again;
        if (!is_ready || !try_waiting(state, index)) state->waiting[kept++] = index;
    }
    state->waiting_count = kept;
    return ready > 0 || until_ns == UINT64_MAX || opp_sync_now() < until_ns;
}

static int threads_wait(opp_ring *ring, opp_ring_completion *completions, uint32_t room, bool sleep,
                        uint64_t until_ns) {
    threads *state = ring->state;
    take_done(state);
    if (!sleep || state->ready_first != NONE) {
        if (state->ready_first == NONE && state->waiting_count > 0) (void)poll_all(state, 0);
        return (int)take_ready(state, completions, room);
    }
    for (;;) {
        bool on_time = poll_all(state, until_ns);
        bool woken = state->polls[0].revents != 0 && on_time;
        if (woken) {
            uint64_t count;
            while (read(ring->event, &count, sizeof(count)) < 0 && errno == EINTR) continue;
        }
        take_done(state);
        uint32_t taken = take_ready(state, completions, room);
        ring_count_wakeup(ring);
        if (taken > 0 || woken || !on_time) return (int)taken;
    }
}

/* The readiness of sockets shows in a poll only. */
static bool threads_has_news(opp_ring *ring) {
    threads *state = ring->state;
    return opp_load(&state->done, relaxed) != NONE; /* relaxed: wait() takes it with acquire */
}

static int threads_start(opp_ring *ring) {
    threads *state = ring->state;
    for (uint32_t i = 0; i < ring->config.threads; i++) {
        pthread_mutex_lock(&state->lock);
        state->alive++;
        pthread_mutex_unlock(&state->lock);
        int error = opp_thread_start("opportune-io", 256 << 10, run, state);
        if (error == 0) continue;
        pthread_mutex_lock(&state->lock);
        state->alive--;
        pthread_mutex_unlock(&state->lock);
        if (i == 0) return error;
        break; /* fewer will do */
    }
    return 0;
}

static void threads_free(threads *state) {
    free(state->slots);
    free(state->polls);
    free(state->waiting);
    free(state);
}

static void threads_destroy(opp_ring *ring) {
    threads *state = ring->state;
    pthread_mutex_lock(&state->lock);
    state->closing = true;
    pthread_cond_broadcast(&state->work);
    while (state->alive > 0) pthread_cond_wait(&state->work, &state->lock);
    pthread_mutex_unlock(&state->lock);
    pthread_cond_destroy(&state->work);
    pthread_mutex_destroy(&state->lock);
    threads_free(state);
}

static int threads_register_buffers(opp_ring *ring, const void *vectors, uint32_t count) {
    (void)ring, (void)vectors, (void)count; /* READ_FIXED is a plain read here */
    return 0;
}

static const ring_backend backend = {threads_start, threads_destroy, threads_prepare, threads_wait,
                                     threads_register_buffers, threads_has_news};

int ring_threads_create(opp_ring *ring) {
    uint32_t count = 4 * ring->config.entries;
    if (count < SLOTS_MIN) count = SLOTS_MIN;
    OPP_ASSERT(count > SLOTS_KEPT);
    OPP_ASSERT(count < NONE);
    threads *state = aligned_alloc(64, (sizeof(threads) + 63) / 64 * 64);
    if (state == NULL) return -ENOMEM;
    memset(state, 0, sizeof(*state));
    state->ring = ring;
    state->slot_count = count;
    state->slots = calloc(count, sizeof(slot));
    state->polls = calloc(count + 1, sizeof(struct pollfd));
    state->waiting = calloc(count, sizeof(uint32_t));
    if (state->slots == NULL || state->polls == NULL || state->waiting == NULL) {
        threads_free(state);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) state->slots[i].next = i + 1 < count ? i + 1 : NONE;
    state->ready_first = state->first = state->last = NONE;
    opp_store(&state->done, NONE, relaxed);
    pthread_mutex_init(&state->lock, NULL);
    pthread_cond_init(&state->work, NULL);
    ring->state = state;
    ring->backend = &backend;
    ring->can = (opp_ring_capabilities){.backend = OPP_RING_THREADS, .truncate = true, .make_folder = true};
    ring->can.codes = (UINT64_C(1) << OPP_RING_CODES) - 1;
    return 0;
}
