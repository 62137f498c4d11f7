/*
 * What the broker leaves out of io_uring, against what it does instead (docs/decisions/0007): registered
 * files, multishot accept and receive, cancellation by descriptor. One thread, one ring as the broker's; the
 * two take turns.
 *
 *   cc -O2 -D_GNU_SOURCE bench/uring/main.c -luring -o /tmp/uring && /tmp/uring
 *
 * Prints nanoseconds an operation, median of 31 turns (least to most), and the ratio of the medians.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TURNS = 31, BUFFERS = 64, BUFFER_SIZE = 4096 };

static struct io_uring ring;
static char memory[BUFFERS * BUFFER_SIZE];

static void check(bool holds, const char *what) {
    if (holds) return;
    perror(what);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static struct io_uring_sqe *entry(void) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
    check(sqe != NULL, "entry");
    return sqe;
}

typedef struct answer {
    int res;
    unsigned flags;
} answer;

/* Submits, waits for one completion and takes it. */
static answer next(void) {
    struct io_uring_cqe *cqe;
    if (io_uring_cq_ready(&ring) == 0) check(io_uring_submit_and_wait(&ring, 1) >= 0, "submit");
    check(io_uring_wait_cqe(&ring, &cqe) == 0, "wait");
    answer copy = {cqe->res, cqe->flags};
    io_uring_cqe_seen(&ring, cqe);
    return copy;
}

/* --- Reads of 4 KiB from the page cache, by descriptor or by place in the table ---------------- */

static int file;

static double reads(bool registered) {
    enum { COUNT = 20000 };
    double start = now();
    for (int i = 0; i < COUNT; i++) {
        struct io_uring_sqe *sqe = entry();
        io_uring_prep_read(sqe, registered ? 0 : file, memory, 4096, 0);
        if (registered) sqe->flags |= IOSQE_FIXED_FILE;
        check(next().res == 4096, "read");
    }
    return (now() - start) / COUNT;
}

/* --- Connections, each accepted and closed ------------------------------------------------------ */

static struct sockaddr_in address;
static int listener;

static double accepts(bool multishot) {
    enum { COUNT = 500 };
    if (multishot) io_uring_prep_multishot_accept(entry(), listener, NULL, NULL, SOCK_CLOEXEC);
    check(io_uring_submit(&ring) >= 0, "submit");
    double start = now();
    for (int i = 0; i < COUNT; i++) {
        if (!multishot) io_uring_prep_accept(entry(), listener, NULL, NULL, SOCK_CLOEXEC);
        check(io_uring_submit(&ring) >= 0, "submit");
        int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        check(connect(client, (struct sockaddr *)&address, sizeof(address)) == 0, "connect");
        int server = next().res;
        check(server >= 0, "accept");
        struct linger reset = {1, 0}; /* no TIME_WAIT */
        setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        close(client), close(server);
    }
    double time = (now() - start) / COUNT;
    if (multishot) {
        io_uring_prep_cancel_fd(entry(), listener, IORING_ASYNC_CANCEL_ALL);
        for (int left = 2; left > 0; left--) (void)next();
    }
    return time;
}

/* --- Messages of 64 bytes, received one by one --------------------------------------------------- */

static int pair[2];
static struct io_uring_buf_ring *pool;

static double receives(bool multishot) {
    enum { COUNT = 5000 };
    char bytes[64] = {0};
    double start = now();
    bool armed = false;
    for (int i = 0; i < COUNT; i++) {
        if (!multishot) {
            io_uring_prep_recv(entry(), pair[0], memory, BUFFER_SIZE, 0);
        } else if (!armed) {
            struct io_uring_sqe *sqe = entry();
            io_uring_prep_recv_multishot(sqe, pair[0], NULL, 0, 0);
            sqe->flags |= IOSQE_BUFFER_SELECT;
            sqe->buf_group = 0;
            armed = true;
        }
        check(io_uring_submit(&ring) >= 0, "submit");
        check(write(pair[1], bytes, sizeof(bytes)) == sizeof(bytes), "write");
        answer cqe = next();
        check(cqe.res == sizeof(bytes), "receive");
        if (!multishot) continue;
        if (!(cqe.flags & IORING_CQE_F_MORE)) armed = false;
        int index = (int)(cqe.flags >> IORING_CQE_BUFFER_SHIFT);
        io_uring_buf_ring_add(pool, memory + index * BUFFER_SIZE, BUFFER_SIZE, (unsigned short)index,
                              io_uring_buf_ring_mask(BUFFERS), 0);
        io_uring_buf_ring_advance(pool, 1);
    }
    double time = (now() - start) / COUNT;
    if (armed) {
        io_uring_prep_cancel_fd(entry(), pair[0], IORING_ASYNC_CANCEL_ALL);
        for (int left = 2; left > 0; left--) (void)next();
    }
    return time;
}

