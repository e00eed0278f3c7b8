// A small Jacobian whose every number is known, and ways to hand it to a receiver.
// In: a layout. Out: the bytes of its blocks; calls as the client makes them.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "client/cpp/row_receiver.h"
#include "tests/client/test_arrays.h"

namespace jacserve::client {

// A 2 x 3 target; a kernel of 700 x 3 columns (more than one run of the verifier), a bias, one block that is not
// reached.
inline Layout TestLayout(DType dtype = DType::kFloat32) {
  Layout layout;
  layout.target_shape = {2, 3};
  layout.target_rows = 6;
  layout.value_dtype = dtype;
  layout.rows = {0, 6};
  const int64_t size = SizeOf(dtype);
  layout.blocks = {{"kernel", {700, 3}, dtype, true, 2100 * size},
                   {"bias", {3}, dtype, true, 3 * size},
                   {"unused", {2}, dtype, false, 2 * size}};
  layout.precision = dtype == DType::kFloat64 ? v1::PRECISION_FP64 : v1::PRECISION_FP32;
  layout.backend = "reference";
  layout.device = "test";
  layout.workers = 1;
  return layout;
}

// Number k of block b's whole Jacobian; block -1 is the value. Exact in float32.
inline double TestNumber(int block, int64_t k) {
  return static_cast<double>((k * 7919 + block * 104'729) % 2003 - 1001) / 1024.0;
}

inline std::string NumbersText(DType dtype, int block, int64_t begin, int64_t count) {
  std::string text;
  for (int64_t k = begin; k < begin + count; ++k) {
    const double number = TestNumber(block, k);
    const auto single = static_cast<float>(number);
    if (dtype == DType::kFloat64) text.append(reinterpret_cast<const char*>(&number), sizeof number);
    if (dtype == DType::kFloat32) text.append(reinterpret_cast<const char*>(&single), sizeof single);
  }
  return text;
}

// All bytes of a block for all rows of the target.
inline std::string BlockText(const Layout& layout, int block) {
  const BlockLayout& b = layout.blocks[block];
  return NumbersText(b.dtype, block, 0, layout.target_rows * Elements(b.shape));
}

// Bytes [begin, begin + size) of `whole`, the block's text, cut into odd pieces as a network would.
inline absl::Status SendChunk(RowReceiver& receiver, uint32_t block, const std::string& whole, int64_t begin,
                              int64_t size) {
  std::vector<std::span<const std::byte>> pieces;
  const std::span<const std::byte> bytes = std::as_bytes(std::span<const char>(whole)).subspan(begin, size);
  size_t at = 0;
  for (size_t step : {size_t{1}, size_t{6}, size_t{1000}}) {
    const size_t length = std::min(step, bytes.size() - at);
    pieces.push_back(bytes.subspan(at, length));
    at += length;
  }
  pieces.push_back(bytes.subspan(at));
  return receiver.OnChunk({block, begin, size, pieces});
}

// Rows of every connected block in chunks of `chunk_bytes`, shuffled when `seed` is not 0.
inline absl::Status SendRows(RowReceiver& receiver, const Layout& layout, RowRange rows, int64_t chunk_bytes = 4096,
                             unsigned seed = 0) {
  struct Piece {
    uint32_t block;
    int64_t begin, size;
  };
  std::vector<Piece> plan;
  for (uint32_t block = 0; block < layout.blocks.size(); ++block) {
    if (!layout.blocks[block].connected) continue;
    const int64_t row_bytes = layout.blocks[block].row_bytes;
    for (int64_t at = rows.begin * row_bytes; at < rows.end() * row_bytes; at += chunk_bytes) {
      plan.push_back({block, at, std::min(chunk_bytes, rows.end() * row_bytes - at)});
    }
  }
  if (seed != 0) std::shuffle(plan.begin(), plan.end(), std::mt19937(seed));
  for (const Piece& piece : plan) {
    RETURN_IF_ERROR(
        SendChunk(receiver, piece.block, BlockText(layout, static_cast<int>(piece.block)), piece.begin, piece.size));
  }
  return receiver.OnRowsDone(rows);
}

inline absl::Status SendValue(RowReceiver& receiver, const Layout& layout) {
  const std::string value = NumbersText(layout.value_dtype, -1, 0, layout.target_rows);
  return receiver.OnValue(0, std::as_bytes(std::span<const char>(value)));
}

}  // namespace jacserve::client
