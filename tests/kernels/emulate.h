// CUDA for g++: every thread of a CTA is a fiber, so that warp and CTA barriers work as they do on a device, and a barrier that
// not all threads of a warp reach is found. Between barriers threads run one after the other, from the first or from the last
// on, so that a missing barrier shows. One CTA runs after the other; atomics are plain. Only what kernels/ uses is here.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#define __global__
#define __device__
#define __constant__ static const
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __shared__ static

struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

namespace emulate {

struct Index {
    unsigned x;
};

enum class Wait { None, Sum, Any, Ballot, Match, Shuffle, Warp, Cta, Done };

struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    Wait wait = Wait::None;
    unsigned value = 0;
    unsigned lane = 0;  // whose value a shuffle is to give
    unsigned mask = 0;  // lanes of the warp that wait together
    unsigned asleep = 0;  // how many turns the thread still leaves to others
};

constexpr size_t STACK = 256 * 1024;
constexpr unsigned WARP = 32;

inline Index thread, block, grid_size, cta_size;
inline ucontext_t scheduler;
inline std::vector<Fiber> fibers;
inline std::function<void()> body;
inline bool backwards = false;

inline void fail(const char* why) {
    std::fprintf(stderr, "emulation: %s (CTA %u, thread %u)\n", why, block.x, thread.x);
    std::abort();
}

// Waits until all threads of the mask, or of the CTA, wait for the same; gives the result that the scheduler left.
inline unsigned wait(Wait wait, unsigned value, unsigned lane = 0, unsigned mask = 0xffffffffu) {
    Fiber& fiber = fibers[thread.x];
    if (wait != Wait::Cta && (mask >> thread.x % WARP & 1) == 0) fail("a thread waits that is not in the mask");
    fiber.mask = mask;
    fiber.wait = wait;
    fiber.value = value;
    fiber.lane = lane;
    swapcontext(&fiber.context, &scheduler);
    return fiber.value;
}

// Leaves some turns to the other threads.
inline void sleep() {
    Fiber& fiber = fibers[thread.x];
    fiber.asleep = 24;
    swapcontext(&fiber.context, &scheduler);
}

inline void run_fiber() {
    body();
    fibers[thread.x].wait = Wait::Done;
}

// Lets go of the lanes of a warp that all wait for the same, or of the CTA; false if all are done.
inline bool release() {
    bool released = false;
    for (const Fiber& fiber : fibers) released = released || fiber.wait == Wait::None;
    for (size_t first = 0; first < fibers.size(); first += WARP) {
        for (unsigned lane = 0; lane < WARP; ++lane) {
            const Wait what = fibers[first + lane].wait;
            const unsigned mask = fibers[first + lane].mask;
            if (what == Wait::None || what == Wait::Cta || what == Wait::Done) continue;
            bool all = true;
            unsigned sum = 0, ballot = 0, values[WARP];
            for (unsigned i = 0; i < WARP; ++i) {
                const Fiber& fiber = fibers[first + i];
                values[i] = fiber.value;
                if ((mask >> i & 1) == 0) continue;
                all = all && fiber.wait == what && fiber.mask == mask;
                sum += values[i];
                ballot |= (values[i] != 0 ? 1u : 0u) << i;
            }
            if (!all) continue;
            for (unsigned i = 0; i < WARP; ++i) {
                if ((mask >> i & 1) == 0) continue;
                Fiber& fiber = fibers[first + i];
                unsigned match = 0;
                for (unsigned j = 0; j < WARP; ++j) match |= (values[i] == values[j] ? 1u : 0u) << j;
                fiber.value = what == Wait::Sum     ? sum
                              : what == Wait::Any   ? ballot != 0
                              : what == Wait::Match ? match
                              : what == Wait::Shuffle ? values[fiber.lane % WARP]
                                                      : ballot;
                fiber.wait = Wait::None;
            }
            released = true;
        }
    }
    if (released) return true;
    for (const Fiber& fiber : fibers) {
        if (fiber.wait != fibers[0].wait) fail("not all threads wait at the same barrier");
    }
    if (fibers[0].wait == Wait::Done) return false;
    for (Fiber& fiber : fibers) fiber.wait = Wait::None;
    return true;
}

