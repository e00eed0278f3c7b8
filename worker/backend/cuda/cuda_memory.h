// Memory of the GPU, and the first error of a backend.
// Index arrays are twins: the host's one is read by operators, the device's one by kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "worker/backend/cuda/cuda_status.h"
#include "worker/backend/cuda/thread_context.h"
#include "worker/backend/memory.h"

namespace jacserve::worker::cuda {

class CudaMemory : public Memory {
 public:
  explicit CudaMemory(std::shared_ptr<ThreadContextPool> contexts) : contexts_(std::move(contexts)) {}

  bool on_host() const override { return false; }
  absl::StatusOr<Buffer> Allocate(int64_t bytes) const override;
  absl::StatusOr<Buffer> AllocateHost(int64_t bytes) const override;
  absl::StatusOr<Buffer> AllocateIndex(int64_t count) const override;
  void CopyIn(void* device, const void* host, int64_t bytes) const override;
  void CopyOut(void* host, const void* device, int64_t bytes) const override;
  void PublishIndex(const int32_t* index, int64_t count) const override;
  absl::Status Wait() const override;

  // The device's twin of a host index; null for null.
  const int32_t* DeviceIndex(const int32_t* index) const;

  // After an error nothing more is started.
  bool failed() const { return failed_; }
  // Keeps the first error.
  template <class Error>
  void Check(Error error, absl::string_view doing) const {
    if (error != Error{}) Fail(ToStatus(error, doing));  // success is 0 everywhere
  }
  void Fail(const absl::Status& status) const;

 private:
  struct Twin {
    int64_t count;
    const int32_t* device;
  };
  const std::shared_ptr<ThreadContextPool> contexts_;
  mutable std::mutex mutex_;
  mutable std::map<const int32_t*, Twin, std::greater<>> twins_;  // by the host's address
  mutable absl::Status first_error_;
  mutable std::atomic<bool> failed_ = false;
};

}  // namespace jacserve::worker::cuda
