/*
 * Ready bits: they show where something may be queued. runq.h says what they guarantee and why: R1 and R2.
 *
 * [ready] Each access is seq_cst, unless stated otherwise: see "Why R1 holds" there.
 */
#ifndef OPP_READY_BITS_H
#define OPP_READY_BITS_H

#include "opp_assert.h"
#include "opp_base.h"
#include "opp_sync.h"

/* 32 ready bits in the low half; in the high half, which of them are being cleared. One load reads both. */
typedef _Atomic(uint64_t) ready_word;
#define WORD_BITS 32u
#define READY_WORDS_64 2 /* words that hold 64 ready bits */

/* Where one ready bit is. */
typedef struct ready_bit {
    ready_word *word;
    uint64_t bit;
} ready_bit;

static inline ready_bit ready_bit_at(ready_word *words, uint32_t number) {
    return (ready_bit){.word = &words[number / WORD_BITS], .bit = 1ull << number % WORD_BITS};
}

static inline uint32_t ready_bits_maybe(const ready_word *word) {
    uint64_t both = opp_load(word, seq_cst);
    return (uint32_t)(both | both >> WORD_BITS);
}

static inline uint64_t ready_bits_maybe_64(const ready_word *words) {
    return ready_bits_maybe(&words[0]) | (uint64_t)ready_bits_maybe(&words[1]) << WORD_BITS;
}

/* Whether any of 64 ready bits may be set. relaxed: for callers that tolerate an old value. */
static inline bool ready_bits_maybe_any(const ready_word *words) {
    return (opp_load(&words[0], relaxed) | opp_load(&words[1], relaxed)) != 0;
}

static inline void ready_bit_set(ready_bit ready) {
    OPP_ASSERT(ready.bit >> WORD_BITS == 0);
    if (!(opp_load(ready.word, seq_cst) & ready.bit)) opp_or(ready.word, ready.bit, seq_cst);
}

/* Clears a ready bit and marks it as being cleared, in one step. False if another thread is clearing it. */
static inline bool ready_bit_begin_clearing(ready_bit ready) {
    OPP_ASSERT(ready.bit >> WORD_BITS == 0);
    uint64_t clearing = ready.bit << WORD_BITS, both = opp_load(ready.word, relaxed);
    do {
        if (both & clearing) return false;
    } while (!opp_cas(ready.word, &both, (both & ~ready.bit) | clearing, seq_cst)); /* [ready] */
    return true;
}

/* Ends the clearing; sets the ready bit again if the tier below still `holds` something. */
static inline void ready_bit_resolve(ready_bit ready, bool holds) {
    /* relaxed, both: the modification order of the word sets the ready bit before the mark is removed. Only
     * read-modify-writes change the word, so a thread that reads the ready bit still acquires what the first
     * setters released. */
    if (holds) opp_or(ready.word, ready.bit, relaxed);
    uint64_t before = opp_and(ready.word, ~(ready.bit << WORD_BITS), relaxed);
    OPP_ASSERT(before & ready.bit << WORD_BITS); /* R2 */
    (void)before;
}

#endif
