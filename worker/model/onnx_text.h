// Names and texts out of an ONNX file: bounded and valid UTF-8, so that they may be shown to people and put on the
// wire.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace jacserve::worker {

// `what` says whose text it is: "the name of a node". InvalidArgument: longer than limit_bytes, or not UTF-8.
absl::Status CheckText(const std::string& what, const std::string& text, int64_t limit_bytes);

}  // namespace jacserve::worker
