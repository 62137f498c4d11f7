#include "opp_bench.h"

#include "opportune.h"

#include <errno.h>
#include <liburing.h>
#include <linux/futex.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCK 4096u
#define BATCH_MAX 64u

static uint64_t next_offset(uint64_t *state, uint64_t size) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return size < BLOCK ? 0 : (*state >> 20) % (size / BLOCK) * BLOCK;
}

int64_t opp_bench_bare(uint32_t count, uint32_t batch, int fd, uint64_t size) {
    struct io_uring ring;
    struct io_uring_params params;
    memset(&params, 0, sizeof(params));
    params.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    int error = io_uring_queue_init_params(BATCH_MAX, &ring, &params);
    if (error == -EINVAL) error = io_uring_queue_init(BATCH_MAX, &ring, 0);
    if (error < 0) return error;
    io_uring_register_ring_fd(&ring); /* as the rival does, where the kernel can */
    char *memory = aligned_alloc(BLOCK, BATCH_MAX * BLOCK);
    uint64_t seed = 1, start = opp_now_ns();
    for (uint32_t done = 0; done < count && error >= 0;) {
        uint32_t n = count - done < batch ? count - done : batch;
        for (uint32_t i = 0; i < n; i++) {
            struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
            if (fd < 0) io_uring_prep_nop(sqe);
            else io_uring_prep_read(sqe, fd, memory + i * BLOCK, BLOCK, next_offset(&seed, size));
        }
        error = io_uring_submit_and_wait(&ring, n);
        unsigned head, seen = 0;
        struct io_uring_cqe *cqe;
        io_uring_for_each_cqe(&ring, head, cqe) {
            if (cqe->res < 0) error = cqe->res;
            seen++;
        }
        io_uring_cq_advance(&ring, seen);
        done += n;
    }
    int64_t time = (int64_t)(opp_now_ns() - start);
    io_uring_queue_exit(&ring);
    free(memory);
    return error < 0 ? error : time;
}

static int make_ring(opp_ring **ring) {
    /* As large as the bare ring. */
    opp_ring_config config = {
        .backend = OPP_RING_URING, .entries = BATCH_MAX, .completions = 2 * BATCH_MAX, .threads = 1};
    return opp_ring_create(&config, ring);
}

static int64_t run_ring(opp_ring *ring, uint32_t count, uint32_t batch, int fd, uint64_t size, char *memory) {
    opp_ring_completion completions[BATCH_MAX];
    uint64_t seed = 1, start = opp_now_ns();
    int error = 0;
    for (uint32_t done = 0; done < count && error >= 0;) {
        uint32_t n = count - done < batch ? count - done : batch;
        for (uint32_t i = 0; i < n && error == 0; i++) {
            opp_ring_op op = {.code = fd < 0 ? OPP_RING_NOP : OPP_RING_READ, .fd = fd, .length = BLOCK,
                .tag = i};
            if (fd >= 0) {
                op.address = (uint64_t)(uintptr_t)(memory + i * BLOCK);
                op.offset = next_offset(&seed, size);
            }
            error = opp_ring_prepare(ring, &op);
        }
        for (uint32_t left = n; left > 0 && error >= 0;) {
            int taken = opp_ring_wait(ring, completions, BATCH_MAX, UINT64_MAX);
            if (taken < 0) error = taken;
            for (int i = 0; i < taken; i++) {
                if (completions[i].result < 0) error = completions[i].result;
            }
            left -= taken > 0 ? (uint32_t)taken : 0;
        }
        done += n;
    }
    return error < 0 ? error : (int64_t)(opp_now_ns() - start);
}

int64_t opp_bench_ring(uint32_t count, uint32_t batch, int fd, uint64_t size) {
    opp_ring *ring;
    int error = make_ring(&ring);
    if (error == 0) error = opp_ring_start(ring);
    if (error != 0) return error;
    char *memory = aligned_alloc(BLOCK, BATCH_MAX * BLOCK);
    int64_t time = run_ring(ring, count, batch, fd, size, memory);
    free(memory);
    opp_ring_destroy(ring);
    return time;
}

int64_t opp_bench_ring_bytes(uint32_t count) {
    opp_ring *ring;
    int error = make_ring(&ring);
    if (error == 0) error = opp_ring_start(ring);
    if (error != 0) return error;
    int64_t result = run_ring(ring, 64, 1, -1, 0, NULL);
    size_t before = mallinfo2().uordblks;
    if (result >= 0) result = run_ring(ring, count, 1, -1, 0, NULL);
    size_t after = mallinfo2().uordblks;
    opp_ring_destroy(ring);
    return result < 0 ? result : (int64_t)(after - before);
}

/* --- Handed over ---------------------------------------------------------------------------- */

typedef struct handover {
    opp_ring *ring;
    opp_link link;
    opp_ring_op op;
    _Atomic(uint32_t) answered; /* grows by one with each answer, and as the owner ends */
    _Atomic(bool) stop;
    int error;
} handover;

static void answer(handover *self) {
    /* release: `error` is seen by who finds the answer counted. */
    atomic_fetch_add_explicit(&self->answered, 1, memory_order_release);
    syscall(SYS_futex, &self->answered, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* relaxed: the message that is posted after it makes the owner look again, and is fetched with acquire. */
static bool is_stopped(handover *self) {
    return atomic_load_explicit(&self->stop, memory_order_relaxed);
}

static void *own(void *context) {
    handover *self = context;
    self->error = opp_ring_start(self->ring);
    while (self->error == 0 && !is_stopped(self)) {
        opp_ring_completion completion;
        int taken = opp_ring_wait(self->ring, &completion, 1, UINT64_MAX);
        if (taken < 0) self->error = taken;
        if (taken > 0) {
            if (completion.result < 0) self->error = completion.result;
            answer(self);
        }
        if (opp_ring_fetch(self->ring) != NULL && !is_stopped(self)) {
            int error = opp_ring_prepare(self->ring, &self->op);
            if (error != 0) self->error = error;
        }
    }
    answer(self);
    return NULL;
}

int64_t opp_bench_handed_over(uint32_t count, int fd, uint64_t size) {
    handover self = {0};
    int error = make_ring(&self.ring);
    if (error != 0) return error;
    char *memory = aligned_alloc(BLOCK, BLOCK);
    pthread_t thread;
    error = pthread_create(&thread, NULL, own, &self);
    if (error != 0) return -error;
    uint64_t seed = 1, start = opp_now_ns();
    for (uint32_t i = 0; i < count; i++) {
        self.op = (opp_ring_op){.code = fd < 0 ? OPP_RING_NOP : OPP_RING_READ, .fd = fd, .length = BLOCK,
                                .address = (uint64_t)(uintptr_t)memory, .offset = next_offset(&seed, size)};
        opp_ring_post(self.ring, &self.link);
        /* acquire: see answer(). */
        while (atomic_load_explicit(&self.answered, memory_order_acquire) == i) {
            syscall(SYS_futex, &self.answered, FUTEX_WAIT_PRIVATE, i, NULL, NULL, 0);
        }
        if (self.error != 0) break;
    }
    int64_t time = (int64_t)(opp_now_ns() - start);
    atomic_store_explicit(&self.stop, true, memory_order_relaxed); /* see is_stopped() */
    opp_ring_post(self.ring, &self.link);
    pthread_join(thread, NULL);
    opp_ring_destroy(self.ring);
    free(memory);
    return self.error != 0 ? self.error : time;
}
