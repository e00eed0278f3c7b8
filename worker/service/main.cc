// jacserve-worker: serves one coordinator until a signal, or until the coordinator asks it to end or is gone. SIGTERM
// or SIGINT drains; a second one ends at once.
#include <semaphore.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>
#include <variant>

#include "common/logging.h"
#include "common/metrics.h"
#include "common/process.h"
#include "common/status.h"
#include "nlohmann/json.hpp"
#include "worker/engine/devices.h"
#include "worker/service/cpu_list.h"
#include "worker/service/flags.h"
#include "worker/service/worker_server.h"

namespace jacserve::worker {
namespace {

constexpr int kArenas = 4;

// Counts requests to end: signals, whichever thread they reach, and the link's. Threads that libraries start at load
// time cannot be kept from receiving signals, so waiting for blocked ones would not do.
sem_t g_end_requests;

void RequestEnd(int) { sem_post(&g_end_requests); }

void WaitForEndRequest() {
  while (sem_wait(&g_end_requests) != 0) continue;  // interrupted by the very signal
}

bool TakeEndRequest() { return sem_trywait(&g_end_requests) == 0; }

void CatchEndSignals() {
  JACSERVE_CHECK(sem_init(&g_end_requests, 0, 0) == 0);
  struct sigaction action {};
  action.sa_handler = RequestEnd;
  action.sa_flags = SA_RESTART;
  for (int end_signal : {SIGTERM, SIGINT}) JACSERVE_CHECK(sigaction(end_signal, &action, nullptr) == 0);
  signal(SIGPIPE, SIG_IGN);
}

// Why the worker ends, as its link to the coordinator knows it.
class EndReason {
 public:
  void Set(const absl::Status& reason) {
    {
      std::lock_guard lock(mutex_);
      reason_ = reason;
    }
    RequestEnd(0);
  }
  absl::Status Get() const {
    std::lock_guard lock(mutex_);
    return reason_;
  }

 private:
  mutable std::mutex mutex_;
  absl::Status reason_;
};

// What to compute on, and with how much of its memory.
absl::Status UseDevice(Flags& flags) {
  RunnerOptions& runner = flags.worker.runner;
  ASSIGN_OR_RETURN(runner.device, FindComputeDevice(runner.backend));
  const int64_t free_bytes = runner.device.gpu ? runner.device.gpu->free_bytes : 0;
  if (runner.gpu_budget_bytes == 0) runner.gpu_budget_bytes = free_bytes / 100 * flags.gpu_percent;
  runner.on_idle = [backend = runner.backend] { ReleaseComputeDevice(backend); };
  return absl::OkStatus();
}

// For the coordinator, which never opens a GPU itself.
absl::Status PrintGpus() {
  ASSIGN_OR_RETURN(const std::vector<ComputeDevice> gpus, ListGpus());
  auto list = nlohmann::json::array();
  for (const ComputeDevice& device : gpus) {
    list.push_back({{"name", device.name},
                    {"uuid", device.gpu->uuid},
                    {"pci_bus_id", device.gpu->pci_bus_id},
                    {"compute_capability", device.gpu->compute_capability},
                    {"driver", device.gpu->driver},
                    {"memory_bytes", device.gpu->memory_bytes}});
  }
  std::puts(list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  return absl::OkStatus();
}

absl::Status Run(Flags flags) {
  RETURN_IF_ERROR(InitLogging("jacserve-worker", flags.log_level));
  RETURN_IF_ERROR(UseDevice(flags));
  std::unique_ptr<MetricsServer> metrics;
  if (!flags.metrics_listen.empty()) {
    ASSIGN_OR_RETURN(metrics, MetricsServer::Start(flags.metrics_listen));
    spdlog::info("serving metrics on port {}", metrics->port());
  }
  EndReason reason;
  flags.worker.runner.on_device_lost = [&reason](const absl::Status& why) { reason.Set(why); };
  ASSIGN_OR_RETURN(std::unique_ptr<WorkerServer> server,
                   WorkerServer::Start(flags.worker, [&reason](const absl::Status& why) { reason.Set(why); }));
  spdlog::info("version {} serving at {} with {} threads on {}", JACSERVE_VERSION, server->address(),
               flags.worker.runner.threads, flags.worker.runner.device.name);
  WaitForEndRequest();
  spdlog::info("draining");
  server->Drain(std::chrono::milliseconds(static_cast<int64_t>(flags.drain_seconds * 1e3)), TakeEndRequest);
  server = nullptr;
  spdlog::info("ended");
  return reason.Get();
}

}  // namespace
}  // namespace jacserve::worker

int main(int argc, char** argv) {
  using namespace jacserve;
  const int64_t parent = getppid();
  TuneAllocator({.arenas = worker::kArenas});
  const std::variant<worker::Flags, int> parsed = worker::ParseFlags(argc, argv);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  worker::Flags flags = std::get<worker::Flags>(parsed);
  flags.worker.make_engine = worker::Engine::Create;
  flags.worker.report = worker::ReportOn;
  if (flags.die_with_parent) DieWithParent(parent);
  worker::CatchEndSignals();
  // Before any thread of ours starts, so that all of them stay on these cores.
  absl::Status status = flags.cpus.empty() ? absl::OkStatus() : worker::PinToCpus(flags.cpus);
  if (status.ok()) status = flags.list_gpus ? worker::PrintGpus() : worker::Run(flags);
  if (status.ok()) return EXIT_SUCCESS;
  std::fprintf(stderr, "jacserve-worker: %s\n", std::string(status.message()).c_str());
  return EXIT_FAILURE;
}
