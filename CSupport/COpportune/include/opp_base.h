/* What every header of the C core shares. */
#ifndef OPP_BASE_H
#define OPP_BASE_H

#if !defined(__linux__)
#error "Opportune needs Linux: futexes, io_uring, scheduling classes. Elsewhere run it in a container."
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define OPP_BEGIN_DECLS extern "C" {
#define OPP_END_DECLS }
#else
#define OPP_BEGIN_DECLS
#define OPP_END_DECLS
#endif

/* Nullability helps Swift's importer; other compilers do not know it. */
#if !defined(__clang__)
#define _Nonnull
#define _Nullable
#define OPP_CLOSED_ENUM
#else
#define OPP_CLOSED_ENUM __attribute__((enum_extensibility(closed)))
#endif

#define OPP_MUST_USE __attribute__((warn_unused_result))

/* A link in the memory of what it is a link of: to put that into a list allocates nothing. */
typedef struct opp_link {
    struct opp_link *_Nullable next;
    void *_Nullable owner;
} opp_link;

#endif
