/* mt_emulation_launch.h - starts a kernel on the emulated device.
 *
 * mt_emulation_kernel(name, kernel, grid, block, shared, stream)(arguments...) copies the arguments
 * as the kernel's parameter types, so that a launch in a captured graph can be replayed, and hands
 * the call to the stream. As with a real launch, what went wrong is read by cudaGetLastError. */
#ifndef MT_EMULATION_LAUNCH_H
#define MT_EMULATION_LAUNCH_H

#include <functional>
#include <tuple>

#include <cuda_runtime.h>

struct mt_launch {
    const char *name;
    const void *kernel;
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};

/* Runs or captures the launch; thread is called once for each thread. */
void mt_emulation_launch(const mt_launch &launch, std::function<void()> thread);

template <class... P> class mt_emulation_call {
  public:
    mt_emulation_call(void (*kernel)(P...), const mt_launch &launch)
        : kernel_(kernel), launch_(launch) {}

    template <class... A> void operator()(A &&...arguments) const {
        static_assert(sizeof...(A) == sizeof...(P), "as many arguments as the kernel has");
        std::tuple<P...> copy(std::forward<A>(arguments)...);
        auto kernel = kernel_;
        mt_emulation_launch(launch_, [kernel, copy] { std::apply(kernel, copy); });
    }

  private:
    void (*kernel_)(P...);
    mt_launch launch_;
};

template <class... P>
mt_emulation_call<P...> mt_emulation_kernel(const char *name, void (*kernel)(P...), dim3 grid,
                                            dim3 block, size_t shared, cudaStream_t stream) {
    return { kernel,
             { name, reinterpret_cast<const void *>(kernel), grid, block, shared, stream } };
}

#endif
