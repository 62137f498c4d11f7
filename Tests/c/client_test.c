/* libopportune-client against a host that the test plays. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "check.h"
#include "line.h"
#include "opportune-client.h"

static char folder[] = "/tmp/opportune-client-XXXXXX";
static char path[64];
static int listener = -1;

/* What the handler has heard since it was last looked at. */
static struct {
    int count;
    oppclient_notice last;
    char reason[256];
    int defers;
    const char *saved; /* what it gives as its state; NULL: nothing */
    size_t saved_size;
    int error;         /* of that, or of the reply */
    const char *reply; /* to a message; NULL: none */
    char kind[128];
    char from[8];      /* of a message's payload */
    int from_error;
    char state[64];
    char name[64];     /* of a notification */
} heard;

static void handler(oppclient *client, const oppclient_notice *notice, void *context)
{
    CHECK(context == &heard);
    CHECK(oppclient_dispatch(client) == -EBUSY);
    heard.count++;
    heard.last = *notice;
    if (heard.saved != NULL && notice->event == OPPCLIENT_SAVE_STATE)
        heard.error = oppclient_save_state(client, heard.saved, heard.saved_size);
    if (notice->event == OPPCLIENT_MESSAGE) {
        snprintf(heard.kind, sizeof heard.kind, "%s", notice->kind);
        heard.from_error = oppclient_payload(notice, "from", heard.from, sizeof heard.from);
    }
    snprintf(heard.name, sizeof heard.name, "%s", notice->name != NULL ? notice->name : "");
    if (heard.reply != NULL)
        heard.error = oppclient_reply(client, heard.reply);
    if (notice->event == OPPCLIENT_RESTORE_STATE && notice->state_size < sizeof heard.state)
        memcpy(heard.state, notice->state, notice->state_size);
    snprintf(heard.reason, sizeof heard.reason, "%s", notice->reason != NULL ? notice->reason : "");
    if (heard.defers)
        CHECK(oppclient_defer(client) == (notice->id != 0 ? 0 : -EINVAL));
}

static void tell(int host, const char *text)
{
    CHECK(send(host, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text));
}

/* The next line has to be this. */
static void expect(int host, const char *wanted)
{
    char line[512];
    size_t used = 0;
    do {
        CHECK(used + 1 < sizeof line);
        CHECK(recv(host, line + used, 1, 0) == 1);
    } while (line[used++] != '\n');
    line[used - 1] = 0;
    if (strcmp(line, wanted) != 0) {
        fprintf(stderr, "expected %s, found %s\n", wanted, line);
        exit(1);
    }
}

static int has_something(int host)
{
    struct pollfd polled = {.fd = host, .events = POLLIN};
    return poll(&polled, 1, 0) > 0;
}

/* Whether the next that joins says that it can be started anew. */
static int restarts;

/* Accepts one, and answers its wish to join. */
static void *serve(void *answer)
{
    int host = accept(listener, NULL, NULL);
    CHECK(host >= 0);
    expect(host, restarts ? "{\"request\":\"join\",\"restarts\":true}" : "{\"request\":\"join\"}");
    tell(host, answer);
    return (void *)(long)host;
}

static oppclient *join(const char *answer, int *host, int wanted, char *refusal, size_t size)
{
    pthread_t thread;
    void *result;
    oppclient *client;
    CHECK(pthread_create(&thread, NULL, serve, (void *)answer) == 0);
    int error = (restarts ? oppclient_join_restartable : oppclient_join)(path, 60000, handler, &heard, refusal,
                                                                         size, &client);
    if (error != wanted) {
        fprintf(stderr, "%s: %d, expected %d\n", answer, error, wanted);
        exit(1);
    }
    CHECK((client != NULL) == (wanted == 0));
    CHECK(pthread_join(thread, &result) == 0);
    *host = (int)(long)result;
    return client;
}

