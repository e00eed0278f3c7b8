// C = alpha op(A) op(B) + beta C in column order, over batches: checked as cuBLAS documents, then queued.
#include "tests/cuda_sim/blas/gemm.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda_sim/blas/handle.h"
#include "tests/cuda_sim/blas/product.h"

namespace jacserve::cuda_sim {
namespace {

bool Transposed(cublasOperation_t op) { return op != CUBLAS_OP_N; }
bool Known(cublasOperation_t op) { return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == CUBLAS_OP_C; }

// Rows and columns of a matrix as it is stored.
struct Stored {
  int64_t rows = 0, columns = 0;

  int64_t Elements(int64_t ld) const { return rows == 0 || columns == 0 ? 0 : (columns - 1) * ld + rows; }
};
Stored StoredA(const GemmCall& call) { return Transposed(call.op_a) ? Stored{call.k, call.m} : Stored{call.m, call.k}; }
Stored StoredB(const GemmCall& call) { return Transposed(call.op_b) ? Stored{call.n, call.k} : Stored{call.k, call.n}; }

bool ShapesAgree(const GemmCall& call) {
  return Known(call.op_a) && Known(call.op_b) && call.m >= 0 && call.n >= 0 && call.k >= 0 && call.batches >= 0 &&
         call.a.ld >= std::max<int64_t>(1, StoredA(call).rows) &&
         call.b.ld >= std::max<int64_t>(1, StoredB(call).rows) && call.c.ld >= std::max<int64_t>(1, call.m);
}

// Do two m x n matrices whose begins are `distance` >= 0 elements apart share a number?
bool Overlap(int64_t distance, int64_t m, int64_t n, int64_t ld) {
  const int64_t columns = distance / ld, rows = distance % ld;
  return (rows < m && columns < n) || (ld - rows < m && columns + 1 < n);
}

bool StridedBatchesOverlap(const GemmCall& call) {
  for (int64_t i = 1; i < call.batches; ++i) {
    if (Overlap(i * std::abs(call.c.stride), call.m, call.n, call.c.ld)) return true;
  }
  return false;
}

bool ArrayBatchesOverlap(const GemmCall& call) {
  std::vector<const char*> begins(call.batches);
  std::transform(call.c.array, call.c.array + call.batches, begins.begin(),
                 [](const void* p) { return static_cast<const char*>(p); });
  std::sort(begins.begin(), begins.end());
  const int64_t size = SizeOf(call.type);
  const int64_t footprint = Stored{call.m, call.n}.Elements(call.c.ld) * size;
  for (size_t i = 0; i < begins.size(); ++i) {
    for (size_t j = i + 1; j < begins.size() && begins[j] < begins[i] + footprint; ++j) {
      const int64_t distance = begins[j] - begins[i];
      if (distance % size != 0 || Overlap(distance / size, call.m, call.n, call.c.ld)) return true;
    }
  }
  return false;
}

// A strided operand: begins at the lowest of its matrices.
Range StridedRange(const GemmCall& call, const GemmOperand& x, Stored stored) {
  const int64_t size = SizeOf(call.type);
  const int64_t reach = (call.batches - 1) * x.stride;
  return {static_cast<const char*>(x.data) + std::min<int64_t>(0, reach) * size,
          (std::abs(reach) + stored.Elements(x.ld)) * size};
}

bool CheckOperand(World& world, int device, const GemmCall& call, const char* name, const GemmOperand& x,
                  Stored stored) {
  const std::string what = std::string("matrix ") + name + " of a product";
  if (call.pointers) {
    return world.CheckDevice(device, "the pointer array of " + what, x.array, call.batches * sizeof(void*));
  }
  if (reinterpret_cast<uintptr_t>(x.data) % SizeOf(call.type) != 0) {
    world.Misuse(what + " is not aligned to its numbers");
    return false;
  }
  const Range range = StridedRange(call, x, stored);
  return world.CheckDevice(device, what, range.begin, range.bytes);
}

// When the product runs, the pointers are there.
bool CheckArrays(const GemmCall& call, int device) {
  World& world = World::Get();
  const Lock lock(world.mutex);
  const auto check = [&](const char* name, const GemmOperand& x, Stored stored) {
    const int64_t bytes = stored.Elements(x.ld) * SizeOf(call.type);
    return std::all_of(x.array, x.array + call.batches, [&](const void* p) {
      return world.CheckDevice(device, std::string("matrix ") + name + " of a batched product", p, bytes);
    });
  };
  bool good =
      check("A", call.a, StoredA(call)) && check("B", call.b, StoredB(call)) && check("C", call.c, {call.m, call.n});
  if (good && ArrayBatchesOverlap(call)) {
    world.Misuse("matrices C of a batched product overlap");
    good = false;
  }
  if (!good) world.sticky = cudaErrorIllegalAddress;
  return good;
}

double Scalar(const GemmCall& call, const void* pointer) {
  return call.type == CUDA_R_64F ? *static_cast<const double*>(pointer) : *static_cast<const float*>(pointer);
}

void Run(const GemmCall& call, Product product, bool read_scalars, int device) {
  if (call.pointers && !CheckArrays(call, device)) return;
  if (read_scalars) {
    product.alpha = Scalar(call, call.alpha);
    product.beta = Scalar(call, call.beta);
  }
  const auto at = [&](const GemmOperand& x, int64_t batch) -> const void* {
    return call.pointers ? x.array[batch] : static_cast<const char*>(x.data) + batch * x.stride * SizeOf(call.type);
  };
  for (int64_t batch = 0; batch < call.batches; ++batch) {
    Multiply(product, at(call.a, batch), at(call.b, batch), const_cast<void*>(at(call.c, batch)));
  }
}

bool AllGiven(const GemmCall& call) {
  const auto given = [&](const GemmOperand& x) { return call.pointers ? x.array != nullptr : x.data != nullptr; };
  return (given(call.a) && given(call.b)) || call.k == 0 ? given(call.c) : false;
}

bool CheckMemory(World& world, const GemmCall& call, cublasHandle_t handle) {
  const int device = handle->device;
  const bool on_host = handle->pointer_mode == CUBLAS_POINTER_MODE_HOST;
  for (const void* pointer : {call.alpha, call.beta}) {
    const std::string what = "alpha or beta of a product";
    if (!(on_host ? world.CheckHost(what, pointer) : world.CheckDevice(device, what, pointer, SizeOf(call.type))))
      return false;
  }
  if (call.k > 0 && !(CheckOperand(world, device, call, "A", call.a, StoredA(call)) &&
                      CheckOperand(world, device, call, "B", call.b, StoredB(call)))) {
    return false;
  }
  if (!CheckOperand(world, device, call, "C", call.c, {call.m, call.n})) return false;
  if (!call.pointers && StridedBatchesOverlap(call)) {
    world.Misuse("matrices C of a strided batched product overlap");
    return false;
  }
  return true;
}

}  // namespace

cublasStatus_t Gemm(World& world, Lock& lock, cublasHandle_t handle, const GemmCall& call) {
  if (!ShapesAgree(call)) return CUBLAS_STATUS_INVALID_VALUE;
  if (call.m == 0 || call.n == 0 || call.batches == 0) return CUBLAS_STATUS_SUCCESS;
  if (call.alpha == nullptr || call.beta == nullptr || !AllGiven(call)) return CUBLAS_STATUS_INVALID_VALUE;
  const StreamPtr stream = world.FindStream(handle->stream);
  if (!stream || !CheckMemory(world, call, handle)) return CUBLAS_STATUS_EXECUTION_FAILED;

  Product product = {.transpose_a = Transposed(call.op_a), .transpose_b = Transposed(call.op_b)};
  std::tie(product.m, product.n, product.k) = std::tie(call.m, call.n, call.k);
  std::tie(product.lda, product.ldb, product.ldc) = std::tie(call.a.ld, call.b.ld, call.c.ld);
  product.type = call.type;
  product.tf32 = call.type == CUDA_R_32F && (handle->math & 0xf) == CUBLAS_TF32_TENSOR_OP_MATH;
  if (product.tf32) ++world.counters.tf32_products;
  const bool on_host = handle->pointer_mode == CUBLAS_POINTER_MODE_HOST;
  if (on_host) {
    product.alpha = Scalar(call, call.alpha);
    product.beta = Scalar(call, call.beta);
  }
  Task task;
  task.run = [=, device = handle->device] { Run(call, product, !on_host, device); };
  for (const auto& [x, stored] :
       {std::pair(call.a, StoredA(call)), {call.b, StoredB(call)}, {call.c, Stored{call.m, call.n}}}) {
    task.ranges.push_back(call.pointers ? Range{x.array, static_cast<int64_t>(call.batches * sizeof(void*))}
                                        : StridedRange(call, x, stored));
  }
  world.EnqueueLaunch(stream, std::move(task), lock);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace jacserve::cuda_sim
