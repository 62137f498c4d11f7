/*
 * I/O requests to the kernel and their completions. One thread, its owner, waits in one
 * place for completions and for messages of other threads.
 *
 * The backend is io_uring. Where the kernel refuses that, or on demand, it is a small pool of threads for
 * files and poll(2) for sockets, with the same operations. No policy: requests go in the order in which they
 * are prepared.
 *
 * Guarantees (see ring.c for why they hold):
 *  - Each prepared request has exactly one completion, or, where OPP_COMPLETION_MORE is set, one more to
 *    come.
 *  - opp_ring_post() never blocks. A thread that is stopped inside it delays no other thread's message.
 *  - No call allocates after opp_ring_create() and opp_ring_start(), in either backend.
 *  - An owner with nothing to do sleeps without a wake-up.
 *
 * Memory that a request points to belongs to the kernel from opp_ring_prepare() to its (last) completion.
 */
#ifndef OPP_RING_H
#define OPP_RING_H

#include "opp_base.h"

OPP_BEGIN_DECLS

typedef struct opp_ring opp_ring;

/* --- Requests ------------------------------------------------------------------------------- */

/* The comment of each code says which fields of opp_ring_op it uses; all others are 0. */
typedef enum OPP_CLOSED_ENUM opp_ring_code {
    OPP_RING_NOP = 0,
    /* fd, address, length, offset (-1: the file's own), flags: RWF_*; second: not 0 where its file is
     * OPP_FILE_SERVED: on a thread, where io_uring would wait at first. So are the next five. */
    OPP_RING_READ,
    OPP_RING_WRITE,       /* the same */
    OPP_RING_READV,       /* fd, address: struct iovec[length], offset, flags: RWF_* */
    OPP_RING_WRITEV,      /* the same */
    OPP_RING_READ_FIXED,  /* as READ, in registered buffer `index` */
    OPP_RING_WRITE_FIXED, /* as WRITE, from registered buffer `index` */
    OPP_RING_FSYNC,       /* fd */
    OPP_RING_FDATASYNC,   /* fd */
    OPP_RING_ALLOCATE,    /* fd, offset, second: length, length: mode */
    OPP_RING_TRUNCATE,    /* fd, offset: length; -EOPNOTSUPP before Linux 6.9 */
    /* fd: folder or AT_FDCWD, address: path, length: mode, flags: O_*; second: not 0 where it waits for
     * others, as of a FIFO, or is OPP_FILE_ON_NO_DEVICE: on a thread from the start */
    OPP_RING_OPEN,
    OPP_RING_CLOSE,       /* fd */
    OPP_RING_STAT,        /* fd, address: path, length: STATX_*, second: struct statx *, flags: AT_* */
    OPP_RING_RENAME,      /* fd, address: path; index: folder, second: path; flags: RENAME_* */
    OPP_RING_UNLINK,      /* fd, address: path, flags: AT_* */
    OPP_RING_CONNECT,     /* fd, address: struct sockaddr, second: its size */
    OPP_RING_ACCEPT,      /* fd, flags: SOCK_* */
    OPP_RING_ACCEPT_MANY, /* fd, flags: SOCK_*; completes once for each, until it fails */
    OPP_RING_SEND,        /* fd, address, length, flags: MSG_* */
    OPP_RING_SEND_ZERO_COPY, /* as SEND; the buffer is free at the completion with OPP_COMPLETION_RELEASED */
    OPP_RING_RECEIVE,     /* fd, address, length, flags: MSG_* */
    OPP_RING_SEND_MESSAGE,    /* fd, address: struct msghdr, flags: MSG_* */
    OPP_RING_RECEIVE_MESSAGE, /* the same */
    OPP_RING_SHUTDOWN,    /* fd, length: SHUT_* */
    OPP_RING_POLL,        /* fd, flags: POLL*; once */
    OPP_RING_CANCEL,      /* second: the tag of another request: 0, -ENOENT, or -EALREADY */
    /* fd: all requests on it; the result is their number, or -EINVAL before Linux 5.19 */
    OPP_RING_CANCEL_FD,
    OPP_RING_MAKE_FOLDER, /* fd: folder or AT_FDCWD, address: path, length: mode; -EINVAL before Linux 5.15 */
    OPP_RING_CODES
} opp_ring_code;

