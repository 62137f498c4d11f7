/* Small BPF programs that the kernel asks what the processes of a control group may do. */
#include "opp_host.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* By hand, so that neither a compiler for BPF nor a library is needed. UNLESS skips so many instructions if
   the register holds another value, JUMP_IF if the comparison holds. */
#define LOAD(to, from, offset) \
    ((struct bpf_insn){.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = (to), .src_reg = (from), .off = (offset)})
#define LOAD_LONG(to, from) \
    ((struct bpf_insn){.code = BPF_LDX | BPF_MEM | BPF_DW, .dst_reg = (to), .src_reg = (from)})
#define STORE_LONG(to, from) \
    ((struct bpf_insn){.code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = (to), .src_reg = (from)})
#define ADD_LONG_ATOMICALLY(to, from) \
    ((struct bpf_insn){.code = BPF_STX | BPF_ATOMIC | BPF_DW, .dst_reg = (to), .src_reg = (from), .imm = BPF_ADD})
/* Two instructions. */
#define SET_LONG(to, value) \
    ((struct bpf_insn){.code = BPF_LD | BPF_IMM | BPF_DW, .dst_reg = (to), .imm = (int32_t)(uint32_t)(value)}), \
        ((struct bpf_insn){.imm = (int32_t)((uint64_t)(value) >> 32)})
#define SET_MAP(to, map) \
    ((struct bpf_insn){ \
        .code = BPF_LD | BPF_IMM | BPF_DW, .dst_reg = (to), .src_reg = BPF_PSEUDO_MAP_FD, .imm = (map)}), \
        ((struct bpf_insn){0})
#define CALCULATE(operation, to, from) \
    ((struct bpf_insn){.code = BPF_ALU64 | (operation) | BPF_X, .dst_reg = (to), .src_reg = (from)})
#define CALL(function) ((struct bpf_insn){.code = BPF_JMP | BPF_CALL, .imm = (function)})
#define JUMP_IF(first, comparison, second, skipped) \
    ((struct bpf_insn){.code = BPF_JMP | (comparison) | BPF_X, .dst_reg = (first), .src_reg = (second), \
                       .off = (int16_t)(skipped)})
#define COPY(to, from) \
    ((struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = (to), .src_reg = (from)})
#define SET(to, value) \
    ((struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = (to), .imm = (value)})
#define AND(to, value) \
    ((struct bpf_insn){.code = BPF_ALU64 | BPF_AND | BPF_K, .dst_reg = (to), .imm = (value)})
#define UNLESS(register, value, skipped) \
    ((struct bpf_insn){ \
        .code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = (register), .off = (int16_t)(skipped), .imm = (value)})
#define END ((struct bpf_insn){.code = BPF_JMP | BPF_EXIT})

/* What a program returns; the last only of packets that leave: TCP is told, and slows down at once. */
enum { refused = 0, allowed = 1, refused_as_congestion = 2 };

enum { loopback = 1 }; /* its number in each namespace */

static const uint32_t types[] = {
    [opp_host_limit_of_devices] = BPF_CGROUP_DEVICE,
    [opp_host_limit_of_arrivals] = BPF_CGROUP_INET_INGRESS,
    [opp_host_limit_of_departures] = BPF_CGROUP_INET_EGRESS,
};

static int bpf(enum bpf_cmd command, union bpf_attr *attributes) {
    long result = syscall(SYS_bpf, command, attributes, sizeof *attributes);
    return result < 0 ? -errno : (int)result;
}

static int load(opp_host_limit limit, const struct bpf_insn *program, size_t count, const char *name) {
    union bpf_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.prog_type =
        limit == opp_host_limit_of_devices ? BPF_PROG_TYPE_CGROUP_DEVICE : BPF_PROG_TYPE_CGROUP_SKB;
    attributes.expected_attach_type = types[limit];
    attributes.insns = (uint64_t)(uintptr_t)program;
    attributes.insn_cnt = (uint32_t)count;
    attributes.license = (uint64_t)(uintptr_t) "Apache-2.0";
    strncpy(attributes.prog_name, name, sizeof attributes.prog_name - 1);
    return bpf(BPF_PROG_LOAD, &attributes);
}

int opp_host_device_at(const char *path, opp_host_device *found) {
    struct statx status;
    if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_TYPE, &status) != 0) return -errno;
    if (!S_ISCHR(status.stx_mode) && !S_ISBLK(status.stx_mode)) return -ENODEV;
    *found = (opp_host_device){
        .is_block = S_ISBLK(status.stx_mode) ? 1 : 0,
        .major = (int32_t)status.stx_rdev_major,
        .minor = (int32_t)status.stx_rdev_minor};
    return 0;
}

