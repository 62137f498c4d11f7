/* As inline functions: the library's own XXH64 may be built by a compiler that makes it a fifth slower. */
#define XXH_INLINE_ALL
#define XXH_NO_XXH3
#include <stdint.h>
#include <xxhash.h>

/* With seed 0. A function, since Swift does not see names that are macros. */
static inline uint64_t xxh64(const void *bytes, size_t count) {
    return XXH64(bytes, count, 0);
}
