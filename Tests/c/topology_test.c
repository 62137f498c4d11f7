/*
 * CPUs, nodes, CPU quota and limits of threads, on machines that are made up: a tree of files in a temporary
 * folder, and injected calls.
 * R-SYS-03, R-CARD-01
 */
#include "cgroup.h"
#include "opportune.h"
#include "topology.h"

#include "check.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>

/* --- A machine ------------------------------------------------------------------------------ */

static char root[64];
static int cpu_numbers = 4; /* CPUs 0 to this are in the affinity mask */
static int cpus_per_node = 1 << 20;
static int node_stride = 1;

static int fake_affinity(uint64_t mask[OPP_CPU_NUMBERS / 64]) {
    for (int cpu = 0; cpu < cpu_numbers; cpu++) mask[cpu / 64] |= (uint64_t)1 << (cpu % 64);
    return 0;
}

static int fake_node_of(int cpu) {
    return cpu / cpus_per_node * node_stride;
}

static int fake_distance(int from, int to) {
    int apart = abs(from - to) / node_stride;
    return 10 + apart * 6;
}

static int failing_affinity(uint64_t mask[OPP_CPU_NUMBERS / 64]) {
    (void)mask;
    return -EPERM;
}

static int no_node(int cpu) {
    (void)cpu;
    return -1;
}

static int no_distance(int from, int to) {
    (void)from, (void)to;
    return 0;
}

static const opp_topology_calls fake = {fake_affinity, fake_node_of, fake_distance};

static void write_file(const char *path, const char *text) {
    char full[PATH_MAX];
    CHECK(snprintf(full, sizeof full, "%s%s", root, path) < (int)sizeof full);
    for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        CHECK(mkdir(full, 0755) == 0 || errno == EEXIST);
        *at = '/';
    }
    FILE *file = fopen(full, "we");
    CHECK(file != NULL);
    CHECK(fputs(text, file) >= 0);
    CHECK_EQUAL(fclose(file), 0);
}

static void remove_tree(void) {
    char command[128];
    CHECK(strncmp(root, "/tmp/opportune-", 15) == 0);
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    CHECK_EQUAL(system(command), 0);
}

/* An empty machine of `cpus` CPUs. */
static void machine(int cpus) {
    if (root[0] != '\0') remove_tree();
    strcpy(root, "/tmp/opportune-XXXXXX");
    CHECK(mkdtemp(root) != NULL);
    cpu_numbers = cpus;
    cpus_per_node = 1 << 20;
    node_stride = 1;
}

static opp_topology topology;

static void read_machine(void) {
    memset(&topology, 0xff, sizeof topology);
    CHECK_EQUAL(opp_topology_read_at(root, &fake, &topology), 0);
}

static uint64_t quota(void) {
    read_machine();
    return topology.quota_milli;
}

/* --- CPUs ----------------------------------------------------------------------------------- */

static void only_online_cpus_count(void) {
    machine(8);
    read_machine();
    CHECK_EQUAL(topology.cpu_count, 8);
    write_file("/sys/devices/system/cpu/online", "0-1,4,6-63\n");
    read_machine();
    CHECK_EQUAL(topology.cpu_count, 5);
    const int expected[] = {0, 1, 4, 6, 7};
    for (int place = 0; place < 5; place++) CHECK_EQUAL(topology.cpu[place], expected[place]);
    /* Nonsense is not believed. */
    write_file("/sys/devices/system/cpu/online", "what?\n");
    read_machine();
    CHECK_EQUAL(topology.cpu_count, 8);
}

static void more_cpus_than_fit(void) {
    machine(OPP_CPU_NUMBERS);
    read_machine();
    CHECK_EQUAL(topology.cpu_count, OPP_MAX_CPUS);
    write_file("/sys/devices/system/cpu/online", "5000-5003\n");
    read_machine();
    CHECK_EQUAL(topology.cpu_count, 4);
    CHECK_EQUAL(topology.cpu[3], 5003);
}

static void failure_is_passed_on(void) {
    const opp_topology_calls failing = {failing_affinity, fake_node_of, fake_distance};
    CHECK_EQUAL(opp_topology_read_at(root, &failing, &topology), -EPERM);
}

/* --- Nodes ---------------------------------------------------------------------------------- */

