// What the environment says of the simulated machine, and which devices it shows.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/size_text.h"
#include "tests/cuda_sim/cuda_sim.h"
#include "tests/cuda_sim/runtime/world.h"

namespace jacserve::cuda_sim {
namespace {

const char* Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

[[noreturn]] void Refuse(const char* name, absl::string_view value, const char* wanted) {
  std::fprintf(stderr, "cuda_sim: %s: \"%.*s\" is not %s\n", name, static_cast<int>(value.size()), value.data(),
               wanted);
  std::exit(2);
}

template <class Number>
Number ParseNumber(const char* name, absl::string_view text, const char* wanted) {
  Number number = 0;
  if (!absl::SimpleAtoi(text, &number) || number < 0) Refuse(name, text, wanted);
  return number;
}

void ParseFaults(const char* name, absl::string_view text, Faults& faults) {
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> fault = absl::StrSplit(part, absl::MaxSplits('=', 1));
    const auto number = [&] { return ParseNumber<int64_t>(name, fault.second, "a number"); };
    if (fault.first == "alloc") {
      faults.fail_allocation = number();
    } else if (fault.first == "host_alloc") {
      faults.fail_host_allocation = number();
    } else if (fault.first == "sticky") {
      faults.sticky_at_launch = number();
    } else if (fault.first == "slow_copy") {
      faults.copy_delay = std::chrono::microseconds(number());
    } else if (fault.first == "once") {
      faults.once = std::string(fault.second);
    } else {
      Refuse(name, part, "alloc=K, host_alloc=K, sticky=K, once=FILE or slow_copy=MICROSECONDS");
    }
  }
}

// The list's entry for the device, the last one for those beyond.
absl::string_view Entry(const std::vector<absl::string_view>& list, size_t device) {
  return list[std::min(device, list.size() - 1)];
}

void ParseSizes(const char* name, int64_t Device::*field, std::vector<Device>& devices) {
  const char* const text = Variable(name);
  if (text == nullptr) return;
  const std::vector<absl::string_view> sizes = absl::StrSplit(text, ',');
  for (size_t i = 0; i < devices.size(); ++i) {
    const auto bytes = ParseSize(std::string(Entry(sizes, i)));
    if (!bytes.ok()) Refuse(name, text, "a list of sizes such as 8GiB,24GiB");
    devices[i].*field = *bytes;
  }
}

void ParseCompute(const char* name, absl::string_view text, Device& device) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
  if (parts.size() != 2) Refuse(name, text, "a compute capability such as 8.6");
  device.compute_major = ParseNumber<int>(name, parts[0], "a number");
  device.compute_minor = ParseNumber<int>(name, parts[1], "a number");
}

// The place that an entry of CUDA_VISIBLE_DEVICES names among the devices in their order, or -1.
int Named(absl::string_view entry, const std::vector<VisibleDevice>& devices) {
  entry = absl::StripAsciiWhitespace(entry);
  if (int index = -1; absl::SimpleAtoi(entry, &index)) {
    return index >= 0 && index < static_cast<int>(devices.size()) ? index : -1;
  }
  int found = -1;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (!absl::StartsWith(entry, "GPU-")) return -1;
    if (!absl::StartsWith(UuidOf(devices[i].device, devices[i].place), entry)) continue;
    if (found >= 0) return -1;  // the beginning of two
    found = static_cast<int>(i);
  }
  return found;
}

}  // namespace

Options FromEnvironment() {
  Options options;
  if (const char* count = Variable("JACSERVE_SIM_DEVICES")) {
    options.driver = absl::string_view(count) != "no-driver";
    const int devices = options.driver ? ParseNumber<int>("JACSERVE_SIM_DEVICES", count, "a number or no-driver") : 0;
    options.devices.assign(devices, Device{});
  }
  ParseSizes("JACSERVE_SIM_MEMORY", &Device::memory_bytes, options.devices);
  ParseSizes("JACSERVE_SIM_OCCUPIED", &Device::occupied_bytes, options.devices);
  if (const char* text = Variable("JACSERVE_SIM_COMPUTE")) {
    const std::vector<absl::string_view> list = absl::StrSplit(text, ',');
    for (size_t i = 0; i < options.devices.size(); ++i) {
      ParseCompute("JACSERVE_SIM_COMPUTE", Entry(list, i), options.devices[i]);
    }
  }
  if (const char* text = Variable("JACSERVE_SIM_SEED")) {
    options.seed = ParseNumber<uint64_t>("JACSERVE_SIM_SEED", text, "a number");
  }
  if (const char* text = Variable("JACSERVE_SIM_BLOCKS")) {
    const bool backward = absl::string_view(text) == "backward";
    if (!backward && absl::string_view(text) != "forward") Refuse("JACSERVE_SIM_BLOCKS", text, "forward or backward");
    options.blocks = backward ? Blocks::kBackward : Blocks::kForward;
  }
  if (const char* text = Variable("JACSERVE_SIM_FAULT")) ParseFaults("JACSERVE_SIM_FAULT", text, options.faults);
  return options;
}

std::string UuidOf(const Device& device, int place) {
  return device.uuid.empty() ? absl::StrFormat("GPU-%08x-5137-4a1d-8000-000000000000", place + 1) : device.uuid;
}

std::vector<VisibleDevice> VisibleDevices(const std::vector<Device>& devices) {
  std::vector<VisibleDevice> all;
  for (const Device& device : devices) all.push_back({device, static_cast<int>(all.size())});
  const char* const order = Variable("CUDA_DEVICE_ORDER");
  if (order == nullptr || absl::string_view(order) != "PCI_BUS_ID") {
    std::stable_sort(all.begin(), all.end(), [](const VisibleDevice& a, const VisibleDevice& b) {  // fastest first
      return std::tuple(a.device.compute_major, a.device.compute_minor, a.device.memory_bytes) >
             std::tuple(b.device.compute_major, b.device.compute_minor, b.device.memory_bytes);
    });
  }
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return all;
  std::vector<VisibleDevice> shown;
  std::vector<bool> taken(all.size(), false);
  for (const absl::string_view entry : absl::StrSplit(visible, ',')) {
    const int index = Named(entry, all);
    if (index < 0 || taken[index]) break;  // the devices before what is wrong are shown
    taken[index] = true;
    shown.push_back(all[index]);
  }
  return shown;
}

}  // namespace jacserve::cuda_sim
