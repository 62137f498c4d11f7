/*
 * Assertions of the core: its own invariants, one condition a line. Enabled in debug builds, under
 * sanitizers, in the C tests and in the explorer, where each failure is a finding. In release builds the
 * condition is not evaluated.
 *
 * A condition uses only what its thread alone may change, or a value that was loaded before. Loading an
 * atomic here would be a step of its own, and might read a different value.
 */
#ifndef OPP_ASSERT_H
#define OPP_ASSERT_H

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define OPP_ASSERTS 1
#endif
#endif
#if defined(DEBUG) || defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#undef OPP_ASSERTS
#define OPP_ASSERTS 1
#endif

#if defined(OPP_CHECKED)
#include "opp_explorer.h"
#define OPP_ASSERT(condition)                                                                            \
    ((condition) ? (void)0                                                                               \
                 : oppx_fail("not so in %s(), line %d: %s", __func__, __LINE__, #condition))
#elif defined(OPP_ASSERTS)
#include <stdio.h>
#include <stdlib.h>
#define OPP_ASSERT(condition)                                                                            \
    ((condition) ? (void)0                                                                               \
                 : (fprintf(stderr, "%s:%d: opportune: not so: %s\n", __FILE__, __LINE__, #condition),  \
                    abort()))
#else
#define OPP_ASSERT(condition) ((void)sizeof(!(condition)))
#endif

#endif
