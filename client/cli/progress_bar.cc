#include "client/cli/progress_bar.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "common/size_text.h"

namespace jacserve::client {
namespace {

constexpr std::chrono::milliseconds kDrawEvery(100);
constexpr int kWidth = 30;

}  // namespace

absl::Status ProgressBar::OnLayout(const Layout& layout) {
  start_ = Clock::now();
  rows_wanted_ = layout.rows.count;
  bytes_wanted_ = (rows_wanted_ - rows_) * layout.row_bytes();
  return absl::OkStatus();
}

absl::Status ProgressBar::OnChunk(const ChunkData& chunk) {
  bytes_ += chunk.bytes;
  if (!visible_) return absl::OkStatus();
  const Clock::time_point now = Clock::now();
  if (now - drawn_at_ >= kDrawEvery) Draw(now);
  return absl::OkStatus();
}

absl::Status ProgressBar::OnRowsDone(RowRange rows) {
  rows_ += rows.count;
  return absl::OkStatus();
}

void ProgressBar::Draw(Clock::time_point now) {
  drawn_at_ = now;
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double share =
      bytes_wanted_ > 0 ? std::min(1.0, static_cast<double>(bytes_) / static_cast<double>(bytes_wanted_)) : 1.0;
  const double rate = seconds > 0 ? static_cast<double>(bytes_) / seconds : 0;
  const double left = rate > 0 ? static_cast<double>(bytes_wanted_ - std::min(bytes_, bytes_wanted_)) / rate : 0;
  const auto filled = static_cast<size_t>(share * kWidth);
  const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  std::fprintf(stderr, "\r[%s] %3d%%  %lld of %lld rows  %.2f GB/s  %s left\033[K", bar.c_str(),
               static_cast<int>(share * 100), static_cast<long long>(std::min(rows_, rows_wanted_)),
               static_cast<long long>(rows_wanted_), rate / 1e9, DurationText(left).c_str());
}

void ProgressBar::Clear() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

}  // namespace jacserve::client
