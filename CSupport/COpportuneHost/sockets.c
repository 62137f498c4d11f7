/* What comes by a socket with descriptors. */
#include "opp_host.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

ssize_t opp_host_receive(int socket, void *bytes, size_t size, int passed[OPP_HOST_PASSED], size_t *count) {
    union {
        char bytes[CMSG_SPACE(sizeof(int) * OPP_HOST_PASSED)];
        struct cmsghdr header;
    } control;
    struct iovec piece = {.iov_base = bytes, .iov_len = size};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes,
        .msg_controllen = sizeof control.bytes};
    *count = 0;
    ssize_t result = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (result < 0) return -errno;
    for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one != NULL; one = CMSG_NXTHDR(&message, one)) {
        if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_RIGHTS) continue;
        size_t found = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < found; i++) {
            int descriptor;
            memcpy(&descriptor, CMSG_DATA(one) + i * sizeof descriptor, sizeof descriptor);
            if (*count < OPP_HOST_PASSED)
                passed[(*count)++] = descriptor;
            else
                close(descriptor);
        }
    }
    if (!(message.msg_flags & MSG_CTRUNC)) return result;
    /* Nobody could tell which of them is missing. */
    while (*count > 0) close(passed[--*count]);
    return -EMSGSIZE;
}
