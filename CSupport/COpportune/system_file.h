/* Small files of /proc and /sys, read without allocation. Private to the core. */
#ifndef OPP_SYSTEM_FILE_H
#define OPP_SYSTEM_FILE_H

#include "opp_base.h"

#include <sys/types.h>

/* Opens for reading, close-on-exec. Returns the descriptor or -errno. */
int opp_file_open(const char *path);

/* The same of the file at `root` followed by `path`. -ENAMETOOLONG where the two do not fit into PATH_MAX. */
int opp_file_open_below(const char *root, const char *path);

/* Does nothing with a negative descriptor. */
void opp_file_close(int fd);

/* Reads up to `size` bytes at `offset`, without moving the descriptor. Returns how many, or -errno. */
ssize_t opp_file_pread(int fd, char *buffer, size_t size, off_t offset);

/*
 * Reads the beginning of the file at `root` followed by `path`, up to size - 1 bytes, and ends it with a
 * zero. Returns how many bytes, or -errno (-ENAMETOOLONG where the two do not fit into PATH_MAX).
 */
ssize_t opp_file_read(const char *root, const char *path, char *buffer, size_t size);

/* The first number in that file; false where there is none. */
bool opp_file_number(const char *root, const char *path, long long *value);

/*
 * Calls line(text, context) for each line of that file, without its newline, until it returns false. Lines
 * above 4 KiB are skipped; the core needs none that long. Returns 0 or -errno.
 */
int opp_file_lines(const char *root, const char *path, bool (*line)(char *text, void *context),
                   void *context);

#endif
