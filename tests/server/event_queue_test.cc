// The queue to one client: bounded, in order, and it ends as it was told.
#include "server/relay/event_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace jacserve::server {
namespace {

using std::chrono::milliseconds;
using PushResult = EventQueue::PushResult;

EventQueue::Item ItemOf(const std::string& text) {
  const grpc::Slice slice(text);
  EventQueue::Item item;
  item.event = grpc::ByteBuffer(&slice, 1);
  item.size_bytes = static_cast<int64_t>(text.size());
  return item;
}

std::string TextOf(const EventQueue::Item& item) {
  std::vector<grpc::Slice> slices;
  item.event.Dump(&slices);
  std::string text;
  for (const grpc::Slice& slice : slices) text.append(slice.begin(), slice.end());
  return text;
}

TEST(EventQueue, GivesItemsInOrderThenTheEnd) {
  EventQueue queue(100);
  for (const char* text : {"a", "b"}) {
    EventQueue::Item item = ItemOf(text);
    ASSERT_EQ(queue.Push(item, milliseconds(0)), PushResult::kPushed);
  }
  queue.Close(absl::OkStatus());
  EXPECT_FALSE(queue.EndStatus().has_value());  // not before the last item
  EXPECT_EQ(TextOf(*queue.Pop(milliseconds(0))), "a");
  EXPECT_EQ(TextOf(*queue.Pop(milliseconds(0))), "b");
  EXPECT_FALSE(queue.Pop(milliseconds(0)).has_value());
  EXPECT_TRUE(queue.EndStatus()->ok());
}

TEST(EventQueue, FullQueueKeepsTheItemWithThePusher) {
  EventQueue queue(10);
  EventQueue::Item first = ItemOf("0123456"), second = ItemOf("78901");
  ASSERT_EQ(queue.Push(first, milliseconds(0)), PushResult::kPushed);
  ASSERT_EQ(queue.Push(second, milliseconds(1)), PushResult::kFull);
  EXPECT_FALSE(queue.Drained());
  queue.Pop(milliseconds(0));
  EXPECT_TRUE(queue.Drained());
  ASSERT_EQ(queue.Push(second, milliseconds(0)), PushResult::kPushed);
  EXPECT_EQ(TextOf(*queue.Pop(milliseconds(0))), "78901");
}

TEST(EventQueue, ItemLargerThanTheQueuePassesAlone) {
  EventQueue queue(10);
  EventQueue::Item large = ItemOf(std::string(50, 'x')), small = ItemOf("y");
  EXPECT_EQ(queue.Push(large, milliseconds(0)), PushResult::kPushed);
  EXPECT_EQ(queue.Push(small, milliseconds(0)), PushResult::kFull);
}

TEST(EventQueue, ErrorDropsWhatIsQueuedAndTheFirstEndCounts) {
  EventQueue queue(10);
  EventQueue::Item item = ItemOf("a");
  queue.Push(item, milliseconds(0));
  queue.Close(absl::DataLossError("gone"));
  queue.Close(absl::OkStatus());
  EXPECT_FALSE(queue.Pop(milliseconds(0)).has_value());
  EXPECT_TRUE(absl::IsDataLoss(*queue.EndStatus()));
  EXPECT_EQ(queue.Push(item, milliseconds(0)), PushResult::kClosed);
}

TEST(EventQueue, ClosingWakesWhoWaits) {
  EventQueue queue(1);
  EventQueue::Item first = ItemOf("a"), second = ItemOf("b");
  queue.Push(first, milliseconds(0));
  std::thread pusher([&] { EXPECT_EQ(queue.Push(second, std::chrono::hours(1)), PushResult::kClosed); });
  queue.Close(absl::CancelledError(""));
  pusher.join();
  EXPECT_FALSE(queue.Pop(std::chrono::hours(1)).has_value());
}

TEST(EventQueue, SeveralPushersOneReaderLoseNothing) {
  EventQueue queue(64);
  constexpr int kPushers = 4, kItems = 500;
  std::vector<std::thread> pushers;
  for (int p = 0; p < kPushers; ++p) {
    pushers.emplace_back([&, p] {
      for (int i = 0; i < kItems; ++i) {
        EventQueue::Item item = ItemOf(std::to_string(p) + ":" + std::to_string(i));
        while (queue.Push(item, milliseconds(5)) != PushResult::kPushed) continue;
      }
    });
  }
  std::vector<int> next(kPushers, 0);
  for (int n = 0; n < kPushers * kItems; ++n) {
    std::optional<EventQueue::Item> item;
    while (!item) item = queue.Pop(milliseconds(5));
    const std::string text = TextOf(*item);
    const int pusher = text[0] - '0';
    EXPECT_EQ(text.substr(2), std::to_string(next[pusher]++));
  }
  for (std::thread& pusher : pushers) pusher.join();
  EXPECT_TRUE(queue.Drained());
}

}  // namespace
}  // namespace jacserve::server
