/* What the C tests share. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

/* Whether a sanitizer is built in, which makes a test slower by far. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#undef SANITIZED
#define SANITIZED 1
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define CHECK(condition)                                                                                 \
    do {                                                                                                 \
        if (!(condition)) {                                                                              \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                                     \
        }                                                                                                \
    } while (0)

#define CHECK_EQUAL(actual, expected)                                                                    \
    do {                                                                                                 \
        long long check_actual = (long long)(actual), check_expected = (long long)(expected);            \
        if (check_actual != check_expected) {                                                            \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #actual, check_actual,  \
                    check_expected);                                                                     \
            exit(1);                                                                                     \
        }                                                                                                \
    } while (0)

/* How much longer than usual a test is to try for races: OPPORTUNE_STRESS. */
static inline unsigned stress(void) {
    const char *text = getenv("OPPORTUNE_STRESS");
    int value = text == NULL ? 1 : atoi(text);
    return value < 1 ? 1 : (unsigned)value;
}

/* Ends the test as skipped, and says why: what the machine lacks is not passed over in silence. */
#define SKIP(reason)                                                                                     \
    do {                                                                                                 \
        fprintf(stderr, "skipped: %s\n", reason);                                                        \
        exit(77);                                                                                        \
    } while (0)

#endif
