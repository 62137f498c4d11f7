#ifndef BENCH_QUEUES_H
#define BENCH_QUEUES_H

#include "contender.h"
#include "sample.h"

/*
 * Each gives the same queue back as it got it: empty. A queue may have been used before, and should: what it
 * allocates once is then not measured. All values are checked to come out once.
 */

/* One thread pushes `batch` and takes them, again and again: ns per pushed and taken entry. */
double queue_cycle(const contender *contender, void *queue, uint64_t n, uint64_t batch);

/* A thief takes n entries that the owner has pushed; `together` with the owner, who takes as well: ns per
 * entry. */
double queue_steal(const contender *contender, void *queue, uint64_t n, bool together);

/* So many threads push `each` at once; `consumed`: while one more takes. Wall clock ns per entry. */
double queue_inject(const contender *contender, void *queue, unsigned producers, uint64_t each,
                    bool consumed);

#endif
