/* The process's cgroups. Private to the core. */
#ifndef OPP_CGROUP_H
#define OPP_CGROUP_H

#include "opp_system.h"

/* Called for a cgroup whose folder is `root` followed by `folder`. */
typedef void (*opp_cgroup_look)(const char *root, const char *folder, bool is_unified, void *context);

/*
 * Calls `look` for the process's cgroup and for each visible one above it: in the unified hierarchy, and in
 * that of `controller` alone. `root` replaces "/" ("" is the real root).
 */
void opp_cgroup_visit(const char *root, const char *controller, opp_cgroup_look look, void *context);

/* opp_task_limit_read() on the files below `root`. */
void opp_task_limit_read_at(const char *root, opp_task_limit *limit);

#endif
