/* Histories as the search for one order of them has them; see opp_linear.h. */
#include "history.h"

#include <string.h>

#define H checked_history

/* Whether some other taking may have gone on meanwhile. */
static bool is_beside_another(uint32_t number) {
    for (uint32_t i = 0; i < H.taking_count; i++)
        if (i != number && !event_before(&H.takings[i].event, &H.takings[number].event) &&
            !event_before(&H.takings[number].event, &H.takings[i].event))
            return true;
    return false;
}

static void add(const event *one, uint8_t kind, uint64_t items, const event **events) {
    oppx_linear_history *linear = &H.linear;
    if (!one->over && oppx_is_asleep(one->thread)) return; /* with nothing in its hand */
    events[linear->count] = one;
    linear->operation[linear->count++] =
        (oppx_linear_operation){.kind = kind, .over = one->over, .items = items};
}

void history_check_linear(uint32_t level, bool in_order) {
    oppx_linear_history *linear = &H.linear;
    const event *events[OPPX_LINEAR_MAX];
    uint64_t got[HISTORY_EVENTS];
    uint8_t left[HISTORY_ITEMS]; /* in the order in which they were */
    uint32_t items = 0;
    if (H.item_count + H.taking_count > OPPX_LINEAR_MAX) return;
    linear->in_order = in_order;
    linear->count = linear->left_count = 0;
    memset(got, 0, H.taking_count * sizeof(got[0]));
    memset(left, UINT8_MAX, H.left_count);
    for (uint32_t i = 0; i < H.item_count; i++) {
        const item *item = &H.items[i];
        if (item->level != level || (item->push.over && !item->accepted)) continue;
        add(&item->push, OPPX_PUT, 1ull << items, events);
        if (item->taken) got[item->consumer] |= 1ull << items;
        if (item->drained) left[item->left - 1] = (uint8_t)items;
        items++;
    }
    for (uint32_t i = 0; i < H.taking_count; i++) {
        if (in_order && H.takings[i].event.over && got[i] == 0 && is_beside_another(i)) continue;
        add(&H.takings[i].event, in_order ? OPPX_TAKE : OPPX_FETCH, got[i], events);
    }
    for (uint32_t i = 0; i < H.left_count; i++)
        if (left[i] != UINT8_MAX) linear->left[linear->left_count++] = left[i];
    for (uint32_t i = 0; i < linear->count; i++) {
        uint64_t before = 0;
        for (uint32_t j = 0; j < linear->count; j++)
            before |= (uint64_t)(j != i && event_before(events[j], events[i])) << j;
        linear->operation[i].before = before;
    }
    if (oppx_is_linear(linear, H.linear_memory) == 0)
        oppx_fail("what came out fits no one order of the operations");
}
