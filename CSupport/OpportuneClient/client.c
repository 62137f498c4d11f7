#include "opportune-client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "line.h"

#define API __attribute__((visibility("default")))

enum {
    LONGEST_LINE = 4096,      /* of the host to a program; a reason is cut by it */
    LONGEST_TASK_NAME = 100,  /* characters */
    LONGEST_REPLY = 3072,     /* bytes of the line */
    MOST_UNSENT = 16 * 1024,
    MOST_PASSED = 16          /* descriptors that are not sent yet; the host takes no more at once */
};

struct oppclient {
    int descriptor;
    int error;            /* -EPIPE: it is over */
    bool is_in_handler;
    bool is_deferred;     /* by the handler that runs */
    bool has_told_left;
    uint64_t asked;       /* the question that waits; 0: none. The host asks one after another */
    char file[1024];      /* where the question that waits wants the state; empty: it wants none */
    bool may_reply;       /* to the question that waits */
    int64_t last_task;
    int64_t last_socket;
    int64_t last_request; /* about heartbeats and notifications */
    oppclient_handler handler;
    void *context;
    size_t unsent;
    size_t unpassed;
    size_t unread;
    char reason[256];     /* why it is over */
    char name[256];
    char reply[LONGEST_REPLY]; /* to the question that waits, as JSON; empty: none */
    int passed[MOST_PASSED]; /* duplicates, in the order of their lines in `out` */
    char out[MOST_UNSENT];
    char in[LONGEST_LINE];
};

static const struct {
    const char *name;
    oppclient_event event;
} events[] = {
    {"didFinishLaunching", OPPCLIENT_DID_FINISH_LAUNCHING},
    {"willEnterForeground", OPPCLIENT_WILL_ENTER_FOREGROUND},
    {"didBecomeActive", OPPCLIENT_DID_BECOME_ACTIVE},
    {"willResignActive", OPPCLIENT_WILL_RESIGN_ACTIVE},
    {"didEnterBackground", OPPCLIENT_DID_ENTER_BACKGROUND},
    {"willTerminate", OPPCLIENT_WILL_TERMINATE},
    {"willSuspend", OPPCLIENT_WILL_SUSPEND},
    {"didResume", OPPCLIENT_DID_RESUME},
    {"taskExpires", OPPCLIENT_TASK_EXPIRES},
    {"didReceiveMemoryWarning", OPPCLIENT_MEMORY_WARNING},
    {"saveState", OPPCLIENT_SAVE_STATE},
    {"restoreState", OPPCLIENT_RESTORE_STATE},
    {"didReceiveData", OPPCLIENT_DATA_ARRIVED},
    {"heartbeat", OPPCLIENT_HEARTBEAT},
    {"bringAppForward", OPPCLIENT_BRING_APP_FORWARD},
    {"suspendApp", OPPCLIENT_SUSPEND_APP},
    {"terminateApp", OPPCLIENT_TERMINATE_APP},
    {"didReceiveMessage", OPPCLIENT_MESSAGE},
    {"taskBegan", OPPCLIENT_TASK_BEGAN},
    {"taskRefused", OPPCLIENT_TASK_REFUSED},
    {"keepAliveBegan", OPPCLIENT_KEEP_ALIVE_BEGAN},
    {"keepAliveRefused", OPPCLIENT_KEEP_ALIVE_REFUSED},
    {"heartbeatSet", OPPCLIENT_HEARTBEAT_SET},
    {"heartbeatRefused", OPPCLIENT_HEARTBEAT_REFUSED},
    {"appRefused", OPPCLIENT_APP_REFUSED},
    {"scheduled", OPPCLIENT_SCHEDULED},
    {"scheduleRefused", OPPCLIENT_SCHEDULE_REFUSED},
    {"pending", OPPCLIENT_PENDING},
    {"pendingEnd", OPPCLIENT_PENDING_END},
    {"left", OPPCLIENT_LEFT},
};

static oppclient_event event_named(const char *name)
{
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (strcmp(events[i].name, name) == 0)
            return events[i].event;
    return OPPCLIENT_UNKNOWN;
}

