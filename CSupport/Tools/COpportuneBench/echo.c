/* A client of echo servers: the same load on ours and on a rival's, by plain epoll(7) on the calling
 * thread. */
#include "opp_bench.h"

#include "opportune.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 1024
#define SIZE_MAX_OF_MESSAGE 4096

typedef struct connection {
    int fd;
    uint32_t received;
    uint64_t sent_at;
} connection;

static int open_connection(uint16_t port, connection *one) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    one->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (one->fd < 0) return -errno;
    if (connect(one->fd, (struct sockaddr *)&address, sizeof(address)) != 0) return -errno;
    int yes = 1;
    (void)setsockopt(one->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    return 0;
}

static int ask(connection *one, const char *message, uint32_t size) {
    one->received = 0;
    one->sent_at = opp_now_ns();
    ssize_t sent = send(one->fd, message, size, MSG_NOSIGNAL);
    return sent == (ssize_t)size ? 0 : sent < 0 ? -errno : -EIO;
}

int64_t opp_bench_echo(uint16_t port, uint32_t connections, uint32_t size, uint64_t start_ns, uint64_t end_ns,
                       void (*record)(void *, uint64_t), void *context) {
    if (connections < 1 || connections > CONNECTIONS_MAX || size < 1 || size > SIZE_MAX_OF_MESSAGE)
        return -EINVAL;
    static const char message[SIZE_MAX_OF_MESSAGE];
    connection all[CONNECTIONS_MAX];
    int poller = epoll_create1(EPOLL_CLOEXEC);
    if (poller < 0) return -errno;
    int error = 0;
    uint32_t opened = 0;
    int64_t count = 0;
    for (; opened < connections && error == 0; opened++) {
        connection *one = &all[opened];
        error = open_connection(port, one);
        struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = one};
        if (error == 0 && epoll_ctl(poller, EPOLL_CTL_ADD, one->fd, &wanted) != 0) error = -errno;
    }
    for (uint32_t i = 0; i < opened && error == 0; i++) error = ask(&all[i], message, size);
    bool over = false;
    while (!over && error == 0) {
        struct epoll_event events[64];
        int ready = epoll_wait(poller, events, 64, 1000);
        if (ready < 0 && errno != EINTR) error = -errno;
        for (int i = 0; i < ready && error == 0; i++) {
            connection *one = events[i].data.ptr;
            char answer[SIZE_MAX_OF_MESSAGE];
            ssize_t taken = recv(one->fd, answer, size - one->received, 0);
            if (taken <= 0) {
                error = taken < 0 ? -errno : -ECONNRESET;
                break;
            }
            one->received += (uint32_t)taken;
            if (one->received < size) continue;
            uint64_t now = opp_now_ns();
            if (one->sent_at >= start_ns && now <= end_ns) {
                record(context, now - one->sent_at);
                count++;
            }
            error = ask(one, message, size);
        }
        over = opp_now_ns() >= end_ns;
    }
    for (uint32_t i = 0; i < opened; i++) {
        if (all[i].fd >= 0) close(all[i].fd);
    }
    close(poller);
    return error < 0 ? error : count;
}