/* --- Receives that wait, cancelled; `others` wait on another socket -------------------------------- */

static int other_pair[2];
static int waiting = 1, others = 0;

static double cancels(bool by_descriptor) {
    enum { COUNT = 200 };
    double time = 0;
    for (int turn = 0; turn < COUNT; turn++) {
        for (int i = 0; i < waiting; i++) {
            struct io_uring_sqe *sqe = entry();
            io_uring_prep_recv(sqe, pair[0], memory, 1, 0);
            sqe->user_data = (uint64_t)i + 1;
        }
        check(io_uring_submit(&ring) >= 0, "submit");
        double start = now();
        int asked = by_descriptor ? 1 : waiting;
        for (int i = 0; i < asked; i++) {
            if (by_descriptor) {
                io_uring_prep_cancel_fd(entry(), pair[0], IORING_ASYNC_CANCEL_ALL);
            } else {
                io_uring_prep_cancel64(entry(), (uint64_t)i + 1, 0);
            }
        }
        for (int left = waiting + asked; left > 0; left--) (void)next();
        time += now() - start;
    }
    return time / COUNT;
}

static void wait_elsewhere(int count) {
    for (; others < count; others++) {
        struct io_uring_sqe *sqe = entry();
        io_uring_prep_recv(sqe, other_pair[0], memory, 1, 0);
        sqe->user_data = 1 << 20 | (unsigned)others;
        check(io_uring_submit(&ring) >= 0, "submit");
    }
}

/* ---------------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
    return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

static void compare(const char *name, double (*run)(bool)) {
    double times[2][TURNS];
    for (int turn = 0; turn < TURNS; turn++) {
        for (int which = 0; which < 2; which++) times[which][turn] = run(which);
    }
    for (int which = 0; which < 2; which++) qsort(times[which], TURNS, sizeof(double), ascending);
    const double *used = times[0], *left = times[1];
    printf("%-46s %8.0f (%.0f to %.0f) %8.0f (%.0f to %.0f)   %.2f\n", name, used[TURNS / 2], used[0],
           used[TURNS - 1], left[TURNS / 2], left[0], left[TURNS - 1], left[TURNS / 2] / used[TURNS / 2]);
}

int main(void) {
    struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
    check(io_uring_queue_init_params(256, &ring, &params) == 0, "ring");
    check(io_uring_register_ring_fd(&ring) == 1, "ring's descriptor");

    char path[] = "/tmp/opportune-uring-XXXXXX";
    file = mkstemp(path);
    unlink(path);
    check(file >= 0 && write(file, memory, 4096) == 4096, "file");
    check(io_uring_register_files(&ring, &file, 1) == 0, "table of files");

    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    check(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 128) == 0, "listener");
    getsockname(listener, (struct sockaddr *)&address, &size);

    check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 &&
          socketpair(AF_UNIX, SOCK_STREAM, 0, other_pair) == 0, "pair");
    check(posix_memalign((void **)&pool, 4096, 4096) == 0, "memory");
    struct io_uring_buf_reg registration = {.ring_addr = (uintptr_t)pool, .ring_entries = BUFFERS};
    check(io_uring_register_buf_ring(&ring, &registration, 0) == 0, "buffers");
    io_uring_buf_ring_init(pool);
    for (int i = 0; i < BUFFERS; i++) {
        io_uring_buf_ring_add(pool, memory + i * BUFFER_SIZE, BUFFER_SIZE, (unsigned short)i,
                              io_uring_buf_ring_mask(BUFFERS), i);
    }
    io_uring_buf_ring_advance(pool, BUFFERS);

    printf("%-46s %s   %s   ratio\n", "nanoseconds", "as the broker does", "as it might");
    compare("4 KiB cached read, registered file", reads);
    compare("connection accepted, multishot", accepts);
    compare("64 bytes received, multishot", receives);
    compare("1 receive cancelled, by descriptor", cancels);
    waiting = 64;
    compare("64 receives cancelled, by descriptor", cancels);
    waiting = 1;
    wait_elsewhere(2000);
    compare("1 receive cancelled among 2,000, by descriptor", cancels);
    return 0;
}
