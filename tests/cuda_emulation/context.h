/* context.h - saving and loading a place of execution: a few instructions on x86-64, the C
 * library's ucontext elsewhere (or with -DMT_EMULATION_UCONTEXT). */
#ifndef MT_EMULATION_CONTEXT_H
#define MT_EMULATION_CONTEXT_H

#include <cstddef>

#if !defined __x86_64__ && !defined MT_EMULATION_UCONTEXT
#define MT_EMULATION_UCONTEXT
#endif

#ifdef MT_EMULATION_UCONTEXT
#include <ucontext.h>
#else
/* Pushes the registers that a function must keep, leaves the stack pointer in *save, takes the
 * other stack and pops the same registers there. */
extern "C" void mt_emulation_switch(void **save, void *load);
#endif

namespace emulation {

struct Context {
#ifdef MT_EMULATION_UCONTEXT
    ucontext_t registers;
#else
    void *stack = nullptr; /* where the saved registers lie */
#endif

    /* Makes this the place at which entry is called on the given stack. entry must not return. */
    void prepare(char *stack_bottom, size_t bytes, void (*entry)());

    /* Keeps the present place in this one and goes on at the other. */
    void switch_to(Context &other) {
#ifdef MT_EMULATION_UCONTEXT
        swapcontext(&registers, &other.registers);
#else
        mt_emulation_switch(&stack, other.stack);
#endif
    }
};

} // namespace emulation

#endif
