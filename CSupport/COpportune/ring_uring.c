/*
 * The io_uring backend. Requests are liburing's submission entries, filled from a table.
 *
 * The owner waits in io_uring_enter(2) for completions and for the eventfd. The eventfd is read by a request
 * of the backend while the owner sleeps. Completions that do not fit are kept by the kernel (FEAT_NODROP,
 * required) and come at later waits.
 */
#include "ring.h"

#include <liburing.h>
#include <stdlib.h>
#include <string.h>

/* Newer than the header of liburing 2.3. */
#define OP_FTRUNCATE 55

typedef struct shape {
    uint8_t opcode;
    bool takes_priority;
    bool is_special; /* uring_prepare() moves its fields */
} shape;

static const shape shapes[OPP_RING_CODES] = {
    [OPP_RING_NOP] = {IORING_OP_NOP, false, false},
    [OPP_RING_READ] = {IORING_OP_READ, true, false},
    [OPP_RING_WRITE] = {IORING_OP_WRITE, true, false},
    [OPP_RING_READV] = {IORING_OP_READV, true, false},
    [OPP_RING_WRITEV] = {IORING_OP_WRITEV, true, false},
    [OPP_RING_READ_FIXED] = {IORING_OP_READ_FIXED, true, true},
    [OPP_RING_WRITE_FIXED] = {IORING_OP_WRITE_FIXED, true, true},
    [OPP_RING_FSYNC] = {IORING_OP_FSYNC, false, false},
    [OPP_RING_FDATASYNC] = {IORING_OP_FSYNC, false, true},
    [OPP_RING_ALLOCATE] = {IORING_OP_FALLOCATE, false, true},
    [OPP_RING_TRUNCATE] = {OP_FTRUNCATE, false, false},
    [OPP_RING_OPEN] = {IORING_OP_OPENAT, false, false},
    [OPP_RING_CLOSE] = {IORING_OP_CLOSE, false, false},
    [OPP_RING_STAT] = {IORING_OP_STATX, false, true},
    [OPP_RING_RENAME] = {IORING_OP_RENAMEAT, false, true},
    [OPP_RING_UNLINK] = {IORING_OP_UNLINKAT, false, false},
    [OPP_RING_CONNECT] = {IORING_OP_CONNECT, false, true},
    [OPP_RING_ACCEPT] = {IORING_OP_ACCEPT, false, false},
    [OPP_RING_ACCEPT_MANY] = {IORING_OP_ACCEPT, false, true},
    [OPP_RING_SEND] = {IORING_OP_SEND, false, false},
    [OPP_RING_SEND_ZERO_COPY] = {IORING_OP_SEND_ZC, false, false},
    [OPP_RING_RECEIVE] = {IORING_OP_RECV, false, false},
    [OPP_RING_SEND_MESSAGE] = {IORING_OP_SENDMSG, false, true},
    [OPP_RING_RECEIVE_MESSAGE] = {IORING_OP_RECVMSG, false, true},
    [OPP_RING_SHUTDOWN] = {IORING_OP_SHUTDOWN, false, false},
    [OPP_RING_POLL] = {IORING_OP_POLL_ADD, false, false},
    [OPP_RING_CANCEL] = {IORING_OP_ASYNC_CANCEL, false, true},
    [OPP_RING_CANCEL_FD] = {IORING_OP_ASYNC_CANCEL, false, true},
    [OPP_RING_MAKE_FOLDER] = {IORING_OP_MKDIRAT, false, false},
};

typedef struct uring {
    struct io_uring ring;
    ring_closers *closers;
    uint64_t wake_count; /* the destination of the eventfd's read */
    bool wake_armed;
    bool started;
} uring;

static int setup(uring *state, const opp_ring_config *config, unsigned flags) {
    struct io_uring_params params;
    OPP_ASSERT(config->entries > 0);
    memset(&params, 0, sizeof(params));
    params.flags = flags | IORING_SETUP_CQSIZE;
    params.cq_entries = config->completions != 0 ? config->completions : 4 * config->entries;
    if (params.cq_entries < config->entries) params.cq_entries = config->entries;
    int error = io_uring_queue_init_params(config->entries, &state->ring, &params);
    if (error != 0) return error;
    unsigned needed = IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG | IORING_FEAT_FAST_POLL |
                      IORING_FEAT_SUBMIT_STABLE;
    if ((params.features & needed) == needed) return 0;
    io_uring_queue_exit(&state->ring); /* older than 5.11 */
    return -ENOSYS;
}

