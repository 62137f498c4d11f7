/* Rings, on both backends: each request ends once, with what the system call says; messages wake the
 * owner. */
#include "check.h"
#include "opportune.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define FOREVER UINT64_MAX

/* --- Counting allocations: not under sanitizers, which have a malloc() of their own -------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COUNTS_ALLOCATIONS 0
#endif
#endif
#ifndef COUNTS_ALLOCATIONS
#define COUNTS_ALLOCATIONS 1
#endif

static _Atomic size_t allocations;

#if COUNTS_ALLOCATIONS
/* glibc's own, which these stand before. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

void *malloc(size_t size) {
    allocations++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    allocations++;
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size) {
    allocations++;
    return __libc_realloc(memory, size);
}
#endif

static opp_ring_backend backend;

static opp_ring *make_busy_polling(uint32_t entries, uint32_t completions, uint32_t busy_poll_ns) {
    opp_ring_config config =
        {.backend = backend, .entries = entries, .completions = completions, .threads = 3,
                              .closers = 2, .busy_poll_ns = busy_poll_ns};
    opp_ring *ring;
    CHECK_EQUAL(opp_ring_create(&config, &ring), 0);
    CHECK_EQUAL(opp_ring_start(ring), 0);
    CHECK_EQUAL(opp_ring_can(ring).backend, backend);
    return ring;
}

static opp_ring *make(uint32_t entries, uint32_t completions) {
    return make_busy_polling(entries, completions, 0);
}

/* One request, to its end. */
static int32_t one(opp_ring *ring, opp_ring_op op) {
    opp_ring_completion completion;
    op.tag = 77;
    CHECK_EQUAL(opp_ring_prepare(ring, &op), 0);
    int count;
    while ((count = opp_ring_wait(ring, &completion, 1, FOREVER)) == 0) continue;
    CHECK_EQUAL(count, 1);
    CHECK_EQUAL(completion.tag, 77);
    return completion.result;
}

#define ADDRESS(pointer) ((uint64_t)(uintptr_t)(pointer))

static void test_limits(void) {
    opp_ring *ring;
    opp_ring_config wrong[] = {
        {.entries = 0, .threads = 1}, {.entries = 4097, .threads = 1}, {.entries = 8, .threads = 0},
        {.entries = 8, .threads = 97}, {.entries = 8, .completions = 1u << 20, .threads = 1},
        {.entries = 8, .threads = 1, .busy_poll_ns = 1000001}, {.entries = 8, .threads = 1, .closers = 17},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        CHECK_EQUAL(opp_ring_create(&wrong[i], &ring), -EINVAL);
        CHECK(ring == NULL);
    }
    ring = make(8, 0);
    opp_ring_op op = {.code = OPP_RING_CODES};
    CHECK_EQUAL(opp_ring_prepare(ring, &op), -EINVAL);
    op = (opp_ring_op){.code = OPP_RING_NOP, .tag = OPP_RING_TAGS};
    CHECK_EQUAL(opp_ring_prepare(ring, &op), -EINVAL);
    opp_ring_destroy(ring);
}

/* More at once than there are threads for them, taken a few at a time: each is answered once. */
static void test_closes(void) {
    opp_ring *ring = make(16, 0);
    for (int turn = 0; turn < 200; turn++) {
        int pipes[8][2];
        unsigned seen = 0, count = 0;
        for (uint32_t i = 0; i < 8; i++) {
            CHECK_EQUAL(pipe(pipes[i]), 0);
            opp_ring_op op = {.code = OPP_RING_CLOSE, .fd = i == 7 ? -1 : pipes[i][1], .tag = i};
            CHECK_EQUAL(opp_ring_prepare(ring, &op), 0);
        }
        while (count < 8) {
            opp_ring_completion taken[3];
            int more = opp_ring_wait(ring, taken, 3, FOREVER);
            CHECK(more >= 0);
            for (int i = 0; i < more; i++) {
                CHECK((seen >> taken[i].tag & 1) == 0);
                CHECK_EQUAL(taken[i].result, taken[i].tag == 7 ? -EBADF : 0);
                seen |= 1u << taken[i].tag;
            }
            count += (unsigned)more;
        }
        CHECK_EQUAL(seen, 255);
        char byte;
        for (int i = 0; i < 8; i++) {
            if (i < 7) CHECK_EQUAL(read(pipes[i][0], &byte, 1), 0); /* the other end is closed */
            if (i == 7) close(pipes[i][1]);
            close(pipes[i][0]);
        }
    }
    opp_ring_destroy(ring);
}

