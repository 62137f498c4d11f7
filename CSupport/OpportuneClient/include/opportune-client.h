/*
 * libopportune-client: a program that cooperates with the host of programs (`opportune host`).
 *
 * A program that is an app of the host, as by `opportune run`, joins it by its Unix socket. From then on the
 * host tells it before it acts: that it goes to the background, is suspended, comes to the foreground, ends.
 * Each question has a grace; who does not answer in time is left, and treated as a program that knows nothing
 * of the host.
 *
 * It fits any event loop: wait until `oppclient_descriptor` is ready for `oppclient_events`, then call
 * `oppclient_dispatch`, which calls the handler and never blocks. There is no thread and no signal in it. A
 * client is used by one thread at a time. Functions return 0 or a number, or -errno.
 */
#ifndef OPPORTUNE_CLIENT_H
#define OPPORTUNE_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__clang__)
#define OPPCLIENT_NULLABLE _Nullable
#define OPPCLIENT_NONNULL _Nonnull
#else
#define OPPCLIENT_NULLABLE
#define OPPCLIENT_NONNULL
#endif

#define OPPCLIENT_VERSION_MAJOR 0
#define OPPCLIENT_VERSION_MINOR 1
#define OPPCLIENT_VERSION_PATCH 0

/* The largest state of a program, in bytes. */
#define OPPCLIENT_MOST_STATE (1024 * 1024)

/* A connection to the host. */
typedef struct oppclient oppclient;

/* What happens. Later versions may have more. */
typedef enum oppclient_event {
    /* Questions, answered when the handler returns unless it defers. The first after joining is told also
     * where the app was launched long before; `launch` says why it was. */
    OPPCLIENT_DID_FINISH_LAUNCHING = 1,
    OPPCLIENT_WILL_ENTER_FOREGROUND = 2,
    OPPCLIENT_DID_BECOME_ACTIVE = 3,
    OPPCLIENT_WILL_RESIGN_ACTIVE = 4,
    OPPCLIENT_DID_ENTER_BACKGROUND = 5, /* the last chance to save that is sure to come */
    OPPCLIENT_WILL_TERMINATE = 6,       /* SIGTERM follows the answer */
    OPPCLIENT_WILL_SUSPEND = 7,         /* nothing of the app executes after the answer */
    OPPCLIENT_DID_RESUME = 8,           /* follows each of the former, whether it was suspended or not */
    OPPCLIENT_TASK_EXPIRES = 9,         /* the answer ends the task */
    OPPCLIENT_MEMORY_WARNING = 10,
    /* Of programs that have joined by oppclient_join_restartable. */
    OPPCLIENT_SAVE_STATE = 11,    /* to be given by oppclient_save_state before the answer; its end follows,
                                     unless it is to go on after all, or has given none */
    OPPCLIENT_RESTORE_STATE = 12, /* it was started anew, and is to be as it was: `state`; the first question.
                                     The answer says that it has it: the host drops it then */
    /* Something has come for `socket`, which is kept alive, while the program was suspended, or the peer has
     * ended it; `bytes` of it can be read. It is suspended again after the answer, so it reads before that:
     * in the handler, or later where it defers. */
    OPPCLIENT_DATA_ARRIVED = 13,
    /* A message of `kind` for this app, with its `payload`. One that was suspended is so again after the
     * answer. The sender gets what oppclient_reply has given before that. */
    OPPCLIENT_MESSAGE = 14,
    /* The program was suspended for the interval of oppclient_heartbeat: it shows its peers that it is there.
     * It is suspended again after the answer. */
    OPPCLIENT_HEARTBEAT = 15,
    /* Of an app that oppclient_tell_app has told of: its user wants this. Who does not do it says why by
     * oppclient_reply. A program that was suspended is so again after the answer to the last two. */
    OPPCLIENT_BRING_APP_FORWARD = 16, /* the program is brought there before */
    OPPCLIENT_SUSPEND_APP = 17,
    OPPCLIENT_TERMINATE_APP = 18,
    /* Told, not answered. */
    OPPCLIENT_TASK_BEGAN = 32,
    OPPCLIENT_TASK_REFUSED = 33,
    OPPCLIENT_LEFT = 34, /* the host has gone, or has left this program: `reason` says why; nothing follows */
    OPPCLIENT_KEEP_ALIVE_BEGAN = 35,
    OPPCLIENT_KEEP_ALIVE_REFUSED = 36, /* `reason` says why */
    OPPCLIENT_SCHEDULED = 37,        /* by `request`; it fires at `at_ms` */
    OPPCLIENT_SCHEDULE_REFUSED = 38, /* by `request`; `reason` says why */
    OPPCLIENT_PENDING = 39,          /* of `request`: one that is to fire, its `name` and `at_ms` */
    OPPCLIENT_PENDING_END = 40,      /* of `request`: those were all */
    OPPCLIENT_HEARTBEAT_SET = 41,     /* by `request` */
    OPPCLIENT_HEARTBEAT_REFUSED = 42, /* by `request`; `reason` says why */
    OPPCLIENT_APP_REFUSED = 43, /* `app` is listed as before, or not; `reason` says why */
    /* A question that this version does not know. */
    OPPCLIENT_UNKNOWN = 63
} oppclient_event;

