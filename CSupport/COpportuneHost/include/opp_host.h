/*
 * What the host of Linux processes needs of the kernel and Swift cannot call: programs that start inside a
 * group, the classes of others' threads, limits of groups, and a warden. Every call returns 0, a pid or a
 * descriptor, or -errno.
 */
#ifndef OPP_HOST_H
#define OPP_HOST_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Programs --------------------------------------------------------------------------------- */

/* A program to start. Nothing is kept after the call. */
typedef struct opp_host_program {
    const char *_Nonnull path;              /* of the file; nothing is searched for */
    char *_Nullable const *_Nonnull argv;   /* ends with NULL */
    char *_Nullable const *_Nonnull envp;   /* ends with NULL */
    const char *_Nullable folder;           /* where it starts; NULL: where the caller is */
    int32_t group;                          /* descriptor of a cgroup v2 folder, or -1 */
    int32_t entrance;                       /* of cgroup.procs of a v1 group, or -1 */
    int32_t descriptors[3];                 /* its standard ones; -1: as the caller's */
} opp_host_program;

/*
 * Starts a program in a session of its own, by clone3: where `group` is given it is born there, so that
 * no instruction of it runs outside; where `entrance` is, it has entered that group before it is the program,
 * or the group refused. Signals have their default actions there, but for those that the caller
 * ignores; of descriptors it has the standard ones alone. `pidfd` is close-on-exec, the caller's to close.
 * Returns the pid; -errno of clone3, or of what kept the program from starting (as -ENOENT), and then no
 * process is left. Any thread.
 */
pid_t opp_host_start(const opp_host_program *_Nonnull program, int *_Nonnull pidfd);

/* What keeps a starter from starting. */
typedef enum opp_host_starter_lack {
    opp_host_starter_fit,
    opp_host_starter_ended,
    opp_host_starter_stopped, /* by a signal */
    opp_host_starter_silent,  /* it has not answered in time */
} opp_host_starter_lack;

/* A process that starts programs. One thread at a time. */
typedef struct opp_host_starter {
    int channel;
    pid_t pid;
    int is_late; /* an order was given up, whose answer is still to come */
    opp_host_starter_lack lack; /* of the last order */
} opp_host_starter;

/*
 * Makes one with the privileges, the folder and the standard descriptors that the caller has now, whatever
 * that gives up later. It ends when the caller does. It is of no session of the caller's, and deaf to signals
 * but SIGKILL and SIGSTOP. Its pid is the caller's, to be closed. -EBADF where a standard descriptor is
 * closed.
 */
int opp_host_starter_open(opp_host_starter *_Nonnull starter);
void opp_host_starter_close(opp_host_starter *_Nonnull starter);

/*
 * As opp_host_start, by that process; the program is a child of the caller. Waits so long at most, and not
 * for one that is stopped. What was given up does not run, whenever the starter goes on; the next order first
 * waits for the answer to it. Where `lack` is set the error tells nothing more.
 */
pid_t opp_host_starter_start(opp_host_starter *_Nonnull starter, const opp_host_program *_Nonnull program,
    int limit_ms, int *_Nonnull pidfd);

/* A descriptor of a process, close-on-exec; and a signal to it. */
int opp_host_pidfd_open(pid_t pid);
int opp_host_pidfd_signal(int pidfd, int number);

/*
 * Waits for nothing: 1 where the process of `pidfd`, a child of the caller, has ended, with its `status` as
 * of wait(); 0 where it runs; -ECHILD where it is no child of this process.
 */
int opp_host_reap(int pidfd, int *_Nonnull status);

/* What wakes a thread in poll(): a descriptor that is readable from a tell until a take. Neither blocks. */
int opp_host_event_open(void);
void opp_host_event_tell(int event);
void opp_host_event_take(int event);

/* --- Descriptors that programs pass ------------------------------------------------------------- */

enum { OPP_HOST_PASSED = 16 };

/*
 * Takes what a Unix socket has, without waiting, and the descriptors that come with it: close-on-exec, the
 * caller's to close. Returns the number of bytes, 0 at the end; -EMSGSIZE where more descriptors have come
 * than that, or than this process may have: then none is left open.
 */
ssize_t opp_host_receive(int socket, void *_Nonnull bytes, size_t size,
    int passed[_Nonnull OPP_HOST_PASSED], size_t *_Nonnull count);

/* --- Classes of threads ----------------------------------------------------------------------- */

/* What a thread has of the CPU: `policy` is SCHED_*. */
typedef struct opp_host_class {
    int32_t policy;
    int32_t nice;
} opp_host_class;

/* SCHED_IDLE, nice 19. */
opp_host_class opp_host_class_idle(void);

/*
 * Of any thread that the caller may change. Returns -ESRCH where it has ended, -EPERM (setting) where the
 * privilege is missing: to lower is always allowed, to raise again seldom. Then what could be set has been.
 * A real-time policy cannot be set.
 */
int opp_host_class_get(pid_t tid, opp_host_class *_Nonnull found);
int opp_host_class_set(pid_t tid, const opp_host_class *_Nonnull wanted);

/* The same for its class of I/O, as of ioprio_get(); one call each. A kernel without such classes has 0, and
   takes any. */
int32_t opp_host_io_class_idle(void);
int opp_host_io_class_get(pid_t tid, int32_t *_Nonnull found);
int opp_host_io_class_set(pid_t tid, int32_t wanted);