static void test_files(void) {
    opp_ring *ring = make(8, 0);
    char folder[] = "/tmp/opp-ring-XXXXXX";
    CHECK(mkdtemp(folder) != NULL);
    char path[64], renamed[64];
    snprintf(path, sizeof(path), "%s/a", folder);
    snprintf(renamed, sizeof(renamed), "%s/b", folder);
    int fd = one(ring, (opp_ring_op){.code = OPP_RING_OPEN, .fd = AT_FDCWD, .address = ADDRESS(path),
        .length = 0600,
                                     .flags = O_RDWR | O_CREAT | O_CLOEXEC});
    CHECK(fd >= 0);
    char text[] = "hello, ring", back[32] = "";
    CHECK_EQUAL(one(ring,
                    (opp_ring_op){.code = OPP_RING_WRITE, .fd = fd, .address = ADDRESS(text), .length = 11,
                                        .priority = OPP_RING_PRIORITY_BEST_EFFORT}), 11);
    CHECK_EQUAL(one(ring,
                    (opp_ring_op){.code = OPP_RING_FSYNC, .fd = fd, .priority = OPP_RING_PRIORITY_IDLE}), 0);
    CHECK_EQUAL(one(ring, (opp_ring_op){.code = OPP_RING_FDATASYNC, .fd = fd}), 0);
    CHECK_EQUAL(one(ring,
                    (opp_ring_op){.code = OPP_RING_READ, .fd = fd, .address = ADDRESS(back), .length = 32,
                                        .priority = OPP_RING_PRIORITY_IDLE}), 11);
    CHECK(memcmp(text, back, 11) == 0);
    struct iovec vectors[2] = {{.iov_base = back, .iov_len = 5}, {.iov_base = back + 16, .iov_len = 16}};
    CHECK_EQUAL(one(ring,
                    (opp_ring_op){.code = OPP_RING_READV, .fd = fd, .address = ADDRESS(vectors),
                        .length = 2}), 11);
    CHECK(memcmp(back + 16, ", ring", 6) == 0);
    CHECK_EQUAL(one(ring,
                    (opp_ring_op){.code = OPP_RING_WRITEV, .fd = fd, .address = ADDRESS(vectors), .length = 1,
                                        .offset = 11}), 5);
    CHECK_EQUAL(one(ring, (opp_ring_op){.code = OPP_RING_ALLOCATE, .fd = fd, .offset = 0, .second = 8192}),
                0);
    struct statx about;
    CHECK_EQUAL(one(ring,
                    (opp_ring_op){.code = OPP_RING_STAT, .fd = fd, .address = ADDRESS(""),
                        .length = STATX_SIZE,
                                        .second = ADDRESS(&about), .flags = AT_EMPTY_PATH}), 0);
    CHECK_EQUAL(about.stx_size, 8192);
    if (opp_ring_can(ring).truncate) {
        CHECK_EQUAL(one(ring, (opp_ring_op){.code = OPP_RING_TRUNCATE, .fd = fd, .offset = 3}), 0);
        CHECK_EQUAL(one(ring,
                        (opp_ring_op){.code = OPP_RING_READ, .fd = fd, .address = ADDRESS(back),
                            .length = 32}), 3);
    }
    struct iovec buffer = {.iov_base = back, .iov_len = sizeof(back)};
    CHECK_EQUAL(opp_ring_register_buffers(ring, &buffer, 1), 0);
    CHECK_EQUAL(one(ring,
                    (opp_ring_op){.code = OPP_RING_WRITE_FIXED, .fd = fd, .address = ADDRESS(back),
                        .length = 4,
                                        .index = 0}), 4);
    CHECK_EQUAL(one(ring,
                    (opp_ring_op){.code = OPP_RING_READ_FIXED, .fd = fd, .address = ADDRESS(back),
                        .length = 4,
                                        .index = 0}), 4);
    CHECK_EQUAL(one(ring, (opp_ring_op){.code = OPP_RING_RENAME, .fd = AT_FDCWD, .address = ADDRESS(path),
                                        .index = AT_FDCWD, .second = ADDRESS(renamed)}), 0);
    CHECK_EQUAL(one(ring, (opp_ring_op){.code = OPP_RING_UNLINK, .fd = AT_FDCWD, .address = ADDRESS(path)}),
                -ENOENT);
    CHECK_EQUAL(one(ring,
                    (opp_ring_op){.code = OPP_RING_UNLINK, .fd = AT_FDCWD, .address = ADDRESS(renamed)}), 0);
    if (opp_ring_can(ring).make_folder) {
        opp_ring_op make =
            {.code = OPP_RING_MAKE_FOLDER, .fd = AT_FDCWD, .address = ADDRESS(path), .length = 0700};
        CHECK_EQUAL(one(ring, make), 0);
        CHECK_EQUAL(one(ring, make), -EEXIST);
        CHECK_EQUAL(one(ring, (opp_ring_op){.code = OPP_RING_UNLINK, .fd = AT_FDCWD, .address = ADDRESS(path),
                                            .flags = AT_REMOVEDIR}), 0);
    }
    CHECK_EQUAL(one(ring, (opp_ring_op){.code = OPP_RING_CLOSE, .fd = fd}), 0);
    CHECK_EQUAL(one(ring, (opp_ring_op){.code = OPP_RING_CLOSE, .fd = fd}), -EBADF);
    CHECK_EQUAL(rmdir(folder), 0);
    opp_ring_destroy(ring);
}

