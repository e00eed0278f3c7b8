#include "server/access/audit_log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/digest.h"
#include "nlohmann/json.hpp"

namespace jacserve::server {

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::filesystem::path& path) {
  try {
    auto file = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path.string());
    auto lines = std::make_shared<spdlog::logger>("audit", std::move(file));
    lines->set_pattern("%v");
    lines->flush_on(spdlog::level::info);
    return std::unique_ptr<AuditLog>(new AuditLog(std::move(lines)));
  } catch (const spdlog::spdlog_ex& error) {
    return absl::InvalidArgumentError(absl::StrCat("the audit log cannot be written: ", error.what()));
  }
}

void AuditLog::Write(const AuditedCall& call, const absl::Status& outcome) const {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  nlohmann::ordered_json line = {{"time", std::chrono::duration<double>(now).count()},
                                 {"call", call.call},
                                 {"caller", call.caller},
                                 {"peer", call.peer}};
  if (!call.sha256.empty()) line["sha256"] = HexOf(call.sha256);
  if (!call.worker.empty()) line["worker"] = call.worker;
  line["bytes"] = call.bytes;
  line["outcome"] = absl::StatusCodeToString(outcome.code());
  // Names come from strangers: what is no UTF-8 is replaced.
  lines_->info("{}", line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace jacserve::server
