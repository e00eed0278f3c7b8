// The refusal of a request that another backend may take.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"

namespace jacserve {

constexpr char kWrongBackendPayload[] = "jacserve.wrong_backend";

inline absl::Status WrongBackend(const std::string& message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kWrongBackendPayload, absl::Cord());
  return status;
}

inline bool IsWrongBackend(const absl::Status& status) { return status.GetPayload(kWrongBackendPayload).has_value(); }

}  // namespace jacserve
