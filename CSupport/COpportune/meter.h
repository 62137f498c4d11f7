/* What watches one thread of the process. Private to the core. */
#ifndef OPP_METER_H
#define OPP_METER_H

#include "opp_system.h"

#include <time.h>

struct opp_thread_meter {
    clockid_t clock;
    int schedstat;   /* a descriptor, or -errno where it could not be opened */
    int syscall;     /* the descriptor of what tells its system call; 0 before it is first asked for */
    char folder[64]; /* of the thread in /proc, for what is read seldom; empty where it is not there */
};

#endif
