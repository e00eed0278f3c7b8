// Streams, events, and waiting for them.
#include <utility>

#include "tests/cuda_sim/runtime/call.h"

namespace jacserve::cuda_sim {
namespace {

CUevent_st* FindEvent(World& world, cudaEvent_t handle) {
  const auto found = world.events.find(handle);
  if (found == world.events.end() || found->second->destroyed) {
    world.Misuse("an event was used that never was, or after it was destroyed");
    return nullptr;
  }
  return found->second.get();
}

bool Pending(const Point& point) { return point.stream != nullptr && point.stream->done < point.position; }

// A caller that asks again and again must get there: each question runs one piece of work.
cudaError_t Advance(World& world, const Point& point, Lock& lock) {
  if (Pending(point)) world.RunUpTo({point.stream, point.stream->done + 1}, lock);
  return Pending(point) ? cudaErrorNotReady : cudaSuccess;
}

}  // namespace
}  // namespace jacserve::cuda_sim

using namespace jacserve::cuda_sim;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned int flags) {
  return Call([&](World& world, Lock&) {
    if (handle == nullptr || (flags & ~cudaStreamNonBlocking) != 0) return cudaErrorInvalidValue;
    auto stream = std::make_shared<CUstream_st>();
    stream->device = CurrentDevice();
    stream->number = world.streams_made++;
    stream->blocking = (flags & cudaStreamNonBlocking) == 0;
    *handle = stream.get();
    world.streams[stream.get()] = std::move(stream);
    ++world.counters.streams;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreate(cudaStream_t* handle) { return cudaStreamCreateWithFlags(handle, cudaStreamDefault); }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned int flags, int) {
  return cudaStreamCreateWithFlags(handle, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return Call([&](World& world, Lock&) {
    if (handle == nullptr) return cudaErrorInvalidResourceHandle;
    const StreamPtr stream = world.FindStream(handle);
    if (!stream || stream->legacy) return cudaErrorInvalidResourceHandle;
    stream->destroyed = true;  // its work still runs when something waits for it
    --world.counters.streams;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return Call([&](World& world, Lock& lock) {
    const StreamPtr stream = world.FindStream(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    ++world.counters.synchronizations;
    world.RunUpTo({stream, stream->last()}, lock);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return Call([&](World& world, Lock& lock) {
    const StreamPtr stream = world.FindStream(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    return Advance(world, {stream, stream->last()}, lock);
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned int flags) {
  return Call([&](World& world, Lock& lock) {
    const StreamPtr stream = world.FindStream(handle);
    const CUevent_st* const event = stream ? FindEvent(world, event_handle) : nullptr;
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (flags != cudaEventWaitDefault) return cudaErrorInvalidValue;
    if (event->recorded.stream != nullptr) world.Enqueue(stream, {.after = {event->recorded}}, lock);
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned int flags) {
  return Call([&](World& world, Lock&) {
    constexpr unsigned int kKnown = cudaEventBlockingSync | cudaEventDisableTiming;
    if (handle == nullptr || (flags & ~kKnown) != 0) return cudaErrorInvalidValue;
    auto event = std::make_shared<CUevent_st>();
    event->device = CurrentDevice();
    event->timing = (flags & cudaEventDisableTiming) == 0;
    *handle = event.get();
    world.events[event.get()] = std::move(event);
    ++world.counters.events;
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* handle) { return cudaEventCreateWithFlags(handle, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return Call([&](World& world, Lock&) {
    CUevent_st* const event = FindEvent(world, handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    event->destroyed = true;
    event->recorded = {};
    --world.counters.events;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  return Call([&](World& world, Lock& lock) {
    CUevent_st* const event = FindEvent(world, handle);
    const StreamPtr stream = event != nullptr ? world.FindStream(stream_handle) : nullptr;
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (stream->device != event->device) {
      world.Misuse("an event was recorded in a stream of another device");
      return cudaErrorInvalidResourceHandle;
    }
    auto time = std::make_shared<std::chrono::steady_clock::time_point>();
    event->time = time;
    event->recorded = world.Enqueue(stream, {.run = [time] { *time = std::chrono::steady_clock::now(); }}, lock);
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return Call([&](World& world, Lock& lock) {
    const CUevent_st* const event = FindEvent(world, handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    ++world.counters.synchronizations;
    if (const Point recorded = event->recorded; Pending(recorded)) world.RunUpTo(recorded, lock);
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return Call([&](World& world, Lock& lock) {
    const CUevent_st* const event = FindEvent(world, handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    return Advance(world, Point(event->recorded), lock);
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start_handle, cudaEvent_t end_handle) {
  return Call([&](World& world, Lock&) {
    const CUevent_st* const start = FindEvent(world, start_handle);
    const CUevent_st* const end = start != nullptr ? FindEvent(world, end_handle) : nullptr;
    if (end == nullptr || !start->timing || !end->timing || !start->time || !end->time) {
      return cudaErrorInvalidResourceHandle;
    }
    if (milliseconds == nullptr) return cudaErrorInvalidValue;
    if (Pending(start->recorded) || Pending(end->recorded)) return cudaErrorNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(*end->time - *start->time).count();
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return Call([&](World& world, Lock& lock) {
    ++world.counters.synchronizations;
    world.RunDevice(CurrentDevice(), lock);
    return cudaSuccess;
  });
}
