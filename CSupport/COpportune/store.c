#include "opp_store.h"
#include "opp_assert.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/vfs.h>
#include <unistd.h>

void opp_store_begin_writing(int file, int64_t offset, int64_t count) {
    OPP_ASSERT(offset >= 0);
    OPP_ASSERT(count > 0); /* 0 would be all that follows */
    (void)sync_file_range(file, offset, count, SYNC_FILE_RANGE_WRITE);
}

int opp_store_probe_run(const char *folder, opp_store_probe *probe) {
    char path[4096];
    if (snprintf(path, sizeof(path), "%s/opportune-probe-XXXXXX", folder) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    int file = mkostemp(path, O_CLOEXEC);
    if (file < 0) return -errno;
    unlink(path);
    struct statfs system;
    if (fstatfs(file, &system) < 0) system.f_type = 0;
    /* Only the bits of the magic number: the field is signed, and of another width on other platforms. */
    unsigned long type = (unsigned long)system.f_type & 0xffffffffu;
    *probe = (opp_store_probe){
        .is_memory = type == TMPFS_MAGIC || type == RAMFS_MAGIC,
        .allocate = fallocate(file, 0, 0, 1 << 20) < 0 ? -errno : 0,
        .direct = fcntl(file, F_SETFL, O_DIRECT) < 0 ? -errno : 0,
    };
    close(file);
    return 0;
}
