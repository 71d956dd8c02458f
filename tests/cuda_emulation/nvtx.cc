/* nvtx.cc - named ranges, kept in order. */
#include <nvtx3/nvToolsExt.h>

#include <string>
#include <vector>

#include "calls.h"
#include "state.h"

namespace emulation {

namespace {

struct NamedRange {
    std::string name;
    int depth;
};

std::vector<NamedRange> named;
int depth;

} // namespace

void reset_nvtx() {
    named.clear();
    depth = 0;
}

} // namespace emulation

using namespace emulation;

int nvtxRangePushA(const char *message) {
    named.push_back({ message, depth });
    return depth++;
}

int nvtxRangePop() {
    if (depth == 0) {
        fault("nvtxRangePop without a range");
        return -1;
    }
    return --depth;
}

const char *mt_emulation_range(size_t i, int *at_depth) {
    if (i >= named.size())
        return nullptr;
    *at_depth = named[i].depth;
    return named[i].name.c_str();
}

int mt_emulation_open_ranges() {
    return depth;
}
