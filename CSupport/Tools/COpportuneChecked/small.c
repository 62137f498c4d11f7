/* The small structures: inbox, alarms, table. */
#include "checked.h"
#include "history.h"

CHECKED_CORE_BEGIN
#include "../../COpportune/alarms.c"
#include "../../COpportune/inbox.c"
CHECKED_CORE_END

/* --- Inbox ------------------------------------------------------------------------------------ */

/*
 * Promised: each message is fetched once, those of one thread in order, all that were pushed before the
 * fetch; who pushed one that came too late for a fetch knows what the reader did before that.
 */
static _Thread_local opp_inbox *inbox;
static _Thread_local uint32_t fetched[HISTORY_ITEMS], fetched_count, left_count;

static const oppx_kind inbox_kinds[] = {
    {.name = "push", .weight = 3}, {.name = "fetch", .weight = 2, .threads = 2},
        {.name = "meet", .weight = 1}};
enum { INBOX_PUSH, INBOX_FETCH, INBOX_MEET };

static void inbox_setup(const oppx_program *program) {
    (void)program;
    history_begin();
    left_count = 0;
    inbox = opp_inbox_create();
}


static void inbox_each(void *message, void *context) {
    (void)context;
    uint32_t number = *(volatile uint32_t *)message;
    if (fetched_count == HISTORY_ITEMS) oppx_fail("more is fetched than was pushed");
    fetched[fetched_count++] = number;
}

static uint32_t inbox_push(void) {
    uint32_t item = history_push_begins(oppx_thread(), 0);
    history_push_ends(item, opp_inbox_push(inbox, history_payload(item)) == 0);
    return item;
}

static void inbox_fetch(void) {
    uint32_t taking = history_take_begins(1);
    fetched_count = 0;
    opp_inbox_fetch(inbox, inbox_each, NULL);
    uint32_t last[OPPX_THREADS] = {0};
    for (uint32_t i = 0; i < fetched_count; i++) {
        item *item = &checked_history.items[fetched[i]];
        if (last[item->push.thread] > fetched[i] + 1) oppx_fail("messages of one thread come out of order");
        last[item->push.thread] = fetched[i] + 1;
        for (uint32_t before = 0; before < taking; before++)
            if (!oppx_precedes(&checked_history.takings[before].event.begin, &item->push.end))
                oppx_fail("message %u came too late for a fetch, and who pushed it does not know of that",
                          fetched[i]);
        history_take_ends(taking, true, item->payload, fetched[i]);
    }
    if (fetched_count == 0) history_take_ends(taking, false, NULL, 0);
    checked_history.takings[taking].item = -1; /* it leaves nothing behind, whatever it found */
}

static void inbox_perform(uint32_t thread, const oppx_operation *operation) {
    (void)thread;
    if (operation->kind == INBOX_PUSH) inbox_push();
    else if (operation->kind == INBOX_FETCH) inbox_fetch();
    else history_meet();
}

static void inbox_finish(void) {
    fetched_count = left_count; /* quiet() has fetched them */
    if (left_count == 0) opp_inbox_fetch(inbox, inbox_each, NULL);
    for (uint32_t i = 0; i < fetched_count; i++)
        history_drained(checked_history.items[fetched[i]].payload, fetched[i]);
    uint32_t stopped = 0; /* a stopped reader holds what it fetched */
    for (uint32_t i = 0; i < checked_history.taking_count; i++)
        stopped += !checked_history.takings[i].event.over;
    if (stopped == 0) history_check_conservation();
    history_check_order();
    history_check_levels(NULL);
    history_check_linear(0, false);
}

const oppx_target checked_inbox = {
    .name = "inbox",
    .summary = "Messages to one reader: each once, one thread's in order, all that were pushed before; the "
               "late know it.",
    .kinds = inbox_kinds, .kind_count = 3, .threads_max = 4, .operations_max = 8, .stalls = 1, .refusals = 1,
    .setup = inbox_setup, .perform = inbox_perform, .finish = inbox_finish,
};

/* --- Alarms and inbox together, as a monitor uses them ------------------------------------------- */

/*
 * Promised: whoever finds an alarm armed may rely on it: what it did before is seen after the wait that the
 * alarm ends; so is what was done before the notifier was notified.
 * Who has left need not be seen; nor who is inside, as long as another is stopped while it leaves.
 * The waiter fetches its inbox after each wait, so no message is left while it waits.
 */
