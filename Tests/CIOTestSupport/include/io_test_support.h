/* What the I/O tests need and Swift cannot call. */
#ifndef IO_TEST_SUPPORT_H
#define IO_TEST_SUPPORT_H

/*
 * Runs `body` on a thread of its own on which, and on whose threads, io_uring_setup(2) is refused with EPERM
 * by seccomp, as in many containers. Returns 0, or -errno where this process may not install a filter; `body`
 * has not run then.
 */
int io_test_without_uring(void (*_Nonnull body)(void *_Nonnull context), void *_Nonnull context);

/* An eventfd, which Swift's Glibc does not have; -1 where there is none. */
int io_test_eventfd(void);

/* A terminal that passes every byte on as it is, and its user's end, which Swift's Glibc does not have;
 * -errno without. */
int io_test_terminal(int *_Nonnull ends);

/*
 * Mounts a file system of a program that hangs over the file `path`: it answers nothing, but, with
 * `answers_opens`, opens of the file. 0, or -errno where this process may not.
 */
int io_test_hang(const char *_Nonnull path, int answers_opens);

/* Ends it; whoever waits for an answer gets an error. */
void io_test_end_hang(const char *_Nonnull path);

/* Attaches a filter of eBPF, which lets all packets in, to a socket; 0 or -errno. */
int io_test_attach_ebpf(int socket);

/* The class of a thread's I/O priority, 0 is none and 1 real-time; -errno. */
int io_test_io_class(int thread);

/* Whether the calling thread may be real-time; its priority is as before then. */
int io_test_may_be_real_time(void);

#endif
