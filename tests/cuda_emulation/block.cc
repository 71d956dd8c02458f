/* block.cc - the threads of one block, as fibers that meet at barriers and shuffles.
 *
 * One fiber runs the threads in turn as long as each returns without waiting; so a kernel without
 * barriers costs a call per thread. A thread that waits keeps its fiber, and another fiber goes on
 * with the next thread. When all have been started, each waits or has exited. Then groups of lanes
 * that are complete (the live lanes of a mask, all at the same warp function) and blocks that are
 * complete (all live threads at the same __syncthreads) go on. When nothing can, threads have
 * diverged: their fibers are forgotten and the block fails. */
#include "block.h"

#include <cstdio>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "fiber.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulation {

namespace {

const unsigned LANES = 32;
const unsigned WARPS = 32;

enum What { BLOCK_BARRIER, WARP_BARRIER, SHUFFLE };

struct Thread {
    uint3 index;
    Fiber *fiber;
    What what;
    mt_shuffle how;
    unsigned mask;
    mt_place place;
    uint64_t value;  /* what it brings to a shuffle, then what it gets */
    unsigned source; /* the lane it reads */
};

/* The block that runs. */
const std::function<void()> *body;
unsigned threads;            /* of the block */
unsigned started;            /* of those, in order */
unsigned live;               /* started or not, and not exited */
unsigned at_barrier;         /* waiting at __syncthreads */
unsigned current;            /* the thread that runs */
Thread table[LANES * WARPS]; /* valid for those that wait */
uint32_t waiting[WARPS];     /* by lane: waits for anything */
uint32_t exited[WARPS];      /* by lane */

std::vector<std::unique_ptr<Fiber>> fibers; /* all there are */
std::vector<Fiber *> idle;
Fiber *fiber; /* the one that runs */

/* ---- the threads ----------------------------------------------------------------------------- */

/* Sets threadIdx for the next thread; false when all were started. */
bool take_thread() {
    if (started == threads)
        return false;
    if (started == 0)
        threadIdx = { 0, 0, 0 };
    else {
        const uint3 last = threadIdx;
        threadIdx.x++;
        if (threadIdx.x == blockDim.x) {
            threadIdx.x = 0;
            threadIdx.y++;
        }
        if (threadIdx.y == blockDim.y)
            threadIdx = { 0, 0, last.z + 1 };
    }
    current = started++;
    return true;
}

void exit_thread() {
    exited[current / LANES] |= 1u << current % LANES;
    live--;
}

/* What each fiber does: threads, until there are none to start. */
void run_threads() {
    for (;;) {
        while (take_thread()) {
            (*body)();
            exit_thread();
        }
        idle.push_back(fiber);
        Fiber::pause();
    }
}

Fiber *idle_fiber() {
    if (idle.empty()) {
        fibers.push_back(std::make_unique<Fiber>(run_threads));
        return fibers.back().get();
    }
    Fiber *f = idle.back();
    idle.pop_back();
    return f;
}

void start_threads() {
    while (started < threads) {
        /* threadIdx is that of the last thread started: others may only run after all started. */
        fiber = idle_fiber();
        fiber->resume();
    }
}

/* Leaves the running thread in the table until go_on. */
Thread &wait(What what, unsigned mask, mt_place place) {
    Thread &t = table[current];
    t.index = threadIdx;
    t.fiber = fiber;
    t.what = what;
    t.mask = mask;
    t.place = place;
    waiting[current / LANES] |= 1u << current % LANES;
    Fiber::pause();
    return t;
}

void go_on(unsigned thread) {
    Thread &t = table[thread];
    waiting[thread / LANES] &= ~(1u << thread % LANES);
    current = thread;
    threadIdx = t.index;
    fiber = t.fiber;
    fiber->resume();
}

/* ---- warps ----------------------------------------------------------------------------------- */

bool same_place(const mt_place &a, const mt_place &b) {
    return a.line == b.line && (a.file == b.file || !strcmp(a.file, b.file));
}

/* Threads may meet in a __syncwarp from different places, but not in a shuffle. */
bool meets(const Thread &a, const Thread &b) {
    if (a.what != b.what || a.mask != b.mask)
        return false;
    return a.what == WARP_BARRIER ||
           (a.what == SHUFFLE && a.how == b.how && same_place(a.place, b.place));
}

uint32_t lanes_of(unsigned warp) {
    unsigned n = threads - warp * LANES;
    return n >= LANES ? 0xffffffff : (1u << n) - 1;
}

/* The lanes that wait together with this one, or 0 while one of them is missing (or for ever, when
 * its mask leaves out the lane itself). */
uint32_t complete_group(unsigned warp, unsigned lane) {
    const Thread *t = table + warp * LANES;
    uint32_t group = t[lane].mask & lanes_of(warp) & ~exited[warp];
    if (t[lane].what == BLOCK_BARRIER || !(group >> lane & 1) || group & ~waiting[warp])
        return 0;
    for (uint32_t rest = group; rest; rest &= rest - 1)
        if (!meets(t[lane], t[__builtin_ctz(rest)]))
            return 0;
    return group;
}

/* Gives each lane of the group the value of the lane it reads. */
void exchange(unsigned warp, uint32_t group) {
    uint64_t brought[LANES];
    Thread *t = table + warp * LANES;
    for (uint32_t rest = group; rest; rest &= rest - 1) {
        unsigned lane = unsigned(__builtin_ctz(rest));
        brought[lane] = t[lane].value;
    }
    for (uint32_t rest = group; rest; rest &= rest - 1) {
        Thread &reader = t[__builtin_ctz(rest)];
        bool there = group >> reader.source & 1;
        reader.value = there ? brought[reader.source] : ~uint64_t(0);
    }
}

bool release_group(unsigned warp) {
    for (uint32_t rest = waiting[warp]; rest; rest &= rest - 1) {
        unsigned lane = unsigned(__builtin_ctz(rest));
        uint32_t group = complete_group(warp, lane);
        if (!group)
            continue;
        if (table[warp * LANES + lane].what == SHUFFLE)
            exchange(warp, group);
        for (uint32_t members = group; members; members &= members - 1)
            go_on(warp * LANES + unsigned(__builtin_ctz(members)));
        return true;
    }
    return false;
}

bool release_warps() {
    bool any = false;
    for (unsigned warp = 0; warp * LANES < threads; warp++)
        while (release_group(warp))
            any = true;
    return any;
}

/* ---- the block ------------------------------------------------------------------------------- */

template <class F> void each_waiting(F visit) {
    for (unsigned warp = 0; warp * LANES < threads; warp++)
        for (uint32_t rest = waiting[warp]; rest; rest &= rest - 1)
            visit(warp * LANES + unsigned(__builtin_ctz(rest)));
}

bool release_barrier() {
    if (at_barrier != live)
        return false;
    const Thread *first = nullptr;
    bool together = true;
    each_waiting([&](unsigned i) {
        first = first ? first : &table[i];
        together = together && same_place(first->place, table[i].place);
    });
    if (!together)
        return false;
    at_barrier = 0;
    /* All are resumed, each once: a thread resumed here may wait again before the next is. */
    uint32_t members[WARPS];
    memcpy(members, waiting, sizeof members);
    for (unsigned warp = 0; warp * LANES < threads; warp++)
        for (uint32_t rest = members[warp]; rest; rest &= rest - 1)
            go_on(warp * LANES + unsigned(__builtin_ctz(rest)));
    return true;
}

const char *name_of(const Thread &t) {
    static const char *const shuffles[] = { "__shfl_sync", "__shfl_up_sync", "__shfl_down_sync",
                                            "__shfl_xor_sync" };
    if (t.what == SHUFFLE)
        return shuffles[t.how];
    return t.what == WARP_BARRIER ? "__syncwarp" : "__syncthreads";
}

/* Who waits where, one clause for each place and mask. */
std::string divergence() {
    std::map<std::string, std::pair<unsigned, unsigned>> places; /* text: first thread, count */
    each_waiting([&](unsigned i) {
        const Thread &t = table[i];
        char text[300];
        snprintf(text, sizeof text, "in %s at %s:%d", name_of(t), t.place.file, t.place.line);
        std::string where = text;
        if (t.what != BLOCK_BARRIER) {
            snprintf(text, sizeof text, " (mask %08x)", t.mask);
            where += text;
        }
        places.emplace(where, std::make_pair(i, 0u)).first->second.second++;
    });
    std::string all;
    for (const auto &[where, threads_there] : places) {
        char text[80];
        snprintf(text, sizeof text, "%s%u (the first is %u) wait ", all.empty() ? "" : ", ",
                 threads_there.second, threads_there.first);
        all += text + where;
    }
    return "threads diverged: of " + std::to_string(threads) + " threads " +
           std::to_string(threads - live) + " exited, " + all;
}

void abandon() {
    each_waiting([&](unsigned i) {
        table[i].fiber->restart();
        idle.push_back(table[i].fiber);
    });
}

} // namespace

