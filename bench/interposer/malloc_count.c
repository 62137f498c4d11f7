/*
 * Counts allocations: preloaded into a program, it puts itself before the C library's allocator and writes at
 * exit, into the file that OPPORTUNE_MALLOC_COUNT names, one line of counts:
 *
 *     allocations frees bytes
 *
 * An allocation is any call that hands out memory, a realloc that moves or grows one included. Bytes are
 * those asked for. Counts are of the whole process; `scripts/count-ops` takes the difference of two runs.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* glibc's own names for its allocator: calling them needs no dlsym, which itself allocates. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *memory);

/* Statistics: relaxed, read once all threads that matter have ended. */
static _Atomic(uint64_t) allocations, frees, bytes;

static void *count(void *memory, size_t size) {
    if (memory != NULL) {
        atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&bytes, size, memory_order_relaxed);
    }
    return memory;
}

void *malloc(size_t size) {
    return count(__libc_malloc(size), size);
}

void *calloc(size_t number, size_t size) {
    return count(__libc_calloc(number, size), number * size);
}

void *realloc(void *memory, size_t size) {
    return count(__libc_realloc(memory, size), size);
}

void *memalign(size_t alignment, size_t size) {
    return count(__libc_memalign(alignment, size), size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return count(__libc_memalign(alignment, size), size);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
    if (alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0)
        return EINVAL;
    void *memory = count(__libc_memalign(alignment, size), size);
    if (memory == NULL) return ENOMEM;
    *out = memory;
    return 0;
}

void free(void *memory) {
    if (memory != NULL) atomic_fetch_add_explicit(&frees, 1, memory_order_relaxed);
    __libc_free(memory);
}

__attribute__((destructor)) static void report(void) {
    const char *path = getenv("OPPORTUNE_MALLOC_COUNT");
    if (path == NULL) return;
    char line[96];
    int length = snprintf(line, sizeof(line), "%llu %llu %llu\n",
                          (unsigned long long)atomic_load_explicit(&allocations, memory_order_relaxed),
                          (unsigned long long)atomic_load_explicit(&frees, memory_order_relaxed),
                          (unsigned long long)atomic_load_explicit(&bytes, memory_order_relaxed));
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0 || write(file, line, (size_t)length) != length) perror("malloc_count");
    if (file >= 0) close(file);
}
