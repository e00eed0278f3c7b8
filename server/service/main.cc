// jacserve-coordinator: starts the coordinator and waits for a signal. SIGTERM or SIGINT drains; a second one ends at
// once.
#include <fcntl.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <system_error>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/metrics.h"
#include "common/process.h"
#include "common/size_text.h"
#include "common/status.h"
#include "server/service/coordinator.h"
#include "server/service/flags.h"
#include "server/store/durable_file.h"

namespace jacserve::server {
namespace {

// Per heap: more than is in flight, so that chunks meet warm pages.
constexpr int64_t kKeepFreeBytes = int64_t{32} << 20;
constexpr int kArenas = 2;

sigset_t EndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

// Whether one of the signals comes within `wait`.
bool SignalWithin(const sigset_t& signals, std::chrono::milliseconds wait) {
  const timespec time{wait.count() / 1000, (wait.count() % 1000) * 1'000'000};
  return sigtimedwait(&signals, nullptr, &time) > 0;
}

// The file holds the whole port or does not exist.
absl::Status WritePortFile(const std::filesystem::path& path, int port) {
  std::filesystem::path temporary = path;
  temporary += ".part";
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  ASSIGN_OR_RETURN(DurableFile file, DurableFile::Create(temporary));
  const std::string text = absl::StrCat(port, "\n");
  RETURN_IF_ERROR(file.Append(std::as_bytes(std::span(text))));
  return file.Publish(std::filesystem::absolute(path));
}

void DrainUntilIdle(Coordinator& coordinator, const Flags& flags, const sigset_t& signals) {
  coordinator.Drain();
  if (!coordinator.Idle()) {
    spdlog::info("draining: waiting up to {} for running jobs; a second signal ends them",
                 DurationText(flags.drain_seconds));
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(flags.drain_seconds);
  while (!coordinator.Idle() && std::chrono::steady_clock::now() < deadline) {
    if (SignalWithin(signals, std::chrono::milliseconds(50))) {
      spdlog::warn("second signal: ending what still runs");
      return;
    }
  }
}

absl::Status Run(const Flags& flags) {
  RETURN_IF_ERROR(InitLogging("jacserve-coordinator", flags.log_level));
  std::unique_ptr<MetricsServer> metrics;
  if (!flags.metrics_listen.empty()) {
    ASSIGN_OR_RETURN(metrics, MetricsServer::Start(flags.metrics_listen));
    spdlog::info("serving metrics on port {}", metrics->port());
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Coordinator> coordinator, Coordinator::Start(flags.coordinator));
  if (!flags.port_file.empty()) RETURN_IF_ERROR(WritePortFile(flags.port_file, coordinator->port()));
  spdlog::info("version {} listening on port {}, {} local workers", JACSERVE_VERSION, coordinator->port(),
               coordinator->local_workers() == nullptr ? 0 : coordinator->local_workers()->count());
  const sigset_t signals = EndSignals();
  while (!SignalWithin(signals, std::chrono::minutes(10))) continue;
  DrainUntilIdle(*coordinator, flags, signals);
  coordinator->Shutdown();
  spdlog::info("ended");
  return absl::OkStatus();
}

}  // namespace
}  // namespace jacserve::server

int main(int argc, char** argv) {
  using namespace jacserve;
  TuneAllocator({.keep_bytes = server::kKeepFreeBytes, .arenas = server::kArenas});
  const std::variant<server::Flags, int> flags = server::ParseFlags(argc, argv);
  if (const int* exit_code = std::get_if<int>(&flags)) return *exit_code;
  // Before any thread starts, so that all of them leave these signals to the main thread.
  const sigset_t signals = server::EndSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  const absl::Status status = server::Run(std::get<server::Flags>(flags));
  if (status.ok()) return EXIT_SUCCESS;
  std::fprintf(stderr, "jacserve-coordinator: %s\n", std::string(status.message()).c_str());
  return EXIT_FAILURE;
}
