// Process exit codes and error names. In: a status. Out: what shells and scripts see.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace jacserve::client {

enum ExitCode {
  kExitDone = 0,
  kExitInternal = 1,
  kExitUsage = 2,         // wrong usage, file, request or model
  kExitUnavailable = 3,   // no server, or it went away for good
  kExitVerification = 4,  // a figure is off or missing
  kExitLimit = 5,         // out of space, or over a quota or budget
  kExitInterrupted = 130,
};

inline ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitDone;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kAlreadyExists:
      return kExitUsage;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitUnavailable;
    case absl::StatusCode::kResourceExhausted:
      return kExitLimit;
    case absl::StatusCode::kCancelled:
      return kExitInterrupted;
    default:
      return kExitInternal;
  }
}

}  // namespace jacserve::client
