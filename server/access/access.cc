#include "server/access/access.h"

#include <spdlog/spdlog.h>

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "common/token.h"

namespace jacserve::server {
namespace {

constexpr auto kLookAgain = std::chrono::seconds(1);
constexpr char kEverybody[] = "";  // no name in a token file is empty

absl::Status CheckListening(const AccessOptions& options, const std::string& listen) {
  RETURN_IF_ERROR(CheckListenAddress(listen));
  RETURN_IF_ERROR(CheckTlsFiles(options.tls));
  if (!options.tls.ca.empty() && options.tls.cert.empty()) {
    return absl::InvalidArgumentError("certificates of clients need TLS: give --tls-cert and --tls-key too");
  }
  if (IsOnlyLocal(listen) || options.insecure) return absl::OkStatus();
  const bool asks = !options.tokens.empty() || !options.tls.ca.empty();
  if (asks && !options.tls.cert.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "at ", listen, " other machines can reach this server", asks ? ", unencrypted" : ", and whoever does may use it",
      "; give --tokens FILE, --tls-cert and --tls-key, or --insecure where the network itself is trusted"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Access>> Access::Make(const AccessOptions& options, const std::string& listen) {
  RETURN_IF_ERROR(CheckListening(options, listen));
  std::unique_ptr<Access> access(new Access(options.tokens));
  std::error_code ignored;
  access->read_at_ = std::filesystem::last_write_time(options.tokens, ignored);  // before it is read
  if (!options.audit_log.empty()) {
    ASSIGN_OR_RETURN(access->audit_log_, AuditLog::Open(options.audit_log));
  }
  if (options.tokens.empty()) return access;
  ASSIGN_OR_RETURN(access->tokens_, TokenFile::Read(options.tokens));
  return access;
}

absl::Status Access::ReadAgainIfChanged() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_at_ < kLookAgain) return absl::OkStatus();
  looked_at_ = now;
  std::error_code error;
  const auto changed = std::filesystem::last_write_time(path_, error);
  if (error || changed == read_at_) return absl::OkStatus();
  ASSIGN_OR_RETURN(TokenFile tokens, TokenFile::Read(path_));
  read_at_ = changed;
  tokens_ = std::move(tokens);
  spdlog::info("read the tokens again");
  return absl::OkStatus();
}

absl::StatusOr<std::string> Access::Admit(const grpc::ServerContext& context, Role role) {
  std::lock_guard lock(mutex_);
  if (!tokens_ || CameThroughSocketFile(context)) return kEverybody;
  if (const absl::Status status = ReadAgainIfChanged(); !status.ok()) {
    spdlog::error("the tokens stay as they were: {}", std::string(status.message()));
  }
  const std::string token = TokenOf(context);
  if (token.empty()) return absl::UnauthenticatedError("this server asks for a token, and none was given");
  const std::optional<Caller> caller = tokens_->Find(token);
  if (!caller) return absl::UnauthenticatedError("this server does not know the token that was given");
  if (caller->roles.contains(role)) return caller->name;
  return absl::PermissionDeniedError(
      absl::StrCat("the token of ", caller->name, " lacks the role '", std::string(NameOf(role)), "'"));
}

void Access::Record(const AuditedCall& call, const absl::Status& outcome) const {
  if (audit_log_ != nullptr) audit_log_->Write(call, outcome);
}

bool Access::MayName(const std::string& caller, const std::string& digest) const {
  return caller == kEverybody || holdings_.Has(caller, digest);
}

void Access::Grant(const std::string& caller, const std::string& digest) {
  if (caller != kEverybody) holdings_.Grant(caller, digest);
}

}  // namespace jacserve::server
