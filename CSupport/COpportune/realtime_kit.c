/*
 * A client of D-Bus that knows two calls. A library for it would be a dependency of every program that links
 * the scheduler, for a service that few of them ask; and what these calls need of the protocol is small:
 * authentication by the socket's credentials (SASL EXTERNAL), Hello, one call, and the reply with its number.
 * Whatever else arrives is read and dropped. Nothing is trusted: all lengths are checked before use.
 */
#include "opp_realtime_kit.h"
#include "opp_assert.h"
#include "opp_sync.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
    MESSAGE_MAX = 16 * 1024, /* replies are some hundred bytes, but signals may come between */
    TYPE_CALL = 1,
    TYPE_RETURN = 2,
    TYPE_ERROR = 3,
    FIELD_PATH = 1,
    FIELD_INTERFACE = 2,
    FIELD_MEMBER = 3,
    FIELD_ERROR = 4,
    FIELD_REPLY_SERIAL = 5,
    FIELD_DESTINATION = 6,
    FIELD_SIGNATURE = 8,
};

typedef struct bus {
    int socket;
    uint64_t deadline;
    uint32_t serial;
    char *reason;
} bus;

/* --- Bytes ------------------------------------------------------------------------------------- */

static bool bus_wait(const bus *bus, short events) {
    for (;;) {
        uint64_t now = opp_sync_now();
        if (now >= bus->deadline) return false;
        uint64_t left_ms = (bus->deadline - now) / 1000000 + 1;
        struct pollfd polled = {.fd = bus->socket, .events = events};
        int ready = poll(&polled, 1, left_ms > INT_MAX ? INT_MAX : (int)left_ms);
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return false;
    }
}

static bool bus_move(const bus *bus, bool sends, void *bytes, size_t count) {
    char *rest = bytes;
    while (count > 0) {
        ssize_t moved = sends ? send(bus->socket, rest, count, MSG_NOSIGNAL | MSG_DONTWAIT)
                              : recv(bus->socket, rest, count, MSG_DONTWAIT);
        if (moved > 0) {
            rest += moved;
            count -= (size_t)moved;
        } else if (moved < 0 && errno == EINTR) {
            continue;
        } else if (moved == 0 || errno != EAGAIN || !bus_wait(bus, sends ? POLLOUT : POLLIN)) {
            return false;
        }
    }
    return true;
}

static bool bus_send(const bus *bus, const void *bytes, size_t count) {
    return bus_move(bus, true, (void *)(uintptr_t)bytes, count);
}

static bool bus_receive(const bus *bus, void *bytes, size_t count) {
    return bus_move(bus, false, bytes, count);
}

/* --- Messages that are sent -------------------------------------------------------------------- */

typedef struct builder {
    unsigned char bytes[512];
    size_t count;
} builder;

static void put(builder *message, const void *bytes, size_t count) {
    OPP_ASSERT(message->count + count <= sizeof message->bytes);
    memcpy(message->bytes + message->count, bytes, count);
    message->count += count;
}

static void align(builder *message, size_t to) {
    static const unsigned char zeros[8];
    OPP_ASSERT(to <= sizeof zeros);
    put(message, zeros, (to - message->count % to) % to);
}

/* In this machine's byte order, which the first byte of a message tells. */
static void put_u32(builder *message, uint32_t value) {
    align(message, 4);
    put(message, &value, sizeof value);
}

static void put_u64(builder *message, uint64_t value) {
    align(message, 8);
    put(message, &value, sizeof value);
}

static void put_string(builder *message, const char *text) {
    put_u32(message, (uint32_t)strlen(text));
    put(message, text, strlen(text) + 1);
}

static void put_signature(builder *message, const char *text) {
    unsigned char length = (unsigned char)strlen(text);
    put(message, &length, 1);
    put(message, text, length + 1u);
}

static void put_field(builder *message, unsigned char field, const char *type, const char *text) {
    align(message, 8);
    put(message, &field, 1);
    put_signature(message, type);
    if (type[0] == 'g') put_signature(message, text);
    else put_string(message, text);
}

typedef struct call {
    const char *destination, *path, *interface, *member, *signature;
    builder body;
} call;

static bool bus_send_call(bus *bus, const call *call) {
    const uint16_t order = 1;
    bool is_little = *(const unsigned char *)&order == 1;
    unsigned char start[4] = {is_little ? 'l' : 'B', TYPE_CALL, 0, 1};
    builder message = {.count = 0};
    put(&message, start, sizeof start);
    put_u32(&message, (uint32_t)call->body.count);
    put_u32(&message, ++bus->serial);
    size_t length_at = message.count;
    put_u32(&message, 0);
    size_t fields_at = message.count;
    put_field(&message, FIELD_PATH, "o", call->path);
    put_field(&message, FIELD_INTERFACE, "s", call->interface);
    put_field(&message, FIELD_MEMBER, "s", call->member);
    put_field(&message, FIELD_DESTINATION, "s", call->destination);
    if (call->signature != NULL) put_field(&message, FIELD_SIGNATURE, "g", call->signature);
    uint32_t length = (uint32_t)(message.count - fields_at);
    memcpy(message.bytes + length_at, &length, sizeof length);
    align(&message, 8);
    put(&message, call->body.bytes, call->body.count);
    return bus_send(bus, message.bytes, message.count);
}

