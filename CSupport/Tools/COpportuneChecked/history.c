#include "checked.h"
#include "history.h"

#include <stdlib.h>
#include <string.h>

_Thread_local history *checked_history_of_thread;
#define H checked_history

void history_begin(void) {
    checked_history_of_thread = oppx_state(OPPX_STATE_HISTORY, sizeof(history));
    H.item_count = H.taking_count = H.left_count = 0;
    H.meeting = oppx_allocate(sizeof(*H.meeting), 16);
}

void history_meet(void) {
    opp_add(H.meeting, 1, acq_rel);
}

bool event_before(const event *a, const event *b) {
    return a->over && oppx_precedes(&a->end, &b->begin);
}

static void event_begin(event *event) {
    memset(event, 0, sizeof(*event));
    event->thread = oppx_thread();
    event->begun = true;
    event->refusals = oppx_refusals();
    event->begin = oppx_here();
}

static void event_end(event *event) {
    event->over = true;
    event->end = oppx_here();
}

/* --- What happens ----------------------------------------------------------------------------- */

uint32_t history_push_begins(uint32_t class, uint32_t level) {
    if (H.item_count == HISTORY_ITEMS) oppx_fail("the history is full");
    uint32_t number = H.item_count++;
    item *item = &H.items[number];
    memset(item, 0, sizeof(*item));
    item->class = class;
    item->level = level;
    item->payload = oppx_allocate(sizeof(uint32_t), 16);
    *item->payload = number;
    event_begin(&item->push);
    item->producer = item->push.thread;
    return number;
}

void *history_payload(uint32_t item) {
    return H.items[item].payload;
}

void history_push_ends(uint32_t item, bool accepted) {
    if (!accepted && oppx_refusals() == H.items[item].push.refusals)
        oppx_fail("job %u is refused, and memory was not short", item);
    H.items[item].accepted = accepted;
    event_end(&H.items[item].push);
}

void history_push_is_refused(uint32_t item) {
    H.items[item].accepted = false;
    event_end(&H.items[item].push);
}

uint32_t history_take_begins(uint64_t levels) {
    if (H.taking_count == HISTORY_EVENTS) oppx_fail("the history is full");
    uint32_t number = H.taking_count++;
    H.takings[number].item = -1;
    H.takings[number].levels = levels;
    event_begin(&H.takings[number].event);
    return number;
}

/* The item that a payload stands for. It is read as the worker would read it, so a race shows. */
static uint32_t item_of(void *payload, uint32_t tag) {
    if (tag >= H.item_count || H.items[tag].payload != payload)
        oppx_fail("a job comes out that nobody pushed: %p, tag %u", payload, tag);
    if (*(volatile uint32_t *)payload != tag)
        oppx_fail("job %u is taken before what was put into it is seen", tag);
    if (H.items[tag].taken || H.items[tag].drained) oppx_fail("job %u comes out twice", tag);
    return tag;
}

void history_take_ends(uint32_t number, bool found, void *payload, uint32_t tag) {
    taking *taking = &H.takings[number];
    event_end(&taking->event);
    if (!found) {
        oppx_note("   -> nothing");
        return;
    }
    oppx_note("   -> job %u", tag);
    item *item = &H.items[item_of(payload, tag)];
    item->taken = true;
    item->take = taking->event;
    item->consumer = number;
    taking->item = (int)tag;
    taking->level = item->level;
}

void history_back_begins(uint32_t number) {
    if (number >= H.item_count) oppx_fail("a job is given back that nobody pushed: tag %u", number);
    item *item = &H.items[number];
    item->back_before = item->back;
    item->giver_before = item->giver;
    event_begin(&item->back);
    item->giver = H.taking_count;
    while (item->giver-- > 0) {
        const event *take = &H.takings[item->giver].event;
        if (take->thread == item->back.thread && !take->over) return;
    }
    oppx_fail("job %u is given back by who takes nothing", number);
}

