#include "mapping.h"
#include "opp_assert.h"

#include <sys/mman.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/lsan_interface.h>
/* LeakSanitizer searches mapped memory for pointers only where it is told to. */
#define TELL_LEAK_CHECKER(call) (call)
#else
#define TELL_LEAK_CHECKER(call) ((void)0)
#endif

void *opp_map(size_t bytes) {
    OPP_ASSERT(bytes > 0);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    TELL_LEAK_CHECKER(__lsan_register_root_region(memory, bytes));
    return memory;
}

void opp_unmap(void *memory, size_t bytes) {
    OPP_ASSERT(memory != NULL);
    OPP_ASSERT(bytes > 0);
    TELL_LEAK_CHECKER(__lsan_unregister_root_region(memory, bytes));
    munmap(memory, bytes);
}