/* Why an app was launched. Later hosts may have more, which this version tells as by the system. */
typedef enum oppclient_launch {
    OPPCLIENT_LAUNCHED_BY_USER = 1,   /* also where the host does not know, as one that began after the app */
    OPPCLIENT_LAUNCHED_BY_SYSTEM = 2,
    OPPCLIENT_LAUNCHED_BY_MESSAGE = 3 /* one came for it when it did not run */
} oppclient_launch;

typedef struct oppclient_notice {
    oppclient_event event;
    uint64_t id;      /* of a question, for oppclient_answer; 0: there is nothing to answer */
    uint64_t grace_ns; /* how long the answer may take; 0: there is nothing to answer */
    int64_t task;     /* of the three TASK events */
    const char *OPPCLIENT_NULLABLE reason; /* for people, as long as the handler runs; NULL: none */
    /* Of RESTORE_STATE, as long as the handler runs. */
    const unsigned char *OPPCLIENT_NULLABLE state;
    size_t state_size;
    int64_t socket; /* of DATA_ARRIVED and the two KEEP_ALIVE events: what oppclient_keep_alive returned */
    uint64_t bytes; /* of DATA_ARRIVED: 0 at the end of a stream, and where the kernel does not tell */
    /* Of MESSAGE, as long as the handler runs. The payload is an object of JSON, of texts by key: see
     * oppclient_payload. */
    const char *OPPCLIENT_NULLABLE kind;
    const char *OPPCLIENT_NULLABLE payload;
    oppclient_launch launch; /* of DID_FINISH_LAUNCHING; 0: of another */
    int is_local;            /* of MESSAGE: whether it is a notification that the app has scheduled */
    int64_t request; /* of SCHEDULED, SCHEDULE_REFUSED, PENDING, PENDING_END, HEARTBEAT_SET and
                        HEARTBEAT_REFUSED: as that function returned */
    int64_t at_ms;   /* of SCHEDULED, PENDING: in milliseconds since 1970 */
    const char *OPPCLIENT_NULLABLE name; /* of PENDING, as long as the handler runs */
    int64_t app; /* of the four APP events: as given to oppclient_tell_app */
} oppclient_notice;

/*
 * Called by oppclient_dispatch alone. It may call every function but oppclient_dispatch and oppclient_close.
 */
typedef void (*oppclient_handler)(
    oppclient *OPPCLIENT_NONNULL client, const oppclient_notice *OPPCLIENT_NONNULL notice,
    void *OPPCLIENT_NULLABLE context);