static void probe(opp_ring *ring, uring *state) {
    struct io_uring_probe *known = io_uring_get_probe_ring(&state->ring);
    for (unsigned code = 0; code < OPP_RING_CODES; code++) {
        /* 5.6 and older report nothing; they lack EXT_ARG and were refused above. */
        if (known != NULL && io_uring_opcode_supported(known, shapes[code].opcode)) {
            ring->can.codes |= UINT64_C(1) << code;
        }
    }
    if (known != NULL) io_uring_free_probe(known);
    ring->can.zero_copy = ring->can.codes >> OPP_RING_SEND_ZERO_COPY & 1;
    ring->can.truncate = ring->can.codes >> OPP_RING_TRUNCATE & 1;
    ring->can.make_folder = ring->can.codes >> OPP_RING_MAKE_FOLDER & 1;
    /* Multishot accept has no probe of its own; it came with 5.19, single issuers with 6.0. */
    ring->can.accept_many = ring->can.single_issuer;
}

static int uring_start(opp_ring *ring) {
    uring *state = ring->state;
    OPP_ASSERT(!state->started);
    if (ring->can.single_issuer) {
        /* Not in Debian's liburing.so: io_uring_enable_rings(). */
        int error = io_uring_register(state->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
        if (error < 0) return error;
    }
    state->started = true;
    ring_closers_start(state->closers);
    if (ring->config.workers > 0) {
        unsigned limits[2] = {ring->config.workers, 0};
        /* kernels before 5.15 keep their own limit */
        (void)io_uring_register_iowq_max_workers(&state->ring, limits);
    }
    /* A registered descriptor saves the lookup at each enter; kernels before 5.18 go without. */
    (void)io_uring_register_ring_fd(&state->ring);
    return 0;
}

static void uring_destroy(opp_ring *ring) {
    uring *state = ring->state;
    io_uring_queue_exit(&state->ring);
    ring_closers_destroy(state->closers);
    free(state);
}

static uint16_t priority_value(uint8_t priority) {
    /* The class in the upper bits and a level below. IDLE has no levels; the others use the middle one. */
    return priority == OPP_RING_PRIORITY_NONE ? 0 : (uint16_t)(priority << 13 | (priority == 3 ? 0 : 4));
}

/* Like io_uring_get_sqe(), but reads the room anew; the kernel moves `khead` only while this thread is in the
 * kernel. */
static struct io_uring_sqe *next_entry(struct io_uring_sq *queue, unsigned kept) {
    OPP_ASSERT(queue->sqe_tail - *queue->khead <= queue->ring_entries);
    if (queue->sqe_tail - *queue->khead + kept >= queue->ring_entries) return NULL;
    return &queue->sqes[queue->sqe_tail++ & queue->ring_mask];
}

static void move_fields(struct io_uring_sqe *sqe, const opp_ring_op *op) {
    switch ((opp_ring_code)op->code) {
    case OPP_RING_READ_FIXED:
    case OPP_RING_WRITE_FIXED: sqe->buf_index = (uint16_t)op->index; break;
    case OPP_RING_FDATASYNC: sqe->fsync_flags = IORING_FSYNC_DATASYNC; break;
    case OPP_RING_ALLOCATE: sqe->addr = op->second; break;
    case OPP_RING_STAT:
    case OPP_RING_CONNECT: sqe->off = op->second; break;
    case OPP_RING_RENAME:
        sqe->off = op->second;
        sqe->len = (uint32_t)op->index;
        break;
    case OPP_RING_ACCEPT_MANY: sqe->ioprio = IORING_ACCEPT_MULTISHOT; break;
    case OPP_RING_SEND_MESSAGE:
    case OPP_RING_RECEIVE_MESSAGE: sqe->len = 1; break;
    case OPP_RING_CANCEL: sqe->addr = op->second; break;
    case OPP_RING_CANCEL_FD: sqe->cancel_flags = IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_ALL; break;
    case OPP_RING_NOP:
    case OPP_RING_READ:
    case OPP_RING_WRITE:
    case OPP_RING_READV:
    case OPP_RING_WRITEV:
    case OPP_RING_FSYNC:
    case OPP_RING_TRUNCATE:
    case OPP_RING_OPEN:
    case OPP_RING_CLOSE:
    case OPP_RING_UNLINK:
    case OPP_RING_ACCEPT:
    case OPP_RING_SEND:
    case OPP_RING_SEND_ZERO_COPY:
    case OPP_RING_RECEIVE:
    case OPP_RING_SHUTDOWN:
    case OPP_RING_POLL:
    case OPP_RING_MAKE_FOLDER:
    case OPP_RING_CODES: break;
    }
}

static bool goes_to_thread(const opp_ring_op *op) {
    switch ((opp_ring_code)op->code) {
    /* More closes than closers. Inline, the last close of a file blocks for its SO_LINGER time, or for the
     * file system. */
    case OPP_RING_CLOSE: return true;
    /* Tried at once, an open of a FIFO succeeds without a writer, and fails without a reader. An open whose
     * path is cached waits for its file system's answer. So does a read or write, which first asks a FUSE
     * file system whether it would wait. */
    case OPP_RING_OPEN:
    case OPP_RING_READ:
    case OPP_RING_WRITE:
    case OPP_RING_READV:
    case OPP_RING_WRITEV:
    case OPP_RING_READ_FIXED:
    case OPP_RING_WRITE_FIXED: return op->second != 0;
    default: return false;
    }
}

static int uring_prepare(opp_ring *ring, const opp_ring_op *op) {
    uring *state = ring->state;
    OPP_ASSERT(op->code < OPP_RING_CODES);
    OPP_ASSERT(op->tag < OPP_RING_TAGS);
    if (op->code == OPP_RING_CLOSE && ring_closers_ask(state->closers, op)) return 0;
    /* One entry is reserved for the read of the eventfd. */
    struct io_uring_sqe *sqe = next_entry(&state->ring.sq, 1);
    if (sqe == NULL) return -EBUSY;
    const shape *shape = &shapes[op->code];
    *sqe = (struct io_uring_sqe){
        .opcode = shape->opcode,
        .ioprio = shape->takes_priority ? priority_value(op->priority) : 0,
        .fd = op->fd,
        .off = op->offset,
        .addr = op->address,
        .len = op->length,
        .rw_flags = (int)op->flags,
        .user_data = op->tag,
    };
    if (shape->is_special) move_fields(sqe, op);
    if (goes_to_thread(op)) sqe->flags = IOSQE_ASYNC;
    return 0;
}

static void arm_wake(opp_ring *ring, uring *state) {
    if (state->wake_armed) return;
    struct io_uring_sqe *sqe = next_entry(&state->ring.sq, 0);
    if (sqe == NULL) return; /* uring_prepare() reserves one */
    io_uring_prep_read(sqe, ring->event, &state->wake_count, sizeof(state->wake_count), 0);
    sqe->user_data = RING_TAG_WAKE;
    state->wake_armed = true;
}

static uint32_t flags_of(uint32_t flags) {
    return (flags & IORING_CQE_F_MORE ? OPP_COMPLETION_MORE : 0) |
           (flags & IORING_CQE_F_NOTIF ? OPP_COMPLETION_RELEASED : 0);
}

/* Moves completions out, except the backend's own wake-up. */
static uint32_t reap(uring *state, opp_ring_completion *completions, uint32_t room, bool *woken) {
    uint32_t taken = 0;
    unsigned seen = 0, head;
    struct io_uring_cqe *cqe;
    io_uring_for_each_cqe(&state->ring, head, cqe) {
        if (cqe->user_data == RING_TAG_WAKE) {
            OPP_ASSERT(state->wake_armed);
            state->wake_armed = false;
            *woken = true;
        } else if (taken == room) {
            break;
        } else {
            completions[taken++] = (opp_ring_completion){
                .tag = cqe->user_data,
                .result = cqe->res,
                .flags = cqe->flags == 0 ? 0 : flags_of(cqe->flags),
            };
        }
        seen++;
    }
    io_uring_cq_advance(&state->ring, seen);
    OPP_ASSERT(taken <= room);
    return taken;
}

/* Whether there are completions, also such as the kernel holds until this thread enters it. */
static bool uring_has_news(opp_ring *ring) {
    uring *state = ring->state;
    /* relaxed, like everything that the kernel writes without a barrier: a wait() reads it again. */
    unsigned flags = IO_URING_READ_ONCE(*state->ring.sq.kflags);
    if (ring_closers_has_news(state->closers)) return true;
    return io_uring_cq_ready(&state->ring) != 0 || (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
}

static int wait_for_kernel(opp_ring *ring, opp_ring_completion *completions, uint32_t room, bool sleep,
                           uint64_t until_ns) {
    uring *state = ring->state;
    bool woken = false;
    if (io_uring_sq_ready(&state->ring) == 0) {
        uint32_t taken = reap(state, completions, room, &woken);
        if (taken > 0 || woken) return (int)taken;
        if (!sleep && !uring_has_news(ring)) return 0;
    }
    if (sleep) arm_wake(ring, state);
    for (;;) {
        int error;
        if (!sleep) {
            error = io_uring_submit_and_get_events(&state->ring);
        } else if (until_ns == UINT64_MAX) {
            error = io_uring_submit_and_wait(&state->ring, 1);
        } else {
            uint64_t now = opp_sync_now();
            uint64_t left = until_ns > now ? until_ns - now : 0;
            struct __kernel_timespec time = {.tv_sec = (int64_t)(left / 1000000000u),
                                             .tv_nsec = (int64_t)(left % 1000000000u)};
            struct io_uring_cqe *first;
            error = io_uring_submit_and_wait_timeout(&state->ring, &first, 1, &time, NULL);
        }
        uint32_t taken = reap(state, completions, room, &woken);
        if (sleep) ring_count_wakeup(ring);
        if (taken > 0 || woken || !sleep || error == -ETIME) return (int)taken;
        if (error == -EINTR || error >= 0) {
            if (until_ns != UINT64_MAX && opp_sync_now() >= until_ns) return 0;
            continue;
        }
        /* The kernel is temporarily short of something: completions that do not fit, or memory. */
        if (error == -EBUSY || error == -EAGAIN) return 0;
        return error;
    }
}

static int uring_wait(opp_ring *ring, opp_ring_completion *completions, uint32_t room, bool sleep,
                      uint64_t until_ns) {
    uring *state = ring->state;
    uint32_t closed = ring_closers_take(state->closers, completions, room);
    OPP_ASSERT(closed <= room);
    int count = wait_for_kernel(ring, completions + closed, room - closed, sleep && closed == 0, until_ns);
    if (closed > 0) return (int)closed + (count > 0 ? count : 0); /* an error is reported again later */
    /* A close may have been the reason for the wake-up. */
    return count == 0 && sleep ? (int)ring_closers_take(state->closers, completions, room) : count;
}

static int uring_register_buffers(opp_ring *ring, const void *vectors, uint32_t count) {
    uring *state = ring->state;
    return io_uring_register_buffers(&state->ring, vectors, count);
}

static const ring_backend backend =
    {uring_start, uring_destroy, uring_prepare, uring_wait, uring_register_buffers,
                                     uring_has_news};

int ring_uring_create(opp_ring *ring) {
    uring *state = calloc(1, sizeof(uring));
    if (state == NULL) return -ENOMEM;
    unsigned best = IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                    IORING_SETUP_R_DISABLED | IORING_SETUP_TASKRUN_FLAG;
    state->closers = ring_closers_create(ring, ring->config.closers);
    int error = state->closers == NULL ? -ENOMEM : setup(state, &ring->config, best);
    ring->can.single_issuer = error == 0;
    if (error == -EINVAL) error = setup(state, &ring->config, 0); /* before 6.1 */
    if (error != 0) {
        if (state->closers != NULL) ring_closers_destroy(state->closers);
        free(state);
        return error;
    }
    ring->state = state;
    ring->backend = &backend;
    ring->can.backend = OPP_RING_URING;
    probe(ring, state);
    return 0;
}
