#include "opp_bus.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <time.h>

/*
 * The interface of libsystemd.so.0 as far as it is used, as its manual has it: sd-bus(3). Its types are
 * opaque but for the error, so that ours stand for them.
 */
typedef struct {
    const char *name;
    const char *message;
    int must_be_freed;
} bus_error;

enum { CREDENTIALS_USER = 1 << 4 }; /* SD_BUS_CREDS_EUID */

static struct {
    int (*open_user)(opp_bus **);
    int (*open_system)(opp_bus **);
    void (*close)(opp_bus *);
    opp_bus *(*unref)(opp_bus *);
    int (*set_method_call_timeout)(opp_bus *, uint64_t);
    int (*get_unique_name)(opp_bus *, const char **);
    int (*request_name)(opp_bus *, const char *, uint64_t);
    int (*add_object)(opp_bus *, void **, const char *, opp_bus_handler, void *);
    int (*process)(opp_bus *, opp_bus_message **);
    int (*get_fd)(opp_bus *);
    int (*get_events)(opp_bus *);
    int (*get_timeout)(opp_bus *, uint64_t *);
    int (*send)(opp_bus *, opp_bus_message *, uint64_t *);
    int (*reply_method_error)(opp_bus_message *, const bus_error *);
    int (*query_sender_creds)(opp_bus_message *, uint64_t, void **);
    int (*creds_get_euid)(void *, uid_t *);
    void *(*creds_unref)(void *);
    const char *(*message_get_interface)(opp_bus_message *);
    const char *(*message_get_member)(opp_bus_message *);
    const char *(*message_get_signature)(opp_bus_message *, int);
    int (*message_is_method_call)(opp_bus_message *, const char *, const char *);
    int (*message_read_basic)(opp_bus_message *, char, void *);
    int (*message_new_method_return)(opp_bus_message *, opp_bus_message **);
    int (*message_new_signal)(opp_bus *, opp_bus_message **, const char *, const char *, const char *);
    int (*message_append_basic)(opp_bus_message *, char, const void *);
    int (*message_open_container)(opp_bus_message *, char, const char *);
    int (*message_close_container)(opp_bus_message *);
    opp_bus_message *(*message_unref)(opp_bus_message *);
} sd;
static bool has_library;
static pthread_once_t was_sought = PTHREAD_ONCE_INIT;

static void seek(void) {
    void *library = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL); /* stays as long as the process does */
    if (library == NULL) return;
    bool has_all = true;
#define SEEK(name) has_all &= (sd.name = (__typeof__(sd.name))dlsym(library, "sd_bus_" #name)) != NULL
    SEEK(open_user);
    SEEK(open_system);
    SEEK(close);
    SEEK(unref);
    SEEK(set_method_call_timeout);
    SEEK(get_unique_name);
    SEEK(request_name);
    SEEK(add_object);
    SEEK(process);
    SEEK(get_fd);
    SEEK(get_events);
    SEEK(get_timeout);
    SEEK(send);
    SEEK(reply_method_error);
    SEEK(query_sender_creds);
    SEEK(creds_get_euid);
    SEEK(creds_unref);
    SEEK(message_get_interface);
    SEEK(message_get_member);
    SEEK(message_get_signature);
    SEEK(message_is_method_call);
    SEEK(message_read_basic);
    SEEK(message_new_method_return);
    SEEK(message_new_signal);
    SEEK(message_append_basic);
    SEEK(message_open_container);
    SEEK(message_close_container);
    SEEK(message_unref);
#undef SEEK
    has_library = has_all;
}

bool opp_bus_has_library(void) {
    pthread_once(&was_sought, seek);
    return has_library;
}

