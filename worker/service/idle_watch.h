// Notices that nothing was asked of a worker for a while.
// In: calls of Touch. Out: one call of `release` when none came for `patience`, until the next Touch.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace jacserve::worker {

class IdleWatch {
 public:
  // patience 0: never. `release` runs on the watch's own thread.
  IdleWatch(std::chrono::milliseconds patience, std::function<void()> release);

  void Touch();

 private:
  void Watch(std::stop_token stop);

  const std::chrono::milliseconds patience_;
  const std::function<void()> release_;
  std::mutex mutex_;
  std::condition_variable_any touched_;
  uint64_t touches_ = 0;
  std::jthread thread_;  // last: it uses what is above
};

}  // namespace jacserve::worker