/*
 * Where the host of this user listens: the variable OPPORTUNE_SOCKET, else as root
 * /run/opportune/host.sock, else $XDG_RUNTIME_DIR/opportune/host.sock.
 * Returns -ENOENT where no variable says it, -ENAMETOOLONG where it does not fit into `size` bytes.
 */
int oppclient_standard_path(char *OPPCLIENT_NONNULL path, size_t size);

/*
 * Joins the host; blocks for at most `timeout_ms`. The handler is not called yet.
 * path: NULL: the standard one. client: made where this returns 0, for oppclient_close.
 * refusal: where the host refuses, which is -EPERM, its reason, for people, cut to `size`; may be NULL.
 * Other errors: as of connect(2), -ETIMEDOUT, -EPROTO where what listens is no host, -ENOMEM.
 */
int oppclient_join(
    const char *OPPCLIENT_NULLABLE path, int timeout_ms, oppclient_handler OPPCLIENT_NONNULL handler,
    void *OPPCLIENT_NULLABLE context, char *OPPCLIENT_NULLABLE refusal, size_t size,
    oppclient *OPPCLIENT_NULLABLE *OPPCLIENT_NONNULL client);

/*
 * The same for a program that can be ended and started anew as it was: it saves its state when it is asked,
 * OPPCLIENT_SAVE_STATE, and takes it at its next start, OPPCLIENT_RESTORE_STATE. So it is hibernated where
 * there is no swap to page it out to. The app is to have a manifest, which says how it is started.
 */
int oppclient_join_restartable(
    const char *OPPCLIENT_NULLABLE path, int timeout_ms, oppclient_handler OPPCLIENT_NONNULL handler,
    void *OPPCLIENT_NULLABLE context, char *OPPCLIENT_NULLABLE refusal, size_t size,
    oppclient *OPPCLIENT_NULLABLE *OPPCLIENT_NONNULL client);

/* The app's name, as long as the client is there. */
const char *OPPCLIENT_NONNULL oppclient_name(const oppclient *OPPCLIENT_NONNULL client);

/* For poll(2) and the like; the client's, not to be read, written or closed. It stays the same. */
int oppclient_descriptor(const oppclient *OPPCLIENT_NONNULL client);

/* What to wait for now: POLLIN, or POLLIN | POLLOUT. To be asked anew after each call. */
short oppclient_events(const oppclient *OPPCLIENT_NONNULL client);

/*
 * Reads and writes what can be, and calls the handler for each notice. Never blocks.
 * Returns how many there were; -EPIPE where the host has gone or has left this program: the handler has heard
 * OPPCLIENT_LEFT then, once; -EBUSY within the handler.
 */
int oppclient_dispatch(oppclient *OPPCLIENT_NONNULL client);

/*
 * Within the handler: the question is not answered when it returns, but by oppclient_answer.
 * Returns -EINVAL outside of the handler, and where there is nothing to answer.
 */
int oppclient_defer(oppclient *OPPCLIENT_NONNULL client);

/*
 * Answers a question that was deferred. Returns -ENOENT where it is not the one that waits, -EPIPE after
 * OPPCLIENT_LEFT.
 */
int oppclient_answer(oppclient *OPPCLIENT_NONNULL client, uint64_t id);

/*
 * Gives the state that OPPCLIENT_SAVE_STATE asks for, before that is answered; a later one replaces it.
 * Blocks until the kernel has it; the host waits for storage before it ends the program.
 * Returns -EINVAL where none is asked for, -EFBIG above OPPCLIENT_MOST_STATE, -EPIPE after OPPCLIENT_LEFT,
 * and as of open(2) and write(2). Where it has given none the program is not ended, and goes on.
 */
int oppclient_save_state(
    oppclient *OPPCLIENT_NONNULL client, const void *OPPCLIENT_NULLABLE state, size_t size);

/*
 * Within the handler, of OPPCLIENT_MESSAGE: the text of a key in its payload, cut at a whole character to
 * `size`. Returns -ENOENT where it has none of that key, -EINVAL where the notice has no payload or that is
 * none.
 */