static const struct {
    const char *name;
    oppclient_launch launch;
} launches[] = {
    {"user", OPPCLIENT_LAUNCHED_BY_USER},
    {"system", OPPCLIENT_LAUNCHED_BY_SYSTEM},
    {"message", OPPCLIENT_LAUNCHED_BY_MESSAGE},
};

/* What a host says that came before it could is what it always meant. */
static oppclient_launch launch_named(const char *name)
{
    if (name[0] == 0)
        return OPPCLIENT_LAUNCHED_BY_USER;
    for (size_t i = 0; i < sizeof launches / sizeof *launches; i++)
        if (strcmp(launches[i].name, name) == 0)
            return launches[i].launch;
    return OPPCLIENT_LAUNCHED_BY_SYSTEM;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The first reason counts. */
static void end(oppclient *client, const char *reason)
{
    if (client->error != 0)
        return;
    client->error = -EPIPE;
    client->asked = 0;
    snprintf(client->reason, sizeof client->reason, "%s", reason);
}

static void drop_passed(oppclient *client)
{
    while (client->unpassed > 0)
        close(client->passed[--client->unpassed]);
}

/* What is to be said, as far as there is room, with the descriptors that belong to it: these come with their
 * lines, or before. */
static ssize_t send_some(oppclient *client)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * MOST_PASSED)];
        struct cmsghdr header;
    } control;
    struct iovec piece = {.iov_base = client->out, .iov_len = client->unsent};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    size_t size = sizeof(int) * client->unpassed;
    if (size > 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(size);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(size);
        memcpy(CMSG_DATA(&control.header), client->passed, size);
    }
    ssize_t count = sendmsg(client->descriptor, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0)
        drop_passed(client);
    return count;
}

static void send_out(oppclient *client)
{
    while (client->unsent > 0 && client->error == 0) {
        ssize_t count = send_some(client);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (count <= 0) {
            /* What it said last may be there to read. */
            client->unsent = 0;
            drop_passed(client);
            return;
        }
        client->unsent -= (size_t)count;
        memmove(client->out, client->out + count, client->unsent);
    }
}

static int say(oppclient *client, const char *line)
{
    size_t length = strlen(line);
    if (client->error != 0)
        return client->error;
    if (client->unsent + length > sizeof client->out)
        return -ENOBUFS;
    memcpy(client->out + client->unsent, line, length);
    client->unsent += length;
    send_out(client);
    return 0;
}

API int oppclient_standard_path(char *path, size_t size)
{
    const char *named = getenv("OPPORTUNE_SOCKET");
    const char *folder = getenv("XDG_RUNTIME_DIR");
    int length;
    if (named != NULL && named[0] != 0)
        length = snprintf(path, size, "%s", named);
    else if (geteuid() == 0)
        length = snprintf(path, size, "/run/opportune/host.sock");
    else if (folder != NULL && folder[0] == '/')
        length = snprintf(path, size, "%s/opportune/host.sock", folder);
    else
        return -ENOENT;
    return length < 0 || (size_t)length >= size ? -ENAMETOOLONG : 0;
}

/* Waits for the descriptor until `end_ms`. */
static int wait_for(int descriptor, short what, int64_t end_ms)
{
    for (;;) {
        int64_t left = end_ms - now_ms();
        struct pollfd polled = {.fd = descriptor, .events = what};
        int count = poll(&polled, 1, left > 0 ? (int)left : 0);
        if (count > 0)
            return 0;
        if (count == 0)
            return -ETIMEDOUT;
        if (errno != EINTR)
            return -errno;
    }
}

static int connect_to(oppclient *client, const char *path, int64_t end_ms)
{
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof place.sun_path)
        return -ENAMETOOLONG;
    strcpy(place.sun_path, path);
    client->descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (client->descriptor < 0)
        return -errno;
    while (connect(client->descriptor, (struct sockaddr *)&place, sizeof place) != 0) {
        if (errno == EINTR)
            continue;
        /* The host's queue is full; the kernel has no event for its room. */
        if (errno != EAGAIN)
            return -errno;
        if (now_ms() >= end_ms)
            return -ETIMEDOUT;
        poll(NULL, 0, 1);
    }
    return 0;
}

