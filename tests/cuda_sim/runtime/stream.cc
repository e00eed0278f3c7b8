// Runs the streams' work, as late as it may or at random.
#include "tests/cuda_sim/runtime/stream.h"

#include <algorithm>
#include <utility>

#include "tests/cuda_sim/runtime/guard.h"
#include "tests/cuda_sim/runtime/world.h"

namespace jacserve::cuda_sim {

StreamPtr World::LegacyStream(int device) {
  StreamPtr& stream = legacy_[device];
  if (!stream) {
    stream = std::make_shared<CUstream_st>();
    stream->device = device;
    stream->legacy = true;
  }
  return stream;
}

StreamPtr World::FindStream(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) return LegacyStream(CurrentDevice());
  const auto found = streams.find(handle);
  if (found == streams.end()) {
    Misuse("a stream was used that never was, or that cudaDeviceReset took away");
    return nullptr;
  }
  if (found->second->destroyed) {
    Misuse("a stream was used after it was destroyed");
    return nullptr;
  }
  return found->second;
}

Point World::Enqueue(const StreamPtr& stream, Task task, Lock& lock) {
  RunSomeAtRandom(lock);
  if (stream->legacy) {
    for (const auto& [handle, other] : streams) {
      if (other->device == stream->device && other->blocking) task.after.push_back({other, other->last()});
    }
  } else if (stream->blocking) {
    const StreamPtr legacy = LegacyStream(stream->device);
    task.after.push_back({legacy, legacy->last()});
  }
  stream->tasks.push_back(std::move(task));
  return {stream, stream->last()};
}

Point World::EnqueueLaunch(const StreamPtr& stream, Task task, Lock& lock) {
  ++counters.launches;
  if (BreaksNow()) {
    task.run = [this] {
      const Lock inner(mutex);
      sticky = cudaErrorIllegalAddress;
    };
  }
  return Enqueue(stream, std::move(task), lock);
}

void World::RunUpTo(const Point& point, Lock& lock) {
  CUstream_st& stream = *point.stream;
  while (stream.done < point.position) {
    if (sticky != cudaSuccess) {
      Drop();
      return;
    }
    if (stream.running) {
      changed_.wait(lock);
      continue;
    }
    if (!stream.tasks.front().after.empty()) {
      const int64_t position = stream.done;
      const std::vector<Point> after = stream.tasks.front().after;
      for (const Point& other : after) RunUpTo(other, lock);
      if (stream.done == position && !stream.running && !stream.tasks.empty()) stream.tasks.front().after.clear();
      continue;
    }
    stream.running = true;
    const std::function<void()> run = stream.tasks.front().run;
    lock.unlock();
    if (run) {
      const DeviceAccess access;
      run();
    }
    lock.lock();
    stream.running = false;
    stream.tasks.pop_front();
    ++stream.done;
    changed_.notify_all();
  }
}

// A broken context runs nothing any more: what was queued counts as over.
void World::Drop() {
  const auto drop = [](CUstream_st& stream) {
    while (stream.tasks.size() > (stream.running ? 1 : 0)) {
      stream.tasks.pop_back();
      ++stream.done;
    }
  };
  for (const auto& [handle, stream] : streams) drop(*stream);
  for (const auto& [device, stream] : legacy_) drop(*stream);
  changed_.notify_all();
}

void World::RunDevice(int device, Lock& lock) {
  std::vector<Point> ends;
  for (const auto& [handle, stream] : streams) {
    if (stream->device == device) ends.push_back({stream, stream->last()});
  }
  const StreamPtr legacy = LegacyStream(device);
  ends.push_back({legacy, legacy->last()});
  for (const Point& end : ends) RunUpTo(end, lock);
}

void World::RunSomeAtRandom(Lock& lock) {
  if (options.seed == 0 || streams_made == 0 || random_() % 3 != 0) return;
  const uint64_t number = random_() % streams_made;
  const uint64_t share = random_();
  const auto chosen = std::find_if(streams.begin(), streams.end(),
                                   [number](const auto& entry) { return entry.second->number == number; });
  if (chosen == streams.end() || chosen->second->tasks.empty()) return;
  const StreamPtr stream = chosen->second;
  RunUpTo({stream, stream->done + 1 + static_cast<int64_t>(share % stream->tasks.size())}, lock);
}

bool World::InFlight(const void* begin, int64_t bytes) const {
  const char* const first = static_cast<const char*>(begin);
  const auto touches = [&](const CUstream_st& stream) {
    for (const Task& task : stream.tasks) {
      for (const Range& range : task.ranges) {
        const char* const other = static_cast<const char*>(range.begin);
        if (first < other + range.bytes && other < first + bytes) return true;
      }
    }
    return false;
  };
  for (const auto& [handle, stream] : streams) {
    if (touches(*stream)) return true;
  }
  for (const auto& [device, stream] : legacy_) {
    if (touches(*stream)) return true;
  }
  return false;
}

}  // namespace jacserve::cuda_sim

void cuda_sim_launch(cudaStream_t handle, std::function<void()> work) {
  using namespace jacserve::cuda_sim;
  World& world = World::Get();
  Lock lock(world.mutex);
  if (const cudaError_t error = world.Ready(); error != cudaSuccess) {
    Remember(error);
    return;
  }
  const StreamPtr stream = world.FindStream(handle);
  if (!stream) {
    Remember(cudaErrorInvalidResourceHandle);
    return;
  }
  if (stream->device != CurrentDevice()) {
    world.Misuse("a kernel was launched into a stream of another device than the current one");
    Remember(cudaErrorInvalidResourceHandle);
    return;
  }
  world.EnqueueLaunch(stream, {.run = std::move(work)}, lock);
}
