#include "worker/model/onnx_text.h"

#include "absl/strings/str_cat.h"
#include "google/protobuf/stubs/common.h"

namespace jacserve::worker {

absl::Status CheckText(const std::string& what, const std::string& text, int64_t limit_bytes) {
  if (static_cast<int64_t>(text.size()) > limit_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the graph: ", what, " is ", text.size(), " bytes long; at most ", limit_bytes, " are accepted"));
  }
  // The same judge as on the wire: a proto3 string that fails it cannot be sent.
  if (!google::protobuf::internal::IsStructurallyValidUTF8(text.data(), static_cast<int>(text.size()))) {
    return absl::InvalidArgumentError(absl::StrCat("the graph: ", what, " is not valid UTF-8 text"));
  }
  return absl::OkStatus();
}

}  // namespace jacserve::worker