int oppclient_payload(
    const oppclient_notice *OPPCLIENT_NONNULL notice, const char *OPPCLIENT_NONNULL key,
    char *OPPCLIENT_NONNULL value, size_t size);

/*
 * What the sender of the message that waits for its answer is told with that; of a question about an app: why
 * it was not done. A later one replaces it.
 * text: UTF-8, at most 3,000 bytes as JSON. Returns -ENOENT where neither waits, -EILSEQ, -EINVAL where it
 * is too long, -EPIPE after OPPCLIENT_LEFT.
 */
int oppclient_reply(oppclient *OPPCLIENT_NONNULL client, const char *OPPCLIENT_NONNULL text);

/*
 * Asks for time before suspension, for something that is to be finished. The host grants it up to its limit,
 * and tells of its end by OPPCLIENT_TASK_EXPIRES. It has begun, or is refused, when TASK_BEGAN or
 * TASK_REFUSED comes.
 * name: for people, UTF-8, at most 100 characters. Returns the task's number, more than 0; -EINVAL, -EILSEQ
 * where the name is not possible, -ENOBUFS where the host does not read, -EPIPE after OPPCLIENT_LEFT.
 */
int64_t oppclient_begin_task(oppclient *OPPCLIENT_NONNULL client, const char *OPPCLIENT_NONNULL name);

/* It is finished, or was refused or has expired, which is no error. Errors as above. */
int oppclient_end_task(oppclient *OPPCLIENT_NONNULL client, int64_t task);

/*
 * Has the host keep a connected socket alive, or the reading end of a pipe: what comes for it while the
 * program is suspended has the program go on in background, and OPPCLIENT_DATA_ARRIVED tells of it. The host
 * reads nothing, and looks at it at no other time. What is there already when the program is suspended counts
 * as well, and what is left unread does at the next suspension, once in a second at most.
 *
 * The host has a duplicate until oppclient_let_go, the end of what the peer sends, of the connection to the
 * host or of the app. So a peer does not see that the program has closed its own before that. After
 * OPPCLIENT_LEFT no socket is kept; who joins anew hands them over again. An app that has a manifest is to
 * have the background mode `voip` in it; the host keeps 16 sockets of a program.
 *
 * It is kept, or refused, when KEEP_ALIVE_BEGAN or KEEP_ALIVE_REFUSED comes. Returns the socket's number for
 * the host, more than 0; as of dup(2); -ENOBUFS where the host does not read, -EPIPE after OPPCLIENT_LEFT.
 */
int64_t oppclient_keep_alive(oppclient *OPPCLIENT_NONNULL client, int descriptor);

/*
 * It is not kept any more, or was refused or has ended, which is no error. To be called before the program
 * closes it. Errors as of oppclient_end_task.
 */
int oppclient_let_go(oppclient *OPPCLIENT_NONNULL client, int64_t socket);

/*
 * Has the host ask for a heartbeat while the program is suspended: it goes on in background, hears
 * OPPCLIENT_HEARTBEAT, sends something to its peers, and is suspended again after the answer. So connections
 * whose peers, or routers between, drop who is silent live on. The last call counts.
 *
 * interval_ms: from the suspension to the first, and from one to the next; at least 600,000, ten minutes, as
 * each costs a wake-up. 0: none any more. An app that has a manifest is to have the background mode `voip` in
 * it. After OPPCLIENT_LEFT there are none.
 *
 * It is set, or refused, when HEARTBEAT_SET or HEARTBEAT_REFUSED comes. Returns the number of the request,
 * more than 0; -EINVAL where the interval is less than 0, -ENOBUFS where the host does not read, -EPIPE after
 * OPPCLIENT_LEFT.
 */
int64_t oppclient_heartbeat(oppclient *OPPCLIENT_NONNULL client, int64_t interval_ms);

