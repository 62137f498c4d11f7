/*
 * The search of Wing and Gong: of the operations that nothing left must precede, one after another is done
 * next, and undone where that leads nowhere. As Lowe has it, what was tried in vain is remembered: the
 * operations done and the queue's content, here by a hash of both.
 *
 * Only puts need trying. Where a take or a fetch may come next it may as well come at once: what could come
 * before it, and leaves it possible, can come after it too.
 */
#include "opp_linear.h"

#include "state.h"

#include <string.h>

#define EASY 32 /* orders tried in vain before it is worth to think */

/* What is in the queue after some operations. */
typedef struct content {
    uint64_t done, items;
    uint8_t row[OPPX_LINEAR_MAX + 1]; /* oldest first, from `first` */
    uint32_t first, end;
} content;

typedef struct attempt {
    const oppx_linear_history *history;
    uint64_t lost; /* items that were put, and neither came out nor are left */
    uint64_t before[OPPX_LINEAR_MAX];
    uint8_t puts[OPPX_LINEAR_MAX];
    /* the item came out: of which operation, or, from OPPX_LINEAR_MAX, the how manieth left */
    uint32_t when[OPPX_LINEAR_MAX];
    uint32_t put_count, tries, limit;
    uint64_t *known;
} attempt;

static uint64_t bit(uint32_t number) {
    return 1ull << number;
}

static bool may_come(const attempt *a, const content *now, uint32_t number) {
    return !(now->done & bit(number)) && (a->before[number] & ~now->done) == 0;
}

/* Does what is no put, if it may come next. */
static bool get(const attempt *a, content *now, uint32_t number) {
    const oppx_linear_history *h = a->history;
    const oppx_linear_operation *operation = &h->operation[number];
    if (operation->kind == OPPX_PUT || !may_come(a, now, number)) return false;
    uint64_t got = operation->items;
    if (!operation->over) {
        /* Its thread is stopped, and has what nobody else got. */
        got = operation->kind == OPPX_FETCH ? now->items :
            now->items & (h->in_order ? bit(now->row[now->first]) : a->lost);
        if (operation->kind == OPPX_TAKE) got &= -got;
        if (got == 0 || (got & ~a->lost) != 0) return false;
    }
    if (operation->kind == OPPX_FETCH || got == 0) {
        if (now->items != got) return false;
    } else if (!(now->items & got) || (h->in_order && bit(now->row[now->first]) != got)) {
        return false;
    }
    now->items &= ~got;
    now->done |= bit(number);
    if (now->items == 0) now->first = now->end;
    else if (h->in_order) now->first += got != 0;
    return true;
}

static bool is_end(const oppx_linear_history *h, const content *now) {
    uint64_t left = 0;
    for (uint32_t i = 0; i < h->left_count; i++) {
        left |= bit(h->left[i]);
        if (h->in_order && (now->first + i >= now->end || now->row[now->first + i] != h->left[i]))
            return false;
    }
    if (now->items != left) return false;
    for (uint32_t i = 0; i < h->count; i++)
        if (h->operation[i].over && !(now->done & bit(i))) return false;
    return true;
}

/* Where what was tried in vain is remembered, or is to be: `key` stands there, or 0. */
static uint64_t *place_of(attempt *a, uint64_t key) {
    uint64_t at = key >> 8 & (OPPX_LINEAR_MEMORY - 1);
    while (a->known[at] != key && a->known[at] != 0) at = (at + 1) & (OPPX_LINEAR_MEMORY - 1);
    return &a->known[at];
}

static bool search(attempt *a, content now);

static bool search_next(attempt *a, const content *now) {
    const oppx_linear_history *h = a->history;
    for (uint32_t i = 0; i < a->put_count; i++) {
        const oppx_linear_operation *put = &h->operation[a->puts[i]];
        if (!may_come(a, now, a->puts[i])) continue;
        content next = *now;
        next.done |= bit(a->puts[i]);
        next.items |= put->items;
        next.row[next.end++] = (uint8_t)__builtin_ctzll(put->items);
        if (search(a, next)) return true;
    }
    for (uint32_t i = 0; i < h->count; i++) {
        content next = *now;
        if (!h->operation[i].over && get(a, &next, i) && search(a, next)) return true;
    }
    return false;
}