static void test_sockets(void) {
    opp_ring *ring = make(8, 0);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    CHECK_EQUAL(bind(listener, (struct sockaddr *)&address, size), 0);
    CHECK_EQUAL(listen(listener, 8), 0);
    CHECK_EQUAL(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    opp_ring_op accept = {.code = OPP_RING_ACCEPT, .fd = listener, .flags = SOCK_CLOEXEC, .tag = 1};
    opp_ring_op connect =
        {.code = OPP_RING_CONNECT, .fd = client, .address = ADDRESS(&address), .second = size, .tag = 2};
    CHECK_EQUAL(opp_ring_prepare(ring, &accept), 0);
    CHECK_EQUAL(opp_ring_prepare(ring, &connect), 0);
    int server = -1;
    for (int ended = 0; ended < 2;) {
        opp_ring_completion completion;
        if (opp_ring_wait(ring, &completion, 1, FOREVER) == 0) continue;
        ended++;
        CHECK(completion.result >= 0);
        if (completion.tag == 1) server = completion.result;
    }
    CHECK_EQUAL(fcntl(client, F_GETFL) & O_NONBLOCK, 0);
    char text[] = "ping", back[8];
    /* The receive waits for a send that comes later. */
    opp_ring_op receive =
        {.code = OPP_RING_RECEIVE, .fd = server, .address = ADDRESS(back), .length = 8, .tag = 3};
    CHECK_EQUAL(opp_ring_prepare(ring, &receive), 0);
    opp_ring_completion completion;
    CHECK_EQUAL(opp_ring_wait(ring, &completion, 1, 0), 0);
    opp_ring_op send = {.code = opp_ring_can(ring).zero_copy ? OPP_RING_SEND_ZERO_COPY : OPP_RING_SEND,
        .fd = client,
                        .address = ADDRESS(text), .length = 4, .tag = 4};
    CHECK_EQUAL(opp_ring_prepare(ring, &send), 0);
    int seen = 0;
    for (int left = 2; left > 0;) {
        if (opp_ring_wait(ring, &completion, 1, FOREVER) == 0) continue;
        if (!(completion.flags & OPP_COMPLETION_RELEASED)) {
            CHECK_EQUAL(completion.result, 4);
            seen++;
        }
        if (!(completion.flags & OPP_COMPLETION_MORE)) left--;
    }
    CHECK_EQUAL(seen, 2);
    CHECK(memcmp(text, back, 4) == 0);
    CHECK_EQUAL(one(ring, (opp_ring_op){.code = OPP_RING_SHUTDOWN, .fd = client, .length = SHUT_WR}), 0);
    CHECK_EQUAL(one(ring,
                    (opp_ring_op){.code = OPP_RING_RECEIVE, .fd = server, .address = ADDRESS(back),
                        .length = 8}), 0);
    CHECK_EQUAL(one(ring,
                    (opp_ring_op){.code = OPP_RING_SEND, .fd = client, .address = ADDRESS(text),
                        .length = 4}), -EPIPE);
    CHECK((one(ring, (opp_ring_op){.code = OPP_RING_POLL, .fd = server, .flags = POLLIN}) & POLLIN) != 0);
    close(client), close(server), close(listener);
    /* A file that knows no RWF_NOWAIT: where the first vector is empty, the next is written. */
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    struct iovec vectors[2] = {{.iov_base = text, .iov_len = 0}, {.iov_base = text, .iov_len = 4}};
    opp_ring_op write = {.code = OPP_RING_WRITEV, .fd = terminal, .address = ADDRESS(vectors), .length = 2,
                         .offset = UINT64_MAX};
    if (terminal >= 0) CHECK_EQUAL(one(ring, write), 4);
    close(terminal);
    opp_ring_destroy(ring);
}

static void test_cancel(void) {
    opp_ring *ring = make(16, 0);
    int ends[2];
    CHECK_EQUAL(pipe(ends), 0);
    char bytes[3];
    for (uint64_t i = 0; i < 3; i++) {
        opp_ring_op read = {.code = OPP_RING_READ, .fd = ends[0], .address = ADDRESS(&bytes[i]), .length = 1,
                            .offset = UINT64_MAX, .tag = i};
        CHECK_EQUAL(opp_ring_prepare(ring, &read), 0);
    }
    opp_ring_completion completion;
    CHECK_EQUAL(opp_ring_wait(ring, &completion, 1, 0), 0);
    opp_ring_op cancel = {.code = OPP_RING_CANCEL, .second = 1, .tag = 10};
    CHECK_EQUAL(opp_ring_prepare(ring, &cancel), 0);
    uint32_t cancelled = 0;
    for (int left = 2; left > 0;) {
        if (opp_ring_wait(ring, &completion, 1, FOREVER) == 0) continue;
        left--;
        if (completion.tag == 10) CHECK_EQUAL(completion.result, 0);
        if (completion.tag == 1) CHECK_EQUAL(completion.result, -ECANCELED);
        cancelled |= 1u << completion.tag;
    }
    CHECK_EQUAL(cancelled, 1u << 10 | 1u << 1);
    CHECK_EQUAL(one(ring, (opp_ring_op){.code = OPP_RING_CANCEL, .second = 1}), -ENOENT);
    cancel = (opp_ring_op){.code = OPP_RING_CANCEL_FD, .fd = ends[0], .tag = 11};
    CHECK_EQUAL(opp_ring_prepare(ring, &cancel), 0);
    for (int left = 3; left > 0;) {
        if (opp_ring_wait(ring, &completion, 1, FOREVER) == 0) continue;
        left--;
        CHECK_EQUAL(completion.result, completion.tag == 11 ? 2 : -ECANCELED);
    }
    close(ends[0]), close(ends[1]);
    opp_ring_destroy(ring);
}

/* R-CARD-04: far more completions than there is room for; none is lost. */
static void test_overflow(void) {
    opp_ring *ring = make(4, 4);
    enum { COUNT = 3000 };
    static uint8_t ended[COUNT];
    memset(ended, 0, sizeof(ended));
    uint32_t prepared = 0, seen = 0;
    while (seen < COUNT) {
        opp_ring_op nop = {.code = OPP_RING_NOP, .tag = prepared};
        opp_ring_completion completion;
        if (prepared < COUNT && prepared - seen < 64) {
            int error = opp_ring_prepare(ring, &nop);
            if (error == 0) prepared++;
            /* Full: the kernel gets them, and nothing is taken out yet. */
            if (error == 0 || prepared - seen < 32) {
                if (error != 0) CHECK(opp_ring_wait(ring, &completion, 0, 0) >= 0);
                continue;
            }
        }
        int count = opp_ring_wait(ring, &completion, 1, FOREVER);
        CHECK(count >= 0);
        for (int i = 0; i < count; i++) CHECK_EQUAL(ended[completion.tag]++, 0);
        seen += (uint32_t)count;
    }
    opp_ring_destroy(ring);
}

static int32_t fail_writes(void *context, const opp_ring_op *op) {
    int *calls = context;
    (*calls)++;
    return op->code == OPP_RING_WRITE ? -ENOSPC : OPP_RING_NO_FAULT;
}

static void test_faults(void) {
    int calls = 0;
    opp_ring_config config =
        {.backend = backend, .entries = 8, .threads = 1, .fault = fail_writes, .context = &calls};
    opp_ring *ring;
    CHECK_EQUAL(opp_ring_create(&config, &ring), 0);
    CHECK_EQUAL(opp_ring_start(ring), 0);
    CHECK_EQUAL(one(ring, (opp_ring_op){.code = OPP_RING_WRITE, .fd = -1}), -ENOSPC);
    CHECK_EQUAL(one(ring, (opp_ring_op){.code = OPP_RING_NOP}), 0);
    CHECK_EQUAL(calls, 2);
    opp_ring_destroy(ring);
}

/* --- Messages ------------------------------------------------------------------------------- */

enum { POSTERS = 4, POSTS = 20000 };

typedef struct poster {
    opp_ring *ring;
    opp_link link[POSTS];
    uint32_t seen;
} poster;

static void *post_all(void *context) {
    poster *self = context;
    for (uint32_t i = 0; i < POSTS; i++) {
        self->link[i].owner = self;
        opp_ring_post(self->ring, &self->link[i]);
        if (i % 997 == 0) sched_yield();
    }
    return NULL;
}

static void test_messages(void) {
    opp_ring *ring = make(8, 0);
    static poster posters[POSTERS];
    pthread_t thread[POSTERS];
    for (int i = 0; i < POSTERS; i++) {
        posters[i].ring = ring;
        posters[i].seen = 0;
        CHECK_EQUAL(pthread_create(&thread[i], NULL, post_all, &posters[i]), 0);
    }
    /* Sleeps whenever there is nothing: a lost wake-up would hang here. */
    for (uint32_t left = POSTERS * POSTS; left > 0;) {
        opp_ring_completion completion;
        CHECK_EQUAL(opp_ring_wait(ring, &completion, 1, FOREVER), 0);
        for (opp_link *link = opp_ring_fetch(ring); link != NULL;) {
            opp_link *next = link->next;
            poster *from = link->owner;
            CHECK(link == &from->link[from->seen]); /* in the order of one thread's posts */
            from->seen++;
            left--;
            link = next;
        }
    }
    for (int i = 0; i < POSTERS; i++) pthread_join(thread[i], NULL);
    CHECK(opp_ring_fetch(ring) == NULL);
    opp_ring_destroy(ring);
}

static void test_idle_and_memory(void) {
    opp_ring *ring = make(32, 0);
    opp_ring_completion completion[32];
    CHECK_EQUAL(opp_ring_wait(ring, completion, 32, opp_now_ns() + 1), 0);
    uint64_t wakeups = opp_ring_wakeups(ring), start = opp_now_ns();
    while (opp_ring_wait(ring, completion, 32, start + 30000000) != 0 || opp_now_ns() < start + 30000000)
        continue;
    CHECK(opp_ring_wakeups(ring) - wakeups <= 1); /* that of the time, unless it had come before */
    /* No memory is asked for by a request. */
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    char bytes[64];
    for (int round = 0; round < 2; round++) {
        size_t before = allocations;
        for (int i = 0; i < 2000; i++) {
            CHECK_EQUAL(one(ring,
                            (opp_ring_op){.code = OPP_RING_READ, .fd = fd, .address = ADDRESS(bytes),
                                .length = 64,
                                                .offset = UINT64_MAX}), 64);
        }
        if (round == 1) CHECK_EQUAL(allocations, before);
    }
    if (COUNTS_ALLOCATIONS) CHECK(allocations > 0); /* the ring's own */
    close(fd);
    opp_ring_destroy(ring);
}

/* An owner that looks on finds what is there without a sleep, ends its look with a message, and sleeps in the
 * end. */
static void test_busy_polling(void) {
    opp_ring *ring = make_busy_polling(8, 0, 1000000);
    if (backend == OPP_RING_URING) { /* a pool's thread may take its time */
        CHECK_EQUAL(one(ring, (opp_ring_op){.code = OPP_RING_NOP}), 0);
        CHECK_EQUAL(opp_ring_wakeups(ring), 0);
    }
    opp_link link = {0};
    opp_ring_completion completion;
    opp_ring_post(ring, &link);
    CHECK_EQUAL(opp_ring_wait(ring, &completion, 1, FOREVER), 0);
    CHECK(opp_ring_fetch(ring) == &link);
    uint64_t start = opp_now_ns();
    CHECK_EQUAL(opp_ring_wait(ring, &completion, 1, start + 2000000), 0);
    CHECK(opp_now_ns() >= start + 2000000);
    opp_ring_destroy(ring);
}

static volatile sig_atomic_t enters;

static void count_enter(int signal) {
    (void)signal;
    enters++;
}

/* From now on this thread's io_uring_enter(2) is counted, not carried out. */
static int trap_enter(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_enter, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    signal(SIGSYS, count_enter);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -errno;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0 ? -errno : 0;
}

/* What has come is taken, and seen not to have come, without a system call. */
static void *look_without_calls(void *unused) {
    (void)unused;
    opp_ring *ring = make(8, 0);
    opp_ring_completion completion;
    for (uint64_t tag = 0; tag < 2; tag++) {
        opp_ring_op nop = {.code = OPP_RING_NOP, .tag = tag};
        CHECK_EQUAL(opp_ring_prepare(ring, &nop), 0);
    }
    CHECK_EQUAL(opp_ring_wait(ring, &completion, 1, FOREVER), 1);
    int error = trap_enter();
    if (error == 0) {
        CHECK_EQUAL(opp_ring_wait(ring, &completion, 1, opp_now_ns() + 100000000), 1);
        CHECK_EQUAL(completion.tag, 1);
        CHECK_EQUAL(opp_ring_wait(ring, &completion, 1, 0), 0);
        CHECK_EQUAL(enters, 0);
        opp_ring_op nop = {.code = OPP_RING_NOP};
        CHECK_EQUAL(opp_ring_prepare(ring, &nop), 0);
        CHECK_EQUAL(opp_ring_wait(ring, &completion, 1, 0), 0);
        CHECK_EQUAL(enters, 1);
        /* A close is no request to the kernel's ring: a thread of ours does it. */
        int fd = dup(0);
        opp_ring_op shut = {.code = OPP_RING_CLOSE, .fd = fd, .tag = 2};
        CHECK_EQUAL(opp_ring_prepare(ring, &shut), 0);
        uint64_t end = opp_now_ns() + 20000000000u;
        while (opp_ring_wait(ring, &completion, 1, 0) == 0) CHECK(opp_now_ns() < end);
        CHECK_EQUAL(completion.tag, 2);
        CHECK_EQUAL(completion.result, 0);
    } else {
        fprintf(stderr, "skipped: looks without system calls: no seccomp filter here: %s\n",
                strerror(-error));
    }
    opp_ring_destroy(ring);
    return NULL;
}

static void test_looks(void) {
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, look_without_calls, NULL), 0);
    pthread_join(thread, NULL);
}

