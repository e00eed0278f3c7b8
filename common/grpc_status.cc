#include "common/grpc_status.h"

#include <string>

#include "absl/strings/cord.h"
#include "jacserve/v1/worker_service.pb.h"

namespace jacserve {

grpc::Status ToGrpc(const absl::Status& status) {
  const auto code = static_cast<grpc::StatusCode>(status.code());
  v1::StatusDetails details;
  status.ForEachPayload([&details](absl::string_view type, const absl::Cord& payload) {
    google::protobuf::Any& detail = *details.add_details();
    detail.set_type_url(std::string(type));
    detail.set_value(std::string(payload));
  });
  if (details.details().empty()) return grpc::Status(code, std::string(status.message()));
  details.set_code(code);
  details.set_message(std::string(status.message()));
  return grpc::Status(code, std::string(status.message()), details.SerializeAsString());
}

absl::Status FromGrpc(const grpc::Status& status) {
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  v1::StatusDetails details;
  if (status.ok() || !details.ParseFromString(status.error_details())) return result;
  for (const google::protobuf::Any& detail : details.details()) {
    result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
  return result;
}

}  // namespace jacserve
