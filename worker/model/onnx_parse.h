// The bytes of an ONNX file -> protobuf objects, within limits that hold before memory is spent on them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx/onnx_pb.h"
#include "worker/model/onnx_import.h"

namespace jacserve::worker {

// InvalidArgument: not ONNX, truncated, or over a limit of size, nesting or count.
absl::StatusOr<std::unique_ptr<onnx::ModelProto>> ParseOnnx(std::span<const std::byte> file,
                                                            const ImportLimits& limits);

// A message out of the file that ParseOnnx left as bytes, within the same limits. InvalidArgument as above.
absl::Status ParseMessage(const std::string& bytes, const ImportLimits& limits, google::protobuf::Message& message);

// The contents of a field that the message's class does not know: all of them, or the last one.
std::vector<std::string> UnknownTexts(const google::protobuf::Message& message, int field);
std::string UnknownText(const google::protobuf::Message& message, int field);

}  // namespace jacserve::worker
