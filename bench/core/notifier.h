#ifndef BENCH_NOTIFIER_H
#define BENCH_NOTIFIER_H

#include <stdint.h>

typedef enum notifier_kind { NOTIFIER_ALARMS, NOTIFIER_EVENT, NOTIFIER_FUTEX, NOTIFIER_KINDS } notifier_kind;

extern const char *const notifier_name[NOTIFIER_KINDS];

/* One thread makes another, which waits, look: ns per call for the caller, n calls one after the other. */
double notifier_call(notifier_kind kind, uint64_t n);

#endif
