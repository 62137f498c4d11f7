/* Trials that may trap: a thread of their own is stopped where it traps, and the program goes on. */
#ifndef OPP_TRAP_H
#define OPP_TRAP_H

#include <stdint.h>

/* Runs `body(context)` on a thread of its own and waits for it.
 *
 * Returns 0 when it returned; the number of the signal where it trapped (SIGILL, SIGTRAP, SIGSEGV, SIGBUS,
 * SIGFPE or SIGABRT); -ETIMEDOUT where `milliseconds` (at least 1) were over before; -ENOMEM or -EAGAIN where
 * no thread was to be had, and then nothing ran. After a signal the thread stays stopped for ever and keeps
 * what it holds; after a timeout it goes on, so `context` must outlive both. Any thread may call it. */
int oppx_trap_run(void (*_Nonnull body)(void *_Nullable context), void *_Nullable context,
                  uint64_t milliseconds);

#endif