/* One line, up to its line feed and no further. */
static int read_answer(oppclient *client, int64_t end_ms)
{
    client->unread = 0;
    while (client->unread < sizeof client->in) {
        int error = wait_for(client->descriptor, POLLIN, end_ms);
        if (error != 0)
            return error;
        /* One byte at a time: what follows is for dispatch. It is a hundred bytes, once. */
        ssize_t count = recv(client->descriptor, client->in + client->unread, 1, MSG_DONTWAIT);
        if (count < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (count <= 0)
            return count == 0 ? -EPROTO : -errno;
        if (client->in[client->unread] == '\n')
            return 0;
        client->unread++;
    }
    return -EPROTO;
}

static int join(
    const char *request, const char *path, int timeout_ms, oppclient_handler handler, void *context,
    char *refusal, size_t size, oppclient **result)
{
    char standard[sizeof((struct sockaddr_un *)NULL)->sun_path];
    int64_t end_ms = now_ms() + (timeout_ms > 0 ? timeout_ms : 0);
    struct oppclient_line answer;
    int error = 0;
    *result = NULL;
    if (refusal != NULL && size > 0)
        refusal[0] = 0;
    if (path == NULL) {
        error = oppclient_standard_path(standard, sizeof standard);
        if (error != 0)
            return error;
        path = standard;
    }
    oppclient *client = calloc(1, sizeof *client);
    if (client == NULL)
        return -ENOMEM;
    client->descriptor = -1;
    client->handler = handler;
    client->context = context;
    error = connect_to(client, path, end_ms);
    if (error == 0)
        error = say(client, request);
    if (error == 0)
        error = read_answer(client, end_ms);
    if (error == 0 && !oppclient_line_read(client->in, client->unread, &answer))
        error = -EPROTO;
    if (error == 0 && !answer.ok) {
        error = answer.error[0] != 0 ? -EPERM : -EPROTO;
        if (refusal != NULL && size > 0)
            snprintf(refusal, size, "%s", answer.error);
    }
    if (error != 0) {
        oppclient_close(client);
        return error;
    }
    snprintf(client->name, sizeof client->name, "%s", answer.name);
    client->unread = 0;
    *result = client;
    return 0;
}

API int oppclient_join(
    const char *path, int timeout_ms, oppclient_handler handler, void *context, char *refusal, size_t size,
    oppclient **result)
{
    return join("{\"request\":\"join\"}\n", path, timeout_ms, handler, context, refusal, size, result);
}

API int oppclient_join_restartable(
    const char *path, int timeout_ms, oppclient_handler handler, void *context, char *refusal, size_t size,
    oppclient **result)
{
    return join("{\"request\":\"join\",\"restarts\":true}\n", path, timeout_ms, handler, context, refusal,
                size, result);
}

API const char *oppclient_name(const oppclient *client) { return client->name; }

API int oppclient_descriptor(const oppclient *client) { return client->descriptor; }

API short oppclient_events(const oppclient *client)
{
    return (short)(POLLIN | (client->unsent > 0 ? POLLOUT : 0));
}

static int send_answer(oppclient *client, uint64_t id)
{
    char line[LONGEST_LINE];
    bool replies = client->reply[0] != 0;
    client->asked = 0;
    client->file[0] = 0;
    client->may_reply = false;
    snprintf(line, sizeof line, "{\"answer\":%llu%s%s}\n", (unsigned long long)id,
             replies ? ",\"reply\":" : "", client->reply);
    client->reply[0] = 0;
    return say(client, line);
}

static void call(oppclient *client, const oppclient_notice *notice)
{
    client->is_in_handler = true;
    client->is_deferred = false;
    client->handler(client, notice, client->context);
    client->is_in_handler = false;
    if (notice->id != 0 && client->asked == notice->id && !client->is_deferred)
        (void)send_answer(client, notice->id); /* after its end there is nobody to answer */
}

/* The whole file, for free(3); NULL: it cannot be read, or is larger than a state may be. */
static unsigned char *read_state(const char *file, size_t *size)
{
    unsigned char *state = NULL;
    struct stat status;
    int descriptor = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0)
        return NULL;
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= OPPCLIENT_MOST_STATE)
        state = malloc((size_t)status.st_size + 1);
    *size = 0;
    while (state != NULL && *size < (size_t)status.st_size) {
        ssize_t count = read(descriptor, state + *size, (size_t)status.st_size - *size);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0) {
            free(state);
            state = NULL;
        } else
            *size += (size_t)count;
    }
    close(descriptor);
    return state;
}

