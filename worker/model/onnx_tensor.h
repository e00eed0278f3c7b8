// An ONNX tensor -> HostTensor: the data must match type and shape exactly.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "onnx/onnx_pb.h"
#include "worker/model/graph.h"
#include "worker/model/onnx_import.h"

namespace jacserve::worker {

// None: a type that is not computed with.
std::optional<DType> DTypeOfOnnx(int32_t data_type);

// "FLOAT16", or "type 77" for one that this version of the format does not know.
std::string OnnxTypeName(int32_t data_type);

// `what` names the tensor in messages: "initializer 'w'". Raw data is moved out of `tensor`, to hold it only once.
// InvalidArgument: external data, a type that is not computed with, over a limit, data that does not fit the shape.
absl::StatusOr<HostTensor> ReadTensor(const std::string& what, onnx::TensorProto& tensor, const ImportLimits& limits);

}  // namespace jacserve::worker
