/*
 * The beginning of every file here: the C core's own sources are compiled once more, from where they are,
 * with each synchronisation a step of the explorer, with small queues, and with every function private to the
 * file that includes them, so that they stand beside the real ones in one program.
 */
#ifndef CHECKED_H
#define CHECKED_H

#define OPP_SEGMENT_SLOTS 2
#define OPP_SLAB_SEGMENTS 2
#define OPP_SLABS 64
#define OPP_DIRECTORY_FIRST 2
#define OPP_EPOCH_PUSHES 2
#define OPP_PRODUCER_CACHE 4
#define OPP_SWEEP_EMPTY 1
#define OPP_SWEEP_LOOKS 1
#define OPP_MAX_APPS 64
#define OPP_WORD_APPS 1u
#define OPP_BYPASS_MAX 10
#define OPP_TURN 2
#define OPP_POOL_WORKERS 64
#define OPP_PICKS 2
#define OPP_SEARCH_LOOKS 1
#define OPP_PURGE_FIRST 2
#define OPP_READINESS_DESCRIPTORS 8

#include <stdio.h>
#include <string.h>

/* before opp_sync.h, which has the explorer's memory stand in for it */
#include "../../COpportune/mapping.h"
#include "../../COpportune/opp_sync.h"
#include "opp_checked.h"

#define CHECKED_CORE_BEGIN                                                                               \
    _Pragma("clang attribute push(__attribute__((internal_linkage)), apply_to = function)")             \
    _Pragma("clang diagnostic push")                                                                     \
    _Pragma("clang diagnostic ignored \"-Wunused-function\"")                                            \
    _Pragma("clang diagnostic ignored \"-Wundefined-internal\"")
#define CHECKED_CORE_END _Pragma("clang attribute pop") _Pragma("clang diagnostic pop")

#endif
