#include "system_file.h"
#include "opp_assert.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int opp_file_open(const char *path) {
    int fd;
    do {
        fd = open(path, O_RDONLY | O_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

void opp_file_close(int fd) {
    /* On Linux the descriptor is closed even if close() returns EINTR: never repeat it. */
    if (fd >= 0) close(fd);
}

ssize_t opp_file_pread(int fd, char *buffer, size_t size, off_t offset) {
    ssize_t count;
    do {
        count = pread(fd, buffer, size, offset);
    } while (count < 0 && errno == EINTR);
    return count < 0 ? -errno : count;
}

int opp_file_open_below(const char *root, const char *path) {
    char full[PATH_MAX];
    int length = snprintf(full, sizeof full, "%s%s", root, path);
    if (length < 0 || (size_t)length >= sizeof full) return -ENAMETOOLONG;
    return opp_file_open(full);
}

ssize_t opp_file_read(const char *root, const char *path, char *buffer, size_t size) {
    OPP_ASSERT(size > 0);
    int fd = opp_file_open_below(root, path);
    ssize_t count = fd < 0 ? fd : opp_file_pread(fd, buffer, size - 1, 0);
    opp_file_close(fd);
    buffer[count < 0 ? 0 : count] = '\0';
    return count;
}

bool opp_file_number(const char *root, const char *path, long long *value) {
    char text[64];
    if (opp_file_read(root, path, text, sizeof text) <= 0) return false;
    char *end;
    *value = strtoll(text, &end, 10);
    return end != text;
}

int opp_file_lines(const char *root, const char *path, bool (*line)(char *text, void *context),
                   void *context) {
    int fd = opp_file_open_below(root, path);
    if (fd < 0) return fd;
    char buffer[4096];
    size_t held = 0;     /* bytes in the buffer: the beginning of a line */
    bool is_tail = false; /* the buffer continues a line that was too long */
    bool goes_on = true;
    off_t offset = 0;
    ssize_t count = 0;
    while (goes_on && (count = opp_file_pread(fd, buffer + held, sizeof buffer - 1 - held, offset)) > 0) {
        offset += count;
        held += (size_t)count;
        OPP_ASSERT(held < sizeof buffer);
        char *start = buffer, *newline;
        while (goes_on && (newline = memchr(start, '\n', held - (size_t)(start - buffer))) != NULL) {
            *newline = '\0';
            if (!is_tail) goes_on = line(start, context);
            is_tail = false;
            start = newline + 1;
        }
        OPP_ASSERT((size_t)(start - buffer) <= held);
        held -= (size_t)(start - buffer);
        memmove(buffer, start, held);
        if (held == sizeof buffer - 1) {
            held = 0;
            is_tail = true;
        }
    }
    opp_file_close(fd);
    if (goes_on && count == 0 && held > 0 && !is_tail) { /* no newline at the end */
        buffer[held] = '\0';
        line(buffer, context);
    }
    return count < 0 ? (int)count : 0;
}
