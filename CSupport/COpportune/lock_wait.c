/* For whose lock a thread waits, and who is on a CPU: what the monitor asks where a job waits for a lock of
 * the program's. */
#include "meter.h"
#include "opp_assert.h"
#include "opp_sync.h"
#include "system_file.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* Of glibc's pthread_mutex_t: who holds it, behind the futex word and a count. The word is 2 where somebody
 * waits. */
enum { PTHREAD_OWNER = 2, PTHREAD_WORDS = 3, PTHREAD_CONTENDED = 2 };

/* Since Linux 5.14; not in all headers. */
enum { LOCK_PI2 = 13 };

/*
 * Reads words of the process itself. The address is what another thread has told the kernel: its memory may
 * be unmapped by now, which an ordinary load would not survive. Returns how many words are there.
 */
static size_t read_words(uint64_t address, uint32_t *words, size_t count) {
    struct iovec here = {.iov_base = words, .iov_len = count * sizeof *words};
    struct iovec there = {.iov_base = (void *)(uintptr_t)address, .iov_len = here.iov_len};
    ssize_t bytes = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
    OPP_ASSERT(bytes <= (ssize_t)here.iov_len);
    return bytes < 0 ? 0 : (size_t)bytes / sizeof *words;
}

int opp_lock_wait_parse(const char *line, uint64_t *address, uint64_t *operation, uint64_t *value) {
    char *end;
    long call = strtol(line, &end, 10);
    /* "running" where it waits for nothing, -1 where it is not in a system call. */
    if (end == line || call != SYS_futex) return 0;
    uint64_t *const arguments[] = {address, operation, value};
    for (size_t i = 0; i < sizeof arguments / sizeof arguments[0]; i++) {
        char *text = end;
        *arguments[i] = strtoull(text, &end, 16);
        if (end == text) return 0;
    }
    return 1;
}

/* Some hundred times a second where a long job shares the CPUs, so the file stays open. */
static ssize_t read_syscall(opp_thread_meter *meter, char *line, size_t size) {
    if (meter->syscall == 0) {
        if (meter->folder[0] == '\0') return -ENOENT;
        int fd = opp_file_open_below(meter->folder, "/syscall");
        if (fd < 0) return fd;
        meter->syscall = fd;
    }
    ssize_t count = opp_file_pread(meter->syscall, line, size - 1, 0);
    line[count < 0 ? 0 : count] = '\0';
    return count;
}

int opp_thread_meter_lock_wait(opp_thread_meter *meter, opp_lock_wait *wait) {
    char line[256];
    ssize_t count = read_syscall(meter, line, sizeof line);
    if (count < 0) return (int)count;
    uint64_t address, operation, value;
    if (!opp_lock_wait_parse(line, &address, &operation, &value)) return 0;
    uint32_t words[PTHREAD_WORDS];
    size_t known = read_words(address, words, PTHREAD_WORDS);
    OPP_ASSERT(known <= PTHREAD_WORDS);
    wait->address = address;
    switch ((uint32_t)operation & FUTEX_CMD_MASK) {
    case FUTEX_LOCK_PI:
    case LOCK_PI2:
        if (known < 1) return 0;
        wait->holder = (int32_t)(words[0] & FUTEX_TID_MASK);
        break;
    case FUTEX_WAIT:
        if (known < PTHREAD_WORDS || (uint32_t)value != PTHREAD_CONTENDED || words[0] != PTHREAD_CONTENDED)
            return 0;
        wait->holder = (int32_t)words[PTHREAD_OWNER];
        break;
    default:
        return 0;
    }
    return wait->holder > 0;
}

bool opp_lock_wait_is_readable(void) {
    char line[256];
    uint32_t word = 1, copy = 0;
    return opp_file_read("/proc/thread-self", "/syscall", line, sizeof line) > 0 &&
        read_words((uint64_t)(uintptr_t)&word, &copy, 1) == 1 && copy == word;
}

int opp_thread_meter_cpu_number(const opp_thread_meter *meter) {
    enum { FIELD = 39, AFTER_NAME = 2 };
    char text[512];
    if (meter->folder[0] == '\0') return -ENOENT;
    ssize_t count = opp_file_read(meter->folder, "/stat", text, sizeof text);
    if (count < 0) return (int)count;
    char *field = strrchr(text, ')');
    for (int at = AFTER_NAME; field != NULL && at < FIELD; at++) field = strchr(field + 1, ' ');
    return field == NULL ? -ENODATA : atoi(field);
}

/* Adds the CPU to those of the thread, or takes it from them. */
static int change_cpus(int32_t tid, int cpu, bool adds) {
    if (cpu < 0 || cpu >= OPP_MAX_CPUS) return -EINVAL;
    cpu_set_t *set = CPU_ALLOC(OPP_MAX_CPUS);
    if (set == NULL) return -ENOMEM;
    size_t size = CPU_ALLOC_SIZE(OPP_MAX_CPUS);
    int result = sched_getaffinity(tid, size, set) == 0 ? 0 : -errno;
    if (result == 0 && (CPU_ISSET_S((size_t)cpu, size, set) != 0) != adds) {
        if (adds) CPU_SET_S((size_t)cpu, size, set);
        else CPU_CLR_S((size_t)cpu, size, set);
        OPP_ASSERT((CPU_ISSET_S((size_t)cpu, size, set) != 0) == adds);
        if (CPU_COUNT_S(size, set) == 0) result = -EINVAL;
        else result = sched_setaffinity(tid, size, set) == 0 ? 1 : -errno;
    }
    CPU_FREE(set);
    return result;
}

int opp_thread_leave_cpu(int32_t tid, int cpu) {
    return change_cpus(tid, cpu, false);
}

int opp_thread_return_to_cpu(int32_t tid, int cpu) {
    return change_cpus(tid, cpu, true);
}
