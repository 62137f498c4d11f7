/*
 * The kind of an open file, or of one to be opened, as far as the kernel has it in memory. fstat(2) would
 * make a request to the file system, and a network or FUSE file system may never answer. No thread that
 * others wait for may call it.
 */
#include "ring.h"
#include "opp_assert.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Type and inode number never change, so the kernel need not request them: NFS and FUSE then do not. 9P
 * without a cache, and SMB after it has dropped the attributes, do all the same. */
static int look(int fd, unsigned wanted, struct statx *about) {
    return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, wanted, about) < 0 ? -errno : 0;
}

/* Whether sysfs has a backing device for the file's st_dev, as it has for NFS and FUSE. */
static bool is_served(const struct statx *about) {
    char path[64];
    (void)snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u", about->stx_dev_major, about->stx_dev_minor);
    return access(path, F_OK) == 0;
}

static int32_t kind_of(int fd, struct statx *about) {
    int error = look(fd, STATX_TYPE, about);
    if (error != 0) return error;
    bool is_on_device = about->stx_dev_major != 0 || (!S_ISREG(about->stx_mode) && !S_ISDIR(about->stx_mode));
    OPP_ASSERT((S_IFMT & (OPP_FILE_ON_NO_DEVICE | OPP_FILE_SERVED)) == 0);
    return (about->stx_mode & S_IFMT) | (is_on_device ? 0 : OPP_FILE_ON_NO_DEVICE);
}

int32_t opp_file_kind(int fd) {
    struct statx about;
    int32_t kind = kind_of(fd, &about);
    return kind >= 0 && (kind & OPP_FILE_ON_NO_DEVICE) != 0 &&
        is_served(&about) ? kind | OPP_FILE_SERVED : kind;
}

bool opp_file_close_frees(int fd) {
    struct statx about;
    return look(fd, STATX_TYPE | STATX_NLINK, &about) == 0 && S_ISREG(about.stx_mode) &&
        about.stx_dev_major != 0 && about.stx_nlink == 0;
}

int opp_file_identity(int fd, uint64_t *device, uint64_t *inode) {
    struct statx about;
    int error = look(fd, STATX_INO, &about);
    if (error != 0) return error;
    *device = (uint64_t)about.stx_dev_major << 32 | about.stx_dev_minor;
    *inode = about.stx_ino;
    return 0;
}

int32_t opp_ring_look(const opp_ring_op *op) {
    /* O_PATH opens nothing. RESOLVE_CACHED walks only what the kernel has in memory. */
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | (op->flags & O_NOFOLLOW), .resolve = RESOLVE_CACHED};
    int fd = (int)syscall(SYS_openat2, op->fd, (const char *)(uintptr_t)op->address, &how, sizeof(how));
    if (fd < 0) return errno == EINVAL || errno == ENOSYS || errno == EPERM ? -EAGAIN : -errno;
    struct statx about;
    int32_t kind = kind_of(fd, &about);
    (void)close(fd);
    return kind;
}