/* The state of an app inside of a program. */
typedef enum oppclient_state {
    OPPCLIENT_FOREGROUND = 1,
    OPPCLIENT_BACKGROUND = 2,
    OPPCLIENT_SUSPENDED = 3,
    OPPCLIENT_HIBERNATED = 4,
    OPPCLIENT_TERMINATED = 5 /* it is none any more */
} oppclient_state;

/*
 * Tells of an app inside of the program, or of its new state. The host lists it as PROGRAM/APP, in the state
 * of the program where that is the lower one, and its user may ask for it: see OPPCLIENT_BRING_APP_FORWARD.
 * So long as the connection stands; who joins anew tells of them again.
 *
 * app: the program's own number. name: 1 to 64 letters, digits, '.', '_' and '-', at first; NULL: as before.
 * It is refused by APP_REFUSED where the name is not possible or taken, and as a 65th of a program. Returns
 * -EINVAL where the state is none, -EILSEQ, -ENOBUFS where the host does not read, -EPIPE after
 * OPPCLIENT_LEFT.
 */
int oppclient_tell_app(
    oppclient *OPPCLIENT_NONNULL client, int64_t app, const char *OPPCLIENT_NULLABLE name, oppclient_state state);

/* How often a notification fires. */
typedef enum oppclient_repeats {
    OPPCLIENT_ONCE = 0,
    OPPCLIENT_DAILY = 1, /* at the same time of its time zone */
    OPPCLIENT_WEEKLY = 2
} oppclient_repeats;

/* A local notification, UTF-8; what is 0 or NULL is left out. */
typedef struct oppclient_notification {
    const char *OPPCLIENT_NONNULL name; /* the program's own, of 1 to 64 bytes */
    const char *OPPCLIENT_NULLABLE body; /* what the user reads */
    const char *OPPCLIENT_NULLABLE action; /* the title of its button */
    const char *OPPCLIENT_NULLABLE sound; /* the name of a sound */
    int64_t at_ms; /* when, in milliseconds since 1970; one in the past fires at once. 0: by `after_ms` */
    int64_t after_ms; /* how long from when the host has it; the wall clock decides, as it may be set */
    oppclient_repeats repeats;
    const char *OPPCLIENT_NULLABLE time_zone; /* whose changes of time repeats follow; NULL: UTC */
} oppclient_notification;

/*
 * Has the host tell this app something at a time, in whatever state it is then: by OPPCLIENT_MESSAGE, of the
 * kind "notification", with `name`, `body`, `action` and `sound` in its payload. One that is suspended or
 * hibernated goes on for it, and is suspended again after the answer; one that has a manifest and does not
 * run is started in background. One of the same name is replaced. It stays where the program leaves the host
 * or ends, until the app has ended, or for good where it has a manifest; not where the host ends.
 *
 * It has been scheduled, or is refused, when SCHEDULED or SCHEDULE_REFUSED comes, as a 65th of an app.
 * Returns the number of the request, more than 0; -EINVAL where both times are there, one is not possible, or
 * the texts are too long for a line of 4,096 bytes; -EILSEQ, -ENOBUFS where the host does not read, -EPIPE
 * after OPPCLIENT_LEFT.
 */
int64_t oppclient_schedule(
    oppclient *OPPCLIENT_NONNULL client, const oppclient_notification *OPPCLIENT_NONNULL notification);

/*
 * The notification of this name does not fire; NULL: none of the app. Also where there is none. Errors as
 * above.
 */
int oppclient_cancel(oppclient *OPPCLIENT_NONNULL client, const char *OPPCLIENT_NULLABLE name);

/*
 * Asks what is to fire: PENDING comes for each, the next first, then PENDING_END. Returns the number of the
 * request; errors as above.
 */
int64_t oppclient_pending(oppclient *OPPCLIENT_NONNULL client);

/* Leaves the host, which treats the program as one that knows nothing of it from then on. */
void oppclient_close(oppclient *OPPCLIENT_NULLABLE client);

#ifdef __cplusplus
}
#endif

#endif
