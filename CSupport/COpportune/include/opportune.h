/* Opportune, the C core: run queues, rings, parking, threads, clocks, topology and purgeable memory. See each
 * header. */
#ifndef OPPORTUNE_H
#define OPPORTUNE_H
#include "opp_alarms.h"
#include "opp_base.h"
#include "opp_cpu_use.h"
#include "opp_inbox.h"
#include "opp_pool.h"
#include "opp_purge.h"
#include "opp_readiness.h"
#include "opp_realtime_kit.h"
#include "opp_report.h"
#include "opp_ring.h"
#include "opp_runq.h"
#include "opp_stats.h"
#include "opp_store.h"
#include "opp_system.h"
#include "opp_table.h"
#include "opp_thread.h"
#include "opp_watch.h"
#endif
