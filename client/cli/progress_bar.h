// Shows on a terminal how far a Jacobian is. In: the stream's events. Out: one line on stderr that is written over.
#pragma once

#include <chrono>
#include <cstdint>

#include "client/cpp/row_receiver.h"

namespace jacserve::client {

class ProgressBar : public RowReceiver {
 public:
  // `visible`: draw at all; otherwise it only counts. `rows_before`: rows that need not come.
  ProgressBar(bool visible, int64_t rows_before) : visible_(visible), rows_(rows_before) {}
  ~ProgressBar() override { Clear(); }

  absl::Status OnLayout(const Layout& layout) override;
  absl::Status OnValue(int64_t, std::span<const std::byte>) override { return absl::OkStatus(); }
  absl::Status OnChunk(const ChunkData& chunk) override;
  absl::Status OnRowsDone(RowRange rows) override;

  // Takes the line away.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;
  void Draw(Clock::time_point now);

  bool visible_;
  bool drawn_ = false;
  int64_t rows_;
  int64_t rows_wanted_ = 0;
  int64_t bytes_ = 0;
  int64_t bytes_wanted_ = 0;
  Clock::time_point start_;
  Clock::time_point drawn_at_;
};

}  // namespace jacserve::client
