#include "server/relay/event_queue.h"

#include <utility>

namespace jacserve::server {

EventQueue::PushResult EventQueue::Push(Item& item, Clock::duration wait) {
  std::unique_lock lock(mutex_);
  const auto fits = [&] { return items_.empty() || queued_bytes_ + item.size_bytes <= capacity_bytes_; };
  room_.wait_for(lock, wait, [&] { return end_ || fits(); });
  if (end_) return PushResult::kClosed;
  if (!fits()) return PushResult::kFull;
  queued_bytes_ += item.size_bytes;
  item.pushed = Clock::now();
  items_.push_back(std::move(item));
  work_.notify_one();
  return PushResult::kPushed;
}

std::optional<EventQueue::Item> EventQueue::Pop(Clock::duration wait) {
  std::unique_lock lock(mutex_);
  work_.wait_for(lock, wait, [&] { return end_ || !items_.empty(); });
  if (items_.empty()) return std::nullopt;
  Item item = std::move(items_.front());
  items_.pop_front();
  queued_bytes_ -= item.size_bytes;
  item.followed = !items_.empty();
  room_.notify_all();
  return item;
}

void EventQueue::Close(absl::Status status) {
  std::deque<Item> dropped;  // freed outside the lock
  std::lock_guard lock(mutex_);
  if (end_) return;
  if (!status.ok()) {
    dropped.swap(items_);
    queued_bytes_ = 0;
  }
  end_ = std::move(status);
  room_.notify_all();
  work_.notify_all();
}

std::optional<absl::Status> EventQueue::EndStatus() const {
  std::lock_guard lock(mutex_);
  return items_.empty() ? end_ : std::nullopt;
}

bool EventQueue::Drained() const {
  std::lock_guard lock(mutex_);
  return items_.empty();
}

}  // namespace jacserve::server