std::string run_block(const std::function<void()> &thread) {
    body = &thread;
    threads = live = blockDim.x * blockDim.y * blockDim.z;
    started = at_barrier = 0;
    memset(waiting, 0, sizeof waiting);
    memset(exited, 0, sizeof exited);
    start_threads();
    while (live)
        if (!release_warps() && !release_barrier()) {
            std::string what = divergence();
            abandon();
            return what;
        }
    return "";
}

void free_fibers() {
    idle.clear();
    fibers.clear();
}

} // namespace emulation

/* ---- what kernels call ----------------------------------------------------------------------- */

using namespace emulation;

void mt_emulation_barrier(mt_place place) {
    at_barrier++;
    wait(BLOCK_BARRIER, 0, place);
}

void mt_emulation_warp_barrier(unsigned mask, mt_place place) {
    wait(WARP_BARRIER, mask, place);
}

/* The lane that this one reads: its own when the other is outside its part of width lanes. */
static unsigned source_lane(mt_shuffle how, unsigned lane, unsigned other, unsigned width) {
    unsigned first = lane / width * width;
    unsigned last = first + width - 1;
    switch (how) {
    case MT_SHUFFLE_INDEX:
        return first + other % width;
    case MT_SHUFFLE_UP:
        return lane - first >= other ? lane - other : lane;
    case MT_SHUFFLE_DOWN:
        return last - lane >= other ? lane + other : lane;
    case MT_SHUFFLE_XOR:
        return (lane ^ other) <= last ? lane ^ other : lane;
    }
    return lane;
}

uint64_t mt_emulation_shuffle(mt_shuffle how, unsigned mask, uint64_t value, unsigned other,
                              int width, mt_place place) {
    Thread &t = table[current];
    t.how = how;
    t.value = value;
    t.source = source_lane(how, current % LANES, other, unsigned(width));
    return wait(SHUFFLE, mask, place).value;
}
