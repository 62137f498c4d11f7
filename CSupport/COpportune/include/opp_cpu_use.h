/* CPU time by CPU: what threads of a class have used where. */
#ifndef OPP_CPU_USE_H
#define OPP_CPU_USE_H

#include "opp_base.h"

#include <stdint.h>

OPP_BEGIN_DECLS

typedef struct opp_cpu_use opp_cpu_use;

/* Counters of all CPUs that the machine can have. NULL where memory is short. */
opp_cpu_use *_Nullable opp_cpu_use_create(void);
void opp_cpu_use_destroy(opp_cpu_use *_Nonnull use);

/* How many CPUs are counted; constant. */
uint32_t opp_cpu_use_cpus(const opp_cpu_use *_Nonnull use);

/* Adds to the CPU on which the calling thread runs now. Any thread; no system call. */
void opp_cpu_use_add(opp_cpu_use *_Nonnull use, uint64_t ns);

/* Adds to `cpu`, for another thread that ran there; a number out of range counts as the last. Any thread. */
void opp_cpu_use_add_on(opp_cpu_use *_Nonnull use, int cpu, uint64_t ns);

/* What was added so far. Any thread. */
uint64_t opp_cpu_use_read(const opp_cpu_use *_Nonnull use, uint32_t cpu);

OPP_END_DECLS

#endif
