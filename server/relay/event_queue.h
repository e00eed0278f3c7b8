// Events on their way to one client: a bounded queue between the threads that read workers and the one that writes.
// In: encoded messages from several threads. Out: the same messages in order, then how the stream ends.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "grpcpp/support/byte_buffer.h"

namespace jacserve::server {

class EventQueue {
 public:
  using Clock = std::chrono::steady_clock;

  struct Item {
    grpc::ByteBuffer event;
    int64_t size_bytes = 0;
    bool is_chunk = false;
    int64_t payload_bytes = 0;  // of a chunk
    bool followed = false;      // was there another behind it when it was taken?
    Clock::time_point pushed;
  };
  enum class PushResult { kPushed, kFull, kClosed };

  explicit EventQueue(int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  // Waits up to `wait` for room. Takes the item only when it was pushed; an empty queue takes any size.
  PushResult Push(Item& item, Clock::duration wait);

  // Waits up to `wait`. None: nothing came, or the stream has ended.
  std::optional<Item> Pop(Clock::duration wait);

  // The stream ends like this: after what is queued when the status is OK, at once otherwise. The first call counts.
  void Close(absl::Status status);

  // How the stream ended; none while more may come.
  std::optional<absl::Status> EndStatus() const;

  // Everything that was pushed has been taken.
  bool Drained() const;

 private:
  const int64_t capacity_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable work_;
  std::deque<Item> items_;
  int64_t queued_bytes_ = 0;
  std::optional<absl::Status> end_;
};

}  // namespace jacserve::server
