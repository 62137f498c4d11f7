/* Opportune, the C core: run queues, rings, parking, threads, clocks and topology. See each header. */
#ifndef OPPORTUNE_H
#define OPPORTUNE_H
#include "opp_base.h"
#include "opp_inbox.h"
#include "opp_lane.h"
#include "opp_ring.h"
#include "opp_runq.h"
#include "opp_stats.h"
#include "opp_system.h"
#include "opp_table.h"
#include "opp_thread.h"
#endif
