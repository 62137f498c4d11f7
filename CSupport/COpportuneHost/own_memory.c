/* What this process gives back of its own memory. */
#include "opp_host.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* Pages of the file itself: nobody may write them, and nothing in the range was written before that ended,
   as the loader relocates, or a debugger sets its marks. Those would be lost. */
int64_t opp_host_give_back_files(void) {
    FILE *maps = fopen("/proc/self/smaps", "re");
    if (maps == NULL) return -errno;
    char line[4352]; /* a path of PATH_MAX, and what stands before it */
    unsigned long begin = 0, end = 0, resident = 0, number;
    int64_t sum = 0;
    int is_read_only_file = 0;
    while (fgets(line, sizeof line, maps) != NULL) {
        char rights[5];
        unsigned long first, last, inode; /* a name of a line may begin as a number does */
        if (sscanf(line, "%lx-%lx %4s %*x %*s %lu", &first, &last, rights, &inode) == 4) {
            begin = first;
            end = last;
            is_read_only_file = inode != 0 && rights[1] == '-' && rights[3] == 'p';
        } else if (sscanf(line, "Rss: %lu kB", &number) == 1) {
            resident = number * 1024;
        } else if (is_read_only_file && sscanf(line, "Anonymous: %lu kB", &number) == 1 && number == 0) {
            if (madvise((void *)begin, end - begin, MADV_DONTNEED) == 0) sum += (int64_t)resident;
        }
    }
    fclose(maps);
    return sum;
}
