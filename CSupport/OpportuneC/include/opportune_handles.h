/*
 * What libopportune has in C, for its Swift part alone: handles, a count that can be waited for, and what a
 * thread remembers. Not installed.
 */
#ifndef OPPORTUNE_HANDLES_H
#define OPPORTUNE_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Handles. A handle is the number of a slot and the generation of its content, so a stale or invented one is
 * recognised without following it. Slots are never given back to the allocator.
 *
 * A slot's word holds the generation and the number of who uses the object: the handle itself, and each call
 * that is inside. Closing begins the next generation; the last who leaves gets the object, and the slot is
 * free.
 */

/* 0 where memory is short, or there are four million handles. `kind` is 1 to 255. */
uint64_t oppl_handle_open(uint8_t kind, void *object);

/* The object, which lives until oppl_handle_leave(); NULL where the handle is none of that kind. */
void *oppl_handle_enter(uint64_t handle, uint8_t kind);

/* Ends what oppl_handle_enter() began. Returns the object where it is the caller's now, to be released. */
void *oppl_handle_leave(uint64_t handle);

/* Makes a handle stale. False where it is none of that kind; true to one caller alone, who then calls
 * oppl_handle_leave(). */
bool oppl_handle_close(uint64_t handle, uint8_t kind);

/* A count that can be waited for. No lock: whoever is stopped inside of any call holds up nobody. */
typedef struct oppl_count oppl_count;

oppl_count *oppl_count_create(void); /* 0; NULL where memory is short */
void oppl_count_free(oppl_count *count);
void oppl_count_add(oppl_count *count);
void oppl_count_subtract(oppl_count *count);
uint32_t oppl_count_read(oppl_count *count);

/* Waits until it is 0. `timeout` in nanoseconds; negative is none. 0, or -ETIMEDOUT. */
int oppl_count_wait(oppl_count *count, int64_t timeout);

/* Calls the function, and remembers meanwhile that this thread runs a job of that scheduler. */
void oppl_run(void (*run)(void *context), void *context, const oppl_count *scheduler);
void oppl_complete(void (*completion)(void *context, int64_t result), void *context, int64_t result,
                   const oppl_count *scheduler);
bool oppl_runs_job_of(const oppl_count *scheduler);

/* The calling thread's last error in words, cut to what fits. */
void oppl_say(const char *text);
const char *oppl_said(void);

#endif
