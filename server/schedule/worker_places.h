// Where local workers run: disjoint cores, and with GPUs one worker for each.
// In: what was asked for and what the machine has. Out: a place for every worker.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/schedule/gpu_probe.h"

namespace jacserve::server {

constexpr int kAutoWorkers = -1;

// What workers compute on; kAuto: GPUs where there are any. kReference: plain loops on the CPU, for comparison.
enum class WorkerDevice { kAuto, kCpu, kCuda, kReference };

struct WorkerPlace {
  std::string backend;  // of jacserve-worker
  std::vector<int> cores;
  std::optional<Gpu> gpu;
};

// Cores that this process may run on.
std::vector<int> AvailableCores();

// How many workers suit so many cores: one for each two, both of two.
int AutoWorkerCount(int cores);

// Disjoint shares of about the same size, one for each worker; workers beyond the cores share one each.
std::vector<std::vector<int>> ShareCores(const std::vector<int>& cores, int workers);

// `near[g]`: cores beside GPU g, empty for not known. `count`: workers, or kAutoWorkers. InvalidArgument: more workers
// than GPUs. The status of `gpus`: a GPU is asked for and there is none.
absl::StatusOr<std::vector<WorkerPlace>> ChoosePlaces(WorkerDevice device, int count, const std::vector<int>& cores,
                                                      const absl::StatusOr<std::vector<Gpu>>& gpus,
                                                      const std::vector<std::vector<int>>& near);

}  // namespace jacserve::server
