// The bytes of an ONNX file -> protobuf objects, within limits that hold before memory is spent on them.
#pragma once

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "onnx/onnx_pb.h"
#include "worker/model/onnx_import.h"

namespace jacserve::worker {

// InvalidArgument: not ONNX, truncated, or over a limit of size, nesting or count.
absl::StatusOr<std::unique_ptr<onnx::ModelProto>> ParseOnnx(std::span<const std::byte> file,
                                                            const ImportLimits& limits);

}  // namespace jacserve::worker