static void nodes(int count, int stride) {
    machine(count * 4);
    cpus_per_node = 4;
    node_stride = stride;
    read_machine();
    CHECK_EQUAL(topology.node_count, count);
    for (int place = 0; place < count * 4; place++) CHECK_EQUAL(topology.node_of[place], place / 4);
    for (int from = 0; from < count; from++)
        for (int to = 0; to < count; to++)
            CHECK_EQUAL(topology.distance[from][to], 10 + abs(from - to) * 6);
}

static void nodes_without_cpus_have_no_index(void) {
    machine(12);
    cpus_per_node = 4;
    write_file("/sys/devices/system/cpu/online", "0-3,8-11\n");
    read_machine();
    CHECK_EQUAL(topology.node_count, 2);
    CHECK_EQUAL(topology.node_of[4], 1);
    CHECK_EQUAL(topology.distance[0][1], 22);
}

static void more_nodes_than_fit(void) {
    machine(100);
    cpus_per_node = 1;
    read_machine();
    CHECK_EQUAL(topology.node_count, OPP_MAX_NODES);
    for (int place = 0; place < 100; place++) CHECK(topology.node_of[place] < OPP_MAX_NODES);
    CHECK_EQUAL(topology.distance[0][OPP_MAX_NODES - 1], UINT8_MAX); /* 10 + 63 * 6 is cut */
}

static void unknown_nodes_are_one(void) {
    const opp_topology_calls none = {fake_affinity, no_node, no_distance};
    machine(4);
    CHECK_EQUAL(opp_topology_read_at(root, &none, &topology), 0);
    CHECK_EQUAL(topology.node_count, 1);
    CHECK_EQUAL(topology.node_of[3], 0);
    CHECK_EQUAL(topology.distance[0][0], 10);
}

/* --- Quota ---------------------------------------------------------------------------------- */

static const char *const mounts_v2 = "31 23 0:28 / / rw,relatime - ext4 /dev/root rw\n"
                                     "32 31 0:29 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";

static void no_files_no_quota(void) {
    machine(4);
    CHECK_EQUAL(quota(), 0);
}

