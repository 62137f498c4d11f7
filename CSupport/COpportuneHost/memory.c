/* What is asked of the memory of another process. */
#include "opp_host.h"

#include <errno.h>
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

int opp_host_read_ahead(int pidfd, uint64_t start, uint64_t length) {
    return advise(pidfd, start, length, MADV_WILLNEED);
}