/* Kernel I/O priority; for reads and writes of files, where the device's scheduler knows it. */
typedef enum OPP_CLOSED_ENUM opp_ring_priority {
    OPP_RING_PRIORITY_NONE = 0,
    OPP_RING_PRIORITY_REAL_TIME = 1,
    OPP_RING_PRIORITY_BEST_EFFORT = 2,
    OPP_RING_PRIORITY_IDLE = 3,
} opp_ring_priority;

typedef struct opp_ring_op {
    uint8_t code;     /* opp_ring_code */
    uint8_t priority; /* opp_ring_priority */
    int32_t fd;
    int32_t index;
    uint32_t length;
    uint32_t flags;
    uint64_t address; /* of memory; 64 bits wide, as the kernel has it */
    uint64_t second;
    uint64_t offset;
    uint64_t tag; /* the caller's; below OPP_RING_TAGS */
} opp_ring_op;

#define OPP_RING_TAGS (UINT64_MAX - 15)

typedef struct opp_ring_completion {
    uint64_t tag;
    int32_t result; /* as the system call's, or -errno */
    uint32_t flags;
} opp_ring_completion;

#define OPP_COMPLETION_MORE 1u     /* the request has at least one more completion */
/* zero-copy only: the kernel no longer uses the buffer; `result` has no meaning */
#define OPP_COMPLETION_RELEASED 2u

/* --- Rings ---------------------------------------------------------------------------------- */

typedef enum OPP_CLOSED_ENUM opp_ring_backend {
    OPP_RING_AUTOMATIC = 0, /* io_uring, or threads where it is refused */
    OPP_RING_URING = 1,     /* io_uring, or an error */
    OPP_RING_THREADS = 2,
} opp_ring_backend;

typedef struct opp_ring_config {
    opp_ring_backend backend;
    uint32_t entries;     /* requests prepared between two waits; 1 to 4096, rounded up to a power of two */
    /* size of the completion queue; 0 is four times `entries`. If it overflows, nothing is lost */
    uint32_t completions;
    uint32_t threads;     /* of the thread backend; 1 to 96 */
    /*
     * io_uring only: how many requests may wait in the kernel's own threads at once, on files and devices; 0
     * is the kernel's default, a few per CPU. Further ones wait in order.
     */
    uint32_t workers;
    /*
     * io_uring only: how many of the ring's own threads close files, one each at a time; 0 to 16. Further
     * closes go to the kernel's threads. Those answer first and then free the file. Freeing may take long
     * (the blocks of a large file that was unlinked, a socket that lingers), and other requests wait behind
     * it.
     */
    uint32_t closers;
    /*
     * How long the owner busy-polls, without system calls, before it sleeps; at most 1,000,000. It does so
     * only after a wait that was no longer than that, so sparse traffic costs no polling.
     */
    uint32_t busy_poll_ns;
    /*
     * For tests: called before a request goes to the kernel. Any result other than OPP_RING_NO_FAULT becomes
     * the result of the request, which the kernel then never sees.
     */
    int32_t (*_Nullable fault)(void *_Nullable context, const opp_ring_op *_Nonnull op);
    void *_Nullable context;
} opp_ring_config;

#define OPP_RING_NO_FAULT INT32_MIN

/*
 * Any thread. Returns 0, -EINVAL (a value is out of its range), -ENOMEM, or with OPP_RING_URING what the
 * kernel answered: -ENOSYS, -EPERM (seccomp or kernel.io_uring_disabled), -EMFILE.
 */
OPP_MUST_USE int opp_ring_create(const opp_ring_config *_Nonnull config, opp_ring *_Nullable *_Nonnull ring);

/* The calling thread is the owner from now on. Returns 0 or -errno. */
OPP_MUST_USE int opp_ring_start(opp_ring *_Nonnull ring);

/*
 * Called by the owner, or by any thread before opp_ring_start(). Nothing may be in flight: the kernel would
 * continue to use memory after the ring is closed, when the caller believes to own it.
 */
void opp_ring_destroy(opp_ring *_Nonnull ring);

typedef struct opp_ring_capabilities {
    opp_ring_backend backend;   /* the one in use */
    /* the kernel's error where threads are used as the fallback; 0 where they were asked for */
    int32_t refused;
    /* SINGLE_ISSUER and DEFER_TASKRUN: completions cost no interrupt of the owner */
    bool single_issuer;
    bool zero_copy;
    bool accept_many;
    bool truncate;
    bool make_folder;
    uint64_t codes;             /* bit n: opp_ring_code n goes to the kernel as a request */
} opp_ring_capabilities;

/* The capabilities of this ring; fixed by opp_ring_create(). Any thread. */
opp_ring_capabilities opp_ring_can(const opp_ring *_Nonnull ring);

