#include "worker/backend/cuda/cuda_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/size_text.h"
#include "common/status.h"

namespace jacserve::worker::cuda {

absl::StatusOr<Buffer> CudaMemory::Allocate(int64_t bytes) const {
  void* memory = nullptr;
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  cudaError_t error = cudaMalloc(&memory, size);
  if (error == cudaErrorMemoryAllocation && contexts_->FreeIdle() > 0) error = cudaMalloc(&memory, size);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // not sticky: it is told here, and not again after the next launch
    size_t free = 0, total = 0;
    RETURN_IF_ERROR(ToStatus(cudaMemGetInfo(&free, &total), "asking for the GPU's free memory"));
    return absl::ResourceExhaustedError(absl::StrCat("the GPU has no ", SizeText(bytes),
                                                     " of memory left: ", SizeText(static_cast<int64_t>(free)), " of ",
                                                     SizeText(static_cast<int64_t>(total)), " are free"));
  }
  RETURN_IF_ERROR(ToStatus(error, "allocating memory"));
  return Buffer(memory, [](void* p) { cudaFree(p); });
}

absl::StatusOr<Buffer> CudaMemory::AllocateHost(int64_t bytes) const {
  void* memory = nullptr;
  const cudaError_t error = cudaMallocHost(&memory, static_cast<size_t>(std::max<int64_t>(bytes, 1)));
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return absl::ResourceExhaustedError(
        absl::StrCat("the host cannot lock ", SizeText(bytes), " of memory for the GPU"));
  }
  RETURN_IF_ERROR(ToStatus(error, "allocating host memory"));
  return Buffer(memory, [](void* p) { cudaFreeHost(p); });
}

absl::StatusOr<Buffer> CudaMemory::AllocateIndex(int64_t count) const {
  const auto bytes = count * static_cast<int64_t>(sizeof(int32_t));
  ASSIGN_OR_RETURN(Buffer host, AllocateHost(bytes));
  ASSIGN_OR_RETURN(Buffer device, Allocate(bytes));
  const auto* index = static_cast<const int32_t*>(host.get());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    twins_[index] = {count, static_cast<const int32_t*>(device.get())};
  }
  return Buffer(host.get(), [this, host, device](void* p) {
    const std::lock_guard<std::mutex> lock(mutex_);
    twins_.erase(static_cast<const int32_t*>(p));
  });
}

void CudaMemory::CopyIn(void* device, const void* host, int64_t bytes) const {
  if (bytes == 0 || failed()) return;
  Check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, ThreadContextPool::Current().stream()),
        "copying to the GPU");
}

void CudaMemory::CopyOut(void* host, const void* device, int64_t bytes) const {
  if (bytes == 0 || failed()) return;
  Check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, ThreadContextPool::Current().stream()),
        "copying from the GPU");
}

void CudaMemory::PublishIndex(const int32_t* index, int64_t count) const {
  CopyIn(const_cast<int32_t*>(DeviceIndex(index)), index, count * static_cast<int64_t>(sizeof(int32_t)));
}

absl::Status CudaMemory::Wait() const {
  Check(cudaStreamSynchronize(ThreadContextPool::Current().stream()), "computing");
  const std::lock_guard<std::mutex> lock(mutex_);
  return first_error_;
}

const int32_t* CudaMemory::DeviceIndex(const int32_t* index) const {
  if (index == nullptr) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto twin = twins_.lower_bound(index);  // the last one that begins at or before it
  JACSERVE_CHECK(twin != twins_.end() && index < twin->first + std::max<int64_t>(twin->second.count, 1));
  return twin->second.device + (index - twin->first);
}

void CudaMemory::Fail(const absl::Status& status) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  first_error_.Update(status);
  failed_ = true;
}

}  // namespace jacserve::worker::cuda
