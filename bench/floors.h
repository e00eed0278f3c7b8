// The machine's own limits, measured in the same run as what is compared with them.
#pragma once

#include <cstdint>
#include <functional>

namespace jacserve::bench {

double SecondsOf(const std::function<void()>& work);
// Smallest of `runs`, after one that is not counted.
double BestSecondsOf(int runs, const std::function<void()>& work);

// Floating-point operations per second of a large float32 product on `threads` threads; the faster of oneDNN, OpenBLAS.
double GemmPeak(int threads);
// Bytes per second of filling memory past the caches on `threads` threads.
double NonTemporalFill(int threads);

}  // namespace jacserve::bench
