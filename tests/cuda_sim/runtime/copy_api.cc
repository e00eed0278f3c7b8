// cudaMemcpy, cudaMemset and their kin. Each copy waits for as much as its documentation promises and for no more:
//   between host memory and host memory   at once, after what is in the stream
//   from pageable memory                  read at once, written when the stream gets there
//   to pageable memory                    the call returns after the copy
//   device to device                      when the stream gets there, also for cudaMemcpy
//   from or to pinned memory              when the stream gets there; cudaMemcpy waits for it
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cuda_sim/runtime/call.h"

namespace jacserve::cuda_sim {
namespace {

enum class Place { kDevice, kPinned, kPageable, kWrong };

struct Side {
  void* data = nullptr;
  size_t pitch = 0;
  Place place = Place::kWrong;

  bool device() const { return place == Place::kDevice; }
};

struct Extent {
  size_t width = 0, height = 0;

  int64_t Bytes(size_t pitch) const { return height == 0 || width == 0 ? 0 : (height - 1) * pitch + width; }
};

// Where a side's memory is; what is freed, or ends outside its allocation, is a misuse.
Place PlaceOf(World& world, const char* what, const Side& side, const Extent& extent) {
  const int64_t bytes = extent.Bytes(side.pitch);
  const Block* const block = world.memory->Find(side.data);
  if (block == nullptr || (side.data == block->end() && bytes > 0)) return Place::kPageable;
  if (block->freed) {
    world.Misuse(std::string(what) + " of a copy is memory that was freed");
    return Place::kWrong;
  }
  if (static_cast<const char*>(side.data) + bytes > block->end()) {
    world.Misuse(std::string(what) + " of a copy ends past its allocation of " + std::to_string(block->bytes) +
                 " bytes");
    return Place::kWrong;
  }
  return block->pinned() ? Place::kPinned : Place::kDevice;
}

// Do the sides lie where the kind of the copy says?
bool Agrees(cudaMemcpyKind kind, const Side& to, const Side& from) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to.device() && !from.device();
    case cudaMemcpyHostToDevice:
      return to.device() && !from.device();
    case cudaMemcpyDeviceToHost:
      return !to.device() && from.device();
    case cudaMemcpyDeviceToDevice:
      return to.device() && from.device();
    default:
      return true;
  }
}

void CopyLines(const Side& to, const Side& from, const Extent& extent, std::chrono::microseconds delay) {
  if (delay.count() > 0) std::this_thread::sleep_for(delay);
  for (size_t line = 0; line < extent.height; ++line) {
    std::memmove(static_cast<char*>(to.data) + line * to.pitch, static_cast<const char*>(from.data) + line * from.pitch,
                 extent.width);
  }
}

// Until it is written, pinned memory that a copy will write holds poison, unless queued work still needs what it holds.
void PoisonUntilWritten(World& world, const Side& to, const Extent& extent) {
  if (to.place != Place::kPinned || world.InFlight(to.data, extent.Bytes(to.pitch))) return;
  for (size_t line = 0; line < extent.height; ++line) {
    std::memset(static_cast<char*>(to.data) + line * to.pitch, kPoison, extent.width);
  }
}

