/* The layout of a report, a part of its worker's record. Private to the core; the protocol is in report.c. */
#ifndef OPP_REPORT_PRIVATE_H
#define OPP_REPORT_PRIVATE_H

#include "opp_report.h"
#include "opp_sync.h"

/* All zero: of a worker that has had no thread yet. */
struct opp_report {
    /* The worker's: each is written by its thread alone, and by opp_report_stop() after that. */
    _Alignas(OPP_LINE) _Atomic(uint64_t) sequence;
    _Atomic(uint64_t) identity;
    _Atomic(opp_app *) app;
    _Atomic(uint64_t) standing; /* band, rank, base, real-time, depth */
    _Atomic(uint64_t) priority;
    _Atomic(uint64_t) start;
    _Atomic(uint64_t) cpu_before, wait_before;
    _Atomic(int64_t) switches_before;
    _Atomic(uint64_t) ordinary, ordinary_ns, short_waits;
    _Atomic(opp_thread_meter *) meter;
    _Atomic(int32_t) thread;
    _Atomic(bool) keeps; /* its priority */
    /* Of both. */
    _Alignas(OPP_LINE) _Atomic(uint32_t) change;
    _Atomic(uint32_t) depth;
    _Atomic(uint64_t) deepened_off;
    _Atomic(uint64_t) changed_to;
    /* The monitor's: the number of the job that has left the real-time foreground last. */
    _Atomic(uint64_t) left_class;
};

#endif
