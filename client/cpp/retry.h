// How often and how long to wait before a call is made again. In: how often it failed so far. Out: when to give up.
#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace jacserve::client {

struct RetryOptions {
  int tries_without_progress = 10;
  absl::Duration first_wait = absl::Milliseconds(200);  // doubles each time
  absl::Duration longest_wait = absl::Seconds(5);
};

class Retry {
 public:
  Retry(const RetryOptions& options, std::stop_token stop)
      : options_(options), stop_(std::move(stop)), wait_(options.first_wait) {}

  void Progressed() {
    failures_ = 0;
    wait_ = options_.first_wait;
  }

  // Waits and says whether to try again: not after too many failures without progress, nor when stopped.
  bool TryAgain() {
    if (++failures_ >= options_.tries_without_progress) return false;
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any wake;
    wake.wait_for(lock, stop_, absl::ToChronoNanoseconds(wait_), [] { return false; });
    wait_ = std::min(wait_ * 2, options_.longest_wait);
    return !stop_.stop_requested();
  }

  int failures() const { return failures_; }

 private:
  RetryOptions options_;
  std::stop_token stop_;
  absl::Duration wait_;
  int failures_ = 0;
};

}  // namespace jacserve::client
