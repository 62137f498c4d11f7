#ifndef BENCH_RING_H
#define BENCH_RING_H

#include <stdint.h>

typedef enum ring_kind { RING_ALARM, RING_EVENT, RING_FUTEX, RING_KINDS } ring_kind;

extern const char *const ring_name[RING_KINDS];

/* One thread makes another, which waits, look: ns per call for the caller, n calls one after the other. */
double ring_call(ring_kind kind, uint64_t n);

#endif
