// How a backend says that its device is lost: nothing more can be computed in this process, another must take over.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace jacserve::worker {

constexpr char kDeviceLostPayload[] = "jacserve.device_lost";

// Unavailable, so that the work is tried again elsewhere.
inline absl::Status DeviceLost(absl::string_view why) {
  absl::Status status = absl::UnavailableError(why);
  status.SetPayload(kDeviceLostPayload, absl::Cord());
  return status;
}

inline bool IsDeviceLost(const absl::Status& status) { return status.GetPayload(kDeviceLostPayload).has_value(); }

}  // namespace jacserve::worker
