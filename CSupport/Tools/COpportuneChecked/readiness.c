/*
 * Target readiness: waiters for descriptors, and all that may claim a waiter: the harvester of an event, the
 * removal of a descriptor, the end of an app, the end of all. Promised:
 *
 *  - each time that a waiter is armed, one thread claims it, once, and sees what the waiter did before;
 *  - nobody sleeps although there is something to receive, unless the event is still to be harvested;
 *  - nobody sleeps once an end was published, and has claimed all waiters that it found.
 *
 * There is no kernel here: one word holds what has come for a descriptor, and a notifier makes its events.
 * A descriptor is added before the threads begin, or by the thread that receives from it, where the program
 * says so. Target parking has the workers that wait for readiness.
 */
#include "checked.h"

CHECKED_CORE_BEGIN
#include "../../COpportune/readiness.c"
CHECKED_CORE_END

enum {
    READINESS_ARRIVE, READINESS_REMOVE, READINESS_END, READINESS_CLOSE, READINESS_CANCEL, READINESS_HARVEST,
    READINESS_RECEIVE, READINESS_ADD
};
enum { OTHERS = 1, HARVESTER = 2, FIRST = 3, WAITERS = 2 };

static const oppx_kind readiness_kinds[] = {
    /* of descriptor 0 or 1, whose app has the same number; each has a thread that receives from it */
    {.name = "arrive", .arguments = 1, .limit = {WAITERS}, .weight = 4, .threads = 1 << OTHERS},
    {.name = "remove", .arguments = 1, .limit = {WAITERS}, .weight = 1, .threads = 1 << OTHERS},
    {.name = "end", .arguments = 1, .limit = {WAITERS}, .weight = 1, .threads = 1 << OTHERS},
    {.name = "close", .weight = 1, .threads = 1 << OTHERS},
    {.name = "cancel", .arguments = 1, .limit = {WAITERS}, .weight = 1, .threads = 1 << OTHERS},
    {.name = "harvest", .weight = 3, .threads = 1 << HARVESTER},
    {.name = "receive", .weight = 4, .threads = 3 << FIRST},
    {.name = "add", .weight = 1, .threads = 3 << FIRST},
};

typedef struct readiness_waiter {
    uint64_t armed;              /* how often, not atomic: written by the waiter before it arms */
    _Atomic(uint32_t) *resumed;  /* how often; the waiter sleeps on this word */
    _Atomic(uint32_t) *is_over;  /* its app has ended, or it was cancelled */
    _Atomic(uint32_t) *data;     /* what has come and was not received yet */
    _Atomic(uint32_t) *is_added; /* who adds it has returned: it may be removed (E2) */
    int descriptor;
    uint32_t claims;             /* counted by the judge: must never differ from `armed` */
    bool has_ended, is_removed;  /* the end, or the removal, has claimed what it found */
} readiness_waiter;

typedef struct readiness_state {
    opp_readiness *readiness;
    readiness_waiter *waiters[WAITERS];
    uint32_t threads;
    bool is_closed;
    bool may_refuse; /* the program removes a descriptor, or closes */
} readiness_state;
static _Thread_local readiness_state *readiness_of_thread; /* see oppx_state() */
#define state (*readiness_of_thread)

static bool program_has(const oppx_program *program, uint32_t thread, uint8_t kind) {
    for (uint32_t i = 0; thread <= program->threads && i < program->count[thread - 1]; i++)
        if (program->operation[thread - 1][i].kind == kind) return true;
    return false;
}

static void readiness_setup(const oppx_program *program) {
    readiness_of_thread = oppx_state(OPPX_STATE_TARGET, sizeof(readiness_state));
    memset(readiness_of_thread, 0, sizeof(readiness_state));
    state.threads = program->threads;
    state.may_refuse =
        program_has(program, OTHERS, READINESS_REMOVE) || program_has(program, OTHERS, READINESS_CLOSE);
    state.readiness = opp_readiness_create();
    for (int i = 0; i < WAITERS; i++) {
        readiness_waiter *waiter = state.waiters[i] = oppx_allocate(sizeof(readiness_waiter), 16);
        waiter->resumed = oppx_allocate(sizeof(uint32_t), 16);
        waiter->is_over = oppx_allocate(sizeof(uint32_t), 16);
        waiter->data = oppx_allocate(sizeof(uint32_t), 16);
        waiter->is_added = oppx_allocate(sizeof(uint32_t), 16);
        waiter->descriptor = opp_notifier_open();
        if (program_has(program, FIRST + (uint32_t)i, READINESS_ADD)) continue;
        opp_store(waiter->is_added, 1, relaxed);
        (void)opp_readiness_add(state.readiness, waiter->descriptor);
        /* A new descriptor has to be reported as ready: something may have come before it was added. */
        if (opp_readiness_arm(state.readiness, waiter->descriptor, waiter, 0) != OPP_ARMING_READY)
            oppx_fail("a new descriptor is not ready");
    }
}

/* The calling thread has claimed it. */
static void resume(void *claimed) {
    readiness_waiter *waiter = claimed;
    if (*(volatile uint64_t *)&waiter->armed != ++waiter->claims)
        oppx_fail("a waiter is claimed for the %uth time, and was armed %llu times", waiter->claims,
                  (unsigned long long)waiter->armed);
    opp_add(waiter->resumed, 1, release);
    (void)opp_futex_wake(waiter->resumed, 1);
}

