// absl::Status to grpc::Status and back; the codes are the same numbers, payloads travel as google.rpc.Status has them.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace jacserve {

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace jacserve
