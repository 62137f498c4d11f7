/* A file system of a program (FUSE) that hangs. */
#include "io_test_support.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct server {
    int device;
    int answers_opens;
};

static void answer(int device, uint64_t unique, int error, const void *body, size_t size) {
    struct fuse_out_header head = {.len = (uint32_t)(sizeof(head) + size), .error = -error, .unique = unique};
    struct iovec parts[] = {{&head, sizeof(head)}, {(void *)(uintptr_t)body, size}};
    if (writev(device, parts, 2) < 0) return; /* it may have been ended */
}

/* In ms: whoever waits cannot be killed, and a test that failed would never end. */
enum { LIMIT = 60000 };

static int64_t now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000) + time.tv_nsec / 1000000;
}

/* Until the file system is ended; its device's close ends what waits. */
static void *serve(void *context) {
    struct server *server = context;
    static const struct fuse_init_out ready = {.major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096};
    static const struct fuse_open_out opened = {0};
    _Alignas(8) char request[FUSE_MIN_READ_BUFFER + 4096] = {0};
    struct pollfd asked = {.fd = server->device, .events = POLLIN};
    int64_t end = now_ms() + LIMIT;
    for (int64_t left; (left = end - now_ms()) > 0;) {
        if (poll(&asked, 1, (int)left) <= 0) continue;
        if (read(server->device, request, sizeof(request)) <= 0) {
            if (errno == EINTR || errno == ENOENT || errno == EAGAIN) continue;
            break;
        }
        struct fuse_in_header head;
        memcpy(&head, request, sizeof(head));
        switch (head.opcode) {
        case FUSE_INIT: answer(server->device, head.unique, 0, &ready, sizeof(ready)); break;
        case FUSE_OPEN:
            if (server->answers_opens) answer(server->device, head.unique, 0, &opened, sizeof(opened));
            break;
        case FUSE_FLUSH:
        case FUSE_RELEASE: answer(server->device, head.unique, ENOSYS, NULL, 0); break;
        default: break;
        }
    }
    close(server->device);
    free(server);
    return NULL;
}

int io_test_hang(const char *path, int answers_opens) {
    struct server *server = malloc(sizeof(*server));
    if (server == NULL) return -ENOMEM;
    *server = (struct server){
        .device = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK), .answers_opens = answers_opens};
    char options[96];
    snprintf(options, sizeof(options), "fd=%d,rootmode=100000,user_id=%u,group_id=%u", server->device,
             (unsigned)getuid(), (unsigned)getgid());
    pthread_t thread;
    int error = server->device < 0 ||
        mount("hang", path, "fuse", MS_NOSUID | MS_NODEV, options) < 0 ? errno : 0;
    if (error == 0) {
        error = pthread_create(&thread, NULL, serve, server);
        if (error == 0) return pthread_detach(thread);
        io_test_end_hang(path);
    }
    if (server->device >= 0) close(server->device);
    free(server);
    return -error;
}

void io_test_end_hang(const char *path) {
    (void)umount2(path, MNT_FORCE); /* ends what waits */
    (void)umount2(path, MNT_DETACH);
}
