/*
 * A program that cooperates with the host of programs: it counts, saves its count before it is stopped or
 * ended, and asks for time to finish what it has begun. As it can be started anew with its count, it is
 * hibernated also where there is no swap.
 *
 *     cc cooperate.c $(pkg-config --cflags --libs opportune-client) -o cooperate
 *     opportune host &
 *     opportune run --foreground -- ./cooperate count.txt
 *     opportune suspend cooperate     # from another terminal
 */
#include <errno.h>
#include <opportune-client.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

static long count;
static const char *file;
static int is_over;

static void save(void)
{
    FILE *out = fopen(file, "w");
    if (out == NULL) {
        fprintf(stderr, "%s: %s\n", file, strerror(errno));
        return;
    }
    fprintf(out, "%ld\n", count);
    fclose(out);
}

/* Called by oppclient_dispatch. When it returns, the host goes on. */
static void hear(oppclient *client, const oppclient_notice *notice, void *context)
{
    (void)context;
    switch (notice->event) {
    case OPPCLIENT_DID_ENTER_BACKGROUND:
        puts("in background");
        save();
        break;
    case OPPCLIENT_WILL_SUSPEND: puts("stops"); break;
    case OPPCLIENT_DID_RESUME: puts("goes on"); break;
    case OPPCLIENT_DID_BECOME_ACTIVE: puts("in front"); break;
    case OPPCLIENT_WILL_TERMINATE:
        puts("ends");
        save();
        break;
    case OPPCLIENT_MESSAGE: {
        char from[64];
        int known = oppclient_payload(notice, "from", from, sizeof from) == 0;
        printf("a message '%s' of %s\n", notice->kind, known ? from : "nobody");
        oppclient_reply(client, "read");
        break;
    }
    case OPPCLIENT_SAVE_STATE: oppclient_save_state(client, &count, sizeof count); break;
    case OPPCLIENT_RESTORE_STATE:
        if (notice->state_size == sizeof count)
            memcpy(&count, notice->state, sizeof count);
        printf("was at %ld\n", count);
        break;
    case OPPCLIENT_TASK_EXPIRES: puts("no more time"); break;
    case OPPCLIENT_LEFT:
        printf("alone: %s\n", notice->reason);
        is_over = 1;
        break;
    default: break;
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    char refusal[256];
    oppclient *client;
    file = argc > 1 ? argv[1] : "count.txt";
    int error = oppclient_join_restartable(NULL, 5000, hear, NULL, refusal, sizeof refusal, &client);
    if (error != 0) {
        fprintf(stderr, "it works alone: %s\n", refusal[0] != 0 ? refusal : strerror(-error));
        return 1;
    }
    /* Not stopped before this is finished, or the host's limit is over. */
    int64_t task = oppclient_begin_task(client, "the first ten");
    while (!is_over) {
        struct pollfd polled = {.fd = oppclient_descriptor(client), .events = oppclient_events(client)};
        if (poll(&polled, 1, 100) > 0 && oppclient_dispatch(client) < 0)
            break;
        if (++count == 10 && task > 0)
            oppclient_end_task(client, task);
    }
    oppclient_close(client);
    return 0;
}
