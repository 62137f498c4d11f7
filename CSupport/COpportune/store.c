/* The checksum is XXH64 by its specification: four sums side by side, since one would wait for its own multiplications. */
#include "opp_store.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PRIME_1 0x9E3779B185EBCA87u
#define PRIME_2 0xC2B2AE3D27D4EB4Fu
#define PRIME_3 0x165667B19E3779F9u
#define PRIME_4 0x85EBCA77C2B2AE63u
#define PRIME_5 0x27D4EB2F165667C5u

static inline uint64_t turned(uint64_t word, unsigned bits) {
    return word << bits | word >> (64 - bits);
}

/* Little end first on any machine: a store may be carried from one to another. */
static inline uint64_t word_64(const unsigned char *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

static inline uint64_t word_32(const unsigned char *bytes) {
    uint32_t word;
    memcpy(&word, bytes, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap32(word);
#endif
    return word;
}

static inline uint64_t added(uint64_t sum, uint64_t word) {
    return turned(sum + word * PRIME_2, 31) * PRIME_1;
}

static inline uint64_t merged(uint64_t all, uint64_t sum) {
    return (all ^ added(0, sum)) * PRIME_1 + PRIME_4;
}

uint64_t opp_checksum(const void *bytes, size_t count) {
    const unsigned char *next = bytes;
    size_t left = count;
    uint64_t all = PRIME_5;
    if (left >= 32) {
        uint64_t a = PRIME_1 + PRIME_2, b = PRIME_2, c = 0, d = 0 - PRIME_1;
        for (; left >= 32; next += 32, left -= 32) {
            a = added(a, word_64(next));
            b = added(b, word_64(next + 8));
            c = added(c, word_64(next + 16));
            d = added(d, word_64(next + 24));
        }
        all = turned(a, 1) + turned(b, 7) + turned(c, 12) + turned(d, 18);
        all = merged(merged(merged(merged(all, a), b), c), d);
    }
    all += count;
    for (; left >= 8; next += 8, left -= 8) all = turned(all ^ added(0, word_64(next)), 27) * PRIME_1 + PRIME_4;
    if (left >= 4) {
        all = turned(all ^ word_32(next) * PRIME_1, 23) * PRIME_2 + PRIME_3;
        next += 4;
        left -= 4;
    }
    for (; left > 0; next++, left--) all = turned(all ^ *next * PRIME_5, 11) * PRIME_1;
    all = (all ^ all >> 33) * PRIME_2;
    all = (all ^ all >> 29) * PRIME_3;
    return all ^ all >> 32;
}

void opp_store_begin_writing(int file, int64_t offset, int64_t count) {
    (void)sync_file_range(file, offset, count, SYNC_FILE_RANGE_WRITE);
}

int opp_store_probe_run(const char *folder, opp_store_probe *probe) {
    char path[4096];
    if (snprintf(path, sizeof(path), "%s/opportune-probe-XXXXXX", folder) >= (int)sizeof(path)) return -ENAMETOOLONG;
    int file = mkostemp(path, O_CLOEXEC);
    if (file < 0) return -errno;
    unlink(path);
    struct statfs system;
    if (fstatfs(file, &system) < 0) system.f_type = 0;
    /* The bits of the magic numbers alone: the field is signed, and of another width elsewhere. */
    unsigned long type = (unsigned long)system.f_type & 0xffffffffu;
    *probe = (opp_store_probe){
        .is_memory = type == TMPFS_MAGIC || type == RAMFS_MAGIC,
        .allocate = fallocate(file, 0, 0, 1 << 20) < 0 ? -errno : 0,
        .direct = fcntl(file, F_SETFL, O_DIRECT) < 0 ? -errno : 0,
    };
    close(file);
    return 0;
}
