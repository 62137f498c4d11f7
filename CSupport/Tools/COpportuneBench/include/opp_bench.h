/* What `opportune bench io` measures below Swift: the same loops over the C core's rings and over bare
 * liburing. */
#ifndef OPP_BENCH_H
#define OPP_BENCH_H

#include "opp_base.h"

OPP_BEGIN_DECLS

/*
 * Each carries `count` requests out, `batch` (1 to 64) at a time, on one thread, and returns the nanoseconds
 * that took, or -errno. `fd`: -1 for NOPs, else 4 KiB reads of it at offsets that wrap at `size`.
 */
int64_t opp_bench_bare(uint32_t count, uint32_t batch, int fd, uint64_t size);
int64_t opp_bench_ring(uint32_t count, uint32_t batch, int fd, uint64_t size);

/*
 * One request at a time, handed to another thread that owns the ring and answers by waking the first: what a
 * reactor's thread costs. Returns as above.
 */
int64_t opp_bench_handed_over(uint32_t count, int fd, uint64_t size);

/* Bytes of memory in use that `count` NOPs over the C core's ring added; 0 is none. Or -errno. */
int64_t opp_bench_ring_bytes(uint32_t count);

/*
 * Has `connections` (1 to 1024) connections to 127.0.0.1:`port` send `size` (1 to 4096) bytes and wait for
 * them to come back, one after the other, until CLOCK_MONOTONIC reaches `end_ns`. `record` is told the
 * nanoseconds of each exchange that lies between `start_ns` and `end_ns`. On the calling thread. Returns how
 * many those were, or -errno.
 */
int64_t opp_bench_echo(uint16_t port, uint32_t connections, uint32_t size, uint64_t start_ns, uint64_t end_ns,
                       void (*_Nonnull record)(void *_Nonnull context, uint64_t ns), void *_Nonnull context);

/*
 * A watch over many sockets, each known by a number: a descriptor, closed by close(2), or -errno. What is
 * watched is told while there is something to read or, where it `writes`, room to write. Setting it returns 0
 * or -errno.
 */
int opp_bench_watch_open(void);
int opp_bench_watch_add(int watch, int fd, uint32_t number);
int opp_bench_watch_change(int watch, int fd, uint32_t number, bool writes);
int opp_bench_watch_remove(int watch, int fd);

/*
 * Waits until one of them is ready or CLOCK_MONOTONIC reaches `until_ns`. Returns how many numbers, at most
 * `count`, it has put into `ready`, or -errno; those that it has no room for come with the next call.
 */
int opp_bench_watch_wait(int watch, uint32_t *_Nonnull ready, uint32_t count, uint64_t until_ns);

/* Puts the calling thread into the block layer's idle class. Returns 0 or -errno. */
int opp_bench_idle_io(void);

/*
 * What a piece of work that goes from thread to thread has used: each stretch of it on one thread is begun
 * and ended there. Ending returns what has passed since the begin, in nanoseconds; 0 where the thread has
 * none.
 */
typedef struct opp_bench_stretch {
    uint64_t cpu;
    uint64_t cpu_wait; /* ready to run, and another ran; 0 where the kernel does not tell */
    uint64_t blocked;  /* neither: asleep for a lock, or for a page */
} opp_bench_stretch;

void opp_bench_stretch_begin(void);
opp_bench_stretch opp_bench_stretch_end(void);

OPP_END_DECLS

#endif
