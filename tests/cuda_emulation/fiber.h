/* fiber.h - a second line of execution with a stack of its own, entered and left by hand.
 *
 * The stack has a guard page below it, and AddressSanitizer and valgrind are told of every switch.
 * A fiber lives for many threads of many launches: its body takes work and pauses, for ever. */
#ifndef MT_EMULATION_FIBER_H
#define MT_EMULATION_FIBER_H

#include <cstddef>

namespace emulation {

struct FiberImpl; /* how a stack is entered on this machine */

class Fiber {
  public:
    typedef void (*Body)(); /* must not return */

    explicit Fiber(Body body);
    ~Fiber();
    Fiber(const Fiber &) = delete;
    Fiber &operator=(const Fiber &) = delete;

    /* Runs the fiber until it pauses. Called from outside any fiber. */
    void resume();

    /* Returns from the resume of the fiber that is running. Called from inside it. */
    static void pause();

    /* Forgets where a paused fiber stands; its next resume begins the body again. */
    void restart();

  private:
    static void main();

    Body body_;
    char *base_;  /* the guard page, then the stack */
    char *stack_; /* its lowest byte */
    size_t bytes_;
    unsigned valgrind_;
    FiberImpl *impl_;
};

} // namespace emulation

#endif