/* --- Messages that are received ---------------------------------------------------------------- */

typedef struct message {
    unsigned char bytes[MESSAGE_MAX];
    size_t count;     /* all of it */
    size_t fields_at, fields_end;
    size_t body_at;
    bool is_swapped;
} message;

static uint32_t read_u32(const message *message, size_t at) {
    uint32_t value;
    OPP_ASSERT(at + sizeof value <= message->count);
    memcpy(&value, message->bytes + at, sizeof value);
    return message->is_swapped ? __builtin_bswap32(value) : value;
}

static size_t aligned(size_t at, size_t to) {
    return (at + to - 1) / to * to;
}

static bool bus_receive_message(const bus *bus, message *message) {
    enum { START = 16 };
    if (!bus_receive(bus, message->bytes, START)) return false;
    const uint16_t order = 1;
    bool is_little = *(const unsigned char *)&order == 1;
    if (message->bytes[0] != 'l' && message->bytes[0] != 'B') return false;
    message->is_swapped = (message->bytes[0] == 'l') != is_little;
    message->count = START;
    uint32_t body = read_u32(message, 4), fields = read_u32(message, 12);
    if (body > MESSAGE_MAX || fields > MESSAGE_MAX) return false;
    message->fields_at = START;
    message->fields_end = START + fields;
    message->body_at = aligned(message->fields_end, 8);
    size_t count = message->body_at + body;
    if (count > sizeof message->bytes) return false;
    if (!bus_receive(bus, message->bytes + START, count - START)) return false;
    message->count = count;
    return true;
}

/*
 * Finds a header field of type 'u', 's', 'o' or 'g': its value's place in `at`, its length in `length`. No
 * other types are in a header. Returns false where the field is not there, or the header is malformed.
 */
static bool find_field(const message *message, unsigned char wanted, size_t *at, size_t *length) {
    size_t next = message->fields_at, end = message->fields_end;
    for (;;) {
        next = aligned(next, 8);
        if (next + 4 > end) return false;
        unsigned char field = message->bytes[next], type = message->bytes[next + 2];
        if (message->bytes[next + 1] != 1 || message->bytes[next + 3] != 0) return false;
        next += 4;
        if (type == 'g') {
            if (next + 1 > end) return false;
            *length = message->bytes[next];
            *at = next + 1;
            next = *at + *length + 1;
        } else {
            next = aligned(next, 4);
            if (next + 4 > end) return false;
            if (type == 'u') {
                *at = next;
                *length = 4;
                next += 4;
            } else if (type == 's' || type == 'o') {
                *length = read_u32(message, next);
                *at = next + 4;
                if (*length > end) return false;
                next = *at + *length + 1;
            } else {
                return false;
            }
        }
        if (next > end) return false;
        if (field == wanted) return true;
    }
}

static void keep_reason(const bus *bus, const message *message) {
    size_t at, length;
    if (!find_field(message, FIELD_ERROR, &at, &length)) return;
    if (length >= OPP_KIT_REASON) length = OPP_KIT_REASON - 1;
    memcpy(bus->reason, message->bytes + at, length);
    bus->reason[length] = '\0';
}

/* Waits for the reply to the last call. */
static opp_kit_answer bus_reply(const bus *bus, message *message) {
    while (bus_receive_message(bus, message)) {
        unsigned char type = message->bytes[1];
        size_t at, length;
        if (type != TYPE_RETURN && type != TYPE_ERROR) continue;
        if (!find_field(message, FIELD_REPLY_SERIAL, &at, &length) || length != 4) return OPP_KIT_SILENT;
        if (read_u32(message, at) != bus->serial) continue;
        if (type == TYPE_RETURN) return OPP_KIT_GRANTED;
        keep_reason(bus, message);
        bool is_absent = strstr(bus->reason, ".ServiceUnknown") != NULL ||
                         strstr(bus->reason, ".NameHasNoOwner") != NULL ||
                         strstr(bus->reason, ".Spawn.") != NULL;
        return is_absent ? OPP_KIT_ABSENT : OPP_KIT_REFUSED;
    }
    return OPP_KIT_SILENT;
}

static opp_kit_answer bus_call(bus *bus, const call *call, message *reply) {
    return bus_send_call(bus, call) ? bus_reply(bus, reply) : OPP_KIT_SILENT;
}

/* --- The connection ---------------------------------------------------------------------------- */

/* The path of the system bus's socket. Of an address with several places the first that is a path. */
static bool system_bus_path(char *path, size_t room) {
    const char *address = getenv("DBUS_SYSTEM_BUS_ADDRESS");
    static const char key[] = "unix:path=";
    if (address == NULL || address[0] == '\0') address = "unix:path=/run/dbus/system_bus_socket";
    const char *found = strstr(address, key);
    if (found == NULL) return false;
    found += sizeof key - 1;
    size_t length = strcspn(found, ",;");
    if (length == 0 || length >= room) return false;
    memcpy(path, found, length);
    path[length] = '\0';
    return true;
}