static void unified_takes_the_least_above(void) {
    machine(4);
    write_file("/proc/self/cgroup", "0::/a/b/c\n");
    write_file("/proc/self/mountinfo", mounts_v2);
    CHECK_EQUAL(quota(), 0);
    write_file("/sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
    CHECK_EQUAL(quota(), 0);
    write_file("/sys/fs/cgroup/a/b/c/cpu.max", "250000 100000\n");
    CHECK_EQUAL(quota(), 2500);
    write_file("/sys/fs/cgroup/a/cpu.max", "150000 100000\n"); /* two above, the level between has none */
    CHECK_EQUAL(quota(), 1500);
    write_file("/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
    CHECK_EQUAL(quota(), 1500);
    write_file("/sys/fs/cgroup/cpu.max", "20000 100000\n"); /* a container's own top */
    CHECK_EQUAL(quota(), 200);
    write_file("/sys/fs/cgroup/other/cpu.max", "1 100000\n"); /* not above us */
    CHECK_EQUAL(quota(), 200);
    write_file("/sys/fs/cgroup/a/b/c/cpu.max", "1 1000000\n"); /* below a thousandth is not "none" */
    CHECK_EQUAL(quota(), 1);
}

static void legacy_takes_the_least_above(void) {
    machine(4);
    write_file("/proc/self/cgroup", "5:memory:/m\n4:cpuset:/s\n3:cpuacct,cpu:/a/b\n0::/u\n");
    write_file("/proc/self/mountinfo",
               "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
               "34 31 0:31 / /sys/fs/cgroup/cpu\\040here rw - cgroup cgroup rw,cpu,cpuacct\n");
    write_file("/sys/fs/cgroup/cpu here/cpu.cfs_quota_us", "-1\n");
    write_file("/sys/fs/cgroup/cpu here/cpu.cfs_period_us", "100000\n");
    CHECK_EQUAL(quota(), 0);
    write_file("/sys/fs/cgroup/cpu here/a/b/cpu.cfs_quota_us", "350000\n");
    CHECK_EQUAL(quota(), 0); /* half of it is not there */
    write_file("/sys/fs/cgroup/cpu here/a/b/cpu.cfs_period_us", "100000\n");
    CHECK_EQUAL(quota(), 3500);
    write_file("/sys/fs/cgroup/cpu here/a/cpu.cfs_quota_us", "50000\n");
    write_file("/sys/fs/cgroup/cpu here/a/cpu.cfs_period_us", "20000\n");
    CHECK_EQUAL(quota(), 2500);
}

static void both_hierarchies_hold(void) {
    machine(4);
    write_file("/proc/self/cgroup", "1:cpu:/l\n0::/u\n");
    write_file("/proc/self/mountinfo", "34 31 0:31 / /cg/cpu rw - cgroup cgroup rw,cpu\n"
                                       "35 31 0:32 / /cg/unified rw - cgroup2 cgroup2 rw\n");
    write_file("/cg/cpu/l/cpu.cfs_quota_us", "200000\n");
    write_file("/cg/cpu/l/cpu.cfs_period_us", "100000\n");
    CHECK_EQUAL(quota(), 2000);
    write_file("/cg/unified/u/cpu.max", "70000 100000\n");
    CHECK_EQUAL(quota(), 700);
}

/* A container without a namespace of its own sees its cgroup's full name, and only its own part mounted. */
static void containers_see_their_part(void) {
    machine(4);
    write_file("/proc/self/cgroup", "0::/docker/abc/inner\n");
    write_file("/proc/self/mountinfo", "35 31 0:32 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    write_file("/sys/fs/cgroup/inner/cpu.max", "300000 100000\n");
    CHECK_EQUAL(quota(), 3000);
    write_file("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    CHECK_EQUAL(quota(), 1000);
    /* Moved out of what its namespace shows. */
    write_file("/proc/self/cgroup", "0::/../elsewhere\n");
    write_file("/proc/self/mountinfo", mounts_v2);
    CHECK_EQUAL(quota(), 1000);
    /* Another cgroup whose name merely begins alike. */
    write_file("/proc/self/cgroup", "0::/docker/abcdef/inner\n");
    write_file("/proc/self/mountinfo", "35 31 0:32 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    CHECK_EQUAL(quota(), 1000);
}

static void works_without_proc(void) {
    machine(4);
    write_file("/sys/fs/cgroup/cpu.max", "150000 100000\n");
    CHECK_EQUAL(quota(), 1500);
}

/* Overlay mounts have lines of many kilobytes; the one that matters may come after, or end without a
 * newline. */
static void long_lines_are_left_out(void) {
    machine(4);
    static char mounts[20000];
    memset(mounts, 'x', sizeof mounts);
    memcpy(mounts, "30 1 0:1 / / rw - overlay o rw,", 31);
    /* What comes when the reader's buffer has been emptied three times looks like a line, and is not. */
    static const char decoy[] = "34 31 0:31 / /decoy rw - cgroup2 cgroup2 rw,";
    memcpy(mounts + 3 * 4095, decoy, sizeof decoy - 1);
    write_file("/decoy/cpu.max", "10000 100000\n");
    strcpy(mounts + 15000, "\n35 31 0:32 / /c rw - cgroup2 cgroup2 rw");
    write_file("/proc/self/mountinfo", mounts);
    write_file("/proc/self/cgroup", "0::/\n");
    write_file("/c/cpu.max", "120000 100000\n");
    CHECK_EQUAL(quota(), 1200);
}

/* --- Limits of threads ---------------------------------------------------------------------- */

static opp_task_limit task_limit(void) {
    opp_task_limit limit;
    memset(&limit, 0xff, sizeof limit);
    opp_task_limit_read_at(root, &limit);
    return limit;
}

static void no_files_no_task_limit(void) {
    machine(4);
    CHECK_EQUAL(task_limit().max, UINT64_MAX);
    write_file("/proc/self/cgroup", "0::/a\n");
    write_file("/proc/self/mountinfo", mounts_v2);
    write_file("/sys/fs/cgroup/a/pids.max", "max\n");
    write_file("/sys/fs/cgroup/a/pids.current", "9\n");
    CHECK_EQUAL(task_limit().max, UINT64_MAX);
    write_file("/sys/fs/cgroup/a/pids.max", "18\n");
    CHECK_EQUAL(task_limit().max, 18);
    CHECK_EQUAL(task_limit().used, 9);
}

/* Not the least limit: the one with the least room. */
static void the_group_with_the_least_room_counts(void) {
    machine(4);
    write_file("/proc/self/cgroup", "8:pids:/a/b\n0::/u\n");
    write_file("/proc/self/mountinfo", "34 31 0:31 / /cg/pids rw - cgroup cgroup rw,pids\n"
                                       "35 31 0:32 / /cg/unified rw - cgroup2 cgroup2 rw\n");
    write_file("/cg/pids/a/b/pids.max", "100\n");
    write_file("/cg/pids/a/b/pids.current", "10\n");
    CHECK_EQUAL(task_limit().max, 100);
    write_file("/cg/pids/a/pids.max", "200\n");
    write_file("/cg/pids/a/pids.current", "150\n");
    CHECK_EQUAL(task_limit().max, 200);
    CHECK_EQUAL(task_limit().used, 150);
    write_file("/cg/unified/u/pids.max", "30\n");
    CHECK_EQUAL(task_limit().max, 200); /* half of it is not there */
    write_file("/cg/unified/u/pids.current", "40\n"); /* lowered beneath what there was */
    CHECK_EQUAL(task_limit().max, 30);
    CHECK_EQUAL(task_limit().used, 40);
}

/* --- Width and place ------------------------------------------------------------------------ */

static uint32_t width(uint32_t cpus, uint64_t quota_milli) {
    memset(&topology, 0, sizeof topology);
    topology.cpu_count = cpus;
    topology.quota_milli = quota_milli;
    return opp_topology_width(&topology);
}

static void width_rounds_the_quota_up(void) {
    CHECK_EQUAL(width(8, 0), 8);
    CHECK_EQUAL(width(8, 1), 1);
    CHECK_EQUAL(width(8, 1000), 1);
    CHECK_EQUAL(width(8, 1001), 2);
    CHECK_EQUAL(width(8, 2500), 3);
    CHECK_EQUAL(width(8, 7999), 8);
    CHECK_EQUAL(width(8, 64000), 8);
    CHECK_EQUAL(width(8, UINT64_MAX), 8);
    CHECK_EQUAL(width(0, 0), 1);
}

static void current_is_a_place_in_the_list(void) {
    cpu_set_t before, one;
    CHECK_EQUAL(sched_getaffinity(0, sizeof before, &before), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &before)) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    CHECK_EQUAL(sched_setaffinity(0, sizeof one, &one), 0);

    CHECK_EQUAL(opp_topology_read(&topology), 0);
    CHECK_EQUAL(topology.cpu_count, 1);
    CHECK_EQUAL(topology.cpu[0], cpu);
    CHECK_EQUAL(opp_topology_current(&topology), 0);

    /* Among others, found by its number and not by its place. */
    topology.cpu_count = 3;
    topology.cpu[0] = (uint16_t)cpu;
    topology.cpu[1] = (uint16_t)(cpu + 5);
    topology.cpu[2] = (uint16_t)(cpu + 6);
    CHECK_EQUAL(opp_topology_current(&topology), 0);
    topology.cpu[0] = (uint16_t)(cpu + 1);
    CHECK_EQUAL(opp_topology_current(&topology), -1);
    CHECK_EQUAL(sched_setaffinity(0, sizeof before, &before), 0);
}

static void this_machine_makes_sense(void) {
    cpu_set_t mask;
    CHECK_EQUAL(sched_getaffinity(0, sizeof mask, &mask), 0);
    CHECK_EQUAL(opp_topology_read(&topology), 0);
    CHECK_EQUAL(topology.cpu_count, CPU_COUNT(&mask));
    CHECK(topology.node_count >= 1);
    for (uint32_t place = 0; place < topology.cpu_count; place++) {
        CHECK(CPU_ISSET(topology.cpu[place], &mask));
        CHECK(topology.node_of[place] < topology.node_count);
    }
    for (uint32_t node = 0; node < topology.node_count; node++) CHECK(topology.distance[node][node] >= 10);
    CHECK(opp_topology_current(&topology) >= 0);
}

int main(void) {
    only_online_cpus_count();
    more_cpus_than_fit();
    failure_is_passed_on();
    nodes(2, 1);
    nodes(8, 1);
    nodes(8, 3); /* kernel numbers with gaps */
    nodes_without_cpus_have_no_index();
    more_nodes_than_fit();
    unknown_nodes_are_one();
    no_files_no_quota();
    unified_takes_the_least_above();
    legacy_takes_the_least_above();
    both_hierarchies_hold();
    containers_see_their_part();
    works_without_proc();
    long_lines_are_left_out();
    no_files_no_task_limit();
    the_group_with_the_least_room_counts();
    width_rounds_the_quota_up();
    current_is_a_place_in_the_list();
    this_machine_makes_sense();
    remove_tree();
    return 0;
}
