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
  int64_t fields = 10'000'000;              // of all messages of the file together
  int64_t nodes = 100'000;                  // with its functions inlined
  int64_t tensor_bytes = int64_t{2} << 30;  // each initializer or tensor attribute
  int64_t attribute_elements = 1'000'000;   // each list attribute; bytes of a text
  int64_t name_bytes = 1'024;
  int64_t rank = 16;
  int protobuf_depth = 64;  // nesting of messages
};

// Nodes that stand in another order than the format wants are put in order.
// InvalidArgument: not ONNX, truncated, over a limit, external data, a value that nothing makes, that is made twice or
// from itself, an attribute or tensor whose data does not match its type and shape, a tensor of a type that is not
// computed with; said with the node's or tensor's name. An initializer that nothing uses is left out.
// Unimplemented: subgraphs (If, Loop, Scan), sparse tensors. Calls of the file's own functions are inlined; one that
// calls itself is an InvalidArgument.
absl::StatusOr<std::shared_ptr<const Graph>> ImportOnnx(std::span<const std::byte> file,
                                                        const ImportLimits& limits = {});

}  // namespace jacserve::worker