/* More waiting requests than poll(2) takes, or than there is room for, are refused; the rest goes on. */
static void test_many_waiting(void) {
    opp_ring *ring = make(8, 0);
    int ends[2];
    CHECK_EQUAL(pipe(ends), 0);
    struct rlimit limit, low;
    CHECK_EQUAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = limit;
    low.rlim_cur = 64;
    enum { FEW = 100, MANY = 5000 };
    opp_ring_completion completion[64];
    for (int turn = 0; turn < 2; turn++) {
        uint32_t count = turn == 0 ? FEW : MANY, prepared = 0, refused = 0, ended = 0;
        if (turn == 0) CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &low), 0);
        if (turn == 1 && limit.rlim_cur < MANY) continue; /* refused for that reason */
        while (prepared < count || refused == 0) {
            opp_ring_op poll = {.code = OPP_RING_POLL, .fd = ends[0], .flags = POLLIN, .tag = prepared};
            if (prepared < count && opp_ring_prepare(ring, &poll) == 0) {
                prepared++;
                continue;
            }
            int taken = opp_ring_wait(ring, completion, 64, prepared < count ? 0 : FOREVER);
            for (int i = 0; i < taken; i++) CHECK_EQUAL(completion[i].result, -ENOBUFS);
            refused += (uint32_t)taken;
        }
        for (int taken; (taken = opp_ring_wait(ring, completion, 64, 0)) > 0;) refused += (uint32_t)taken;
        /* There is room left for others, and those that wait end. */
        CHECK_EQUAL(write(ends[1], "x", 1), 1);
        opp_ring_op nop = {.code = OPP_RING_NOP, .tag = count};
        CHECK_EQUAL(opp_ring_prepare(ring, &nop), 0);
        while (refused + ended < count + 1) {
            int taken = opp_ring_wait(ring, completion, 64, FOREVER);
            for (int i = 0; i < taken; i++) {
                CHECK(completion[i].result >= 0 || completion[i].result == -ENOBUFS);
                ended++;
            }
        }
        char byte;
        CHECK_EQUAL(read(ends[0], &byte, 1), 1);
        CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
    }
    close(ends[0]), close(ends[1]);
    opp_ring_destroy(ring);
}