inline void launch(unsigned grid, unsigned threads, std::function<void()> kernel) {
    grid_size.x = grid;
    cta_size.x = threads;
    body = std::move(kernel);
    if (fibers.size() != threads) {
        fibers = std::vector<Fiber>(threads);
        for (Fiber& fiber : fibers) fiber.stack.reset(new char[STACK]);
    }
    for (block.x = 0; block.x < grid; ++block.x) {
        backwards = !backwards;
        for (Fiber& fiber : fibers) {
            getcontext(&fiber.context);
            fiber.context.uc_stack.ss_sp = fiber.stack.get();
            fiber.context.uc_stack.ss_size = STACK;
            fiber.context.uc_link = &scheduler;
            fiber.wait = Wait::None;
            makecontext(&fiber.context, run_fiber, 0);
        }
        do {
            for (unsigned i = 0; i < threads; ++i) {
                thread.x = backwards ? threads - 1 - i : i;
                Fiber& fiber = fibers[thread.x];
                if (fiber.asleep != 0) {
                    fiber.asleep -= 1;
                } else if (fiber.wait == Wait::None) {
                    swapcontext(&scheduler, &fiber.context);
                }
            }
            thread.x = 0;
        } while (release());
    }
}

}  // namespace emulate

#define threadIdx emulate::thread
#define blockIdx emulate::block
#define gridDim emulate::grid_size
#define blockDim emulate::cta_size

inline void __syncthreads() { emulate::wait(emulate::Wait::Cta, 0); }
inline unsigned emulate_warp(unsigned mask, emulate::Wait what, unsigned x, unsigned lane = 0) {
    if (mask != 0xffffffffu) emulate::fail("only whole warps are emulated");
    return emulate::wait(what, x, lane);
}
inline void __syncwarp(unsigned mask = 0xffffffffu) { emulate::wait(emulate::Wait::Warp, 0, 0, mask); }
inline int __reduce_add_sync(unsigned mask, int x) { return (int)emulate_warp(mask, emulate::Wait::Sum, (unsigned)x); }
inline int __any_sync(unsigned mask, int x) { return emulate_warp(mask, emulate::Wait::Any, x != 0) != 0; }
inline unsigned __ballot_sync(unsigned mask, int x) { return emulate_warp(mask, emulate::Wait::Ballot, x != 0); }
inline unsigned __match_any_sync(unsigned mask, unsigned x) { return emulate_warp(mask, emulate::Wait::Match, x); }
inline unsigned __shfl_sync(unsigned mask, unsigned x, unsigned lane) {
    return emulate_warp(mask, emulate::Wait::Shuffle, x, lane);
}
// Threads run one after the other, and others while one waits.
inline void __threadfence_block() {}
inline void __nanosleep(unsigned) { emulate::sleep(); }
// Sums that are rounded down and up.
inline double __dadd_rd(double a, double b) {
    const double sum = a + b, of_b = sum - a, error = (a - (sum - of_b)) + (b - of_b);
    return error < 0 ? std::nextafter(sum, -INFINITY) : sum;
}
inline double __dadd_ru(double a, double b) { return -__dadd_rd(-a, -b); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((uint64_t)high << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((uint64_t)high << 32 | low) >> std::min(shift, 32u));
}
template <class T>
inline T __ldg(const T* at) {
    return *at;
}
template <class T>
inline T atomicAdd(T* at, T x) {
    const T old = *at;
    *at = old + x;
    return old;
}
inline unsigned atomicOr(unsigned* at, unsigned x) {
    const unsigned old = *at;
    *at = old | x;
    return old;
}
inline unsigned atomicXor(unsigned* at, unsigned x) {
    const unsigned old = *at;
    *at = old ^ x;
    return old;
}
