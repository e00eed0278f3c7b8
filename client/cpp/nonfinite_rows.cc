#include "client/cpp/nonfinite_rows.h"

#include <algorithm>

#include "client/cpp/finite.h"

namespace jacserve::client {

void NonFiniteRows::StartChunk(const BlockLayout& block, int64_t byte_begin) {
  block_ = &block;
  at_ = byte_begin;
  cut_bytes_ = 0;
  found_.clear();
}

void NonFiniteRows::Look(std::span<const std::byte> piece) {
  const auto size = static_cast<size_t>(SizeOf(block_->dtype));
  while (cut_bytes_ > 0 && !piece.empty()) {
    cut_[cut_bytes_++] = piece[0];
    piece = piece.subspan(1);
    if (cut_bytes_ < size) continue;
    LookAtWhole(std::span(cut_).first(size));
    cut_bytes_ = 0;
  }
  const size_t whole = piece.size() / size * size;
  LookAtWhole(piece.first(whole));
  const std::span<const std::byte> rest = piece.subspan(whole);
  if (rest.empty()) return;
  std::copy(rest.begin(), rest.end(), cut_.begin());
  cut_bytes_ = rest.size();
}

void NonFiniteRows::LookAtWhole(std::span<const std::byte> elements) {
  int64_t at = at_;
  at_ += static_cast<int64_t>(elements.size());
  if (AllFinite(elements, block_->dtype)) return;
  while (!elements.empty()) {
    const int64_t row = at / block_->row_bytes;
    const auto left = static_cast<size_t>((row + 1) * block_->row_bytes - at);
    const std::span<const std::byte> of_row = elements.first(std::min(elements.size(), left));
    if (!AllFinite(of_row, block_->dtype)) found_.push_back(row);
    at += static_cast<int64_t>(of_row.size());
    elements = elements.subspan(of_row.size());
  }
}

void NonFiniteRows::KeepChunk() {
  for (int64_t row : found_) {
    rows_.Add({row, 1});
    if (!first_ || row < first_->row) first_ = First{row, block_->name};
  }
  found_.clear();
}

}  // namespace jacserve::client