static void lines_are_read(void)
{
    struct oppclient_line line;
    const char *text = " {\"ok\":true,\"id\":18446744073709551615,\"task\":-7,\"grace_s\":0.25,"
                       "\"later\":null,"
                       "\"name\":\"a\\n\\u00e4\\ud83d\\ude00\",\"other\":\"x\"} ";
    CHECK(oppclient_line_read(text, strlen(text), &line));
    CHECK(line.ok && line.id == UINT64_MAX && line.task == -7 && line.grace_ns == 250000000);
    CHECK(strcmp(line.name, "a\n\xc3\xa4\xf0\x9f\x98\x80") == 0);
    const char *bad[] = {"", "{", "[]", "null", "{\"a\"}", "{\"a\":}", "{\"a\":1", "{\"a\":1}x",
                         "{\"a\":1,}", "{\"a\":[1]}", "{\"a\":{}}", "{\"a\":\"\\x\"}",
                         "{\"a\":\"\\ud800\"}", "{\"a\":\"\\u00\"}",
                         "{\"a\":\"\\u0000\"}", "{\"a\":\"\xff\"}", "{\"a\":\"\n\"}", "{\"a\":\"\\"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (oppclient_line_read(bad[i], strlen(bad[i]), &line)) {
            fprintf(stderr, "read: %s\n", bad[i]);
            exit(1);
        }
    }
    /* Whatever a line is cut to, in memory of just that size, so that the sanitizer sees what is beyond. */
    for (size_t length = 0; length < strlen(text) - 1; length++) {
        char *part = malloc(length + 1);
        memcpy(part, text, length);
        CHECK(!oppclient_line_read(part, length, &line));
        free(part);
    }
    char out[64];
    CHECK(oppclient_line_quote("a\"\\\n\xc3\xa4", 5, out, sizeof out) == 15);
    CHECK(strcmp(out, "\"a\\\"\\\\\\u000a\xc3\xa4\"") == 0);
    CHECK(oppclient_line_quote("abc", 2, out, sizeof out) == -EINVAL);
    const char *none[] = {"\xff", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
                          "\xf4\x90\x80\x80", "\xe2\x82"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        CHECK(oppclient_line_quote(none[i], 10, out, sizeof out) == -EILSEQ);
}

static void values_are_found(void)
{
    char out[8];
    CHECK(oppclient_line_value(" { \"a\" : \"1\\n\" , \"b\":\"longer than that\" } ", "a", out, sizeof out) == 0);
    CHECK(strcmp(out, "1\n") == 0);
    CHECK(oppclient_line_value("{\"a\":\"1\",\"b\":\"\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\"}", "b", out, sizeof out) == 0);
    CHECK(strcmp(out, "\xc3\xa4\xc3\xa4\xc3\xa4") == 0);
    CHECK(oppclient_line_value("{}", "a", out, sizeof out) == -ENOENT);
    CHECK(oppclient_line_value("{\"b\":\"1\"}", "a", out, sizeof out) == -ENOENT);
    const char *bad[] = {"", "{", "[]", "{\"a\"}", "{\"a\":1}", "{\"a\":\"1\"", "{\"a\":\"1\",}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(oppclient_line_value(bad[i], "a", out, sizeof out) == -EINVAL);
}

static void a_program_is_told(void)
{
    int host;
    oppclient *client = join("{\"name\":\"example\",\"ok\":true}\n"
                             "{\"event\":\"didFinishLaunching\",\"grace_s\":5,\"id\":1}\n{\"event\":\"did",
                             &host, 0, NULL, 0);
    CHECK(strcmp(oppclient_name(client), "example") == 0);
    CHECK(heard.count == 0);
    CHECK(oppclient_dispatch(client) == 1);
    CHECK(heard.last.event == OPPCLIENT_DID_FINISH_LAUNCHING && heard.last.grace_ns == 5000000000u);
    CHECK(heard.last.launch == OPPCLIENT_LAUNCHED_BY_USER);
    expect(host, "{\"answer\":1}");
    CHECK(oppclient_answer(client, 1) == -ENOENT);
    CHECK(oppclient_dispatch(client) == 0);

    heard.defers = 1;
    tell(host, "EnterBackground\",\"grace_s\":5,\"id\":2}\n");
    CHECK(oppclient_dispatch(client) == 1);
    CHECK(heard.last.event == OPPCLIENT_DID_ENTER_BACKGROUND && heard.last.id == 2);
    CHECK(!has_something(host));
    CHECK(oppclient_defer(client) == -EINVAL);
    CHECK(oppclient_answer(client, 3) == -ENOENT);
    CHECK(oppclient_answer(client, 2) == 0);
    expect(host, "{\"answer\":2}");
    heard.defers = 0;

    CHECK(oppclient_begin_task(client, "an \"upload\"") == 1);
    expect(host, "{\"begin\":1,\"name\":\"an \\\"upload\\\"\"}");
    tell(host, "{\"event\":\"taskBegan\",\"task\":1}\n");
    CHECK(oppclient_dispatch(client) == 1);
    CHECK(heard.last.event == OPPCLIENT_TASK_BEGAN && heard.last.task == 1 && heard.last.id == 0);
    CHECK(!has_something(host));
    CHECK(oppclient_begin_task(client, "\xff") == -EILSEQ);
    CHECK(oppclient_end_task(client, 2) == -EINVAL);
    CHECK(oppclient_end_task(client, 1) == 0);
    expect(host, "{\"end\":1}");

    static const struct {
        const char *name;
        oppclient_launch launch;
    } launches[] = {
        {"user", OPPCLIENT_LAUNCHED_BY_USER},
        {"system", OPPCLIENT_LAUNCHED_BY_SYSTEM},
        {"message", OPPCLIENT_LAUNCHED_BY_MESSAGE},
        {"dream", OPPCLIENT_LAUNCHED_BY_SYSTEM},
    };
    for (size_t i = 0; i < sizeof launches / sizeof *launches; i++) {
        char line[128];
        snprintf(line, sizeof line, "{\"event\":\"didFinishLaunching\",\"id\":4,\"launch\":\"%s\"}\n",
                 launches[i].name);
        tell(host, line);
        CHECK(oppclient_dispatch(client) == 1 && heard.last.launch == launches[i].launch);
        expect(host, "{\"answer\":4}");
    }
    tell(host, "{\"event\":\"didResume\",\"id\":4}\n");
    CHECK(oppclient_dispatch(client) == 1 && heard.last.launch == 0);
    expect(host, "{\"answer\":4}");

    /* Of a later host: a question is answered, what is told is left out. */
    tell(host, "{\"event\":\"didDream\",\"id\":3}\n{\"event\":\"itRains\"}\n");
    CHECK(oppclient_dispatch(client) == 1);
    CHECK(heard.last.event == OPPCLIENT_UNKNOWN);
    expect(host, "{\"answer\":3}");

    tell(host, "{\"event\":\"left\",\"reason\":\"the host ends\"}\n");
    close(host);
    heard.count = 0;
    CHECK(oppclient_dispatch(client) == -EPIPE);
    CHECK(oppclient_dispatch(client) == -EPIPE);
    CHECK(heard.count == 1 && heard.last.event == OPPCLIENT_LEFT);
    CHECK(strcmp(heard.reason, "the host ends") == 0);
    CHECK(oppclient_begin_task(client, "x") == -EPIPE);
    CHECK(oppclient_answer(client, 3) == -EPIPE);
    oppclient_close(client);
}

/* Takes a line and the descriptors that come with it. */
static size_t take_passed(int host, char *text, size_t size, int passed[16])
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * 16)];
        struct cmsghdr header;
    } control;
    struct iovec piece = {.iov_base = text, .iov_len = size - 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t count = recvmsg(host, &message, 0);
    CHECK(count > 0 && !(message.msg_flags & MSG_CTRUNC));
    text[count] = 0;
    struct cmsghdr *found = CMSG_FIRSTHDR(&message);
    if (found == NULL)
        return 0;
    CHECK(found->cmsg_type == SCM_RIGHTS);
    size_t length = (found->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(passed, CMSG_DATA(found), length * sizeof(int));
    return length;
}

/* R-VOIP-01 */
static void sockets_are_handed_over(void)
{
    int host, passed[16], ends[2];
    char text[512];
    oppclient *client = join("{\"name\":\"example\",\"ok\":true}\n", &host, 0, NULL, 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    CHECK(oppclient_keep_alive(client, -1) == -EBADF);
    CHECK(oppclient_let_go(client, 1) == -EINVAL);
    CHECK(oppclient_keep_alive(client, ends[0]) == 1);
    CHECK(take_passed(host, text, sizeof text, passed) == 1);
    CHECK(strcmp(text, "{\"keepAlive\":1}\n") == 0);
    CHECK(write(ends[1], "x", 1) == 1 && has_something(passed[0]));
    close(passed[0]);
    tell(host, "{\"event\":\"keepAliveBegan\",\"socket\":1}\n"
               "{\"event\":\"keepAliveRefused\",\"reason\":\"too many\",\"socket\":2}\n"
               "{\"bytes\":5,\"event\":\"didReceiveData\",\"grace_s\":5,\"id\":1,\"socket\":1}\n");
    heard.count = 0;
    CHECK(oppclient_dispatch(client) == 3 && heard.count == 3);
    CHECK(heard.last.event == OPPCLIENT_DATA_ARRIVED && heard.last.socket == 1 && heard.last.bytes == 5);
    expect(host, "{\"answer\":1}");
    CHECK(oppclient_let_go(client, 1) == 0);
    expect(host, "{\"letGo\":1}");

    /* Those of a host that does not read follow with their lines, or before; the program closes its own. */
    int64_t kept = 0, last = 1;
    while (oppclient_begin_task(client, "x") > 0 && !(oppclient_events(client) & POLLOUT)) {}
    CHECK(oppclient_events(client) & POLLOUT);
    while ((kept = oppclient_keep_alive(client, ends[0])) > 0) last = kept;
    CHECK(kept == -ENOBUFS && last == 17);
    close(ends[0]);
    size_t came = 0, lines = 0;
    do {
        oppclient_dispatch(client);
        if (!has_something(host))
            continue;
        size_t count = take_passed(host, text, sizeof text, passed);
        came += count;
        for (size_t i = 0; i < count; i++)
            close(passed[i]);
        for (char *at = text; (at = strstr(at, "\"keepAlive")) != NULL; at++)
            lines++;
        CHECK(lines <= came);
    } while ((oppclient_events(client) & POLLOUT) || has_something(host));
    CHECK(came == 16);
    /* All duplicates are closed. */
    CHECK(write(ends[1], "x", 1) == -1 && errno == EPIPE);
    close(ends[1]);
    oppclient_close(client);
    close(host);
}

/* R-VOIP-02 R-VOIP-05 */
static void heartbeats_are_set_and_asked_for(void)
{
    int host;
    oppclient *client = join("{\"name\":\"example\",\"ok\":true}\n", &host, 0, NULL, 0);
    CHECK(oppclient_heartbeat(client, -1) == -EINVAL);
    CHECK(oppclient_heartbeat(client, 600000) == 1);
    expect(host, "{\"heartbeat\":1,\"after_ms\":600000}");
    CHECK(oppclient_heartbeat(client, 0) == 2);
    expect(host, "{\"heartbeat\":2}");
    tell(host, "{\"event\":\"heartbeatRefused\",\"number\":2,\"reason\":\"too often\"}\n");
    heard.count = 0;
    CHECK(oppclient_dispatch(client) == 1 && heard.last.event == OPPCLIENT_HEARTBEAT_REFUSED);
    CHECK(heard.last.request == 2);
    tell(host, "{\"event\":\"heartbeatSet\",\"number\":1}\n{\"event\":\"heartbeat\",\"grace_s\":5,\"id\":1}\n");
    CHECK(oppclient_dispatch(client) == 2 && heard.count == 3);
    CHECK(heard.last.event == OPPCLIENT_HEARTBEAT && heard.last.id == 1);
    expect(host, "{\"answer\":1}");
    oppclient_close(client);
    close(host);
}

/* R-LIFE-04 */
static void apps_inside_are_told_and_asked_for(void)
{
    int host;
    oppclient *client = join("{\"name\":\"example\",\"ok\":true}\n", &host, 0, NULL, 0);
    CHECK(oppclient_tell_app(client, 7, "mail", (oppclient_state)0) == -EINVAL);
    CHECK(oppclient_tell_app(client, 7, "mail", (oppclient_state)6) == -EINVAL);
    CHECK(oppclient_tell_app(client, 7, "\xff", OPPCLIENT_SUSPENDED) == -EILSEQ);
    CHECK(oppclient_tell_app(client, 7, "mail", OPPCLIENT_FOREGROUND) == 0);
    expect(host, "{\"app\":7,\"name\":\"mail\",\"state\":\"foreground\"}");
    CHECK(oppclient_tell_app(client, 7, NULL, OPPCLIENT_TERMINATED) == 0);
    expect(host, "{\"app\":7,\"state\":\"terminated\"}");
    tell(host, "{\"event\":\"appRefused\",\"number\":7,\"reason\":\"taken\"}\n");
    heard.count = 0;
    CHECK(oppclient_dispatch(client) == 1 && heard.last.event == OPPCLIENT_APP_REFUSED);
    CHECK(heard.last.app == 7 && heard.last.request == 0);
    static const struct {
        const char *name;
        oppclient_event event;
    } wishes[] = {
        {"bringAppForward", OPPCLIENT_BRING_APP_FORWARD},
        {"suspendApp", OPPCLIENT_SUSPEND_APP},
        {"terminateApp", OPPCLIENT_TERMINATE_APP},
    };
    for (int i = 0; i < 3; i++) {
        char line[128];
        snprintf(line, sizeof line, "{\"event\":\"%s\",\"grace_s\":5,\"id\":%d,\"number\":7}\n",
                 wishes[i].name, i + 1);
        tell(host, line);
        CHECK(oppclient_dispatch(client) == 1 && heard.last.event == wishes[i].event && heard.last.app == 7);
        snprintf(line, sizeof line, "{\"answer\":%d}", i + 1);
        expect(host, line);
    }
    oppclient_close(client);
    close(host);
}

/* R-MSG-01 */
static void messages_are_told_and_replied_to(void)
{
    int host;
    char much[4000];
    char value[8];
    oppclient *client = join("{\"name\":\"example\",\"ok\":true}\n", &host, 0, NULL, 0);
    CHECK(oppclient_reply(client, "x") == -ENOENT);
    tell(host, "{\"event\":\"didReceiveMessage\",\"grace_s\":5,\"id\":1,\"kind\":\"letter\","
               "\"payload\":\"{\\\"from\\\":\\\"ada\\\",\\\"to\\\":\\\"you\\\"}\"}\n");
    heard.reply = "a \"word\"";
    CHECK(oppclient_dispatch(client) == 1 && heard.last.event == OPPCLIENT_MESSAGE && heard.error == 0);
    CHECK(strcmp(heard.kind, "letter") == 0 && heard.from_error == 0 && strcmp(heard.from, "ada") == 0);
    expect(host, "{\"answer\":1,\"reply\":\"a \\\"word\\\"\"}");
    CHECK(oppclient_payload(&(oppclient_notice){.event = OPPCLIENT_LEFT}, "x", value, sizeof value) == -EINVAL);

    /* Of the next question nothing is left; what is no message has no reply. */
    tell(host, "{\"event\":\"didResume\",\"grace_s\":5,\"id\":2}\n");
    CHECK(oppclient_dispatch(client) == 1 && heard.error == -ENOENT);
    expect(host, "{\"answer\":2}");

    memset(much, 'x', sizeof much - 1);
    much[sizeof much - 1] = 0;
    const char *refused[] = {much, "\xff"};
    for (int i = 0; i < 2; i++) {
        heard.reply = refused[i];
        tell(host, "{\"event\":\"didReceiveMessage\",\"grace_s\":5,\"id\":3,\"kind\":\"k\",\"payload\":\"{}\"}\n");
        CHECK(oppclient_dispatch(client) == 1 && heard.error == (i == 0 ? -EINVAL : -EILSEQ));
        CHECK(heard.from_error == -ENOENT);
        expect(host, "{\"answer\":3}");
    }
    heard.reply = NULL;
    oppclient_close(client);
    close(host);
}

/* R-MSG-02, R-MSG-09, R-MSG-10 */
static void notifications_are_scheduled(void)
{
    int host;
    char much[4096];
    char said[8192];
    oppclient *client = join("{\"name\":\"example\",\"ok\":true}\n", &host, 0, NULL, 0);
    CHECK(oppclient_schedule(client, &(oppclient_notification){.name = "tea", .after_ms = 1500}) == 1);
    expect(host, "{\"schedule\":1,\"after_ms\":1500,\"name\":\"tea\"}");
    CHECK(oppclient_schedule(client, &(oppclient_notification){
                                         .name = "\"tea\"", .body = "ready", .action = "Pour", .sound = "bell",
                                         .at_ms = 1796000000123, .repeats = OPPCLIENT_WEEKLY,
                                         .time_zone = "Europe/Berlin"}) == 2);
    expect(host, "{\"schedule\":2,\"at_ms\":1796000000123,\"name\":\"\\\"tea\\\"\",\"body\":\"ready\","
                 "\"action\":\"Pour\",\"sound\":\"bell\",\"repeats\":\"weekly\",\"time_zone\":\"Europe/Berlin\"}");
    CHECK(oppclient_pending(client) == 3);
    expect(host, "{\"pending\":3}");
    CHECK(oppclient_cancel(client, "tea") == 0 && oppclient_cancel(client, NULL) == 0);
    expect(host, "{\"cancel\":\"tea\"}");
    expect(host, "{\"cancelAll\":true}");

    tell(host, "{\"at_ms\":1796000000123,\"event\":\"scheduled\",\"number\":2}\n");
    CHECK(oppclient_dispatch(client) == 1 && heard.last.event == OPPCLIENT_SCHEDULED);
    CHECK(heard.last.request == 2 && heard.last.at_ms == 1796000000123 && heard.last.id == 0);
    tell(host, "{\"event\":\"scheduleRefused\",\"number\":1,\"reason\":\"too many\"}\n");
    CHECK(oppclient_dispatch(client) == 1 && heard.last.event == OPPCLIENT_SCHEDULE_REFUSED);
    CHECK(heard.last.request == 1 && strcmp(heard.reason, "too many") == 0);
    tell(host, "{\"at_ms\":-5,\"event\":\"pending\",\"name\":\"tea\",\"number\":3}\n");
    CHECK(oppclient_dispatch(client) == 1 && heard.last.event == OPPCLIENT_PENDING);
    CHECK(heard.last.request == 3 && heard.last.at_ms == -5 && strcmp(heard.name, "tea") == 0);
    tell(host, "{\"event\":\"pendingEnd\",\"number\":3}\n");
    CHECK(oppclient_dispatch(client) == 1 && heard.last.event == OPPCLIENT_PENDING_END);
    CHECK(heard.last.request == 3 && heard.name[0] == 0);
    CHECK(!has_something(host));

    tell(host, "{\"event\":\"didReceiveMessage\",\"id\":1,\"kind\":\"notification\",\"origin\":\"local\","
               "\"payload\":\"{}\"}\n");
    CHECK(oppclient_dispatch(client) == 1 && heard.last.is_local == 1);
    expect(host, "{\"answer\":1}");
    tell(host, "{\"event\":\"didReceiveMessage\",\"id\":2,\"kind\":\"letter\",\"payload\":\"{}\"}\n");
    CHECK(oppclient_dispatch(client) == 1 && heard.last.is_local == 0);
    expect(host, "{\"answer\":2}");

    memset(much, 'x', sizeof much - 1);
    much[sizeof much - 1] = 0;
    for (size_t length = sizeof much - 120; length < sizeof much - 1; length++) {
        much[length] = 0;
        CHECK(oppclient_cancel(client, much) == 0 || oppclient_cancel(client, much) == -EINVAL);
        much[length] = 'x';
        while (has_something(host))
            CHECK(recv(host, said, sizeof said, 0) > 0);
    }
    oppclient_notification bad[] = {
        {.name = "a", .at_ms = 1, .after_ms = 1}, {.name = "a", .after_ms = -1}, {.name = "a", .body = much},
        {.name = "a", .repeats = (oppclient_repeats)3},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(oppclient_schedule(client, &bad[i]) == -EINVAL);
    CHECK(oppclient_schedule(client, &(oppclient_notification){.name = "\xff"}) == -EILSEQ);
    CHECK(oppclient_cancel(client, much) == -EINVAL && oppclient_cancel(client, "\xff") == -EILSEQ);
    CHECK(!has_something(host) && oppclient_pending(client) == 4);
    oppclient_close(client);
    close(host);
}

/* Sends a question about a file of the folder. */
static void ask_about(int host, const char *event, int id, const char *file)
{
    char line[256];
    snprintf(line, sizeof line, "{\"event\":\"%s\",\"file\":\"%s/%s\",\"grace_s\":5,\"id\":%d}\n", event, folder,
             file, id);
    tell(host, line);
}

static void a_state_is_saved_and_taken(void)
{
    int host;
    char file[64];
    char *much = calloc(1, OPPCLIENT_MOST_STATE + 1);
    snprintf(file, sizeof file, "%s/state", folder);
    restarts = 1;
    oppclient *client = join("{\"name\":\"example\",\"ok\":true}\n", &host, 0, NULL, 0);
    CHECK(oppclient_save_state(client, "x", 1) == -EINVAL);
    heard.saved = "where\0it was";
    heard.saved_size = 12;
    ask_about(host, "saveState", 1, "state");
    CHECK(oppclient_dispatch(client) == 1 && heard.last.event == OPPCLIENT_SAVE_STATE && heard.error == 0);
    expect(host, "{\"answer\":1}");
    CHECK(oppclient_save_state(client, "x", 1) == -EINVAL);

    ask_about(host, "restoreState", 2, "state");
    CHECK(oppclient_dispatch(client) == 1 && heard.last.event == OPPCLIENT_RESTORE_STATE);
    CHECK(heard.last.state_size == 12 && memcmp(heard.state, "where\0it was", 12) == 0);
    expect(host, "{\"answer\":2}");

    /* What is refused leaves the file that is there; half a state is none. */
    heard.saved = much;
    heard.saved_size = OPPCLIENT_MOST_STATE + 1;
    ask_about(host, "saveState", 3, "state");
    CHECK(oppclient_dispatch(client) == 1 && heard.error == -EFBIG);
    expect(host, "{\"answer\":3}");
    ask_about(host, "saveState", 4, "no/state");
    heard.saved_size = OPPCLIENT_MOST_STATE;
    CHECK(oppclient_dispatch(client) == 1 && heard.error == -ENOENT);
    expect(host, "{\"answer\":4}");
    CHECK(access(file, F_OK) == 0);

    /* Deferred, and given later. */
    heard.saved = NULL;
    heard.defers = 1;
    ask_about(host, "saveState", 5, "state");
    CHECK(oppclient_dispatch(client) == 1 && !has_something(host));
    CHECK(oppclient_save_state(client, NULL, 1) == -EINVAL);
    CHECK(oppclient_save_state(client, NULL, 0) == 0);
    CHECK(oppclient_answer(client, 5) == 0);
    expect(host, "{\"answer\":5}");
    heard.defers = 0;
    ask_about(host, "restoreState", 6, "state");
    CHECK(oppclient_dispatch(client) == 1 && heard.last.state != NULL && heard.last.state_size == 0);
    expect(host, "{\"answer\":6}");

    /* One that cannot be read is not answered for. */
    CHECK(unlink(file) == 0);
    ask_about(host, "restoreState", 7, "state");
    CHECK(oppclient_dispatch(client) == -EPIPE && heard.last.event == OPPCLIENT_LEFT);
    CHECK(!has_something(host));
    CHECK(oppclient_save_state(client, "x", 1) == -EPIPE);
    oppclient_close(client);
    close(host);
    free(much);
    restarts = 0;
}

/* Whatever the host says or does, the program hears of an end. */
static void a_host_that_is_none_is_left(void)
{
    char *much = malloc(10001);
    memset(much, 'x', 10000);
    much[10000] = 0;
    const char *said[] = {"", "nonsense\n", "{}\n", "{\"event\":7}\n", "{\"event\":\"willSuspend\"", much};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        int host;
        oppclient *client = join("{\"ok\":true}\n", &host, 0, NULL, 0);
        tell(host, said[i]);
        close(host);
        heard.count = 0;
        CHECK(oppclient_dispatch(client) == -EPIPE);
        CHECK(heard.count == 1 && heard.last.event == OPPCLIENT_LEFT && heard.reason[0] != 0);
        oppclient_close(client);
    }
    free(much);
}

static void joining_fails_with_a_reason(void)
{
    int host;
    char refusal[16];
    CHECK(join("{\"error\":\"it belongs to no app of this host\",\"ok\":false}\n", &host, -EPERM, refusal,
               sizeof refusal) == NULL);
    CHECK(strcmp(refusal, "it belongs to n") == 0);
    close(host);
    CHECK(join("220 mail.example.org\n", &host, -EPROTO, NULL, 0) == NULL);
    close(host);

    oppclient *client;
    /* Nobody accepts. */
    CHECK(oppclient_join(path, 20, handler, &heard, NULL, 0, &client) == -ETIMEDOUT && client == NULL);
    CHECK(oppclient_join("/nowhere/at/all", 20, handler, &heard, NULL, 0, &client) == -ENOENT);
    char longer[200];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = 0;
    CHECK(oppclient_join(longer, 20, handler, &heard, NULL, 0, &client) == -ENAMETOOLONG);

    char standard[108];
    setenv("OPPORTUNE_SOCKET", path, 1);
    CHECK(oppclient_standard_path(standard, sizeof standard) == 0 && strcmp(standard, path) == 0);
    CHECK(oppclient_standard_path(standard, 4) == -ENAMETOOLONG);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    lines_are_read();
    values_are_found();
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/s", folder);
    strcpy(place.sun_path, path);
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(listener >= 0);
    CHECK(bind(listener, (struct sockaddr *)&place, sizeof place) == 0);
    CHECK(listen(listener, 4) == 0);
    a_program_is_told();
    a_state_is_saved_and_taken();
    sockets_are_handed_over();
    heartbeats_are_set_and_asked_for();
    apps_inside_are_told_and_asked_for();
    messages_are_told_and_replied_to();
    notifications_are_scheduled();
    a_host_that_is_none_is_left();
    joining_fails_with_a_reason();
    close(listener);
    unlink(path);
    rmdir(folder);
    return 0;
}