/* A question about an app inside of the program. */
static bool is_of_app(oppclient_event event)
{
    return event == OPPCLIENT_BRING_APP_FORWARD || event == OPPCLIENT_SUSPEND_APP ||
           event == OPPCLIENT_TERMINATE_APP;
}

static bool take_line(oppclient *client, const char *text, size_t length)
{
    struct oppclient_line line;
    if (!oppclient_line_read(text, length, &line) || line.event[0] == 0) {
        end(client, "the host has sent a line that is none");
        return false;
    }
    oppclient_notice notice = {
        .event = event_named(line.event), .id = line.id, .task = line.task, .socket = line.socket,
        .bytes = line.bytes, .request = line.number, .at_ms = line.at_ms};
    if (line.reason[0] != 0)
        notice.reason = line.reason;
    if (notice.event == OPPCLIENT_DID_FINISH_LAUNCHING)
        notice.launch = launch_named(line.launch);
    if (notice.event == OPPCLIENT_MESSAGE) {
        notice.kind = line.kind;
        notice.payload = line.payload;
        notice.is_local = strcmp(line.origin, "local") == 0;
    }
    if (is_of_app(notice.event) || notice.event == OPPCLIENT_APP_REFUSED) {
        notice.app = line.number;
        notice.request = 0;
    }
    if (notice.event == OPPCLIENT_PENDING)
        notice.name = line.name;
    if (notice.event == OPPCLIENT_LEFT) {
        end(client, line.reason);
        return false;
    }
    /* What is told without a question, and is not known, is of a later host. */
    if (notice.event == OPPCLIENT_UNKNOWN && line.id == 0)
        return false;
    unsigned char *state = NULL;
    if (notice.event == OPPCLIENT_RESTORE_STATE) {
        notice.state = state = read_state(line.file, &notice.state_size);
        if (state == NULL) {
            /* Not answered, so the host keeps it. */
            end(client, "the saved state could not be read");
            return false;
        }
    }
    if (line.id != 0) {
        notice.grace_ns = line.grace_ns;
        client->asked = line.id;
        client->file[0] = 0;
        client->reply[0] = 0;
        client->may_reply = notice.event == OPPCLIENT_MESSAGE || is_of_app(notice.event);
        if (notice.event == OPPCLIENT_SAVE_STATE)
            memcpy(client->file, line.file, sizeof client->file);
    }
    call(client, &notice);
    free(state);
    return true;
}

/* Whole lines that are there. */
static int take_lines(oppclient *client)
{
    int taken = 0;
    char *found;
    while (client->error == 0 && (found = memchr(client->in, '\n', client->unread)) != NULL) {
        size_t length = (size_t)(found - client->in);
        taken += take_line(client, client->in, length);
        client->unread -= length + 1;
        memmove(client->in, found + 1, client->unread);
    }
    if (client->error == 0 && client->unread == sizeof client->in)
        end(client, "the host has sent a line that is too long");
    return taken;
}

API int oppclient_dispatch(oppclient *client)
{
    int taken = 0;
    if (client->is_in_handler)
        return -EBUSY;
    send_out(client);
    while (client->error == 0) {
        size_t room = sizeof client->in - client->unread;
        ssize_t count = recv(client->descriptor, client->in + client->unread, room, MSG_DONTWAIT);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (count <= 0) {
            end(client, "the host has gone");
            break;
        }
        client->unread += (size_t)count;
        taken += take_lines(client);
    }
    if (client->error == 0)
        return taken;
    if (!client->has_told_left) {
        oppclient_notice notice = {.event = OPPCLIENT_LEFT, .reason = client->reason};
        client->has_told_left = true;
        call(client, &notice);
    }
    return client->error;
}