int opp_host_limit_devices(const opp_host_device *denied, size_t count) {
    struct bpf_insn program[9 + 5 * opp_host_device_max + 2];
    size_t length = 0;
    if (count > opp_host_device_max) return -E2BIG;
    /* The low half of the first word is the kind, the high half what is wanted. */
    program[length++] = LOAD(BPF_REG_2, BPF_REG_1, offsetof(struct bpf_cgroup_dev_ctx, access_type));
    program[length++] = LOAD(BPF_REG_3, BPF_REG_1, offsetof(struct bpf_cgroup_dev_ctx, major));
    program[length++] = LOAD(BPF_REG_4, BPF_REG_1, offsetof(struct bpf_cgroup_dev_ctx, minor));
    program[length++] = COPY(BPF_REG_5, BPF_REG_2);
    program[length++] = AND(BPF_REG_5, (BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE) << 16);
    program[length++] = AND(BPF_REG_2, 0xffff);
    /* To make a node, as who unpacks an archive does, gives no access yet. */
    program[length++] = UNLESS(BPF_REG_5, 0, 2);
    program[length++] = SET(BPF_REG_0, allowed);
    program[length++] = END;
    for (size_t index = 0; index < count; index++) {
        const opp_host_device *device = &denied[index];
        int of_minor = device->minor >= 0 ? 1 : 0;
        program[length++] = UNLESS(
            BPF_REG_2, device->is_block != 0 ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR, 3 + of_minor);
        program[length++] = UNLESS(BPF_REG_3, device->major, 2 + of_minor);
        if (of_minor != 0) program[length++] = UNLESS(BPF_REG_4, device->minor, 2);
        program[length++] = SET(BPF_REG_0, refused);
        program[length++] = END;
    }
    program[length++] = SET(BPF_REG_0, allowed);
    program[length++] = END;
    return load(opp_host_limit_of_devices, program, length, "opp_devices");
}

int opp_host_limit_network(opp_host_limit direction) {
    const struct bpf_insn program[] = {
        LOAD(BPF_REG_2, BPF_REG_1, offsetof(struct __sk_buff, ifindex)),
        SET(BPF_REG_0, refused),
        UNLESS(BPF_REG_2, loopback, 1),
        SET(BPF_REG_0, allowed),
        END,
    };
    return load(direction, program, sizeof program / sizeof *program, "opp_network");
}

/* A number of 64 bits for each group and direction to which the program is attached, zero at first. */
static int make_storage(void) {
    union bpf_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.map_type = BPF_MAP_TYPE_CGROUP_STORAGE;
    attributes.key_size = sizeof(struct bpf_cgroup_storage_key);
    attributes.value_size = sizeof(uint64_t);
    return bpf(BPF_MAP_CREATE, &attributes);
}

/* A token bucket, kept as the time at which it is full again: a packet moves that time on by as long as its
   bytes take at the rate, and is dropped while it lies further ahead than a full bucket takes to fill. Two CPUs
   that store the time at once may lose one packet's part of it, which does no harm: the next pays its own. */
int opp_host_slow_network(uint64_t rate, opp_host_limit direction) {
    enum { second = 1000000000, full = second / 4 };
    int result, storage;
    if (rate == 0) return -EINVAL;
    storage = make_storage();
    if (storage < 0) return storage;
    const struct bpf_insn program[] = {
        LOAD(BPF_REG_2, BPF_REG_1, offsetof(struct __sk_buff, ifindex)),
        UNLESS(BPF_REG_2, loopback, 2),
        SET(BPF_REG_0, allowed),
        END,
        /* r6: what the packet takes. No packet has 2^32 bytes, so the product fits. */
        LOAD(BPF_REG_6, BPF_REG_1, offsetof(struct __sk_buff, len)),
        SET(BPF_REG_2, second),
        CALCULATE(BPF_MUL, BPF_REG_6, BPF_REG_2),
        SET_LONG(BPF_REG_2, rate),
        CALCULATE(BPF_DIV, BPF_REG_6, BPF_REG_2),
        /* r7: now; r8: where the time is kept; r3: that time, in the past at least now. */
        CALL(BPF_FUNC_ktime_get_ns),
        COPY(BPF_REG_7, BPF_REG_0),
        SET_MAP(BPF_REG_1, storage),
        SET(BPF_REG_2, 0),
        CALL(BPF_FUNC_get_local_storage),
        COPY(BPF_REG_8, BPF_REG_0),
        LOAD_LONG(BPF_REG_3, BPF_REG_8),
        JUMP_IF(BPF_REG_3, BPF_JGE, BPF_REG_7, 2),
        STORE_LONG(BPF_REG_8, BPF_REG_7),
        COPY(BPF_REG_3, BPF_REG_7),
        SET(BPF_REG_2, full),
        CALCULATE(BPF_ADD, BPF_REG_7, BPF_REG_2),
        SET(BPF_REG_0, direction == opp_host_limit_of_departures ? refused_as_congestion : refused),
        JUMP_IF(BPF_REG_3, BPF_JGT, BPF_REG_7, 2),
        ADD_LONG_ATOMICALLY(BPF_REG_8, BPF_REG_6),
        SET(BPF_REG_0, allowed),
        END,
    };
    result = load(direction, program, sizeof program / sizeof *program, "opp_slow");
    close(storage); /* the program keeps it */
    return result;
}

int opp_host_limit_attach(int program, int group, opp_host_limit limit) {
    union bpf_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.link_create.prog_fd = (uint32_t)program;
    attributes.link_create.target_fd = (uint32_t)group;
    attributes.link_create.attach_type = types[limit];
    return bpf(BPF_LINK_CREATE, &attributes);
}
