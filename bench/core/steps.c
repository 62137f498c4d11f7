/*
 * Suspending, resuming and moving an app with jobs queued. The rival is what a plain scheduler does: one list
 * of jobs for each level, behind a mutex, from which a step takes out the app's jobs.
 */
#include "steps.h"
#include "check.h"
#include "sample.h"
#include "setup.h"

#include <pthread.h>

const char *const step_name[STEPS] = {
    "suspend",       "first of another, after suspend", "resume",        "first of another, after resume",
    "to background", "first of another, after that",    "to foreground", "first of another, after that",
    "suspend + resume, average", "both changes of band, average",
};

enum { ALL_ROUNDS = REPEATS_MAX, PAIRS = 100 };

static double clock_cost(void) {
    double costs[ALL_ROUNDS];
    for (int i = 0; i < ALL_ROUNDS; i++) {
        uint64_t start = now_ns();
        costs[i] = (double)(now_ns() - start);
    }
    return median(costs, ALL_ROUNDS);
}

typedef struct samples {
    double ns[STEPS][ALL_ROUNDS];
} samples;

static void samples_close(samples *samples, unsigned rounds, double *ns) {
    double clock = clock_cost();
    for (int i = 0; i < STEPS; i++) {
        bool is_average = i == STEP_SUSPEND_RESUME || i == STEP_LOWER_RAISE;
        ns[i] = median(samples->ns[i], rounds) - (is_average ? 0 : clock);
        if (ns[i] < 0) ns[i] = 0;
    }
}

#define TIMED(sample, call)                                                                              \
    do {                                                                                                 \
        uint64_t timed_start = now_ns();                                                                 \
        call;                                                                                            \
        (sample) = (double)(now_ns() - timed_start);                                                     \
    } while (0)

/* --- The run queue ----------------------------------------------------------------------------- */

typedef struct run_queue {
    opp_core *core;
    opp_producer *producer;
    opp_consumer *consumer;
    opp_app *app, *other;
    samples samples;
    unsigned round;
} run_queue;

static double first_of_other(run_queue *queue, uint8_t rank) {
    opp_taken taken;
    double time;
    bool found;
    CHECK(opp_push(queue->producer, queue->other, rank, (opp_job){queue, 0}) >= 0);
    TIMED(time, found = opp_take(queue->consumer, ~(uint64_t)0, &taken));
    CHECK(found && taken.app == queue->other);
    opp_consumer_leave_app(queue->consumer);
    return time;
}

static void run_queue_step(run_queue *queue, step step, bool (*change)(opp_app *)) {
    /* Where the app may run itself at its level, the other's job stands above it, to be first. */
    uint8_t rank = step == STEP_SUSPEND || step == STEP_LOWER ? SETUP_RANK : SETUP_RANK_ABOVE;
    bool changed;
    TIMED(queue->samples.ns[step][queue->round], changed = change(queue->app));
    CHECK(changed);
    queue->samples.ns[step + 1][queue->round] = first_of_other(queue, rank);
}

static bool lower(opp_app *app) {
    return opp_app_set_band(app, SETUP_BACKGROUND);
}

static bool raise_app(opp_app *app) {
    return opp_app_set_band(app, SETUP_FOREGROUND);
}

void steps_of_run_queue(uint64_t queued, unsigned rounds, double *ns) {
    run_queue *queue = CHECKED(calloc(1, sizeof(run_queue)));
    CHECK(rounds <= ALL_ROUNDS);
    queue->core = CHECKED(setup_core());
    queue->producer = CHECKED(opp_producer_acquire(queue->core, 0));
    queue->consumer = CHECKED(opp_consumer_create(queue->core, queue->producer, NULL));
    queue->app = CHECKED(opp_app_create(queue->core, SETUP_FOREGROUND, false));
    queue->other = CHECKED(opp_app_create(queue->core, SETUP_FOREGROUND, false));
    for (uint64_t i = 0; i < queued; i++)
        CHECK(opp_push(queue->producer, queue->app, SETUP_RANK, (opp_job){queue, 0}) >= 0);
    for (queue->round = 0; queue->round < rounds; queue->round++) {
        run_queue_step(queue, STEP_SUSPEND, opp_app_suspend);
        run_queue_step(queue, STEP_RESUME, opp_app_resume);
        run_queue_step(queue, STEP_LOWER, lower);
        run_queue_step(queue, STEP_RAISE, raise_app);
        double *suspend_resume = &queue->samples.ns[STEP_SUSPEND_RESUME][queue->round];
        double *lower_raise = &queue->samples.ns[STEP_LOWER_RAISE][queue->round];
        TIMED(*suspend_resume,
              for (int i = 0; i < PAIRS; i++)
              CHECK(opp_app_suspend(queue->app) && opp_app_resume(queue->app)));
        TIMED(*lower_raise, for (int i = 0; i < PAIRS; i++) CHECK(lower(queue->app) &&
                                                                  raise_app(queue->app)));
        *suspend_resume /= PAIRS;
        *lower_raise /= PAIRS;
    }
    CHECK(opp_app_queued(queue->app) == queued);
    samples_close(&queue->samples, rounds, ns);
    opp_consumer_destroy(queue->consumer);
    opp_core_destroy(queue->core, NULL, NULL);
    free(queue);
}

