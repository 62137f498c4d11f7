#ifndef BENCH_BELL_H
#define BENCH_BELL_H

#include <stdint.h>

typedef enum bell_kind { BELL_ALARMS, BELL_EVENT, BELL_FUTEX, BELL_KINDS } bell_kind;

extern const char *const bell_name[BELL_KINDS];

/* One thread makes another, which waits, look: ns per call for the caller, n calls one after the other. */
double bell_call(bell_kind kind, uint64_t n);

#endif
