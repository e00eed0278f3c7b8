// Streams whose work waits until something waits for it, and events.
// In: work, in order. Out: the same work run, on the thread that waits, never while World's mutex is held.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

struct CUstream_st;
struct CUevent_st;

namespace jacserve::cuda_sim {

using StreamPtr = std::shared_ptr<CUstream_st>;

// Memory that queued work reads or writes, as far as it is known.
struct Range {
  const void* begin = nullptr;
  int64_t bytes = 0;
};

// A place in a stream: all its work up to and with `position`.
struct Point {
  StreamPtr stream;
  int64_t position = 0;
};

struct Task {
  std::function<void()> run;  // none: only a wait
  std::vector<Point> after;   // run first
  std::vector<Range> ranges;
};

}  // namespace jacserve::cuda_sim

struct CUstream_st {
  int device = 0;
  uint64_t number = 0;   // in the order of their making
  bool blocking = true;  // runs in order with the legacy stream
  bool legacy = false;
  bool destroyed = false;
  bool running = false;  // some thread is in the task at the front
  int64_t done = 0;      // tasks that ran
  std::deque<jacserve::cuda_sim::Task> tasks;

  int64_t last() const { return done + static_cast<int64_t>(tasks.size()); }
};

struct CUevent_st {
  int device = 0;
  bool timing = true;
  bool destroyed = false;
  jacserve::cuda_sim::Point recorded;  // no stream: never recorded, counts as done
  std::shared_ptr<std::chrono::steady_clock::time_point> time;
};
