// Reads the files that a command line names and makes a request of them.
// In: the arguments of `jacserve jacobian`. Out: a request whose arrays lie in memory or in mapped files.
#pragma once

#include "absl/status/statusor.h"
#include "client/cli/options.h"
#include "client/cpp/request.h"

namespace jacserve::client {

// InvalidArgument, NotFound, DataLoss: the option or file that is wrong, and why.
absl::StatusOr<JacobianRequest> LoadRequest(const JacobianArguments& arguments);

// Largest ONNX file that is worth sending: protobuf reads no more.
constexpr int64_t kMaxGraphBytes = int64_t{2} << 30;

}  // namespace jacserve::client
