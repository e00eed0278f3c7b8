// The program `jacserve`. In: a command line. Out: a table or JSON on stdout, errors in words on stderr, an exit code.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/exit_code.h"
#include "client/cli/interrupts.h"
#include "client/cli/options.h"
#include "client/cli/report.h"
#include "common/process.h"

namespace jacserve::client {

// Messages of a stream come and go by the megabyte; more free memory than this does not make them faster.
constexpr int64_t kKeepFreeBytes = int64_t{32} << 20;
constexpr int kArenas = 2;

namespace {

// Every block of a result is one open file.
void AllowManyOpenFiles() {
  struct rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

absl::Status Run(const Options& options, const std::stop_source& stop, CommandOutput& output) {
  switch (options.command) {
    case Command::kJacobian:
      return RunJacobian(options, stop, output);
    case Command::kDescribe:
      return RunDescribe(options, stop, output);
    case Command::kWorkers:
      return RunWorkers(options, stop, output);
    case Command::kInfo:
      return RunInfo(options, stop, output);
    case Command::kToken:
      return RunToken(options, output);
    case Command::kVersion:
      RunVersion(output);
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

void PrintError(std::string_view code, const std::string& message, bool json, CommandOutput& output) {
  std::fprintf(stderr, "jacserve: %s\n", message.c_str());
  if (!json) return;
  output.json["error"] = ErrorJson(code, message);
  std::fputs(JsonLine(output.json).c_str(), stdout);
}

int Main(const std::vector<std::string>& arguments) {
  const Interrupts interrupts;
  AllowManyOpenFiles();
  CommandOutput output;
  const char* server = std::getenv("JACSERVE_SERVER");
  const absl::StatusOr<ParsedCommandLine> parsed = ParseCommandLine(arguments, server == nullptr ? "" : server);
  if (!parsed.ok()) {
    const bool json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
    PrintError("INVALID_ARGUMENT", std::string(parsed.status().message()), json, output);
    return kExitUsage;
  }
  if (!parsed->options) {
    std::fputs(parsed->help.c_str(), stdout);
    return kExitDone;
  }
  const Options& options = *parsed->options;
  absl::Status status = Run(options, interrupts.stop(), output);
  if (interrupts.interrupted() && !status.ok()) status = absl::CancelledError("interrupted");
  if (!options.json && !output.text.empty()) std::fputs(output.text.c_str(), stdout);
  if (status.ok()) {
    if (options.json) std::fputs(JsonLine(output.json).c_str(), stdout);
    return kExitDone;
  }
  const std::string code = output.verification_failed ? "VERIFICATION_FAILED" : absl::StatusCodeToString(status.code());
  std::fflush(stdout);
  PrintError(code, std::string(status.message()), options.json, output);
  return output.verification_failed ? kExitVerification : ExitCodeOf(status);
}

}  // namespace
}  // namespace jacserve::client

int main(int argc, char** argv) {
  jacserve::TuneAllocator({.keep_bytes = jacserve::client::kKeepFreeBytes, .arenas = jacserve::client::kArenas});
  return jacserve::client::Main(std::vector<std::string>(argv + 1, argv + argc));
}
