// Who did what: a line of JSON for each call that uploads, reads a model, computes or joins, let in or not.
// In: calls that have ended. Out: lines appended to a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace spdlog {
class logger;
}

namespace jacserve::server {

struct AuditedCall {
  std::string call;    // "Upload"
  std::string caller;  // empty: no token was asked for, or none that is known was shown
  std::string peer;    // "ipv4:10.0.0.7:41234"
  std::string sha256;  // raw, of the blob or the graph; empty: none
  std::string worker;  // that joins; empty: none
  int64_t bytes = 0;   // uploaded, or sent as rows
};

class AuditLog {
 public:
  // Appends to the file. InvalidArgument: it cannot be written.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::filesystem::path& path);

  // Thread-safe.
  void Write(const AuditedCall& call, const absl::Status& outcome) const;

 private:
  explicit AuditLog(std::shared_ptr<spdlog::logger> lines) : lines_(std::move(lines)) {}
  const std::shared_ptr<spdlog::logger> lines_;
};

}  // namespace jacserve::server
