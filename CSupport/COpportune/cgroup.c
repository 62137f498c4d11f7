#include "cgroup.h"
#include "opp_assert.h"
#include "system_file.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* A mounted cgroup hierarchy that has a controller, and the process's place in it. */
typedef struct hierarchy {
    const char *controller;
    bool is_unified;
    char path[PATH_MAX];    /* the process's cgroup, as /proc/self/cgroup has it */
    char mounted[PATH_MAX]; /* the part of the hierarchy that is mounted: "/", or a container's cgroup */
    char at[PATH_MAX];      /* the mount point; empty where there is none */
} hierarchy;

/* Whether `list`, separated by commas, has the entry `wanted`. */
static bool lists(const char *list, const char *wanted) {
    size_t length = strlen(wanted);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        if (*at == ',') at++;
        if (strncmp(at, wanted, length) == 0 && (at[length] == ',' || at[length] == '\0')) return true;
    }
    return false;
}

static void copy_path(char to[PATH_MAX], const char *from) {
    size_t length = strlen(from);
    to[0] = '\0';
    if (length < PATH_MAX) memcpy(to, from, length + 1);
}

/* "4:cpu,cpuacct:/a/b", or "0::/a/b" for the unified hierarchy. */
static bool note_cgroup(char *line, void *context) {
    hierarchy *own = context;
    char *controllers = strchr(line, ':');
    char *path = controllers == NULL ? NULL : strchr(++controllers, ':');
    if (path == NULL) return true;
    *path++ = '\0';
    bool is_own = own->is_unified ? strncmp(line, "0:", 2) == 0 && *controllers == '\0'
                                  : lists(controllers, own->controller);
    if (is_own) copy_path(own->path, path);
    return !is_own;
}

/* mountinfo writes space, tab, newline and backslash as three octal digits. */
static void unescape(char *text) {
    char *to = text;
    for (const char *from = text; *from != '\0'; to++) {
        OPP_ASSERT(to <= from);
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' &&
            from[3] >= '0' && from[3] <= '7') {
            *to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* "31 23 0:28 ROOT MOUNT-POINT OPTIONS [more ...] - TYPE SOURCE SUPER-OPTIONS" */
static bool note_mount(char *line, void *context) {
    hierarchy *own = context;
    char *type = strstr(line, " - ");
    if (type == NULL) return true;
    *type = '\0';
    type += 3;
    char *rest, *fields = line, *field[5];
    for (int index = 0; index < 5; index++)
        if ((field[index] = strtok_r(index == 0 ? fields : NULL, " ", &rest)) == NULL) return true;
    type = strtok_r(type, " ", &rest);
    char *source = strtok_r(NULL, " ", &rest), *options = strtok_r(NULL, " ", &rest);
    if (type == NULL || source == NULL || options == NULL) return true;
    if (own->is_unified ? strcmp(type, "cgroup2") != 0
                        : strcmp(type, "cgroup") != 0 || !lists(options, own->controller))
        return true;
    unescape(field[3]);
    unescape(field[4]);
    copy_path(own->mounted, field[3]);
    copy_path(own->at, field[4]);
    return false;
}

/* Visits the cgroups from the process's own up to the mount point: the limits of each apply to all below
 * it. */
static void visit_path(const hierarchy *own, const char *root, opp_cgroup_look look, void *context) {
    size_t prefix = strcmp(own->mounted, "/") == 0 ? 0 : strlen(own->mounted);
    const char *below = own->path;
    if (prefix > 0 && strncmp(below, own->mounted, prefix) == 0 &&
        (below[prefix] == '/' || below[prefix] == '\0'))
        below += prefix;
    else if (prefix > 0)
        below = ""; /* what is mounted is not above us by name: take it for ours */
    if (strncmp(below, "/..", 3) == 0) below = ""; /* outside of the cgroup namespace: not to be seen */
    char folder[PATH_MAX];
    int length = snprintf(folder, sizeof folder, "%s%s", own->at, below);
    if (length < 0 || (size_t)length >= sizeof folder) return;

    size_t top = strlen(own->at);
    OPP_ASSERT(strlen(folder) >= top);
    for (;;) {
        while (strlen(folder) > top && folder[strlen(folder) - 1] == '/') folder[strlen(folder) - 1] = '\0';
        look(root, folder, own->is_unified, context);
        if (strlen(folder) <= top) return;
        *strrchr(folder, '/') = '\0';
    }
}

static void visit(const char *root, hierarchy *own, opp_cgroup_look look, void *context) {
    opp_file_lines(root, "/proc/self/cgroup", note_cgroup, own);
    if (opp_file_lines(root, "/proc/self/mountinfo", note_mount, own) != 0) {
        /* Without /proc: a container sees its own cgroup at the usual mount point. */
        int length = snprintf(own->at, sizeof own->at, "/sys/fs/cgroup%s%s", own->is_unified ? "" : "/",
                              own->is_unified ? "" : own->controller);
        if (length < 0 || (size_t)length >= sizeof own->at) own->at[0] = '\0';
        own->path[0] = '\0';
    }
    if (own->at[0] != '\0') visit_path(own, root, look, context);
}

void opp_cgroup_visit(const char *root, const char *controller, opp_cgroup_look look, void *context) {
    /* A machine in transition has both hierarchies, and the limits of both apply. */
    hierarchy unified = {.controller = controller, .is_unified = true}, legacy = {.controller = controller};
    visit(root, &unified, look, context);
    visit(root, &legacy, look, context);
}

/* --- Threads -------------------------------------------------------------------------------- */

static void take_least_room(const char *root, const char *folder, bool is_unified, void *context) {
    (void)is_unified; /* the files have the same names in both */
    opp_task_limit *least = context;
    char path[PATH_MAX];
    long long max, used;
    int length = snprintf(path, sizeof path, "%s/pids.max", folder);
    if (length < 0 || (size_t)length >= sizeof path || !opp_file_number(root, path, &max) || max < 0) return;
    length = snprintf(path, sizeof path, "%s/pids.current", folder);
    if (length < 0 || (size_t)length >= sizeof path || !opp_file_number(root, path, &used) || used < 0)
        return;
    uint64_t room = max > used ? (uint64_t)(max - used) : 0;
    if (least->max != UINT64_MAX && room >= (least->max > least->used ? least->max - least->used : 0)) return;
    *least = (opp_task_limit){.max = (uint64_t)max, .used = (uint64_t)used};
}

void opp_task_limit_read_at(const char *root, opp_task_limit *limit) {
    *limit = (opp_task_limit){.max = UINT64_MAX};
    opp_cgroup_visit(root, "pids", take_least_room, limit);
}

void opp_task_limit_read(opp_task_limit *limit) {
    opp_task_limit_read_at("", limit);
}
