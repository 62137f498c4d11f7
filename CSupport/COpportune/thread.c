#include "opp_system.h"
#include <sys/syscall.h>
#include <unistd.h>

int32_t opp_thread_id(void) {
    return (int32_t)syscall(SYS_gettid);
}
