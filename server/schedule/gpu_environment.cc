#include "server/schedule/gpu_environment.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

extern char** environ;

namespace jacserve::server {

std::vector<std::string> GpuEnvironment(const std::optional<std::string>& uuid) {
  constexpr char kOrder[] = "CUDA_DEVICE_ORDER=", kVisible[] = "CUDA_VISIBLE_DEVICES=";
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (absl::StartsWith(*entry, kOrder) || (uuid && absl::StartsWith(*entry, kVisible))) continue;
    entries.emplace_back(*entry);
  }
  entries.push_back(absl::StrCat(kOrder, "PCI_BUS_ID"));
  if (uuid) entries.push_back(absl::StrCat(kVisible, *uuid));
  return entries;
}

std::vector<char*> PointersTo(std::vector<std::string>& entries) {
  std::vector<char*> pointers;
  for (std::string& entry : entries) pointers.push_back(entry.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace jacserve::server
