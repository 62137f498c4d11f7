/*
 * A switch saves what the calling convention has a function keep, on the stack it leaves, and goes on with
 * what lies on the other. A fiber that has not run yet has such a frame made by hand, which leads to the
 * trampoline.
 */
#include "fiber.h"

#include <stdint.h>
#include <string.h>

void oppx_switch_stacks(void **save, void *load);
void oppx_trampoline(void);

#if defined(__x86_64__)

__asm__(".text\n"
        ".globl oppx_switch_stacks\n"
        ".type oppx_switch_stacks,@function\n"
        "oppx_switch_stacks:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  retq\n"
        ".size oppx_switch_stacks,.-oppx_switch_stacks\n"
        ".globl oppx_trampoline\n"
        ".type oppx_trampoline,@function\n"
        "oppx_trampoline:\n"
        "  movq %r12, %rdi\n"
        "  callq *%rbx\n"
        "  ud2\n"
        ".size oppx_trampoline,.-oppx_trampoline\n");

enum { FRAME_WORDS = 9, FRAME_ENTRY = 4, FRAME_ARGUMENT = 3, FRAME_RETURN = 6 };

#elif defined(__aarch64__)

__asm__(".text\n"
        ".globl oppx_switch_stacks\n"
        ".type oppx_switch_stacks,%function\n"
        "oppx_switch_stacks:\n"
        "  sub sp, sp, #160\n"
        "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n"
        "  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n  str x9, [x0]\n"
        "  mov sp, x1\n"
        "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
        "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n"
        "  ldp d14, d15, [sp, #144]\n"
        "  add sp, sp, #160\n"
        "  ret\n"
        ".size oppx_switch_stacks,.-oppx_switch_stacks\n"
        ".globl oppx_trampoline\n"
        ".type oppx_trampoline,%function\n"
        "oppx_trampoline:\n"
        "  mov x0, x20\n"
        "  blr x19\n"
        "  brk #0\n"
        ".size oppx_trampoline,.-oppx_trampoline\n");

enum { FRAME_WORDS = 20, FRAME_ENTRY = 0, FRAME_ARGUMENT = 1, FRAME_RETURN = 11 };

#else
#error "fiber.c knows x86-64 and AArch64 only"
#endif

void oppx_fiber_prepare(oppx_fiber *fiber, void (*entry)(void *), void *argument) {
    uintptr_t top = ((uintptr_t)fiber->stack + fiber->stack_bytes) & ~(uintptr_t)15;
    void **frame = (void **)top - FRAME_WORDS;
    memset(frame, 0, FRAME_WORDS * sizeof(void *));
    frame[FRAME_ENTRY] = (void *)entry;
    frame[FRAME_ARGUMENT] = argument;
    frame[FRAME_RETURN] = (void *)oppx_trampoline;
    fiber->stack_pointer = frame;
}

void oppx_fiber_switch(oppx_fiber *from, oppx_fiber *to) {
    oppx_switch_stacks(&from->stack_pointer, to->stack_pointer);
}
