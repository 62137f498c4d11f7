/* What is asked of the memory of another process. */
#include "opp_host.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

static int advise(int pidfd, uint64_t start, uint64_t length, int advice) {
    struct iovec range = {.iov_base = (void *)(uintptr_t)start, .iov_len = (size_t)length};
    long done = syscall(SYS_process_madvise, pidfd, &range, 1ul, advice, 0u);
    return done < 0 ? -errno : 0;
}

int opp_host_page_out(int pidfd, uint64_t start, uint64_t length) {
    return advise(pidfd, start, length, MADV_PAGEOUT);
}

/* As the kernel has them since 6.7 (Documentation/admin-guide/mm/pagemap.rst); headers may be older. */
struct scan {
    uint64_t size, flags, start, end, walk_end, regions, region_count, most_pages;
    uint64_t inverted, all_of, any_of, told;
};
struct region {
    uint64_t start, end, categories;
};
#define SCAN _IOWR('f', 16, struct scan)
#define IS_SWAPPED (UINT64_C(1) << 4)

int opp_host_swapped(int pagemap, uint64_t *from, uint64_t end, opp_host_range ranges[OPP_HOST_RANGES]) {
    struct region regions[OPP_HOST_RANGES];
    struct scan scan = {.size = sizeof scan,
        .start = *from,
        .end = end,
        .regions = (uintptr_t)regions,
        .region_count = OPP_HOST_RANGES,
        .all_of = IS_SWAPPED,
        .told = IS_SWAPPED};
    int count = ioctl(pagemap, SCAN, &scan);
    if (count < 0) return -errno;
    for (int i = 0; i < count; i++) ranges[i] = (opp_host_range){regions[i].start, regions[i].end};
    *from = scan.walk_end;
    return count;
}

int opp_host_bring_in(pid_t pid, int pidfd, uint64_t start, uint64_t length) {
    int error = advise(pidfd, start, length, MADV_WILLNEED);
    if (error != 0) return error;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    char bytes[OPP_HOST_PIECE_PAGES];
    struct iovec touched[OPP_HOST_PIECE_PAGES];
    unsigned long count = 0;
    for (uint64_t at = 0; at < length && count < OPP_HOST_PIECE_PAGES; at += page)
        touched[count++] = (struct iovec){.iov_base = (void *)(uintptr_t)(start + at), .iov_len = 1};
    struct iovec here = {.iov_base = bytes, .iov_len = count};
    return process_vm_readv(pid, &here, 1, touched, count, 0) < 0 ? -errno : 0;
}
