// Where the rows of a Jacobian go as they arrive.
// In: calls from the one thread that reads the stream. Out: a status; an error ends the computation and is returned.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "client/cpp/layout.h"
#include "common/row_range.h"
#include "common/status.h"

namespace jacserve::client {

using Pieces = std::span<const std::span<const std::byte>>;

// A piece of one block's Jacobian seen as one C-order array of target_rows * row_bytes bytes. Checked before it is
// handed out: the block is connected, the bytes lie within its rows wanted, and whole elements are given.
struct ChunkData {
  uint32_t block = 0;
  int64_t byte_begin = 0;  // row * row_bytes + offset within that row
  int64_t bytes = 0;
  Pieces pieces;  // in order, `bytes` in all, at any alignment, cut anywhere; valid during the call
};

class RowReceiver {
 public:
  virtual ~RowReceiver() = default;

  // Once, before all else.
  virtual absl::Status OnLayout(const Layout& layout) = 0;

  // A piece of the whole target in C order, layout.value_dtype; element_begin and the size were checked. May come
  // twice.
  virtual absl::Status OnValue(int64_t element_begin, std::span<const std::byte> data) = 0;

  // In any order; the same bytes may come twice and are then the same.
  virtual absl::Status OnChunk(const ChunkData& chunk) = 0;

  // Every connected block's bytes of these rows came before.
  virtual absl::Status OnRowsDone(RowRange rows) = 0;
};

// Hands everything to each of several receivers, in order. None: the rows are discarded.
class FanOut : public RowReceiver {
 public:
  void Add(RowReceiver* receiver) { receivers_.push_back(receiver); }  // not owned

  absl::Status OnLayout(const Layout& layout) override {
    return Each([&](RowReceiver& to) { return to.OnLayout(layout); });
  }
  absl::Status OnValue(int64_t element_begin, std::span<const std::byte> data) override {
    return Each([&](RowReceiver& to) { return to.OnValue(element_begin, data); });
  }
  absl::Status OnChunk(const ChunkData& chunk) override {
    return Each([&](RowReceiver& to) { return to.OnChunk(chunk); });
  }
  absl::Status OnRowsDone(RowRange rows) override {
    return Each([&](RowReceiver& to) { return to.OnRowsDone(rows); });
  }

 private:
  template <class Call>
  absl::Status Each(Call call) {
    for (RowReceiver* receiver : receivers_) RETURN_IF_ERROR(call(*receiver));
    return absl::OkStatus();
  }

  std::vector<RowReceiver*> receivers_;
};

}  // namespace jacserve::client