cudaError_t Copy(World& world, Lock& lock, Side to, Side from, Extent extent, cudaMemcpyKind kind, cudaStream_t handle,
                 bool waits) {
  const StreamPtr stream = world.FindStream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  if (extent.width > to.pitch || extent.width > from.pitch) return cudaErrorInvalidValue;
  if (extent.width == 0 || extent.height == 0) return cudaSuccess;
  if (to.data == nullptr || from.data == nullptr) return cudaErrorInvalidValue;
  to.place = PlaceOf(world, "the destination", to, extent);
  from.place = PlaceOf(world, "the source", from, extent);
  if (to.place == Place::kWrong || from.place == Place::kWrong) return cudaErrorInvalidValue;
  if (!Agrees(kind, to, from)) {
    world.Misuse("the memory of a copy lies elsewhere than its kind says");
    return cudaErrorInvalidValue;
  }
  ++world.counters.copies;
  const bool pageable = to.place == Place::kPageable || from.place == Place::kPageable;
  if (pageable) ++world.counters.pageable_copies;
  Task task;
  if (to.place != Place::kPageable) task.ranges.push_back({to.data, extent.Bytes(to.pitch)});
  const std::chrono::microseconds delay = world.options.faults.copy_delay;
  if (to.device() && from.place == Place::kPageable) {
    auto staged = std::make_shared<std::vector<char>>(extent.width * extent.height);
    const Side stage{staged->data(), extent.width, Place::kPageable};
    CopyLines(stage, from, extent, {});
    task.run = [=] { CopyLines(to, {staged->data(), extent.width}, extent, delay); };
    world.Enqueue(stream, std::move(task), lock);
    return cudaSuccess;
  }
  if (from.place != Place::kPageable) task.ranges.push_back({from.data, extent.Bytes(from.pitch)});
  task.run = [=] { CopyLines(to, from, extent, delay); };
  const bool on_device = to.device() && from.device();
  const bool on_host = !to.device() && !from.device();
  const bool now = (waits && !on_device) || on_host || to.place == Place::kPageable;
  if (!now) PoisonUntilWritten(world, to, extent);
  const Point end = world.Enqueue(stream, std::move(task), lock);
  if (now) world.RunUpTo(end, lock);
  return cudaSuccess;
}

Side From(const void* data, size_t pitch) { return {const_cast<void*>(data), pitch}; }

cudaError_t Set(World& world, Lock& lock, Side to, int value, Extent extent, cudaStream_t handle) {
  const StreamPtr stream = world.FindStream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (extent.width > to.pitch) return cudaErrorInvalidValue;
  if (extent.width == 0 || extent.height == 0) return cudaSuccess;
  if (!world.CheckDevice(stream->device, "the destination of a memset", to.data, extent.Bytes(to.pitch)))
    return cudaErrorInvalidValue;
  world.Enqueue(stream,
                {.run =
                     [=] {
                       for (size_t line = 0; line < extent.height; ++line) {
                         std::memset(static_cast<char*>(to.data) + line * to.pitch, value, extent.width);
                       }
                     },
                 .ranges = {{to.data, extent.Bytes(to.pitch)}}},
                lock);
  return cudaSuccess;
}

}  // namespace
}  // namespace jacserve::cuda_sim

using namespace jacserve::cuda_sim;

cudaError_t cudaMemcpy(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  return Call([&](World& world, Lock& lock) {
    return Copy(world, lock, {dst, count}, From(src, count), {count, 1}, kind, nullptr, /*waits=*/true);
  });
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
  return Call([&](World& world, Lock& lock) {
    return Copy(world, lock, {dst, count}, From(src, count), {count, 1}, kind, stream, /*waits=*/false);
  });
}

cudaError_t cudaMemcpy2D(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
  return Call([&](World& world, Lock& lock) {
    return Copy(world, lock, {dst, dpitch}, From(src, spitch), {width, height}, kind, nullptr, /*waits=*/true);
  });
}

cudaError_t cudaMemcpy2DAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  return Call([&](World& world, Lock& lock) {
    return Copy(world, lock, {dst, dpitch}, From(src, spitch), {width, height}, kind, stream, /*waits=*/false);
  });
}

cudaError_t cudaMemset(void* dst, int value, size_t count) {
  return Call([&](World& world, Lock& lock) { return Set(world, lock, {dst, count}, value, {count, 1}, nullptr); });
}

cudaError_t cudaMemsetAsync(void* dst, int value, size_t count, cudaStream_t stream) {
  return Call([&](World& world, Lock& lock) { return Set(world, lock, {dst, count}, value, {count, 1}, stream); });
}

cudaError_t cudaMemset2DAsync(void* dst, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  return Call([&](World& world, Lock& lock) { return Set(world, lock, {dst, pitch}, value, {width, height}, stream); });
}
