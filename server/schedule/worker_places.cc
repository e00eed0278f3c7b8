#include "server/schedule/worker_places.h"

#include <sched.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "absl/strings/str_cat.h"

namespace jacserve::server {
namespace {

std::vector<WorkerPlace> OnCores(const std::string& backend, int count, const std::vector<int>& cores) {
  std::vector<WorkerPlace> places;
  for (std::vector<int>& share : ShareCores(cores, count)) places.push_back({backend, std::move(share), std::nullopt});
  return places;
}

// Each GPU's worker beside it; those on the same side share its cores.
std::vector<WorkerPlace> OnGpus(const std::vector<Gpu>& gpus, const std::vector<int>& cores,
                                const std::vector<std::vector<int>>& near) {
  std::map<std::vector<int>, std::vector<size_t>> sides;
  for (size_t g = 0; g < gpus.size(); ++g) {
    std::vector<int> side;
    std::set_intersection(near[g].begin(), near[g].end(), cores.begin(), cores.end(), std::back_inserter(side));
    sides[side.empty() ? cores : side].push_back(g);
  }
  std::vector<WorkerPlace> places(gpus.size());
  for (const auto& [side, here] : sides) {
    std::vector<std::vector<int>> shares = ShareCores(side, static_cast<int>(here.size()));
    for (size_t k = 0; k < here.size(); ++k) places[here[k]] = {"cuda", std::move(shares[k]), gpus[here[k]]};
  }
  return places;
}

}  // namespace

std::vector<int> AvailableCores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

int AutoWorkerCount(int cores) { return cores <= 2 ? std::max(cores, 1) : std::min((cores + 1) / 2, 16); }

std::vector<std::vector<int>> ShareCores(const std::vector<int>& cores, int workers) {
  std::vector<std::vector<int>> shares(static_cast<size_t>(workers));
  const size_t count = cores.size();
  for (size_t w = 0; w < shares.size(); ++w) {
    const size_t begin = w * count / shares.size();
    const size_t end = (w + 1) * count / shares.size();
    for (size_t i = begin; i < end; ++i) shares[w].push_back(cores[i]);
    if (shares[w].empty()) shares[w].push_back(cores[w % count]);
  }
  return shares;
}

absl::StatusOr<std::vector<WorkerPlace>> ChoosePlaces(WorkerDevice device, int count, const std::vector<int>& cores,
                                                      const absl::StatusOr<std::vector<Gpu>>& gpus,
                                                      const std::vector<std::vector<int>>& near) {
  const bool any = gpus.ok() && !gpus->empty();
  if (device == WorkerDevice::kCuda && !any) {
    return gpus.ok()
               ? absl::FailedPreconditionError("--device cuda: this machine has no GPU that can be seen")
               : absl::FailedPreconditionError(absl::StrCat("--device cuda: ", std::string(gpus.status().message())));
  }
  if (device == WorkerDevice::kCuda || (device == WorkerDevice::kAuto && any)) {
    const int all = static_cast<int>(gpus->size());
    if (count > all) {
      return absl::InvalidArgumentError(absl::StrCat("--local-workers ", count, ": there are ", all,
                                                     " GPUs, for a worker each; give auto, or --device cpu"));
    }
    const int used = count == kAutoWorkers ? all : count;
    return OnGpus({gpus->begin(), gpus->begin() + used}, cores, near);
  }
  const int workers = count == kAutoWorkers ? AutoWorkerCount(static_cast<int>(cores.size())) : count;
  return OnCores(device == WorkerDevice::kReference ? "reference" : "cpu", workers, cores);
}

}  // namespace jacserve::server
