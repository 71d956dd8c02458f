/* stream.h - a stream, and what is being captured from it. */
#ifndef MT_EMULATION_STREAM_H
#define MT_EMULATION_STREAM_H

#include <memory>
#include <vector>

#include "state.h"

namespace emulation {

struct Capture {
    cudaStreamCaptureMode mode;
    bool spoilt = false;
    std::vector<Work> nodes;
};

} // namespace emulation

struct CUstream_st {
    bool blocking; /* waits for the default stream */
    std::unique_ptr<emulation::Capture> capture;
};

#endif
