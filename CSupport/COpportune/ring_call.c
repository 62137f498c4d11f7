/* Requests performed by plain system calls: for the thread backend, and for requests that need no waiting. */
#include "ring.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define IOPRIO_WHO_PROCESS 1
#define PRIORITY_CLASS_SHIFT 13

static void *pointer(uint64_t address) {
    return (void *)(uintptr_t)address;
}

/* Like io_uring: offset -1 is the file's own position. */
static ssize_t read_vectors(const opp_ring_op *op, const struct iovec *vectors, int count) {
    return preadv2(op->fd, vectors, count, (off_t)op->offset, (int)op->flags);
}

static ssize_t write_vectors(const opp_ring_op *op, const struct iovec *vectors, int count) {
    return pwritev2(op->fd, vectors, count, (off_t)op->offset, (int)op->flags);
}

static ssize_t call(const opp_ring_op *op) {
    struct iovec one = {.iov_base = pointer(op->address), .iov_len = op->length};
    int flags = (int)op->flags;
    switch ((opp_ring_code)op->code) {
    case OPP_RING_NOP: return 0;
    case OPP_RING_READ:
    case OPP_RING_READ_FIXED: return read_vectors(op, &one, 1);
    case OPP_RING_WRITE:
    case OPP_RING_WRITE_FIXED: return write_vectors(op, &one, 1);
    case OPP_RING_READV: return read_vectors(op, pointer(op->address), (int)op->length);
    case OPP_RING_WRITEV: return write_vectors(op, pointer(op->address), (int)op->length);
    case OPP_RING_FSYNC: return fsync(op->fd);
    case OPP_RING_FDATASYNC: return fdatasync(op->fd);
    case OPP_RING_ALLOCATE: return fallocate(op->fd, (int)op->length, (off_t)op->offset, (off_t)op->second);
    case OPP_RING_TRUNCATE: return ftruncate(op->fd, (off_t)op->offset);
    case OPP_RING_OPEN: return openat(op->fd, pointer(op->address), flags, op->length);
    case OPP_RING_CLOSE: return close(op->fd);
    case OPP_RING_STAT: return statx(op->fd, pointer(op->address), flags, op->length, pointer(op->second));
    case OPP_RING_RENAME:
        return renameat2(op->fd, pointer(op->address), op->index, pointer(op->second), op->flags);
    case OPP_RING_UNLINK: return unlinkat(op->fd, pointer(op->address), flags);
    case OPP_RING_MAKE_FOLDER: return mkdirat(op->fd, pointer(op->address), op->length);
    case OPP_RING_CONNECT: return connect(op->fd, pointer(op->address), (socklen_t)op->second);
    case OPP_RING_ACCEPT:
    case OPP_RING_ACCEPT_MANY: return accept4(op->fd, NULL, NULL, flags);
    case OPP_RING_SEND:
    case OPP_RING_SEND_ZERO_COPY: return send(op->fd, pointer(op->address), op->length, flags | MSG_NOSIGNAL);
    case OPP_RING_RECEIVE: return recv(op->fd, pointer(op->address), op->length, flags);
    case OPP_RING_SEND_MESSAGE: return sendmsg(op->fd, pointer(op->address), flags | MSG_NOSIGNAL);
    case OPP_RING_RECEIVE_MESSAGE: return recvmsg(op->fd, pointer(op->address), flags);
    case OPP_RING_SHUTDOWN: return shutdown(op->fd, (int)op->length);
    case OPP_RING_POLL:
    case OPP_RING_CANCEL:
    case OPP_RING_CANCEL_FD:
    case OPP_RING_CODES: break;
    }
    errno = EOPNOTSUPP;
    return -1;
}

int32_t ring_call(const opp_ring_op *op) {
    OPP_ASSERT(op->code < OPP_RING_CODES);
    ssize_t result = call(op);
    return result < 0 ? -errno : (int32_t)result;
}

int32_t opp_ring_try(const opp_ring_op *op) {
    if (op->code == OPP_RING_READ || op->code == OPP_RING_READV) {
        /* RWF_NOWAIT does not wait for a place in a queue, but does wait for the device: direct reads would
         * block here. */
        int mode = fcntl(op->fd, F_GETFL);
        if (mode < 0) return -errno;
        if (mode & O_DIRECT) return -EOPNOTSUPP;
    }
    return opp_ring_try_buffered(op);
}

int32_t opp_ring_try_buffered(const opp_ring_op *op) {
    opp_ring_op now = *op;
    switch ((opp_ring_code)op->code) {
    case OPP_RING_READ:
    case OPP_RING_READV: now.flags |= RWF_NOWAIT; break;
    case OPP_RING_RECEIVE:
    case OPP_RING_SEND:
    case OPP_RING_SEND_MESSAGE:
    case OPP_RING_RECEIVE_MESSAGE: now.flags |= MSG_DONTWAIT; break;
    default: return -EOPNOTSUPP;
    }
    return ring_call(&now);
}

static int priority_value(uint8_t priority) {
    return priority == OPP_RING_PRIORITY_NONE ? 0 :
        priority << PRIORITY_CLASS_SHIFT | (priority == OPP_RING_PRIORITY_IDLE ? 0 : 4);
}

void ring_set_thread_priority(uint8_t priority) {
    /* best effort: without it the order is the same */
    (void)syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, priority_value(priority));
}

/* What the thread has: it may be somebody else's choice, such as a host's. -1: the kernel tells nothing. */
static long thread_priority(void) {
    long value = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);
    /* Of a thread that was given none, Linux before 5.18 tells a level too, and would not take that back. */
    return value > 0 && value >> PRIORITY_CLASS_SHIFT == 0 ? 0 : value;
}

/*
 * preadv2() takes no priority with the call, unlike a request of io_uring: only the thread can have one. It
 * has it for the time of the read alone, since what else the thread reads, for this job or the next one, is
 * no request. That takes three system calls, less than a microsecond of a read that waits for the device. A
 * read that needs no waiting has been done before, see opp_ring_try(), and takes none of them.
 */
int32_t opp_ring_read(const opp_ring_op *op) {
    /* Once is enough: who may not raise one read may not raise the next. */
    static _Thread_local bool is_refused;
    OPP_ASSERT(op->code == OPP_RING_READ);
    if (op->priority == OPP_RING_PRIORITY_NONE || is_refused) return ring_call(op);
    long own = thread_priority();
    is_refused =
        own < 0 || syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, priority_value(op->priority)) != 0;
    int32_t result = ring_call(op);
    if (!is_refused) (void)syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, (int)own);
    return result;
}

bool opp_file_is_direct(int fd) {
    int mode = fcntl(fd, F_GETFL);
    return mode >= 0 && (mode & O_DIRECT) != 0;
}

int32_t opp_file_entries(int fd, void *entries, uint32_t size) {
    long count = syscall(SYS_getdents64, fd, entries, size);
    return count < 0 ? -errno : (int32_t)count;
}

int32_t opp_open_direct(void) {
    return O_DIRECT;
}
