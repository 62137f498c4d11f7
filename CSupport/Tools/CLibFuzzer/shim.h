/* libFuzzer as a library, which comes with clang without a header of its own. */
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerRunDriver(int *count, char ***arguments, int (*run)(const uint8_t *bytes, size_t size));
