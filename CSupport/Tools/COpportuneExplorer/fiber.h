/* Switching between stacks. Private to the explorer. */
#ifndef OPPX_FIBER_H
#define OPPX_FIBER_H

#include <stddef.h>

typedef struct oppx_fiber {
    void *stack_pointer; /* while it does not run */
    char *stack;         /* NULL for the thread's own */
    size_t stack_bytes;
} oppx_fiber;

/* Makes `fiber` begin with entry(argument), which must not return, when it is switched to. */
void oppx_fiber_prepare(oppx_fiber *fiber, void (*entry)(void *), void *argument);
void oppx_fiber_switch(oppx_fiber *from, oppx_fiber *to);

#endif