static void test_try(void) {
    int ends[2];
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    char byte = 'x';
    opp_ring_op receive = {.code = OPP_RING_RECEIVE, .fd = ends[0], .address = ADDRESS(&byte), .length = 1};
    opp_ring_op send = {.code = OPP_RING_SEND, .fd = ends[1], .address = ADDRESS(&byte), .length = 1};
    CHECK_EQUAL(opp_ring_try(&receive), -EAGAIN);
    CHECK_EQUAL(opp_ring_try(&send), 1);
    CHECK_EQUAL(opp_ring_try(&receive), 1);
    close(ends[0]);
    CHECK_EQUAL(opp_ring_try(&send), -EPIPE); /* and no signal */
    opp_ring_op sync = {.code = OPP_RING_FSYNC, .fd = ends[1]};
    CHECK_EQUAL(opp_ring_try(&sync), -EOPNOTSUPP);
    close(ends[1]);
    /* Of a file that is in memory both read, where its file system knows of RWF_NOWAIT; a file open with
     * O_DIRECT is refused by who looks for that. */
    char path[] = "/var/tmp/opportune-try-XXXXXX";
    int file = mkstemp(path);
    CHECK(file >= 0);
    CHECK_EQUAL(write(file, "abc", 3), 3);
    opp_ring_op read = {.code = OPP_RING_READ, .fd = file, .address = ADDRESS(&byte), .length = 1, .offset = 1};
    int32_t moved = opp_ring_try(&read);
    CHECK(moved == 1 || moved == -EOPNOTSUPP);
    CHECK_EQUAL(opp_ring_try_buffered(&read), moved);
    CHECK(moved != 1 || byte == 'b');
    if (fcntl(file, F_SETFL, O_DIRECT) == 0) CHECK_EQUAL(opp_ring_try(&read), -EOPNOTSUPP);
    close(file);
    unlink(path);
}

