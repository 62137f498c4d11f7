/* Where the process is in the cgroup file systems. Private to the core. */
#ifndef OPP_CGROUP_H
#define OPP_CGROUP_H

#include "opp_system.h"

/* What is done at a cgroup: `root` followed by `folder` is its place. */
typedef void (*opp_cgroup_look)(const char *root, const char *folder, bool is_unified, void *context);

/*
 * Looks at the process's cgroup and at each above it, as far as they can be seen, in the unified hierarchy
 * and in that of `controller` alone. `root` takes the place of "/" ("" is the machine's own).
 */
void opp_cgroup_visit(const char *root, const char *controller, opp_cgroup_look look, void *context);

/* opp_task_limit_read() on the files below `root`. */
void opp_task_limit_read_at(const char *root, opp_task_limit *limit);

#endif
