/*
 * Requests of the thread backend that wait in poll(2): sockets, pipes and all else that reports readiness.
 * Each is tried without waiting. Only the ring's owner calls these.
 */
#include "ring.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

static bool is_pollable(int fd) {
    int32_t kind = opp_file_kind(fd);
    /* An eventfd has no file type, so all but files, folders and block devices count. */
    return kind >= 0 && !S_ISREG(kind) && !S_ISBLK(kind) && !S_ISDIR(kind);
}

bool ring_is_polled(const opp_ring_op *op, short *events) {
    *events = POLLIN;
    switch ((opp_ring_code)op->code) {
    case OPP_RING_ACCEPT:
    case OPP_RING_ACCEPT_MANY:
    case OPP_RING_RECEIVE:
    case OPP_RING_RECEIVE_MESSAGE: return true;
    case OPP_RING_CONNECT:
    case OPP_RING_SEND:
    case OPP_RING_SEND_ZERO_COPY:
    case OPP_RING_SEND_MESSAGE: *events = POLLOUT; return true;
    case OPP_RING_POLL: *events = (short)op->flags; return true;
    case OPP_RING_READ:
    case OPP_RING_READV: return is_pollable(op->fd);
    case OPP_RING_WRITE:
    case OPP_RING_WRITEV: *events = POLLOUT; return is_pollable(op->fd);
    default: return false;
    }
}

static int32_t poll_now(int fd, short events) {
    struct pollfd one = {.fd = fd, .events = events};
    int count = poll(&one, 1, 0);
    if (count <= 0) return count < 0 ? -errno : -EAGAIN;
    return one.revents & POLLNVAL ? -EBADF : one.revents;
}

static int32_t connect_now(const opp_ring_op *op, ring_attempt *attempt) {
    if (attempt->old_flags < 0) {
        attempt->old_flags = fcntl(op->fd, F_GETFL);
        if (attempt->old_flags < 0) return -errno;
        (void)fcntl(op->fd, F_SETFL, attempt->old_flags | O_NONBLOCK);
        attempt->calls_again = true;
    }
    OPP_ASSERT(attempt->old_flags >= 0);
    if (attempt->calls_again) {
        int32_t result = ring_call(op);
        /* A Unix socket whose peer's backlog is full: poll(2) does not report that, so the call is repeated
         * at intervals. */
        attempt->calls_again = result == -EAGAIN;
        return result == -EINPROGRESS ? -EAGAIN : result;
    }
    int32_t ready = poll_now(op->fd, POLLOUT);
    if (ready < 0) return ready;
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(op->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0) return -errno;
    return -error;
}

static int32_t accept_now(const opp_ring_op *op) {
    int flags = fcntl(op->fd, F_GETFL);
    if (flags < 0) return -errno;
    /* The flag stays set: another process that shares the socket may take the connection first, and the call
     * would then wait. */
    if ((flags & O_NONBLOCK) == 0) (void)fcntl(op->fd, F_SETFL, flags | O_NONBLOCK);
    return ring_call(op);
}

/* Tries with RWF_NOWAIT. Where the file knows none, writes at most PIPE_BUF bytes once poll(2) says that it
 * is writable: so much a pipe accepts then without waiting. */
static int32_t write_now(const opp_ring_op *op) {
    opp_ring_op now = *op;
    now.flags |= RWF_NOWAIT;
    int32_t result = ring_call(&now);
    if (result != -EOPNOTSUPP) return result;
    int32_t ready = poll_now(op->fd, POLLOUT);
    if (ready < 0) return ready;
    now.flags = op->flags;
    struct iovec first = {.iov_base = (void *)(uintptr_t)op->address, .iov_len = op->length};
    if (op->code == OPP_RING_WRITEV) {
        const struct iovec *vectors = (const struct iovec *)(uintptr_t)op->address;
        uint64_t i = 0;
        while (i + 1 < op->length && vectors[i].iov_len == 0) i++; /* nothing written would be the end */
        first = vectors[i];
    }
    now.code = OPP_RING_WRITE;
    now.address = (uintptr_t)first.iov_base;
    now.length = (uint32_t)(first.iov_len < PIPE_BUF ? first.iov_len : PIPE_BUF);
    return ring_call(&now);
}

int32_t ring_try_polled(const opp_ring_op *op, ring_attempt *attempt) {
    OPP_ASSERT(op->code < OPP_RING_CODES);
    switch ((opp_ring_code)op->code) {
    case OPP_RING_POLL: return poll_now(op->fd, (short)op->flags);
    case OPP_RING_CONNECT: return connect_now(op, attempt);
    case OPP_RING_ACCEPT:
    case OPP_RING_ACCEPT_MANY: return accept_now(op);
    case OPP_RING_SEND_ZERO_COPY: {
        opp_ring_op plain = *op;
        plain.code = OPP_RING_SEND;
        return opp_ring_try(&plain);
    }
    case OPP_RING_WRITE:
    case OPP_RING_WRITEV: return write_now(op);
    default: {
        int32_t result = opp_ring_try(op);
        if (result != -EOPNOTSUPP) return result; /* RWF_NOWAIT is not supported */
        int32_t ready = poll_now(op->fd, attempt->events);
        return ready < 0 ? ready : ring_call(op);
    }
    }
}