/* --- Reads on the caller's thread --------------------------------------------------------------- */

enum { who_process = 1, class_shift = 13 };

static long io_priority(pid_t thread) {
    return syscall(SYS_ioprio_get, who_process, thread);
}

typedef struct read_of_pipe {
    int fd;
    int own; /* the thread's, from before its read */
    uint8_t priority;
    _Atomic pid_t thread;
    long after;
} read_of_pipe;

static void *read_pipe(void *context) {
    read_of_pipe *this = context;
    char byte;
    opp_ring_op op = {.code = OPP_RING_READ, .priority = this->priority, .fd = this->fd, .length = 1,
                      .address = ADDRESS(&byte), .offset = UINT64_MAX};
    if (this->own != 0) CHECK_EQUAL(syscall(SYS_ioprio_set, who_process, 0, this->own), 0);
    this->thread = (pid_t)syscall(SYS_gettid);
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(opp_ring_read(&op), 1);
        this->after = io_priority(0) >> class_shift;
    }
    return NULL;
}

static void *may_be_real_time(void *context) {
    int real_time = OPP_RING_PRIORITY_REAL_TIME << class_shift | 4;
    *(bool *)context = syscall(SYS_ioprio_set, who_process, 0, real_time) == 0;
    return NULL;
}

/* A pipe stands for the device that is waited for. */
static void test_priority_of_read(int own_class, uint8_t priority) {
    int ends[2];
    CHECK_EQUAL(pipe(ends), 0);
    pthread_t thread;
    read_of_pipe read = {
        .fd = ends[0], .own = own_class == 0 ? 0 : own_class << class_shift | 6, .priority = priority};
    CHECK_EQUAL(pthread_create(&thread, NULL, read_pipe, &read), 0);
    while (read.thread == 0) usleep(100);
    long wanted = priority == OPP_RING_PRIORITY_NONE ? own_class : priority;
    for (int i = 0; i < 2; i++) {
        /* It has the priority while it waits; the test ends by its limit where that never comes. */
        while (io_priority(read.thread) >> class_shift != wanted) usleep(100);
        CHECK_EQUAL(write(ends[1], "x", 1), 1);
    }
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK_EQUAL(read.after, own_class);
    close(ends[0]), close(ends[1]);
}