API int oppclient_defer(oppclient *client)
{
    if (!client->is_in_handler || client->asked == 0)
        return -EINVAL;
    client->is_deferred = true;
    return 0;
}

API int oppclient_answer(oppclient *client, uint64_t id)
{
    if (client->error != 0)
        return client->error;
    if (id == 0 || client->asked != id)
        return -ENOENT;
    return send_answer(client, id);
}

API int oppclient_save_state(oppclient *client, const void *state, size_t size)
{
    if (client->error != 0)
        return client->error;
    if (client->file[0] == 0 || (state == NULL && size > 0))
        return -EINVAL;
    if (size > OPPCLIENT_MOST_STATE)
        return -EFBIG;
    int error = 0;
    size_t written = 0;
    int descriptor = open(client->file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor < 0)
        return -errno;
    while (error == 0 && written < size) {
        ssize_t count = write(descriptor, (const char *)state + written, size - written);
        if (count >= 0)
            written += (size_t)count;
        else if (errno != EINTR)
            error = -errno;
    }
    /* The host has it outlive a loss of power before it ends the program, which need not wait for storage. */
    close(descriptor);
    /* Half a state is none. */
    if (error != 0)
        unlink(client->file);
    return error;
}

API int oppclient_payload(const oppclient_notice *notice, const char *key, char *value, size_t size)
{
    return notice->payload == NULL ? -EINVAL : oppclient_line_value(notice->payload, key, value, size);
}

API int oppclient_reply(oppclient *client, const char *text)
{
    if (client->error != 0)
        return client->error;
    if (client->asked == 0 || !client->may_reply)
        return -ENOENT;
    int length = oppclient_line_quote(text, LONGEST_REPLY, client->reply, sizeof client->reply);
    if (length < 0)
        client->reply[0] = 0;
    return length < 0 ? length : 0;
}

API int64_t oppclient_begin_task(oppclient *client, const char *name)
{
    char line[LONGEST_LINE];
    int length = snprintf(line, sizeof line, "{\"begin\":%lld,\"name\":", (long long)client->last_task + 1);
    size_t room = sizeof line - (size_t)length - 3;
    int quoted = oppclient_line_quote(name, LONGEST_TASK_NAME, line + length, room);
    if (quoted < 0)
        return quoted;
    strcpy(line + length + quoted, "}\n");
    int error = say(client, line);
    return error != 0 ? error : ++client->last_task;
}

/* Of a task or a socket, by the number that the program has of it; `last` is the highest given. */
static int say_over(oppclient *client, const char *verb, int64_t number, int64_t last)
{
    char line[64];
    if (number <= 0 || number > last)
        return -EINVAL;
    snprintf(line, sizeof line, "{\"%s\":%lld}\n", verb, (long long)number);
    return say(client, line);
}

API int oppclient_end_task(oppclient *client, int64_t task)
{
    return say_over(client, "end", task, client->last_task);
}

API int64_t oppclient_keep_alive(oppclient *client, int descriptor)
{
    char line[64];
    if (client->error != 0)
        return client->error;
    if (client->unpassed == MOST_PASSED)
        return -ENOBUFS;
    /* Sent at once as a rule; else the caller may close its own meanwhile. */
    int duplicate = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (duplicate < 0)
        return -errno;
    snprintf(line, sizeof line, "{\"keepAlive\":%lld}\n", (long long)client->last_socket + 1);
    client->passed[client->unpassed++] = duplicate;
    int error = say(client, line);
    if (error == 0)
        return ++client->last_socket;
    close(client->passed[--client->unpassed]);
    return error;
}

API int oppclient_let_go(oppclient *client, int64_t socket)
{
    return say_over(client, "letGo", socket, client->last_socket);
}

/* Of a line that is written piece by piece; `error` is that of the first piece that did not fit. */
struct writer {
    size_t length;
    int error;
    char line[LONGEST_LINE];
};

