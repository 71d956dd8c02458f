/* block.h - runs the threads of one block. */
#ifndef MT_EMULATION_BLOCK_H
#define MT_EMULATION_BLOCK_H

#include <functional>
#include <string>

#include <mt_emulation_kernel.h>

namespace emulation {

/* Runs a block of block_dim threads, blockIdx and blockDim being set. Returns an empty text, or
 * what is wrong when threads wait for others that never come. */
std::string run_block(const std::function<void()> &thread);

/* Frees the fibers that are kept for the next launch. */
void free_fibers();

} // namespace emulation

#endif
