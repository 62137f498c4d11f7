/* Small BPF programs that the kernel asks what the processes of a control group may do. */
#include "opp_host.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* By hand, so that neither a compiler for BPF nor a library is needed. UNLESS skips so many instructions if
   the register holds another value. */
#define LOAD(to, from, offset) \
    ((struct bpf_insn){.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = (to), .src_reg = (from), .off = (offset)})
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

/* What a program returns. */
enum { refused = 0, allowed = 1 };

static const uint32_t types[] = {
    [opp_host_limit_of_devices] = BPF_CGROUP_DEVICE,
    [opp_host_limit_of_arrivals] = BPF_CGROUP_INET_INGRESS,
    [opp_host_limit_of_departures] = BPF_CGROUP_INET_EGRESS,
};

static int bpf(enum bpf_cmd command, union bpf_attr *attributes) {
    long result = syscall(SYS_bpf, command, attributes, sizeof *attributes);
    return result < 0 ? -errno : (int)result;
}

static int load(enum bpf_prog_type type, const struct bpf_insn *program, size_t count, const char *name) {
    union bpf_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.prog_type = type;
    attributes.insns = (uint64_t)(uintptr_t)program;
    attributes.insn_cnt = (uint32_t)count;
    attributes.license = (uint64_t)(uintptr_t) "Apache-2.0";
    strncpy(attributes.prog_name, name, sizeof attributes.prog_name - 1);
    return bpf(BPF_PROG_LOAD, &attributes);
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
    return load(BPF_PROG_TYPE_CGROUP_DEVICE, program, length, "opp_devices");
}

int opp_host_limit_network(void) {
    enum { loopback = 1 }; /* its number in each namespace */
    const struct bpf_insn program[] = {
        LOAD(BPF_REG_2, BPF_REG_1, offsetof(struct __sk_buff, ifindex)),
        SET(BPF_REG_0, refused),
        UNLESS(BPF_REG_2, loopback, 1),
        SET(BPF_REG_0, allowed),
        END,
    };
    return load(BPF_PROG_TYPE_CGROUP_SKB, program, sizeof program / sizeof *program, "opp_network");
}

int opp_host_limit_attach(int program, int group, opp_host_limit limit) {
    union bpf_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.link_create.prog_fd = (uint32_t)program;
    attributes.link_create.target_fd = (uint32_t)group;
    attributes.link_create.attach_type = types[limit];
    return bpf(BPF_LINK_CREATE, &attributes);
}
