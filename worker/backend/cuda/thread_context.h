// What a thread needs to compute on the GPU: a stream, cuBLAS, and memory for libraries. Contexts are made once and
// lent to threads; two threads never share one, so that their work overlaps and cuBLAS repeats its bits.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"

namespace jacserve::worker::cuda {

constexpr int64_t kBatch = 4096;              // products of a batch that are given by pointers
constexpr int64_t kTurns = int64_t{1} << 20;  // numbers of ScatterAdd's turns

// Workspace that cuBLAS recommends for a kind of GPU.
constexpr int64_t ProductBytes(int compute_major) { return int64_t{compute_major >= 9 ? 32 : 4} << 20; }

class ThreadContext {
 public:
  // Bytes of device memory that a context holds, product_bytes of them for cuBLAS.
  static constexpr int64_t Bytes(int64_t product_bytes) { return product_bytes + kTurns * 4 + 3 * kBatch * 8; }

  // ResourceExhausted: the device has no room for it. DeviceLost: it failed.
  static absl::StatusOr<std::unique_ptr<ThreadContext>> Make(int64_t product_bytes);
  ~ThreadContext();

  cudaStream_t stream() const { return stream_; }
  cublasHandle_t products() const { return products_; }
  const void** pointers(int operand) const { return reinterpret_cast<const void**>(memory_) + operand * kBatch; }
  int32_t* turns() const { return reinterpret_cast<int32_t*>(pointers(3)); }

 private:
  ThreadContext() = default;

  cudaStream_t stream_ = nullptr;
  cublasHandle_t products_ = nullptr;
  void* memory_ = nullptr;
};

class ThreadContextPool : public std::enable_shared_from_this<ThreadContextPool> {
 public:
  explicit ThreadContextPool(int64_t product_bytes) : product_bytes_(product_bytes) {}

  int64_t context_bytes() const { return ThreadContext::Bytes(product_bytes_); }
  // A context for this thread while what it gives lives; before others get it, all that was asked of it is done.
  absl::StatusOr<std::shared_ptr<void>> Enter();
  // Frees contexts that no thread has; the number of them.
  size_t FreeIdle();

  // Of this thread, which must have entered.
  static const ThreadContext& Current();

 private:
  class Lease;
  const int64_t product_bytes_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ThreadContext>> idle_;
};

}  // namespace jacserve::worker::cuda