static void write_number(struct writer *writer, const char *before, int64_t number)
{
    size_t room = sizeof writer->line - writer->length;
    int length = snprintf(writer->line + writer->length, room, "%s%lld", before, (long long)number);
    if ((size_t)length >= room)
        writer->error = writer->error != 0 ? writer->error : -EINVAL;
    else
        writer->length += (size_t)length;
}

/* Nothing where there is no text. */
static void write_text(struct writer *writer, const char *before, const char *text)
{
    size_t length = strlen(before);
    if (text == NULL || writer->error != 0)
        return;
    /* Room for the end of the line. */
    if (writer->length + length + 8 > sizeof writer->line) {
        writer->error = -EINVAL;
        return;
    }
    memcpy(writer->line + writer->length, before, length);
    writer->length += length;
    int quoted = oppclient_line_quote(text, LONGEST_LINE, writer->line + writer->length,
                                      sizeof writer->line - writer->length - 3);
    if (quoted < 0)
        writer->error = quoted;
    else
        writer->length += (size_t)quoted;
}

static int say_written(oppclient *client, struct writer *writer)
{
    if (writer->error != 0)
        return writer->error;
    strcpy(writer->line + writer->length, "}\n");
    return say(client, writer->line);
}

API int64_t oppclient_schedule(oppclient *client, const oppclient_notification *notification)
{
    static const char *const repeats[] = {NULL, "daily", "weekly"};
    struct writer writer = {0};
    if (notification->repeats > OPPCLIENT_WEEKLY || notification->after_ms < 0
        || (notification->at_ms != 0 && notification->after_ms != 0))
        return -EINVAL;
    write_number(&writer, "{\"schedule\":", client->last_request + 1);
    if (notification->at_ms != 0)
        write_number(&writer, ",\"at_ms\":", notification->at_ms);
    else
        write_number(&writer, ",\"after_ms\":", notification->after_ms);
    write_text(&writer, ",\"name\":", notification->name);
    write_text(&writer, ",\"body\":", notification->body);
    write_text(&writer, ",\"action\":", notification->action);
    write_text(&writer, ",\"sound\":", notification->sound);
    write_text(&writer, ",\"repeats\":", repeats[notification->repeats]);
    write_text(&writer, ",\"time_zone\":", notification->time_zone);
    int error = say_written(client, &writer);
    return error != 0 ? error : ++client->last_request;
}

API int oppclient_cancel(oppclient *client, const char *name)
{
    struct writer writer = {0};
    if (name == NULL)
        return say(client, "{\"cancelAll\":true}\n");
    write_text(&writer, "{\"cancel\":", name);
    return say_written(client, &writer);
}

API int64_t oppclient_heartbeat(oppclient *client, int64_t interval_ms)
{
    struct writer writer = {0};
    if (interval_ms < 0)
        return -EINVAL;
    write_number(&writer, "{\"heartbeat\":", client->last_request + 1);
    if (interval_ms > 0)
        write_number(&writer, ",\"after_ms\":", interval_ms);
    int error = say_written(client, &writer);
    return error != 0 ? error : ++client->last_request;
}

API int oppclient_tell_app(oppclient *client, int64_t app, const char *name, oppclient_state state)
{
    static const char *const states[] = {"foreground", "background", "suspended", "hibernated", "terminated"};
    struct writer writer = {0};
    if (state < OPPCLIENT_FOREGROUND || state > OPPCLIENT_TERMINATED)
        return -EINVAL;
    write_number(&writer, "{\"app\":", app);
    write_text(&writer, ",\"name\":", name);
    write_text(&writer, ",\"state\":", states[state - OPPCLIENT_FOREGROUND]);
    return say_written(client, &writer);
}

API int64_t oppclient_pending(oppclient *client)
{
    struct writer writer = {0};
    write_number(&writer, "{\"pending\":", client->last_request + 1);
    int error = say_written(client, &writer);
    return error != 0 ? error : ++client->last_request;
}

API void oppclient_close(oppclient *client)
{
    if (client == NULL)
        return;
    if (client->descriptor >= 0)
        close(client->descriptor);
    drop_passed(client);
    free(client);
}
