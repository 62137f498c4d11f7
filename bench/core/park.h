#ifndef BENCH_PARK_H
#define BENCH_PARK_H

#include <stdint.h>

typedef enum park_kind { PARK_POOL, PARK_FUTEX, PARK_CONDITION, PARK_KINDS } park_kind;

extern const char *const park_name[PARK_KINDS];

/* Two threads wake each other n times, each asleep while the other runs: ns per round trip (two wake-ups). */
double park_round_trip(park_kind kind, uint64_t n);

/* ns per wake-up call that finds every token in use, as after a submit to a busy pool. */
double park_busy_notify(uint64_t n);

#endif
