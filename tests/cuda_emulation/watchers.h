/* watchers.h - what AddressSanitizer and valgrind must be told; nothing when they are not there. */
#ifndef MT_EMULATION_WATCHERS_H
#define MT_EMULATION_WATCHERS_H

#include <cstddef>

#if defined __has_feature
#if __has_feature(address_sanitizer)
#define MT_EMULATION_ASAN
#endif
#elif defined __SANITIZE_ADDRESS__
#define MT_EMULATION_ASAN
#endif

#ifdef MT_EMULATION_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define VALGRIND_STACK_REGISTER(from, to) 0u
#define VALGRIND_STACK_DEREGISTER(id)     (void)(id)
#endif

namespace emulation {

/* Memory that must not be touched, and that may be touched again. */
inline void forbid([[maybe_unused]] const void *p, [[maybe_unused]] size_t bytes) {
#ifdef MT_EMULATION_ASAN
    __asan_poison_memory_region(p, bytes);
#endif
}

inline void permit([[maybe_unused]] const void *p, [[maybe_unused]] size_t bytes) {
#ifdef MT_EMULATION_ASAN
    __asan_unpoison_memory_region(p, bytes);
#endif
}

/* Before and after a switch to another stack; fake is where the leaving side keeps its fake
 * stack. */
inline void leave_stack([[maybe_unused]] void **fake, [[maybe_unused]] const void *bottom,
                        [[maybe_unused]] size_t bytes) {
#ifdef MT_EMULATION_ASAN
    __sanitizer_start_switch_fiber(fake, bottom, bytes);
#endif
}

inline void enter_stack([[maybe_unused]] void *fake, [[maybe_unused]] const void **from,
                        [[maybe_unused]] size_t *bytes) {
#ifdef MT_EMULATION_ASAN
    __sanitizer_finish_switch_fiber(fake, from, bytes);
#endif
}

} // namespace emulation

#endif