/* --- Memory ----------------------------------------------------------------------------------- */

/*
 * Asks the kernel to take a range of a process out of main memory: files' pages to their files, others to
 * swap, as far as there is some. Blocks while that is written. -EPERM without CAP_SYS_NICE, -EINVAL where
 * something in the range cannot be taken, as locked memory.
 */
int opp_host_page_out(int pidfd, uint64_t start, uint64_t length);

enum { OPP_HOST_RANGES = 64, OPP_HOST_PIECE_PAGES = 128 };

typedef struct opp_host_range {
    uint64_t start, end;
} opp_host_range;

/*
 * The next ranges of a process that are in swap, from `*from` on, which is moved behind what was looked at.
 * `pagemap` is its file /proc/PID/pagemap. Returns how many they are, or minus the number of the error:
 * -ENOTTY before Linux 6.7.
 */
int opp_host_swapped(int pagemap, uint64_t *_Nonnull from, uint64_t end,
    opp_host_range ranges[_Nonnull OPP_HOST_RANGES]);

/*
 * Has up to OPP_HOST_PIECE_PAGES pages of a process read from swap in one go, and waits until they are there.
 * -EPERM without CAP_SYS_NICE, or for who may not look at that process.
 */
int opp_host_bring_in(pid_t pid, int pidfd, uint64_t start, uint64_t length);

/* --- Limits of a control group ------------------------------------------------------------------ */

/* A device, or all of a major number. */
typedef struct opp_host_device {
    int32_t is_block; /* 0: of characters */
    int32_t major;
    int32_t minor; /* -1: each */
} opp_host_device;

enum { opp_host_device_max = 64 };

/* The device that a path leads to, by what is known without asking a file server. -ENODEV: it is none. */
int opp_host_device_at(const char *_Nonnull path, opp_host_device *_Nonnull found);

/* What is limited. */
typedef enum opp_host_limit {
    opp_host_limit_of_devices,
    opp_host_limit_of_arrivals,   /* packets that come for sockets made in the group */
    opp_host_limit_of_departures, /* packets that these send */
} opp_host_limit;

/*
 * A program for the kernel that refuses to open these devices (EPERM); it does nothing until it is attached.
 * A close-on-exec descriptor. -EPERM without CAP_BPF and CAP_NET_ADMIN, -EINVAL or -ENOSYS where the kernel
 * has no such programs, -E2BIG for more than opp_host_device_max.
 */
int opp_host_limit_devices(const opp_host_device *_Nonnull denied, size_t count);

/*
 * A program that drops all packets of one direction but those of the loopback interface. Otherwise as
 * opp_host_limit_devices.
 */
int opp_host_limit_network(opp_host_limit direction);

/*
 * A program that drops those above a rate in bytes a second, headers included, for each group by itself;
 * what a quarter of a second gives may come at once. -EINVAL for no rate. Otherwise as
 * opp_host_limit_network.
 */
int opp_host_slow_network(uint64_t rate, opp_host_limit direction);

/*
 * Asks a program before what the processes in a group of version 2, and below it, do from now on. Lasts as
 * long as somebody has the descriptor that this returns, which is close-on-exec: nothing stays when the
 * caller is killed. -EINVAL before Linux 5.7, -EPERM where a group above allows no second program.
 */
int opp_host_limit_attach(int program, int group, opp_host_limit limit);

/* --- What the host gives up --------------------------------------------------------------------- */

/*
 * Takes from this process, all its threads and what it starts: new privileges by a program that it becomes
 * (PR_SET_NO_NEW_PRIVS); the capabilities that no host needs, of the calling thread, so before others are
 * made; and by a filter the system calls that no host makes, which fail by EPERM, execve() first of all.
 * Cannot be undone. What fails keeps nothing else from being taken; returns the first -errno.
 */
int opp_host_confine(void);

/* Whether the calling thread has no new privileges, and is under a filter of system calls. */
int opp_host_is_confined(void);

/* 0: the kernel takes such a filter, without a word of what this process may; else -errno. */
int opp_host_filter_lack(void);

/*
 * Lets go of what is mapped of this program and its libraries and may not be written: what is needed again
 * comes from the kernel's cache of files, by a page fault. Any thread. Returns how many bytes of code and
 * constants there are, resident before or not.
 */
uint64_t opp_host_give_back_program(void);

/* --- The warden ------------------------------------------------------------------------------- */

/*
 * The turn of a host among those of one key and user: a descriptor that no other process gets as long as one
 * has it. -EADDRINUSE: another has it, as the warden of a host that was killed, until it has thawed all.
 */
int opp_host_warden_turn(const char *_Nonnull key);

/*
 * Starts a process that sleeps until the caller ends, however that happens, or closes the descriptor that
 * this returns. Then it thaws all groups in `folder` (of cgroup v2; NULL: none), continues the processes that
 * it was told of, and ends. It is of no session of the caller's, deaf to signals but SIGKILL, and has no
 * other descriptors but a copy of `turn` (-1: none). Its pid is the caller's to wait for.
 */
int opp_host_warden_start(const char *_Nullable folder, int turn, pid_t *_Nonnull warden);

/*
 * Tells it of a process that was stopped, or that was continued. Waits where the channel is full, for a
 * second at most: then -EAGAIN, and it does not know of the process.
 */
int opp_host_warden_tell(int channel, pid_t pid, int is_stopped);

#ifdef __cplusplus
}
#endif

#endif
