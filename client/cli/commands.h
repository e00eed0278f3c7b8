// The subcommands. In: options. Out: text or JSON on stdout, and a status.
#pragma once

#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "client/cli/options.h"
#include "nlohmann/json.hpp"

namespace jacserve::client {

// What a command prints when it is done. A failed verification has both output and an error.
struct CommandOutput {
  std::string text;
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  bool verification_failed = false;
};

absl::Status RunJacobian(const Options& options, const std::stop_source& stop, CommandOutput& output);
absl::Status RunDescribe(const Options& options, const std::stop_source& stop, CommandOutput& output);
absl::Status RunWorkers(const Options& options, const std::stop_source& stop, CommandOutput& output);
absl::Status RunInfo(const Options& options, const std::stop_source& stop, CommandOutput& output);
absl::Status RunToken(const Options& options, CommandOutput& output);
void RunVersion(CommandOutput& output);

}  // namespace jacserve::client