int opp_bus_open(bool is_system, uint64_t patience_us, opp_bus **opened) {
    if (!opp_bus_has_library()) return -ENOSYS;
    opp_bus *bus = NULL;
    int status = is_system ? sd.open_system(&bus) : sd.open_user(&bus);
    if (status < 0) return status;
    sd.set_method_call_timeout(bus, patience_us);
    const char *name; /* known when the bus has answered the greeting */
    status = sd.get_unique_name(bus, &name);
    if (status < 0) {
        opp_bus_close(bus);
        return status;
    }
    *opened = bus;
    return 0;
}

void opp_bus_close(opp_bus *bus) {
    sd.close(bus);
    sd.unref(bus);
}

int opp_bus_serve(opp_bus *bus, const char *path, opp_bus_handler handler, void *context) {
    return sd.add_object(bus, NULL, path, handler, context);
}

int opp_bus_claim(opp_bus *bus, const char *name) { return sd.request_name(bus, name, 0); }

int opp_bus_process(opp_bus *bus) { return sd.process(bus, NULL); }

int opp_bus_wait(opp_bus *bus, int event) {
    int events = sd.get_events(bus);
    if (events < 0) return events;
    struct pollfd polled[] = {{sd.get_fd(bus), (short)events, 0}, {event, POLLIN, 0}};
    if (polled[0].fd < 0) return polled[0].fd;
    uint64_t due; /* of CLOCK_MONOTONIC, in microseconds; UINT64_MAX: never */
    int status = sd.get_timeout(bus, &due);
    if (status < 0) return status;
    struct timespec left, *limit = NULL;
    if (due != UINT64_MAX) {
        clock_gettime(CLOCK_MONOTONIC, &left);
        uint64_t now = (uint64_t)left.tv_sec * 1000000 + (uint64_t)left.tv_nsec / 1000;
        uint64_t wait = due > now ? due - now : 0;
        left.tv_sec = (time_t)(wait / 1000000);
        left.tv_nsec = (long)(wait % 1000000) * 1000;
        limit = &left;
    }
    return ppoll(polled, 2, limit, NULL) >= 0 || errno == EINTR ? 0 : -errno;
}

const char *opp_bus_interface(opp_bus_message *message) { return sd.message_get_interface(message); }

const char *opp_bus_member(opp_bus_message *message) { return sd.message_get_member(message); }

const char *opp_bus_signature(opp_bus_message *message) {
    const char *signature = sd.message_get_signature(message, 1);
    return signature == NULL ? "" : signature;
}

bool opp_bus_is_call(opp_bus_message *message) {
    return sd.message_is_method_call(message, NULL, NULL) > 0;
}

int opp_bus_user(opp_bus_message *message, uid_t *user) {
    void *credentials = NULL;
    int status = sd.query_sender_creds(message, CREDENTIALS_USER, &credentials);
    if (status < 0) return status;
    status = sd.creds_get_euid(credentials, user);
    sd.creds_unref(credentials);
    return status;
}

int opp_bus_read(opp_bus_message *message, char type, void *value) {
    return sd.message_read_basic(message, type, value);
}

int opp_bus_answer(opp_bus_message *call, opp_bus_message **made) {
    return sd.message_new_method_return(call, made);
}

int opp_bus_signal(
    opp_bus *bus, opp_bus_message **made, const char *path, const char *interface, const char *member) {
    return sd.message_new_signal(bus, made, path, interface, member);
}

int opp_bus_append(opp_bus_message *message, char type, const void *value) {
    return sd.message_append_basic(message, type, value);
}

int opp_bus_begin(opp_bus_message *message, char type, const char *contents) {
    return sd.message_open_container(message, type, contents);
}

int opp_bus_end(opp_bus_message *message) { return sd.message_close_container(message); }

int opp_bus_send(opp_bus *bus, opp_bus_message *message) {
    int status = sd.send(bus, message, NULL);
    opp_bus_drop(message);
    return status;
}

void opp_bus_drop(opp_bus_message *message) { sd.message_unref(message); }

int opp_bus_refuse(opp_bus_message *call, const char *name, const char *why) {
    bus_error error = {name, why, 0};
    return sd.reply_method_error(call, &error);
}
