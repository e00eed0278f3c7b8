// Which rows hold NaN or infinity. In: chunks, piece by piece as they are verified, which is when their bytes lie in
// the processor's nearest memory and cost least to look at. Out: how many rows, and where the first one is.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/cpp/layout.h"
#include "common/row_range.h"

namespace jacserve::client {

class NonFiniteRows {
 public:
  struct First {
    int64_t row = 0;
    std::string block;
  };

  // A chunk that begins with this byte of the block's whole Jacobian, at an element. `block` lives until it is kept.
  void StartChunk(const BlockLayout& block, int64_t byte_begin);

  // The chunk's next bytes, at any alignment, cut anywhere.
  void Look(std::span<const std::byte> piece);

  // The chunk was whole and undamaged, so that what was found in it counts.
  void KeepChunk();

  int64_t count() const { return rows_.count(); }
  const std::optional<First>& first() const { return first_; }  // the lowest row; of its blocks, one

 private:
  void LookAtWhole(std::span<const std::byte> elements);

  const BlockLayout* block_ = nullptr;
  int64_t at_ = 0;                             // the next byte of the block's whole Jacobian
  std::array<std::byte, sizeof(double)> cut_;  // an element that lies in several pieces
  size_t cut_bytes_ = 0;
  std::vector<int64_t> found_;  // rows of this chunk
  RowSet rows_;
  std::optional<First> first_;
};

}  // namespace jacserve::client