/* The owner: buffers for READ_FIXED and WRITE_FIXED, as struct iovec[count]; once per ring. 0 or -errno. */
OPP_MUST_USE int opp_ring_register_buffers(opp_ring *_Nonnull ring, const void *_Nonnull vectors,
                                           uint32_t count);

/* --- The owner ------------------------------------------------------------------------------ */

/* Copies the request. Returns 0, -EBUSY (full: wait first), -EINVAL (no such code, or a tag out of range). */
OPP_MUST_USE int opp_ring_prepare(opp_ring *_Nonnull ring, const opp_ring_op *_Nonnull op);

/*
 * Hands all prepared requests to the kernel and takes up to `room` completions. If there is none, it waits
 * until there is one, a message was posted, or CLOCK_MONOTONIC reaches `until_ns` (0: does not wait;
 * UINT64_MAX: for ever). Returns the number of completions taken; 0 after a message or at the time. A signal
 * does not end the wait.
 */
OPP_MUST_USE int opp_ring_wait(opp_ring *_Nonnull ring, opp_ring_completion *_Nonnull completions,
                               uint32_t room,
                               uint64_t until_ns);

/* --- Messages ------------------------------------------------------------------------------- */

/* Any thread; the link is in the poster's own memory, and belongs to the ring until it is fetched. */
void opp_ring_post(opp_ring *_Nonnull ring, opp_link *_Nonnull link);

/* Owner: takes all posted links as a list, in the order of completed posts of each thread. NULL where there
 * is none. */
opp_link *_Nullable opp_ring_fetch(opp_ring *_Nonnull ring);

/* How often the owner has returned from a sleep, for whatever reason. Any thread. */
uint64_t opp_ring_wakeups(const opp_ring *_Nonnull ring);

/* --- Without a ring ------------------------------------------------------------------------- */

/*
 * Performs a request on the calling thread if that needs no waiting; returns -EAGAIN otherwise. Any thread.
 * For READ, READV, RECEIVE, SEND and the two messages. -EOPNOTSUPP for other codes, and where waiting cannot
 * be excluded: O_DIRECT, some file systems and devices.
 */
int32_t opp_ring_try(const opp_ring_op *_Nonnull op);
/* The same, of what is known not to be open with O_DIRECT: a system call less. */
int32_t opp_ring_try_buffered(const opp_ring_op *_Nonnull op);

/* Performs a READ on the calling thread, waiting for the device if need be: the count, or -errno. The thread
 * has the request's priority meanwhile, where it may, and its own one again afterwards. */
int32_t opp_ring_read(const opp_ring_op *_Nonnull op);

/* Whether the file was opened with O_DIRECT. */
bool opp_file_is_direct(int fd);

/* Reads the next entries of a folder, as getdents64(2) does: as many as fit into `size` bytes, 0 at the end,
 * or -errno. It waits for the file system. */
int32_t opp_file_entries(int fd, void *_Nonnull entries, uint32_t size);

/* Used together with the type bits of st_mode. */
/* a file or folder in memory, on a network or served by a program: its device's major number is 0 */
#define OPP_FILE_ON_NO_DEVICE 0x10000
/* served by a network or a program, as shown by sysfs: NFS and FUSE, but not FUSE on a block device */
#define OPP_FILE_SERVED 0x20000

/*
 * The kind of the open file fd: type bits of st_mode, and OPP_FILE_*; or -errno. Any thread. It makes no
 * request to file systems that let the kernel answer (AT_STATX_DONT_SYNC), so it does not wait for one that
 * hangs; for 9P and SMB it may.
 */
int32_t opp_file_kind(int fd);

/* Whether the last close of the file frees what it has on a device: a regular file without a name. Looked at
 * in the same way; false where that cannot be seen. */
bool opp_file_close_frees(int fd);

/* The identity of the file, in the same way. Returns 0 or -errno. */
int opp_file_identity(int fd, uint64_t *_Nonnull device, uint64_t *_Nonnull inode);

/*
 * Like opp_file_kind(), without OPP_FILE_SERVED, for the file that an OPEN would open, if that needs no
 * waiting. Any thread. -EAGAIN where it is not known without asking the device, or by this kernel (before
 * Linux 5.12); other errors as of open(2).
 */
int32_t opp_ring_look(const opp_ring_op *_Nonnull op);

/* O_DIRECT, which differs between processors. */
int32_t opp_open_direct(void);

OPP_END_DECLS

#endif
