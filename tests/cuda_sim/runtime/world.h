// The one state of the simulation: options, devices, memory, streams, what was counted and what went wrong.
// Everything behind `mutex`; queued work runs without it.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "tests/cuda_sim/cuda_sim.h"
#include "tests/cuda_sim/runtime/memory.h"
#include "tests/cuda_sim/runtime/stream.h"

namespace jacserve::cuda_sim {

// The options' devices that CUDA_VISIBLE_DEVICES shows, in the order of CUDA_DEVICE_ORDER.
struct VisibleDevice {
  Device device;
  int place = 0;  // among the options' devices: its PCI bus number less one
};
std::vector<VisibleDevice> VisibleDevices(const std::vector<Device>& devices);
std::string UuidOf(const Device& device, int place);

// What a library made: a sentence for it, and the thing itself.
struct Handle {
  std::string what;
  std::shared_ptr<void> object;
};

using Lock = std::unique_lock<std::mutex>;

class World {
 public:
  static World& Get();

  std::mutex mutex;
  Options options;
  std::vector<VisibleDevice> devices;
  Memory* memory = nullptr;
  Counters counters;
  std::map<int, int64_t> bytes_in_use;  // by device
  cudaError_t sticky = cudaSuccess;
  std::map<CUstream_st*, StreamPtr> streams;  // with those that were destroyed
  uint64_t streams_made = 0;
  std::map<CUevent_st*, std::shared_ptr<CUevent_st>> events;
  std::map<const void*, Handle> handles;  // of the libraries

  void Begin(Options options);

  // Records, or ends the program.
  void Misuse(std::string sentence);
  std::vector<std::string> misuses;

  // What a call on this thread would meet: no driver, no device, a broken context; else success.
  cudaError_t Ready() const;

  // The stream behind a handle on the current device, null and a misuse when there is none.
  StreamPtr FindStream(cudaStream_t handle);
  StreamPtr LegacyStream(int device);

  // A new object that Leaks names until it is dropped; `what` with its article.
  template <class T>
  T* Make(const char* what, T initial) {
    auto object = std::make_shared<T>(std::move(initial));
    T* const raw = object.get();
    handles[raw] = {what, std::move(object)};
    ++counters.handles;
    return raw;
  }
  // False, and a misuse, when there is no such object.
  bool DropHandle(const char* what, const void* handle);

  // Memory of a device: what is free, and what is taken or given back.
  int64_t FreeBytes(int device);
  void CountBytes(int device, int64_t bytes);

  // Puts work at the end of a stream. Counts a launch and breaks the context when the options say so.
  Point Enqueue(const StreamPtr& stream, Task task, Lock& lock);
  Point EnqueueLaunch(const StreamPtr& stream, Task task, Lock& lock);
  // Runs a stream's work up to there, and what that waits for.
  void RunUpTo(const Point& point, Lock& lock);
  // Runs all work of a device.
  void RunDevice(int device, Lock& lock);
  // Does queued work with a known range touch this memory?
  bool InFlight(const void* begin, int64_t bytes) const;

  // Does the memory from `begin` on lie in one live block of the device? Else a misuse. `what` begins the sentence.
  bool CheckDevice(int device, const std::string& what, const void* begin, int64_t bytes);
  // Does it lie outside of what is on a device? Else a misuse.
  bool CheckHost(const std::string& what, const void* begin);

 private:
  World() = default;
  bool BreaksNow();
  void RunSomeAtRandom(Lock& lock);
  void Drop();

  std::condition_variable changed_;
  std::map<int, StreamPtr> legacy_;
  std::mt19937_64 random_;
};

int CurrentDevice();
void SetCurrentDevice(int device);

// Keeps an error for cudaGetLastError and gives it back.
cudaError_t Remember(cudaError_t error);

}  // namespace jacserve::cuda_sim