static void test_priorities_of_reads(void) {
    pthread_t thread;
    bool may = false;
    CHECK_EQUAL(pthread_create(&thread, NULL, may_be_real_time, &may), 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    test_priority_of_read(OPP_RING_PRIORITY_BEST_EFFORT, OPP_RING_PRIORITY_NONE);
    if (!may) {
        fprintf(stderr, "skipped: the priorities of reads: this process may not be real-time\n");
        return;
    }
    test_priority_of_read(OPP_RING_PRIORITY_NONE, OPP_RING_PRIORITY_REAL_TIME);
    test_priority_of_read(OPP_RING_PRIORITY_BEST_EFFORT, OPP_RING_PRIORITY_REAL_TIME);
}

int main(void) {
    static const opp_ring_backend backends[] = {OPP_RING_URING, OPP_RING_THREADS};
    for (int i = 0; i < 2; i++) {
        backend = backends[i];
        opp_ring_config config = {.backend = backend, .entries = 8, .threads = 1};
        opp_ring *ring;
        int error = opp_ring_create(&config, &ring);
        if (backend == OPP_RING_URING && error != 0) {
            fprintf(stderr, "skipped: the io_uring half: %s\n", strerror(-error));
            continue;
        }
        CHECK_EQUAL(error, 0);
        opp_ring_destroy(ring);
        test_limits();
        test_closes();
        test_files();
        test_sockets();
        test_cancel();
        test_overflow();
        test_faults();
        test_messages();
        test_idle_and_memory();
        test_busy_polling();
        if (backend == OPP_RING_THREADS) test_many_waiting();
        if (backend == OPP_RING_URING) test_looks();
    }
    test_try();
    test_priorities_of_reads();
    return 0;
}