static bool search(attempt *a, content now) {
    const oppx_linear_history *h = a->history;
    for (uint32_t i = 0; i < h->count; i++)
        if (h->operation[i].over && get(a, &now, i)) i = UINT32_MAX; /* from the beginning */
    if (is_end(h, &now)) return true;
    uint64_t key = mix(now.done, now.items);
    for (uint32_t i = now.first; h->in_order && i < now.end; i++) key = mix(key, now.row[i]);
    key |= 1;
    if (a->tries >= a->limit || (a->tries > 0 && *place_of(a, key) == key)) return false;
    if (search_next(a, &now)) return true;
    if (a->tries++ == 0) memset(a->known, 0, OPPX_LINEAR_MEMORY * sizeof(*a->known));
    *place_of(a, key) = key;
    return false;
}

/* Of a queue in order: what follows from what, so that fewer orders are left to try. */
static void tighten(attempt *a) {
    const oppx_linear_history *h = a->history;
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        for (uint32_t i = 0; i < h->count; i++) {
            uint64_t more = 0;
            for (uint64_t earlier = a->before[i]; earlier != 0; earlier &= earlier - 1)
                more |= a->before[__builtin_ctzll(earlier)];
            goes_on |= (more & ~a->before[i]) != 0;
            a->before[i] |= more;
        }
        for (uint32_t i = 0; i < a->put_count; i++)
            for (uint32_t j = 0; j < a->put_count; j++) {
                uint32_t x = a->puts[i], y = a->puts[j];
                uint32_t out_x = a->when[__builtin_ctzll(h->operation[x].items)];
                uint32_t out_y = a->when[__builtin_ctzll(h->operation[y].items)];
                if (out_x >= 2 * OPPX_LINEAR_MAX || out_y >= 2 * OPPX_LINEAR_MAX) continue;
                bool taken = out_x < OPPX_LINEAR_MAX && out_y < OPPX_LINEAR_MAX;
                bool first = taken ? a->before[out_y] >> out_x & 1 : out_y >= OPPX_LINEAR_MAX &&
                    out_x < out_y;
                goes_on |= first && !(a->before[y] & bit(x));
                if (first) a->before[y] |= bit(x);
                if (!taken || !(a->before[y] & bit(x))) continue;
                goes_on |= !(a->before[out_y] & bit(out_x));
                a->before[out_y] |= bit(out_x);
            }
    }
}

int oppx_is_linear(const oppx_linear_history *h, uint64_t *memory) {
    attempt a = {.history = h, .known = memory, .limit = EASY};
    uint64_t put = 0, out = 0;
    for (uint32_t i = 0; i < OPPX_LINEAR_MAX; i++) a.when[i] = 2 * OPPX_LINEAR_MAX;
    for (uint32_t i = 0; i < h->left_count; i++) {
        a.when[h->left[i]] = OPPX_LINEAR_MAX + i;
        out |= bit(h->left[i]);
    }
    for (uint32_t i = 0; i < h->count; i++) {
        uint64_t items = h->operation[i].items;
        bool puts = h->operation[i].kind == OPPX_PUT;
        a.before[i] = h->operation[i].before;
        *(puts ? &put : &out) |= items;
        for (; !puts && items != 0; items &= items - 1) a.when[__builtin_ctzll(items)] = i;
    }
    a.lost = put & ~out;
    /* Puts in the order in which their items came out are mostly right at once. */
    for (uint32_t i = 0; i < h->count; i++) {
        if (h->operation[i].kind != OPPX_PUT) continue;
        uint32_t at = a.put_count++, own = a.when[__builtin_ctzll(h->operation[i].items)];
        for (; at > 0 && a.when[__builtin_ctzll(h->operation[a.puts[at - 1]].items)] > own; at--)
            a.puts[at] = a.puts[at - 1];
        a.puts[at] = (uint8_t)i;
    }
    if (search(&a, (content){0})) return 1;
    if (a.tries < EASY) return 0;
    if (h->in_order) tighten(&a);
    a.tries = 0;
    a.limit = OPPX_LINEAR_MEMORY / 2;
    if (search(&a, (content){0})) return 1;
    return a.tries >= a.limit ? -1 : 0;
}
