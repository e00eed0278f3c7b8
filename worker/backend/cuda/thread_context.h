// What a thread needs to compute on the GPU: a stream, cuBLAS, and memory for libraries. Contexts are made once and
// lent to threads; two threads never share one, so that their work overlaps and cuBLAS repeats its bits.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <algorithm>
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

// How a backend's contexts multiply.
struct ProductOptions {
  int64_t workspace_bytes = 0;
  bool tf32 = false;  // factors of float32 products are rounded to TF32
};

class ThreadContext {
 public:
  // Bytes of device memory that a context allocates, with cuBLAS's workspace.
  static constexpr int64_t Bytes(const ProductOptions& products) {
    return products.workspace_bytes + kTurns * 4 + 3 * kBatch * 8;
  }
  // With the pool that cuBLAS makes for every handle, whether it gets a workspace or not: 2 x 4 MiB and 8 x 16 KiB,
  // from compute capability 9.0 on 32 MiB.
  static constexpr int64_t BytesWithPool(const ProductOptions& products) {
    return Bytes(products) + std::max(products.workspace_bytes, (int64_t{8} << 20) + (int64_t{128} << 10));
  }

  // ResourceExhausted: the device has no room for it. DeviceLost: it failed.
  static absl::StatusOr<std::unique_ptr<ThreadContext>> Make(const ProductOptions& options);
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
  explicit ThreadContextPool(const ProductOptions& products) : products_(products) {}

  int64_t context_bytes() const { return ThreadContext::BytesWithPool(products_); }
  // A context for this thread while what it gives lives; before others get it, all that was asked of it is done.
  absl::StatusOr<std::shared_ptr<void>> Enter();
  // Frees contexts that no thread has; the number of them.
  size_t FreeIdle();

  // Of this thread, which must have entered.
  static const ThreadContext& Current();

 private:
  class Lease;
  const ProductOptions products_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ThreadContext>> idle_;
};

}  // namespace jacserve::worker::cuda
