/* How a program begins, for its caller or by another process. */
#ifndef OPP_HOST_PROGRAM_H
#define OPP_HOST_PROGRAM_H

#include "opp_host.h"

#include <stdatomic.h>

/* What who orders a program shares with who begins it. */
struct opp_host_terms {
    /* Set when nobody waits any more: who begins it looks, and the child before all else. */
    _Atomic uint32_t is_over;
    /* The child, written by the kernel before that runs (CLONE_PARENT_SETTID). */
    _Atomic pid_t pid;
};

/*
 * Starts a program as opp_host_start does. `flags` are more for clone3; with CLONE_PARENT it is a child of
 * the caller's parent, as the caller is. `pidfd` and `terms` may be NULL. Returns the pid, or -errno of
 * clone3; `failure` is what kept it from being the program, which leaves a process to be waited for, or 0.
 */
pid_t opp_host_begin(const opp_host_program *_Nonnull program, uint64_t flags, int *_Nullable pidfd,
    struct opp_host_terms *_Nullable terms, int *_Nonnull failure);

#endif
