// The one state of the simulation: what is alive, counted, and broken.
#include "tests/cuda_sim/runtime/world.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace jacserve::cuda_sim {
namespace {

thread_local int current_device = 0;

}  // namespace

World& World::Get() {
  static World* const world = [] {  // outlives whatever ends after main
    auto* made = new World;
    made->Begin(FromEnvironment());
    return made;
  }();
  return *world;
}

void World::Begin(Options new_options) {
  options = std::move(new_options);
  devices = VisibleDevices(options.devices);
  delete std::exchange(memory, new Memory);
  counters = {};
  bytes_in_use.clear();
  sticky = cudaSuccess;
  streams.clear();
  streams_made = 0;
  events.clear();
  handles.clear();
  misuses.clear();
  legacy_.clear();
  random_.seed(options.seed);
}

void World::Misuse(std::string sentence) {
  if (!options.record_misuses) {
    std::fprintf(stderr, "cuda_sim: %s\n", sentence.c_str());
    std::abort();
  }
  misuses.push_back(std::move(sentence));
}

cudaError_t World::Ready() const {
  if (!options.driver) return cudaErrorInsufficientDriver;
  if (devices.empty()) return cudaErrorNoDevice;
  return sticky;
}

bool World::BreaksNow() {
  if (options.faults.sticky_at_launch == 0 || counters.launches < options.faults.sticky_at_launch) return false;
  options.faults.sticky_at_launch = 0;
  if (options.faults.once.empty()) return true;
  const int file = open(options.faults.once.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file >= 0) close(file);
  return file >= 0;
}

bool World::CheckDevice(int device, const std::string& what, const void* begin, int64_t bytes) {
  const Block* const block = memory->Find(begin);
  const char* const last = static_cast<const char*>(begin) + bytes;
  if (block == nullptr) {
    Misuse(what + " is host memory where device memory is needed");
  } else if (block->freed) {
    Misuse(what + " is memory that was freed");
  } else if (block->pinned()) {
    Misuse(what + " is pinned host memory where device memory is needed");
  } else if (last > block->end()) {
    Misuse(what + " ends " + std::to_string(last - block->end()) + " bytes past its allocation of " +
           std::to_string(block->bytes) + " bytes");
  } else if (block->device != device) {
    Misuse(what + " is on device " + std::to_string(block->device) + ", not on " + std::to_string(device));
  } else {
    return true;
  }
  return false;
}

bool World::CheckHost(const std::string& what, const void* begin) {
  const Block* const block = memory->Find(begin);
  if (block == nullptr || block->pinned() || begin == block->end()) return true;
  Misuse(what + " is device memory where host memory is needed");
  return false;
}

bool World::DropHandle(const char* what, const void* handle) {
  if (handles.erase(handle) == 0) {
    Misuse(std::string(what) + " was destroyed that never was, or twice");
    return false;
  }
  --counters.handles;
  return true;
}

int64_t World::FreeBytes(int device) {
  const Device& one = devices[device].device;
  return one.memory_bytes - one.occupied_bytes - bytes_in_use[device];
}

void World::CountBytes(int device, int64_t bytes) {
  bytes_in_use[device] += bytes;
  counters.bytes_in_use += bytes;
  counters.peak_bytes = std::max(counters.peak_bytes, counters.bytes_in_use);
}

int CurrentDevice() { return current_device; }
void SetCurrentDevice(int device) { current_device = device; }

void Reset(Options options) {
  World& world = World::Get();
  {
    const Lock lock(world.mutex);
    world.Begin(std::move(options));
  }
  SetCurrentDevice(0);
  cudaGetLastError();
}

Counters Read() {
  World& world = World::Get();
  const Lock lock(world.mutex);
  return world.counters;
}

std::vector<std::string> TakeMisuses() {
  World& world = World::Get();
  const Lock lock(world.mutex);
  return std::exchange(world.misuses, {});
}

std::vector<std::string> Leaks() {
  World& world = World::Get();
  const Lock lock(world.mutex);
  std::vector<std::string> leaks;
  for (const Block* block : world.memory->Live()) {
    leaks.push_back(std::to_string(block->bytes) + " bytes " +
                    (block->pinned() ? "of pinned host memory" : "on device " + std::to_string(block->device)));
  }
  for (const auto& [handle, stream] : world.streams) {
    if (!stream->destroyed) leaks.push_back("a stream on device " + std::to_string(stream->device));
  }
  for (const auto& [handle, event] : world.events) {
    if (!event->destroyed) leaks.push_back("an event on device " + std::to_string(event->device));
  }
  for (const auto& [address, handle] : world.handles) leaks.push_back(handle.what);
  return leaks;
}

}  // namespace jacserve::cuda_sim