static _Thread_local struct {
    opp_alarms *alarms;
    bool armed[HISTORY_ITEMS]; /* the item's post is over */
    _Atomic(uint32_t) *marks;  /* by thread: what it did that the waiter looks at, without an inbox */
    uint32_t marked[OPPX_THREADS], seen[OPPX_THREADS];
    bool inside[OPPX_THREADS]; /* the thread's mark is seen while it is inside, or not at all */
} watch;

static const oppx_kind alarm_kinds[] = {
    {.name = "post", .weight = 4, .threads = 0xFC},
    {.name = "wait", .weight = 1, .threads = 2},
    {.name = "notify", .weight = 2, .threads = 0xFC},
    {.name = "mark", .weight = 2, .threads = 0xFC},
    {.name = "enter", .weight = 2, .threads = 0xFC}, /* and mark, by another alarm, unless it is inside */
    {.name = "leave", .weight = 2, .threads = 0xFC},
};
enum { ALARMS_POST, ALARMS_WAIT, ALARMS_NOTIFY, ALARMS_MARK, ALARMS_ENTER, ALARMS_LEAVE };

static void alarms_setup(const oppx_program *program) {
    inbox_setup(program);
    watch.alarms = opp_alarms_create();
    memset(watch.armed, 0, sizeof(watch.armed));
    memset(watch.marked, 0, sizeof(watch.marked));
    memset(watch.seen, 0, sizeof(watch.seen));
    memset(watch.inside, 0, sizeof(watch.inside));
    watch.marks = oppx_allocate(OPPX_THREADS * sizeof(*watch.marks), 16);
}

static void alarms_pass(uint32_t thread, bool enters) {
    if (watch.inside[thread] == enters) return;
    if (enters) {
        opp_alarms_enter(watch.alarms, 2);
        opp_store(&watch.marks[thread], watch.marked[thread] + 1, seq_cst);
        opp_alarms_arm(watch.alarms, 2, 1000);
        watch.marked[thread]++;
        watch.inside[thread] = true;
        return;
    }
    watch.inside[thread] = false;
    watch.seen[thread] = watch.marked[thread];
    opp_alarms_leave(watch.alarms, 2, 1000, true);
}

static void alarms_perform(uint32_t thread, const oppx_operation *operation) {
    if (operation->kind == ALARMS_WAIT) {
        opp_alarms_wait(watch.alarms);
        for (uint32_t t = 0; t < OPPX_THREADS; t++) {
            uint32_t mark = opp_load(&watch.marks[t], seq_cst);
            if (mark > watch.seen[t]) watch.seen[t] = mark;
        }
        inbox_fetch();
        return;
    }
    if (operation->kind == ALARMS_MARK) {
        opp_store(&watch.marks[thread], watch.marked[thread] + 1, seq_cst);
        opp_alarms_arm(watch.alarms, 1, 1000);
        watch.marked[thread]++;
        return;
    }
    if (operation->kind == ALARMS_ENTER || operation->kind == ALARMS_LEAVE) {
        alarms_pass(thread, operation->kind == ALARMS_ENTER);
        return;
    }
    uint32_t item = inbox_push();
    if (operation->kind == ALARMS_POST) opp_alarms_arm(watch.alarms, 0, 1000);
    else opp_alarms_notify(watch.alarms);
    watch.armed[item] = true;
}

static void alarms_quiet(void) {
    if (oppx_is_stopped(1)) return;
    bool somebodyLeaves = false;
    for (uint32_t t = 0; t < OPPX_THREADS; t++)
        somebodyLeaves |= oppx_is_stopped(t) && !watch.inside[t] && watch.marked[t] > 0;
    for (uint32_t t = 0; t < OPPX_THREADS; t++)
        if (watch.seen[t] < watch.marked[t] && !(watch.inside[t] && somebodyLeaves))
            oppx_fail("mark %u of thread %u is not seen, and the alarm is not set", watch.marked[t], t);
    fetched_count = 0;
    opp_inbox_fetch(inbox, inbox_each, NULL);
    /* Whoever is stopped: a post that is over has set the alarm, or found it set. */
    for (uint32_t i = 0; i < fetched_count; i++)
        if (watch.armed[fetched[i]])
            oppx_fail("message %u is left, and the alarm that would tell is not set", fetched[i]);
    left_count = fetched_count;
}

static void alarms_finish(void) {
    inbox_finish();
}

const oppx_target checked_alarms = {
    .name = "alarms",
    .summary = "Alarms and inbox of a monitor: it does not wait while a message is left, and each alarm is "
               "set once.",
    .kinds = alarm_kinds, .kind_count = 6, .threads_max = 4, .operations_max = 5, .stalls = 1,
    .setup = alarms_setup, .perform = alarms_perform, .quiet = alarms_quiet, .finish = alarms_finish,
};
