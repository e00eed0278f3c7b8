// cudaMalloc and its kin: memory of a device, pinned memory of the host, and what a pointer is.
#include "tests/cuda_sim/runtime/call.h"

namespace jacserve::cuda_sim {
namespace {

cudaError_t Allocate(World& world, Lock& lock, void** pointer, size_t bytes, bool pooled) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return pooled ? cudaErrorInvalidValue : cudaSuccess;
  ++world.counters.allocations;
  if (world.counters.allocations == world.options.faults.fail_allocation) return cudaErrorMemoryAllocation;
  if (bytes > static_cast<size_t>(1) << 50) return cudaErrorMemoryAllocation;
  const int64_t rounded = RoundedBytes(static_cast<int64_t>(bytes));
  if (rounded > world.FreeBytes(CurrentDevice()))
    world.RunDevice(CurrentDevice(), lock);  // what is queued may free some
  if (rounded > world.FreeBytes(CurrentDevice())) return cudaErrorMemoryAllocation;
  *pointer = world.memory->Allocate(static_cast<int64_t>(bytes), CurrentDevice(), pooled);
  if (*pointer == nullptr) return cudaErrorMemoryAllocation;
  world.CountBytes(CurrentDevice(), rounded);
  return cudaSuccess;
}

// The live block that begins there; null, and a misuse, when there is none of this sort.
const Block* BlockToFree(World& world, const char* call, const void* pointer, bool pinned) {
  const Block* const block = world.memory->Find(pointer);
  const std::string name = call;
  if (block == nullptr) {
    world.Misuse(name + " of memory that was never allocated by CUDA");
  } else if (block->freed) {
    world.Misuse(name + " of memory that was freed before");
  } else if (block->begin != pointer) {
    world.Misuse(name + " of a pointer into the middle of an allocation");
  } else if (block->pinned() != pinned) {
    world.Misuse(name + (pinned ? " of device memory" : " of pinned host memory"));
  } else {
    if (world.InFlight(block->begin, block->bytes)) world.Misuse(name + " of memory that queued work still uses");
    return block;
  }
  return nullptr;
}

void FreeBlock(World& world, void* begin) {
  const Block block = *world.memory->Find(begin);
  if (!world.memory->Free(begin)) {
    world.Misuse("something wrote past the end of an allocation of " + std::to_string(block.bytes) + " bytes");
  }
  if (block.pinned()) {
    world.counters.host_bytes_in_use -= block.bytes;
  } else {
    world.CountBytes(block.device, -RoundedBytes(block.bytes));
  }
}

}  // namespace
}  // namespace jacserve::cuda_sim

using namespace jacserve::cuda_sim;

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return Call([&](World& world, Lock&) {
    if (free == nullptr || total == nullptr) return cudaErrorInvalidValue;
    *free = world.FreeBytes(CurrentDevice());
    *total = world.devices[CurrentDevice()].device.memory_bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return Call([&](World& world, Lock& lock) { return Allocate(world, lock, pointer, bytes, /*pooled=*/false); });
}

cudaError_t cudaFree(void* pointer) {
  return Call([&](World& world, Lock& lock) {
    if (pointer == nullptr) return cudaSuccess;
    const Block* const block = BlockToFree(world, "cudaFree", pointer, /*pinned=*/false);
    if (block == nullptr) return cudaErrorInvalidValue;
    world.RunDevice(block->device, lock);  // as the real one, which waits for the device
    FreeBlock(world, pointer);
    return cudaSuccess;
  });
}

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t handle) {
  return Call([&](World& world, Lock& lock) {
    if (!world.FindStream(handle)) return cudaErrorInvalidResourceHandle;
    return Allocate(world, lock, pointer, bytes, /*pooled=*/true);
  });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t handle) {
  return Call([&](World& world, Lock& lock) {
    const StreamPtr stream = world.FindStream(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    const Block* const block = world.memory->Find(pointer);
    if (block == nullptr || block->freed || block->pinned() || block->begin != pointer) {
      world.Misuse("cudaFreeAsync of what is no live allocation");
      return cudaErrorInvalidValue;
    }
    world.Enqueue(stream,
                  {.run =
                       [&world, pointer] {
                         const Lock inner(world.mutex);
                         FreeBlock(world, pointer);
                       }},
                  lock);
    return cudaSuccess;
  });
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
  return Call([&](World& world, Lock&) {
    constexpr unsigned int kKnown = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
    if (pointer == nullptr || (flags & ~kKnown) != 0) return cudaErrorInvalidValue;
    *pointer = nullptr;
    if (bytes == 0) return cudaSuccess;
    ++world.counters.host_allocations;
    if (world.counters.host_allocations == world.options.faults.fail_host_allocation) return cudaErrorMemoryAllocation;
    *pointer = world.memory->Allocate(static_cast<int64_t>(bytes), kHostDevice, /*pooled=*/false);
    if (*pointer == nullptr) return cudaErrorMemoryAllocation;
    world.counters.host_bytes_in_use += static_cast<int64_t>(bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) { return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault); }

cudaError_t cudaFreeHost(void* pointer) {
  return Call([&](World& world, Lock&) {
    if (pointer == nullptr) return cudaSuccess;
    if (BlockToFree(world, "cudaFreeHost", pointer, /*pinned=*/true) == nullptr) return cudaErrorInvalidValue;
    FreeBlock(world, pointer);
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return Call([&](World& world, Lock&) {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    *attributes = {};
    const Block* const block = world.memory->Find(pointer);
    if (block == nullptr || block->freed || pointer == block->end()) {
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->device = cudaInvalidDeviceId;
      attributes->hostPointer = const_cast<void*>(pointer);
      return cudaSuccess;
    }
    attributes->type = block->pinned() ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    attributes->device = block->pinned() ? 0 : block->device;
    attributes->devicePointer = const_cast<void*>(pointer);
    attributes->hostPointer = block->pinned() ? const_cast<void*>(pointer) : nullptr;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceReset() {
  return Call([&](World& world, Lock& lock) {
    const int device = CurrentDevice();
    world.RunDevice(device, lock);
    for (const Block* block : world.memory->Live()) {
      if (block->device == device) FreeBlock(world, block->begin);
    }
    std::erase_if(world.streams, [device](const auto& entry) { return entry.second->device == device; });
    std::erase_if(world.events, [device](const auto& entry) { return entry.second->device == device; });
    world.counters.streams = world.counters.events = 0;
    for (const auto& [handle, stream] : world.streams) world.counters.streams += stream->destroyed ? 0 : 1;
    for (const auto& [handle, event] : world.events) world.counters.events += event->destroyed ? 0 : 1;
    return cudaSuccess;
  });
}
