/* A benchmark that computes the wrong thing has no result: it ends. */
#ifndef BENCH_CHECK_H
#define BENCH_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                 \
    do {                                                                                                 \
        if (!(condition)) {                                                                              \
            fprintf(stderr, "error: %s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);         \
            exit(1);                                                                                     \
        }                                                                                                \
    } while (0)

static inline void *checked(void *pointer, const char *what) {
    if (pointer != NULL) return pointer;
    fprintf(stderr, "error: no memory for %s\n", what);
    exit(1);
}

#define CHECKED(expression) checked(expression, #expression)

#endif