void history_back_ends(uint32_t number, int result) {
    item *item = &H.items[number];
    /* Another take had the job meanwhile, and has given it back again: what is noted is of that one. */
    if (result >= 0 && item->back.thread != oppx_thread()) return;
    event_end(&item->back);
    if (result >= 0) {
        item->back_level = result;
        return;
    }
    if (oppx_refusals() == item->back.refusals)
        oppx_fail("job %u cannot be given back, and memory was not short", number);
    item->back = item->back_before;
    item->giver = item->giver_before;
    item->stuck = true;
}

void history_drained(void *payload, uint32_t tag) {
    item *item = &H.items[item_of(payload, tag)];
    item->drained = true;
    item->left = ++H.left_count;
}

/* --- What must hold --------------------------------------------------------------------------- */

/* Whether a was out of the queue only after b was: in the end, or by a take that began after b's was over. */
static bool out_after(const item *a, const item *b) {
    if (!b->taken) return false;
    return a->drained || (a->taken && event_before(&b->take, &a->take));
}

void history_check_conservation(void) {
    uint32_t held = 0; /* by consumers that are stopped inside a take, one each */
    for (uint32_t i = 0; i < H.taking_count; i++) held += !H.takings[i].event.over;
    for (uint32_t i = 0; i < H.item_count; i++) {
        const item *item = &H.items[i];
        bool out = item->taken || item->drained;
        if (item->push.over && !item->accepted && out)
            oppx_fail("job %u comes out, though its push was refused", i);
        if (!item->push.over || !item->accepted || out) continue;
        if (held == 0) oppx_fail("job %u, pushed by thread %u, is lost", i, item->push.thread);
        held--;
    }
}

void history_check_order(void) {
    for (uint32_t i = 0; i < H.item_count; i++)
        for (uint32_t j = 0; j < H.item_count; j++) {
            const item *a = &H.items[i], *b = &H.items[j];
            if (a->class != b->class || a->back.begun || !a->accepted) continue;
            if (event_before(&a->push, &b->push) && out_after(a, b))
                oppx_fail("job %u is overtaken by job %u, pushed after it", i, j);
        }
}

void history_check_bypass(uint32_t limit) {
    for (uint32_t i = 0; i < H.item_count; i++) {
        const item *a = &H.items[i];
        uint32_t passed[HISTORY_ITEMS] = {0};
        if (a->back.begun || !a->accepted) continue;
        for (uint32_t j = 0; j < H.item_count; j++) {
            const item *b = &H.items[j];
            if (a->class != b->class || !event_before(&a->push, &b->push) || !out_after(a, b)) continue;
            if (++passed[b->producer] > limit)
                oppx_fail("job %u is overtaken by more than %u later ones of producer %u", i, limit,
                          b->producer);
        }
    }
}

void history_check_front(void) {
    for (uint32_t i = 0; i < H.item_count; i++)
        for (uint32_t j = 0; j < H.item_count; j++) {
            const item *a = &H.items[i], *b = &H.items[j];
            if (a->class != b->class || b->back.begun || !event_before(&a->back, &b->take)) continue;
            if (out_after(a, b))
                oppx_fail("job %u was given back, and a later take gave job %u before it", i, j);
        }
}

bool history_waits(const item *item, const event *first, const event *last) {
    return item->accepted && event_before(item->back.begun ? &item->back : &item->push, first) &&
           (item->drained || (item->taken && event_before(last, &item->take)));
}

void history_check_levels(int (*level_during)(uint32_t item, const event *during)) {
    for (uint32_t t = 0; t < H.taking_count; t++) {
        const taking *taking = &H.takings[t];
        if (!taking->event.over) continue;
        for (uint32_t i = 0; i < H.item_count; i++) {
            const item *item = &H.items[i];
            if (!history_waits(item, &taking->event, &taking->event)) continue;
            int level = level_during != NULL ? level_during(i, &taking->event) : (int)item->level;
            if (level < 0 || !(taking->levels & 1ull << level)) continue;
            if (taking->item >= 0 && (int)taking->level >= level) continue;
            oppx_fail("job %u of level %d was waiting, and a take of thread %u gave %s", i, level,
                      taking->event.thread, taking->item < 0 ? "nothing" : "one of a lower level");
        }
    }
}
