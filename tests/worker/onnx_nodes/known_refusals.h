// Why an ONNX operator test is not computed: the reasons that are accepted, so that no other passes unseen.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace jacserve::worker {

// The reason in few words, as docs/operators.md counts it; empty: not a known one, the test has failed.
std::string KnownRefusal(const absl::Status& status);

}  // namespace jacserve::worker
