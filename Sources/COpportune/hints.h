/*
 * Hints: bits that say where something may be queued. What they promise, and why, is said in runq.h: R1 and R2.
 *
 * [hint] Each access is seq_cst, unless it says why not: see "Why R1 holds" there.
 */
#ifndef OPP_HINTS_H
#define OPP_HINTS_H

#include "opp_assert.h"
#include "opp_base.h"
#include "opp_sync.h"

/* 32 hints: a ready bit each in the low half, its doubt in the high half, so that one load sees both. */
typedef _Atomic(uint64_t) hints;
#define WORD_BITS 32u
#define HINTS_64 2 /* words that hold 64 hints */

/* Where one hint is. */
typedef struct hint {
    hints *word;
    uint64_t bit;
} hint;

static inline hint hint_at(hints *words, uint32_t number) {
    return (hint){.word = &words[number / WORD_BITS], .bit = 1ull << number % WORD_BITS};
}

static inline uint32_t hints_maybe(const hints *word) {
    uint64_t both = opp_load(word, seq_cst);
    return (uint32_t)(both | both >> WORD_BITS);
}

static inline uint64_t hints_maybe_64(const hints *words) {
    return hints_maybe(&words[0]) | (uint64_t)hints_maybe(&words[1]) << WORD_BITS;
}

/* Whether any of 64 hints may be set. relaxed: for who bears to learn it late, of what did not happen before. */
static inline bool hints_maybe_any(const hints *words) {
    return (opp_load(&words[0], relaxed) | opp_load(&words[1], relaxed)) != 0;
}

static inline void hint_set(hint hint) {
    OPP_ASSERT(hint.bit >> WORD_BITS == 0);
    if (!(opp_load(hint.word, seq_cst) & hint.bit)) opp_or(hint.word, hint.bit, seq_cst);
}

/* Takes the doubt of a hint and clears it, in one step. False if another thread has the doubt. */
static inline bool hint_doubt(hint hint) {
    uint64_t doubt = hint.bit << WORD_BITS, both = opp_load(hint.word, relaxed);
    do {
        if (both & doubt) return false;
    } while (!opp_cas(hint.word, &both, (both & ~hint.bit) | doubt, seq_cst)); /* [hint] */
    return true;
}

/* Gives the doubt back, setting the hint again if something `holds` it up. */
static inline void hint_settle(hint hint, bool holds) {
    /* relaxed, both: the word's own order sets the hint before the doubt is gone, and as only read-modify-writes change
     * the word, who follows the hint still acquires what those who set it first had released. */
    if (holds) opp_or(hint.word, hint.bit, relaxed);
    uint64_t before = opp_and(hint.word, ~(hint.bit << WORD_BITS), relaxed);
    OPP_ASSERT(before & hint.bit << WORD_BITS); /* R2 */
    (void)before;
}

#endif
