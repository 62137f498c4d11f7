/*
 * Counts what a program executes: a plugin of QEMU's user mode, which runs programs that Valgrind cannot.
 *
 *   instructions    all of them, of all threads but the scheduler's monitor
 *   atomics         atomic read-modify-writes: instructions with a lock prefix, and exchanges with memory
 *   crossings       entries into functions of the C core from code that is not the core's, mostly Swift
 *   monitor         the instructions of the monitor's thread, which go by how long the program runs: it looks
 *                   once a quantum, and reads the machine's limits once a second
 *
 * Arguments: `out` is the file for the counts; `entries` a file of lines "start end kind", hexadecimal
 * offsets in the program's text, of the core's functions (scripts/count-ops makes it): 0, 1 for what others
 * call, 2 for what the monitor alone calls. Prints one line each, "name count".
 *
 * Declares the few functions of QEMU's plugin interface that it needs, version 1: Debian has no header of it.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef struct qemu_info qemu_info_t;
enum { QEMU_PLUGIN_CB_NO_REGS };

__attribute__((visibility("default"))) int qemu_plugin_version = 1;
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                           void (*cb)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, void (*cb)(unsigned, void *), int flags,
                                          void *data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t, void *), void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_start_code(void);

typedef struct range {
    uint64_t start, end;
    int kind;
} range;

typedef struct block {
    uint32_t instructions, atomics;
    bool is_core, is_entry, is_monitor;
} block;

/* Of one thread, which alone writes it. */
typedef struct counts {
    _Alignas(64) uint64_t instructions, atomics, crossings;
    bool was_core, is_monitor;
} counts;

enum { THREADS = 4096 };
static counts all[THREADS];
static range *ranges;
static size_t range_count;
static const char *out;

static const range *range_of(uint64_t offset) {
    size_t low = 0, high = range_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle].end <= offset) low = middle + 1;
        else high = middle;
    }
    return low < range_count && ranges[low].start <= offset ? &ranges[low] : NULL;
}

/* x86-64: a lock prefix, or an exchange with memory, which locks by itself. */
static bool is_atomic(const uint8_t *bytes, size_t size) {
    size_t i = 0;
    for (; i < size; i++) {
        if (bytes[i] == 0xF0) return true;
        bool is_prefix = bytes[i] == 0x66 || bytes[i] == 0xF2 || bytes[i] == 0xF3 || bytes[i] == 0x64 ||
            bytes[i] == 0x65;
        if (!is_prefix) break;
    }
    if (i < size && (bytes[i] & 0xF0) == 0x40) i++; /* REX */
    return i + 1 < size && (bytes[i] == 0x86 || bytes[i] == 0x87) && bytes[i + 1] >> 6 != 3;
}

static void executed(unsigned thread, void *data) {
    const block *block = data;
    counts *own = &all[thread % THREADS];
    own->instructions += block->instructions;
    own->atomics += block->atomics;
    own->crossings += block->is_entry && !own->was_core;
    own->was_core = block->is_core;
    if (block->is_monitor) own->is_monitor = true;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    (void)id;
    block *block = calloc(1, sizeof(*block));
    block->instructions = (uint32_t)qemu_plugin_tb_n_insns(tb);
    for (uint32_t i = 0; i < block->instructions; i++) {
        const struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        block->atomics += is_atomic(qemu_plugin_insn_data(insn), qemu_plugin_insn_size(insn));
    }
    uint64_t offset = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0)) - qemu_plugin_start_code();
    const range *range = range_of(offset);
    block->is_core = range != NULL;
    block->is_entry = range != NULL && range->kind > 0 && range->start == offset;
    block->is_monitor = block->is_entry && range->kind == 2;
    qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, QEMU_PLUGIN_CB_NO_REGS, block);
}

static void ended(qemu_plugin_id_t id, void *data) {
    (void)id, (void)data;
    counts sum = {0};
    uint64_t monitor = 0;
    for (int i = 0; i < THREADS; i++) {
        if (all[i].is_monitor) {
            monitor += all[i].instructions;
            continue;
        }
        sum.instructions += all[i].instructions;
        sum.atomics += all[i].atomics;
        sum.crossings += all[i].crossings;
    }
    FILE *file = fopen(out, "w");
    if (file == NULL) return;
    fprintf(file, "instructions %" PRIu64 "\natomics %" PRIu64 "\ncrossings %" PRIu64 "\nmonitor %" PRIu64 "\n",
            sum.instructions, sum.atomics, sum.crossings, monitor);
    fclose(file);
}

static void read_ranges(const char *path) {
    FILE *file = fopen(path, "r");
    range one;
    while (file != NULL && fscanf(file, "%" SCNx64 " %" SCNx64 " %d", &one.start, &one.end, &one.kind) == 3) {
        ranges = realloc(ranges, (range_count + 1) * sizeof(range));
        ranges[range_count++] = one;
    }
    if (file != NULL) fclose(file);
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info,
                                                               int argc,
                                                               char **argv) {
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "out=", 4) == 0) out = strdup(argv[i] + 4);
        if (strncmp(argv[i], "entries=", 8) == 0) read_ranges(argv[i] + 8);
    }
    if (out == NULL) return -1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
