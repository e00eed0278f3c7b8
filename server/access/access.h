// Who is let in, and to what.
// In: calls. Out: the caller's name, or why it is refused. Without a token file everybody is let in, as one client.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/tls.h"
#include "grpcpp/server_context.h"
#include "server/access/audit_log.h"
#include "server/access/holdings.h"
#include "server/access/token_file.h"

namespace jacserve::server {

struct AccessOptions {
  std::filesystem::path tokens;     // empty: no tokens are asked for
  TlsFiles tls;                     // of this server; cert empty: unencrypted; with ca, clients show certificates of it
  std::filesystem::path audit_log;  // empty: none
  bool insecure = false;            // beyond this machine without tokens or unencrypted, too
};

class Access {
 public:
  // InvalidArgument: as TokenFile::Read, CheckTlsFiles and AuditLog::Open; or `listen` is reached from other machines,
  // where tokens or certificates of clients are not asked for or travel unencrypted, and `insecure` is not set.
  static absl::StatusOr<std::unique_ptr<Access>> Make(const AccessOptions& options, const std::string& listen);

  // The caller's name, empty where no token was asked for. Unauthenticated: no token, or an unknown one.
  // PermissionDenied: it lacks the role. A call through a socket file is this machine's own and may do anything.
  absl::StatusOr<std::string> Admit(const grpc::ServerContext& context, Role role);

  // Whether the caller may name this blob: it has uploaded it, or everybody may name any.
  bool MayName(const std::string& caller, const std::string& digest) const;
  void Grant(const std::string& caller, const std::string& digest);

  // Keeps a record of a call that has ended, where there is a log.
  void Record(const AuditedCall& call, const absl::Status& outcome) const;

  bool asks_for_tokens() const { return tokens_.has_value(); }

 private:
  explicit Access(std::filesystem::path path) : path_(std::move(path)) {}
  absl::Status ReadAgainIfChanged();

  const std::filesystem::path path_;
  std::mutex mutex_;
  std::optional<TokenFile> tokens_;
  std::filesystem::file_time_type read_at_{};  // the file's own time
  std::chrono::steady_clock::time_point looked_at_{};
  Holdings holdings_;
  std::unique_ptr<AuditLog> audit_log_;  // null: none
};

}  // namespace jacserve::server
