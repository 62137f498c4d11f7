/* How threads of the core begin. Private to the core and to the library that is built of it. */
#ifndef OPP_THREAD_CREATE_H
#define OPP_THREAD_CREATE_H

#include <pthread.h>
#include <stddef.h>

/*
 * Creates a thread to which no signal comes but those of its own faults: the program's handlers run on the
 * program's threads.
 *
 * joinable     where its handle goes; NULL for a detached thread
 * stack_bytes  0 is the default; less than 256 KiB counts as 256 KiB
 *
 * Returns 0 or -errno.
 */
int opp_thread_create(pthread_t *joinable, size_t stack_bytes, void *(*body)(void *), void *argument);

#endif
