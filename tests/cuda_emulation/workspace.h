/* workspace.h - device memory that the cuBLAS stand-in uses as scratch. */
#ifndef MT_EMULATION_WORKSPACE_H
#define MT_EMULATION_WORKSPACE_H

#include <memory>

#include "control.h"
#include "state.h"

namespace emulation {

/* Device memory of the library's own, counted as such, given back at the end. */
class LibraryMemory {
  public:
    /* NULL when the device has no room. */
    static std::shared_ptr<LibraryMemory> take(uint64_t bytes);
    ~LibraryMemory();
    LibraryMemory(const LibraryMemory &) = delete;
    LibraryMemory &operator=(const LibraryMemory &) = delete;

    void *ptr = nullptr;
    const uint64_t bytes;

  private:
    explicit LibraryMemory(uint64_t n) : bytes(n) {}

    bool counted_ = false;
};

/* Bytes of the default pool: what CUBLAS_WORKSPACE_CONFIG says, else 32 MiB for 9.0, else 4 MiB. */
uint64_t default_pool_bytes();

/* Writes the pattern over the workspace as a product does; false, with a fault, when it is not all
 * live. Keeps it as the last one used. */
bool use_workspace(const mt_emulation_workspace &workspace);

bool workspace_suffices(uint64_t bytes);
void reset_workspace();

} // namespace emulation

#endif