static bool bus_connect(bus *bus, const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path == NULL) {
        if (!system_bus_path(address.sun_path, sizeof address.sun_path)) return false;
    } else {
        if (strlen(path) >= sizeof address.sun_path) return false;
        strcpy(address.sun_path, path);
    }
    bus->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bus->socket < 0) return false;
    return connect(bus->socket, (struct sockaddr *)&address, sizeof address) == 0;
}

/* The user's number in decimal, each digit in hexadecimal, after a zero byte that carries the credentials. */
static bool bus_authenticate(const bus *bus) {
    char number[16], line[64];
    int digits = snprintf(number, sizeof number, "%u", (unsigned)geteuid());
    size_t length = 0;
    line[length++] = '\0';
    length += (size_t)snprintf(line + length, sizeof line - length, "AUTH EXTERNAL ");
    for (int i = 0; i < digits; i++)
        length += (size_t)snprintf(line + length, sizeof line - length, "%02x", (unsigned)number[i]);
    length += (size_t)snprintf(line + length, sizeof line - length, "\r\n");
    OPP_ASSERT(length < sizeof line);
    if (!bus_send(bus, line, length)) return false;
    /* "OK" and the bus's id, or "REJECTED" and what else there is. */
    char answer[256];
    size_t count = 0;
    while (count < sizeof answer - 1) {
        if (!bus_receive(bus, answer + count, 1)) return false;
        if (answer[count++] == '\n') break;
    }
    static const char begin[] = "BEGIN\r\n";
    return count >= 3 && strncmp(answer, "OK ", 3) == 0 && bus_send(bus, begin, sizeof begin - 1);
}

static opp_kit_answer bus_open(bus *bus, const char *path, int timeout_ms, message *reply) {
    bus->deadline = opp_sync_now() + (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms) * 1000000;
    if (!bus_connect(bus, path) || !bus_authenticate(bus)) return OPP_KIT_NO_BUS;
    const call hello = {.destination = "org.freedesktop.DBus",
                        .path = "/org/freedesktop/DBus",
                        .interface = "org.freedesktop.DBus",
                        .member = "Hello"};
    return bus_call(bus, &hello, reply);
}

static const char kit_name[] = "org.freedesktop.RealtimeKit1";

opp_kit_answer opp_realtime_kit_ask(const char *path, int32_t tid, uint32_t priority, int timeout_ms,
                                    char reason[OPP_KIT_REASON]) {
    bus bus = {.socket = -1, .reason = reason};
    message reply;
    reason[0] = '\0';
    opp_kit_answer answer = bus_open(&bus, path, timeout_ms, &reply);
    if (answer == OPP_KIT_GRANTED) {
        call ask = {.destination = kit_name,
                    .path = "/org/freedesktop/RealtimeKit1",
                    .interface = kit_name,
                    .member = "MakeThreadRealtimeWithPID",
                    .signature = "ttu"};
        put_u64(&ask.body, (uint64_t)getpid());
        put_u64(&ask.body, (uint64_t)tid);
        put_u32(&ask.body, priority);
        answer = bus_call(&bus, &ask, &reply);
    }
    if (bus.socket >= 0) close(bus.socket);
    return answer;
}

opp_kit_answer opp_realtime_kit_look(const char *path, int timeout_ms, char reason[OPP_KIT_REASON]) {
    bus bus = {.socket = -1, .reason = reason};
    message reply;
    reason[0] = '\0';
    opp_kit_answer answer = bus_open(&bus, path, timeout_ms, &reply);
    if (answer == OPP_KIT_GRANTED) {
        call find = {.destination = "org.freedesktop.DBus",
                     .path = "/org/freedesktop/DBus",
                     .interface = "org.freedesktop.DBus",
                     .member = "GetNameOwner",
                     .signature = "s"};
        put_string(&find.body, kit_name);
        answer = bus_call(&bus, &find, &reply);
        /* Who does not run may be started; who runs without a service file may not: that is asked
         * first. */
        if (answer == OPP_KIT_ABSENT) {
            call start = find;
            start.member = "StartServiceByName";
            start.signature = "su";
            put_u32(&start.body, 0);
            answer = bus_call(&bus, &start, &reply);
        }
        if (answer == OPP_KIT_GRANTED) reason[0] = '\0';
    }
    if (bus.socket >= 0) close(bus.socket);
    return answer;
}

/* --- The limit --------------------------------------------------------------------------------- */

uint64_t opp_rt_time_limit_us(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_RTTIME, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
    return limit.rlim_cur;
}

int opp_rt_time_limit_lower(uint64_t limit_us) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_RTTIME, &limit) != 0) return -errno;
    /* RLIM_INFINITY is the greatest number. */
    if (limit.rlim_cur > limit_us) limit.rlim_cur = limit_us;
    if (limit.rlim_max > limit_us) limit.rlim_max = limit_us;
    return setrlimit(RLIMIT_RTTIME, &limit) == 0 ? 0 : -errno;
}