/* --- Lists under a mutex ----------------------------------------------------------------------- */

enum { LIST_HIGH, LIST_MIDDLE, LIST_LOW, LIST_SUSPENDED, LISTS };

typedef struct node {
    struct node *next;
    unsigned app;
} node;

typedef struct list {
    node *first, **end;
} list;

typedef struct lists {
    pthread_mutex_t mutex;
    list list[LISTS];
    node other;
    samples samples;
    unsigned round;
} lists;

static void list_clear(list *list) {
    list->first = NULL;
    list->end = &list->first;
}

static void list_append(list *list, node *node) {
    node->next = NULL;
    *list->end = node;
    list->end = &node->next;
}

static void lists_move(lists *lists, unsigned app, int from, int to) {
    pthread_mutex_lock(&lists->mutex);
    node *node = lists->list[from].first;
    list_clear(&lists->list[from]);
    while (node != NULL) {
        struct node *next = node->next;
        list_append(&lists->list[node->app == app ? to : from], node);
        node = next;
    }
    pthread_mutex_unlock(&lists->mutex);
}

static node *lists_take(lists *lists) {
    node *node = NULL;
    pthread_mutex_lock(&lists->mutex);
    for (int i = LIST_HIGH; i <= LIST_LOW && node == NULL; i++) {
        list *list = &lists->list[i];
        node = list->first;
        if (node == NULL) continue;
        list->first = node->next;
        if (list->first == NULL) list->end = &list->first;
    }
    pthread_mutex_unlock(&lists->mutex);
    return node;
}

static void lists_step(lists *lists, step step, int from, int to) {
    node *taken;
    int place = step == STEP_SUSPEND || step == STEP_LOWER ? LIST_MIDDLE : LIST_HIGH;
    TIMED(lists->samples.ns[step][lists->round], lists_move(lists, 1, from, to));
    list_append(&lists->list[place], &lists->other);
    TIMED(lists->samples.ns[step + 1][lists->round], taken = lists_take(lists));
    CHECK(taken == &lists->other);
}

void steps_of_lists(uint64_t queued, unsigned rounds, double *ns) {
    lists *lists = CHECKED(calloc(1, sizeof(struct lists)));
    node *nodes = CHECKED(calloc(queued, sizeof(node)));
    CHECK(rounds <= ALL_ROUNDS && pthread_mutex_init(&lists->mutex, NULL) == 0);
    for (int i = 0; i < LISTS; i++) list_clear(&lists->list[i]);
    for (uint64_t i = 0; i < queued; i++) {
        nodes[i].app = 1;
        list_append(&lists->list[LIST_MIDDLE], &nodes[i]);
    }
    for (lists->round = 0; lists->round < rounds; lists->round++) {
        lists_step(lists, STEP_SUSPEND, LIST_MIDDLE, LIST_SUSPENDED);
        lists_step(lists, STEP_RESUME, LIST_SUSPENDED, LIST_MIDDLE);
        lists_step(lists, STEP_LOWER, LIST_MIDDLE, LIST_LOW);
        lists_step(lists, STEP_RAISE, LIST_LOW, LIST_MIDDLE);
        unsigned round = lists->round;
        TIMED(lists->samples.ns[STEP_SUSPEND_RESUME][round], {
            lists_move(lists, 1, LIST_MIDDLE, LIST_SUSPENDED);
            lists_move(lists, 1, LIST_SUSPENDED, LIST_MIDDLE);
        });
        TIMED(lists->samples.ns[STEP_LOWER_RAISE][round], {
            lists_move(lists, 1, LIST_MIDDLE, LIST_LOW);
            lists_move(lists, 1, LIST_LOW, LIST_MIDDLE);
        });
    }
    samples_close(&lists->samples, rounds, ns);
    pthread_mutex_destroy(&lists->mutex);
    free(nodes);
    free(lists);
}