/* As ReceiveWait.wait() does. */
static void readiness_receive(uint32_t thread) {
    readiness_waiter *waiter = state.waiters[thread - FIRST];
    for (;;) {
        /* relaxed: readiness has to make sure that it is seen, without an order of the kernel's */
        uint32_t data = opp_load(waiter->data, relaxed);
        if (data != 0 && opp_cas(waiter->data, &data, data - 1, relaxed)) return;
        if (data != 0) continue;
        uint32_t resumed = opp_load(waiter->resumed, acquire);
        uint16_t tag = (uint16_t)(thread - FIRST);
        waiter->armed++;
        opp_arming arming = opp_readiness_arm(state.readiness, waiter->descriptor, waiter, tag);
        if (arming != OPP_ARMING_DONE) waiter->armed--;
        if (arming == OPP_ARMING_REFUSED && opp_load(waiter->is_added, relaxed) && !state.may_refuse)
            oppx_fail("a watched descriptor is refused");
        if (arming == OPP_ARMING_REFUSED) return;
        if (arming == OPP_ARMING_READY) continue;
        if (opp_load(waiter->is_over, seq_cst) != 0 &&
            opp_readiness_disarm(state.readiness, waiter->descriptor, waiter, tag)) {
            resume(waiter);
            return;
        }
        while (opp_load(waiter->resumed, acquire) == resumed) opp_futex_wait(waiter->resumed, resumed);
        if (opp_load(waiter->is_over, relaxed) != 0) return;
    }
}

static void readiness_claim_all(bool of_all, uint16_t tag) {
    uint32_t cursor = 0;
    void *waiter;
    while ((waiter = of_all ? opp_readiness_claim_any(state.readiness, &cursor)
                            : opp_readiness_claim_tagged(state.readiness, tag, &cursor)) != NULL)
        resume(waiter);
}

static void readiness_perform(uint32_t thread, const oppx_operation *operation) {
    readiness_waiter *waiter = state.waiters[operation->argument[0]];
    opp_harvest harvest;
    void *claimed;
    switch (operation->kind) {
    case READINESS_ARRIVE:
        opp_add(waiter->data, 1, relaxed);
        opp_notifier_notify(waiter->descriptor);
        break;
    case READINESS_ADD:
        waiter = state.waiters[thread - FIRST];
        if (opp_load(waiter->is_added, relaxed)) return;
        (void)opp_readiness_add(state.readiness, waiter->descriptor);
        opp_store(waiter->is_added, 1, release);
        break;
    case READINESS_REMOVE:
        if (!opp_load(waiter->is_added, acquire)) return;
        claimed = opp_readiness_remove(state.readiness, waiter->descriptor);
        if (claimed != NULL) resume(claimed);
        waiter->is_removed = true;
        break;
    case READINESS_END:
        opp_store(waiter->is_over, 1, seq_cst);
        readiness_claim_all(false, operation->argument[0]);
        waiter->has_ended = true;
        break;
    case READINESS_CANCEL:
        opp_store(waiter->is_over, 1, seq_cst);
        if (opp_readiness_disarm(state.readiness, waiter->descriptor, waiter, operation->argument[0]))
            resume(waiter);
        waiter->has_ended = true;
        break;
    case READINESS_CLOSE:
        opp_readiness_close(state.readiness);
        readiness_claim_all(true, 0);
        state.is_closed = true;
        break;
    case READINESS_HARVEST:
        if (opp_readiness_wait(state.readiness, &harvest) == 0) return;
        for (uint32_t i = 0; i < harvest.count; i++) resume(opp_harvest_waiter(&harvest, i));
        break;
    default: readiness_receive(thread);
    }
}

/* All threads that are left sleep. */
static void readiness_quiet(void) {
    for (uint32_t t = OTHERS; t <= state.threads; t++)
        if (oppx_is_stopped(t)) return; /* it may have claimed waiters that it has not resumed */
    for (uint32_t i = 0; FIRST + i <= state.threads; i++) {
        readiness_waiter *waiter = state.waiters[i];
        if (!oppx_is_asleep(FIRST + i)) continue;
        if (state.is_closed || waiter->has_ended || waiter->is_removed)
            oppx_fail("the waiter of descriptor %u sleeps beside an end", i);
        /* The harvester sleeps: it has taken all events. */
        if (oppx_is_asleep(HARVESTER) && opp_load(waiter->data, relaxed) != 0)
            oppx_fail("the waiter of descriptor %u sleeps beside something to receive", i);
    }
}

static void readiness_finish(void) {
    for (uint32_t i = 0; i < WAITERS; i++)
        if (opp_load(state.waiters[i]->resumed, relaxed) > state.waiters[i]->claims)
            oppx_fail("a waiter is resumed more often than it is claimed");
}

const oppx_target checked_readiness = {
    .name = "readiness",
    .summary = "Waiters for descriptors: each is claimed once, and none sleeps beside something to receive "
               "or an end.",
    .kinds = readiness_kinds, .kind_count = sizeof(readiness_kinds) / sizeof(readiness_kinds[0]),
    .threads_max = 4, .operations_max = 5, .stalls = 1,
    .setup = readiness_setup, .perform = readiness_perform, .quiet = readiness_quiet,
    .finish = readiness_finish,
};
