/*
 * A connection to D-Bus by sd-bus of libsystemd, which is looked for at run time: the host runs where there
 * is none, and needs no headers of it to be built. Every call returns 0, a count or -errno; -ENOSYS where
 * there is no library. A connection and its messages are used by one thread at a time; calls that block say
 * so.
 */
#ifndef OPP_BUS_H
#define OPP_BUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct opp_bus opp_bus;
typedef struct opp_bus_message opp_bus_message;

/* Whether there is the library. Any thread. */
bool opp_bus_has_library(void);

/*
 * Connects to the system's bus or the user's, and waits until it has answered; the library's own limit is
 * 25 s. Later calls of the bus itself block for `patience_us` at most. Closed by opp_bus_close.
 */
int opp_bus_open(bool is_system, uint64_t patience_us, opp_bus *_Nullable *_Nonnull opened);

/* Drops what is not sent yet. */
void opp_bus_close(opp_bus *_Nonnull bus);

/* Called for each message to an object: 1 where it was answered, 0 where it is unknown, -errno. */
typedef int (*opp_bus_handler)(
    opp_bus_message *_Nonnull message, void *_Nullable context, void *_Nullable error);

/* Has calls of the object `path` handled, within opp_bus_process. */
int opp_bus_serve(
    opp_bus *_Nonnull bus, const char *_Nonnull path, opp_bus_handler _Nonnull handler,
    void *_Nullable context);

/* Asks for a name: -EEXIST where another has it, -EACCES or -EPERM where the bus's policy refuses. Blocks. */
int opp_bus_claim(opp_bus *_Nonnull bus, const char *_Nonnull name);

/* Handles at most one message: 1 where there may be more; -ECONNRESET, -ENOTCONN where the bus is gone. */
int opp_bus_process(opp_bus *_Nonnull bus);

/* Sleeps until the bus or the descriptor `event` has something, or the bus wants to be called. */
int opp_bus_wait(opp_bus *_Nonnull bus, int event);

/* --- Messages --------------------------------------------------------------------------------- */

/* Live as long as the message; NULL where it has none. */
const char *_Nullable opp_bus_interface(opp_bus_message *_Nonnull message);
const char *_Nullable opp_bus_member(opp_bus_message *_Nonnull message);
const char *_Nonnull opp_bus_signature(opp_bus_message *_Nonnull message);
bool opp_bus_is_call(opp_bus_message *_Nonnull message);

/* The user of whoever sent it, as the bus knows. Asks the bus; blocks. */
int opp_bus_user(opp_bus_message *_Nonnull message, uid_t *_Nonnull user);

/* The next value, of a basic type. A text lives as long as the message; 'b' is an int32_t. */
int opp_bus_read(opp_bus_message *_Nonnull message, char type, void *_Nonnull value);

/* An answer or a signal, the caller's to send, which ends it, or to drop. */
int opp_bus_answer(opp_bus_message *_Nonnull call, opp_bus_message *_Nullable *_Nonnull made);
int opp_bus_signal(
    opp_bus *_Nonnull bus, opp_bus_message *_Nullable *_Nonnull made, const char *_Nonnull path,
    const char *_Nonnull interface, const char *_Nonnull member);
/* `value` is the text itself of 's', else points to the value. */
int opp_bus_append(opp_bus_message *_Nonnull message, char type, const void *_Nonnull value);
/* Containers: 'a', 'v' and 'e', with the signature of what is in them. */
int opp_bus_begin(opp_bus_message *_Nonnull message, char type, const char *_Nonnull contents);
int opp_bus_end(opp_bus_message *_Nonnull message);
int opp_bus_send(opp_bus *_Nullable bus, opp_bus_message *_Nonnull message);
void opp_bus_drop(opp_bus_message *_Nonnull message);

int opp_bus_refuse(opp_bus_message *_Nonnull call, const char *_Nonnull name, const char *_Nonnull why);

#ifdef __cplusplus
}
#endif

#endif
