#include "worker/service/idle_watch.h"

#include <utility>

namespace jacserve::worker {

IdleWatch::IdleWatch(std::chrono::milliseconds patience, std::function<void()> release)
    : patience_(patience), release_(std::move(release)) {
  if (patience_.count() > 0) thread_ = std::jthread([this](std::stop_token stop) { Watch(std::move(stop)); });
}

void IdleWatch::Touch() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++touches_;
  }
  touched_.notify_one();
}

void IdleWatch::Watch(std::stop_token stop) {
  std::unique_lock<std::mutex> lock(mutex_);
  uint64_t seen = 0;
  while (!stop.stop_requested()) {
    touched_.wait(lock, stop, [&] { return touches_ != seen; });
    while (touches_ != seen && !stop.stop_requested()) {
      seen = touches_;
      touched_.wait_for(lock, stop, patience_, [&] { return touches_ != seen; });
    }
    if (stop.stop_requested()) return;
    lock.unlock();
    release_();
    lock.lock();
  }
}

}  // namespace jacserve::worker
