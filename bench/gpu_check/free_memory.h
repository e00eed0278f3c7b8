// How much of the GPU's free memory was taken at most, asked for from time to time. Other programs on the GPU count
// too.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "worker/engine/devices.h"

namespace jacserve::bench {

class FreeMemory {
 public:
  // Of what is free now.
  FreeMemory() : begin_(Free()), least_(begin_), watch_([this](const std::stop_token& stop) { Watch(stop); }) {}

  // Bytes; ends the watch. What was measured is still allocated.
  int64_t LargestTaken() {
    watch_.request_stop();
    watch_.join();
    return begin_ - std::min(least_, Free());
  }

 private:
  static int64_t Free() {
    const auto device = worker::FindComputeDevice(worker::BackendKind::kCuda);
    return device.ok() ? device->gpu->free_bytes : 0;
  }
  void Watch(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      least_ = std::min(least_, Free());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  const int64_t begin_;
  int64_t least_;  // the watch's until it has ended
  std::jthread watch_;
};

}  // namespace jacserve::bench
