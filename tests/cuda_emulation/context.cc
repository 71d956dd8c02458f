/* context.cc - see context.h. */
#include "context.h"

#include <cstdint>

namespace emulation {

#ifdef MT_EMULATION_UCONTEXT

void Context::prepare(char *stack_bottom, size_t bytes, void (*entry)()) {
    getcontext(&registers);
    registers.uc_stack.ss_sp = stack_bottom;
    registers.uc_stack.ss_size = bytes;
    registers.uc_link = nullptr;
    makecontext(&registers, entry, 0);
}

#else

/* The jump, where a return would do, is foreseen by the processor. */
asm(R"(
        .text
        .globl  mt_emulation_switch
        .hidden mt_emulation_switch
        .type   mt_emulation_switch, @function
mt_emulation_switch:
        pushq   %rbp
        pushq   %rbx
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        movq    %rsp, (%rdi)
        movq    %rsi, %rsp
        popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbx
        popq    %rbp
        popq %rcx
        jmpq *%rcx
        .size   mt_emulation_switch, . - mt_emulation_switch
)");

/* The first switch pops six registers and returns into entry, which finds a return address of 0
 * above it and the stack aligned as after a call. */
void Context::prepare(char *stack_bottom, size_t bytes, void (*entry)()) {
    uintptr_t top = (reinterpret_cast<uintptr_t>(stack_bottom) + bytes) & ~uintptr_t(15);
    void **slots = reinterpret_cast<void **>(top) - 8;
    for (int i = 0; i < 8; i++)
        slots[i] = nullptr;
    slots[6] = reinterpret_cast<void *>(entry);
    stack = slots;
}

#endif

} // namespace emulation
