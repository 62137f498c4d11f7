/* A core as the scheduler sets it up by default: three bands, of which background and foreground share a
 * level. */
#ifndef BENCH_SETUP_H
#define BENCH_SETUP_H

#include "opportune.h"

enum { SETUP_BACKGROUND = 0, SETUP_FOREGROUND = 1, SETUP_RANK = 5, SETUP_RANK_ABOVE = 0 };

/* NULL where memory is short. */
opp_core *setup_core(void);

#endif
