/* fiber.cc - see fiber.h. */
#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "context.h"
#include "watchers.h"

namespace emulation {

namespace {

const size_t STACK = 128 << 10;

/* The tops of stacks differ by this, up to COLOURS times, so that the same frames of many fibers do
 * not share a few lines of the cache. */
const size_t COLOUR = 448;
const size_t COLOURS = 16;

Fiber *running;
Context outside;           /* where resume was called */
void *outside_fake;        /* its fake stack, kept for AddressSanitizer */
const void *outside_stack; /* its bounds */
size_t outside_bytes;

size_t page() {
    static const size_t bytes = size_t(sysconf(_SC_PAGESIZE));
    return bytes;
}

} // namespace

struct FiberImpl {
    Context context;
    void *fake = nullptr;
    size_t colour = 0;
};

Fiber::Fiber(Body body) : body_(body), bytes_(STACK), impl_(new FiberImpl) {
    static size_t count;
    base_ =
        static_cast<char *>(mmap(nullptr, page() + STACK, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_, page(), PROT_NONE)) {
        perror("emulated device: stack of a thread");
        abort();
    }
    stack_ = base_ + page();
    valgrind_ = VALGRIND_STACK_REGISTER(stack_, stack_ + STACK);
    impl_->colour = count++ % COLOURS * COLOUR;
    restart();
}

Fiber::~Fiber() {
    permit(stack_, bytes_);
    VALGRIND_STACK_DEREGISTER(valgrind_);
    munmap(base_, page() + STACK);
    delete impl_;
}

void Fiber::restart() {
    permit(stack_, bytes_);
    impl_->fake = nullptr;
    impl_->context.prepare(stack_, bytes_ - impl_->colour, main);
}

void Fiber::main() {
    enter_stack(nullptr, &outside_stack, &outside_bytes);
    running->body_();
    abort();
}

void Fiber::resume() {
    running = this;
    leave_stack(&outside_fake, stack_, bytes_);
    outside.switch_to(impl_->context);
    enter_stack(outside_fake, nullptr, nullptr);
    running = nullptr;
}

void Fiber::pause() {
    FiberImpl *self = running->impl_;
    leave_stack(&self->fake, outside_stack, outside_bytes);
    self->context.switch_to(outside);
    enter_stack(self->fake, &outside_stack, &outside_bytes);
}

} // namespace emulation
