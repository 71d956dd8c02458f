/* entry.cc - the driver's functions by name. */
#include <cstring>

#include "calls.h"
#include "state.h"

using namespace emulation;

static void *driver_function(const char *name) {
    static const struct {
        const char *name;
        void *function;
    } table[] = {
#define MT_ENTRY(f) { #f, reinterpret_cast<void *>(f) }
        MT_ENTRY(cuMemAddressReserve),
        MT_ENTRY(cuMemAddressFree),
        MT_ENTRY(cuMemCreate),
        MT_ENTRY(cuMemRelease),
        MT_ENTRY(cuMemMap),
        MT_ENTRY(cuMemUnmap),
        MT_ENTRY(cuMemSetAccess),
        MT_ENTRY(cuMemGetAllocationGranularity),
        MT_ENTRY(cuGetErrorString),
#undef MT_ENTRY
    };
    for (const auto &entry : table)
        if (!strcmp(entry.name, name))
            return entry.function;
    return nullptr;
}

/* The call succeeds whether or not the symbol is there; result tells. */
static cudaError_t find(const char *symbol, void **function,
                        cudaDriverEntryPointQueryResult *result) {
    if (!symbol || !function)
        return cudaErrorInvalidValue;
    *function = driver_function(symbol);
    if (result)
        *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return *function || result ? cudaSuccess : cudaErrorSymbolNotFound;
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long,
                                    cudaDriverEntryPointQueryResult *result) {
    return runtime_call(API_cudaGetDriverEntryPoint,
                        [&] { return find(symbol, function, result); });
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned int,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult *result) {
    return runtime_call(API_cudaGetDriverEntryPointByVersion,
                        [&] { return find(symbol, function, result); });
}
