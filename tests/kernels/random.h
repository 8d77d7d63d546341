// What the tests of kernels draw random cases with, and the message of one that fails.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

inline std::mt19937_64 rng;
// The seed of the case, or 0 if it is not random, and what it is of.
inline unsigned long long seed;
inline std::string what;

inline unsigned long long below(unsigned long long n) { return rng() % n; }
inline unsigned long long between(unsigned long long low, unsigned long long high) { return low + below(high - low + 1); }
inline bool chance(double p) { return (double)(rng() >> 11) * 0x1p-53 < p; }

[[noreturn]] inline void fail(const std::string& message) {
    std::fprintf(stderr, "seed %llu, %s: %s\n", seed, what.c_str(), message.c_str());
    std::exit(1);
}
