// ONNX bytes -> Graph. The only code that reads ONNX; everything a file can make big has a limit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "worker/model/graph.h"

namespace jacserve::worker {

struct ImportLimits {
  int64_t file_bytes = int64_t{2} << 30;
  int64_t nodes = 100'000;
  int64_t tensor_bytes = int64_t{2} << 30;      // each initializer or tensor attribute
  int64_t attribute_elements = 1'000'000;       // each list attribute
  int64_t name_bytes = 1'024;
  int64_t rank = 16;
  int protobuf_depth = 64;                      // nesting of messages
};

// InvalidArgument: not ONNX, truncated, over a limit, external data, a value used before it is made or made twice, an
// attribute or tensor whose data does not match its type and shape; said with the node's or tensor's name.
// Unimplemented: subgraphs (If, Loop, Scan), sparse tensors, model-local functions.
absl::StatusOr<std::shared_ptr<const Graph>> ImportOnnx(std::span<const std::byte> file,
                                                        const ImportLimits& limits = {});

}  // namespace jacserve::worker
