// cudaError, devices and versions: the calls that take no memory and no stream.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/str_format.h"
#include "tests/cuda_sim/runtime/call.h"

namespace jacserve::cuda_sim {
namespace {

constexpr int kThreadsPerBlock = 1024;
constexpr int kMultiprocessors = 4;
constexpr size_t kSharedPerBlock = 48 << 10;
constexpr size_t kSharedOptIn = 99 << 10;  // the least among compute capabilities 8 to 12

thread_local cudaError_t last_error = cudaSuccess;

const VisibleDevice* Find(World& world, int device) {
  return device >= 0 && device < static_cast<int>(world.devices.size()) ? &world.devices[device] : nullptr;
}

// "GPU-01234567-..." to its 16 bytes.
void WriteUuid(const std::string& text, cudaUUID_t& uuid) {
  std::string digits;
  for (const char c : text.substr(std::min<size_t>(4, text.size()))) {
    if (c != '-') digits += c;
  }
  digits.resize(2 * sizeof uuid.bytes, '0');
  for (size_t i = 0; i < sizeof uuid.bytes; ++i) {
    uuid.bytes[i] = static_cast<char>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
  }
}

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

const ErrorText* Text(cudaError_t error) {
  const auto* const found =
      std::find_if(std::begin(kErrors), std::end(kErrors), [error](const ErrorText& e) { return e.error == error; });
  return found == std::end(kErrors) ? nullptr : found;
}

}  // namespace

cudaError_t Remember(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

cudaError_t CheckLaunch(dim3 grid, dim3 block, size_t shared_bytes) {
  return Call([&](World&, Lock&) {
    const int64_t threads = int64_t{block.x} * block.y * block.z;
    const bool fits = threads >= 1 && threads <= kThreadsPerBlock && block.z <= 64 && grid.x >= 1 &&
                      grid.x <= 0x7fffffff && grid.y >= 1 && grid.y <= 65535 && grid.z >= 1 && grid.z <= 65535 &&
                      shared_bytes <= kSharedPerBlock;
    return fits ? cudaSuccess : cudaErrorInvalidConfiguration;
  });
}

}  // namespace jacserve::cuda_sim

using namespace jacserve::cuda_sim;

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  World& world = World::Get();
  const Lock lock(world.mutex);
  last_error = world.sticky;
  return error;
}

cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* const text = Text(error);
  return text == nullptr ? "unrecognized error code" : text->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* const text = Text(error);
  return text == nullptr ? "unrecognized error code" : text->text;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return Remember(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return Remember(cudaErrorInvalidValue);
  World& world = World::Get();
  const Lock lock(world.mutex);
  *version = world.options.driver ? CUDART_VERSION : 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return Remember(cudaErrorInvalidValue);
  World& world = World::Get();
  const Lock lock(world.mutex);
  *count = static_cast<int>(world.devices.size());
  if (!world.options.driver) return Remember(cudaErrorInsufficientDriver);
  return Remember(world.devices.empty() ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaSetDevice(int device) {
  return Call([&](World& world, Lock&) {
    if (Find(world, device) == nullptr) return cudaErrorInvalidDevice;
    SetCurrentDevice(device);
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return Call([&](World&, Lock&) {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = CurrentDevice();
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  return Call([&](World& world, Lock&) {
    const VisibleDevice* const found = Find(world, device);
    if (prop == nullptr) return cudaErrorInvalidValue;
    if (found == nullptr) return cudaErrorInvalidDevice;
    *prop = {};
    absl::SNPrintF(prop->name, sizeof prop->name, "%s", found->device.name);
    WriteUuid(UuidOf(found->device, found->place), prop->uuid);
    prop->totalGlobalMem = found->device.memory_bytes;
    prop->major = found->device.compute_major;
    prop->minor = found->device.compute_minor;
    prop->pciBusID = found->place + 1;
    prop->sharedMemPerBlock = kSharedPerBlock;
    prop->sharedMemPerBlockOptin = kSharedOptIn;
    prop->sharedMemPerMultiprocessor = 100 << 10;
    prop->regsPerBlock = prop->regsPerMultiprocessor = 65536;
    prop->warpSize = 32;
    prop->maxThreadsPerBlock = kThreadsPerBlock;
    prop->maxThreadsDim[0] = prop->maxThreadsDim[1] = kThreadsPerBlock;
    prop->maxThreadsDim[2] = 64;
    prop->maxGridSize[0] = 0x7fffffff;
    prop->maxGridSize[1] = prop->maxGridSize[2] = 65535;
    prop->maxThreadsPerMultiProcessor = 1536;
    prop->maxBlocksPerMultiProcessor = 16;
    prop->multiProcessorCount = kMultiprocessors;
    prop->l2CacheSize = 4 << 20;
    prop->asyncEngineCount = 2;
    prop->concurrentKernels = prop->unifiedAddressing = prop->canMapHostMemory = prop->memoryPoolsSupported = 1;
    prop->streamPrioritiesSupported = 1;
    prop->hostNumaId = -1;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp prop;
  if (const cudaError_t error = cudaGetDeviceProperties(&prop, device); error != cudaSuccess) return error;
  if (value == nullptr) return Remember(cudaErrorInvalidValue);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = prop.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(prop.sharedMemPerBlock);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(prop.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(prop.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = prop.multiProcessorCount;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = prop.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      *value = prop.maxBlocksPerMultiProcessor;
      break;
    case cudaDevAttrMaxGridDimX:
      *value = prop.maxGridSize[0];
      break;
    case cudaDevAttrMaxGridDimY:
      *value = prop.maxGridSize[1];
      break;
    case cudaDevAttrMaxGridDimZ:
      *value = prop.maxGridSize[2];
      break;
    case cudaDevAttrWarpSize:
      *value = prop.warpSize;
      break;
    case cudaDevAttrL2CacheSize:
      *value = prop.l2CacheSize;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = prop.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = prop.minor;
      break;
    case cudaDevAttrPciBusId:
      *value = prop.pciBusID;
      break;
    case cudaDevAttrPciDeviceId:
      *value = prop.pciDeviceID;
      break;
    case cudaDevAttrPciDomainId:
      *value = prop.pciDomainID;
      break;
    case cudaDevAttrUnifiedAddressing:
      *value = prop.unifiedAddressing;
      break;
    case cudaDevAttrMemoryPoolsSupported:
      *value = prop.memoryPoolsSupported;
      break;
    case cudaDevAttrAsyncEngineCount:
      *value = prop.asyncEngineCount;
      break;
    case cudaDevAttrHostNumaId:
      *value = prop.hostNumaId;
      break;
    default:
      return Remember(cudaErrorNotSupported);
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return Call([&](World& world, Lock&) {
    const VisibleDevice* const found = Find(world, device);
    if (text == nullptr || length < 13) return cudaErrorInvalidValue;
    if (found == nullptr) return cudaErrorInvalidDevice;
    std::snprintf(text, length, "0000:%02x:00.0", static_cast<unsigned char>(found->place + 1));
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return Call([&](World&, Lock&) {
    const bool fits = attribute != cudaFuncAttributeMaxDynamicSharedMemorySize ||
                      (value >= 0 && static_cast<size_t>(value) <= kSharedOptIn);
    return function != nullptr && fits ? cudaSuccess : cudaErrorInvalidValue;
  });
}
