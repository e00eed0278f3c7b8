// Which GPUs this machine has. A short-lived worker process counts them, so that the coordinator never opens one.
// In: the worker program. Out: GPUs in the order of their PCI addresses.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace jacserve::server {

struct Gpu {
  std::string uuid;        // as CUDA_VISIBLE_DEVICES takes it
  std::string name;        // for people
  std::string pci_bus_id;  // 0000:65:00.0
};

// Runs `program --list-gpus`. FailedPrecondition: it can use none, with its words. DeadlineExceeded: it never ended.
absl::StatusOr<std::vector<Gpu>> ListGpus(const std::filesystem::path& program,
                                          std::chrono::milliseconds patience = std::chrono::seconds(30));

// Cores on the side of the memory where the GPU is; empty where the system does not say.
std::vector<int> CoresNear(const Gpu& gpu);

}  // namespace jacserve::server
