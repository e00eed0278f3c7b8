#include "worker/backend/cuda/products.h"

#include <algorithm>
#include <climits>

#include "absl/strings/str_cat.h"
#include "worker/backend/cuda/kernels.h"

namespace jacserve::worker::cuda {
namespace {

constexpr const char* kDoing = "a batch of products";
const Shape kOne = {1}, kNone = {};

// What is row-major here is column-major and transposed there: C^T = op(B)^T op(A)^T.
struct ColumnMajor {
  cublasOperation_t op_b, op_a;
  int m, n, k, ldb, lda, ldc;

  explicit ColumnMajor(const GemmShape& s)
      : op_b(s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N),
        op_a(s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N),
        m(static_cast<int>(s.n)),
        n(static_cast<int>(s.m)),
        k(static_cast<int>(s.k)),
        ldb(static_cast<int>(s.ldb)),
        lda(static_cast<int>(s.lda)),
        ldc(static_cast<int>(s.ldc)) {}
};

cublasStatus_t Strided(cublasHandle_t handle, const ColumnMajor& s, float alpha, float beta, const float* a,
                       int64_t a_stride, const float* b, int64_t b_stride, float* c, int64_t c_stride, int count) {
  return cublasSgemmStridedBatched(handle, s.op_b, s.op_a, s.m, s.n, s.k, &alpha, b, s.ldb, b_stride, a, s.lda,
                                   a_stride, &beta, c, s.ldc, c_stride, count);
}
cublasStatus_t Strided(cublasHandle_t handle, const ColumnMajor& s, double alpha, double beta, const double* a,
                       int64_t a_stride, const double* b, int64_t b_stride, double* c, int64_t c_stride, int count) {
  return cublasDgemmStridedBatched(handle, s.op_b, s.op_a, s.m, s.n, s.k, &alpha, b, s.ldb, b_stride, a, s.lda,
                                   a_stride, &beta, c, s.ldc, c_stride, count);
}
cublasStatus_t Pointed(cublasHandle_t handle, const ColumnMajor& s, float alpha, float beta, const float* const* a,
                       const float* const* b, float* const* c, int count) {
  return cublasSgemmBatched(handle, s.op_b, s.op_a, s.m, s.n, s.k, &alpha, b, s.ldb, a, s.lda, &beta, c, s.ldc, count);
}
cublasStatus_t Pointed(cublasHandle_t handle, const ColumnMajor& s, double alpha, double beta, const double* const* a,
                       const double* const* b, double* const* c, int count) {
  return cublasDgemmBatched(handle, s.op_b, s.op_a, s.m, s.n, s.k, &alpha, b, s.ldb, a, s.lda, &beta, c, s.ldc, count);
}

template <class T>
GroupedOperand<T> From(GroupedOperand<T> operand, int64_t lane, int64_t group) {
  operand.lanes.first += lane * operand.lanes.step;
  if (group > 0) operand.lanes.data += group * operand.group;
  return operand;
}

// One batch by pointers; lanes * groups <= kBatch.
template <class T>
void MultiplyPointed(const CudaMemory& memory, const GemmShape& shape, int64_t lanes, int64_t groups,
                     const GroupedOperand<const T>& a, const GroupedOperand<const T>& b, const GroupedOperand<T>& c) {
  const ThreadContext& context = ThreadContextPool::Current();
  const auto pointers = [&](int which, const Operand<const T>& lanes_of, int64_t group) {
    auto** to = reinterpret_cast<const T**>(context.pointers(which));
    memory.Check(Pointers<T>(context.stream(), lanes, groups, group, lanes_of, to), kDoing);
    return to;
  };
  const T** pa = pointers(0, a.lanes, a.group);
  const T** pb = pointers(1, b.lanes, b.group);
  const T** pc = pointers(2, {c.lanes.data, c.lanes.stride, c.lanes.index, c.lanes.step, c.lanes.first}, c.group);
  memory.Check(Pointed(context.products(), ColumnMajor(shape), static_cast<T>(shape.alpha), static_cast<T>(shape.beta),
                       pa, pb, const_cast<T* const*>(pc), static_cast<int>(lanes * groups)),
               kDoing);
}

// A sum of nothing.
template <class T>
void ScaleOnly(const CudaMemory& memory, const GemmShape& s, int64_t lanes, int64_t groups,
               const GroupedOperand<T>& c) {
  if (s.beta == 1.0) return;
  const cudaStream_t stream = ThreadContextPool::Current().stream();
  for (int64_t group = 0; group < groups; ++group) {
    for (int64_t row = 0; row < s.m; ++row) {
      Operand<T> to = c.lanes;
      to.data += group * c.group + row * s.ldc;
      const Axes<2> one({s.n}, {&kOne, &kOne}), none({}, {&kNone, &kNone});
      const Operand<const T> from{to.data, to.stride, to.index, to.step, to.first};
      memory.Check(s.beta == 0.0 ? Fill<T>(stream, lanes, s.n, T(0), to)
                                 : CopyStrided<T>(stream, lanes, one, none, from, to, false, static_cast<T>(s.beta)),
                   kDoing);
    }
  }
}

}  // namespace

template <class T>
void Multiply(const CudaMemory& memory, const GemmShape& shape, int64_t lanes, int64_t groups,
              GroupedOperand<const T> a, GroupedOperand<const T> b, GroupedOperand<T> c) {
  if (memory.failed() || shape.m == 0 || shape.n == 0 || lanes == 0 || groups == 0) return;
  if (shape.k == 0) return ScaleOnly(memory, shape, lanes, groups, c);
  const int64_t largest = std::max({shape.m, shape.n, shape.k, shape.lda, shape.ldb, shape.ldc, lanes});
  if (largest > INT_MAX) {
    return memory.Fail(absl::UnimplementedError(
        absl::StrCat("a product with a side of ", largest, " is too large for cuBLAS; the most is ", INT_MAX)));
  }
  const auto plain = [](const auto& operand) { return operand.index == nullptr && operand.step == 1; };
  if (groups == 1 && plain(a.lanes) && plain(b.lanes) && plain(c.lanes)) {
    memory.Check(Strided(ThreadContextPool::Current().products(), ColumnMajor(shape), static_cast<T>(shape.alpha),
                         static_cast<T>(shape.beta), a.lanes.data + a.lanes.first * a.lanes.stride, a.lanes.stride,
                         b.lanes.data + b.lanes.first * b.lanes.stride, b.lanes.stride,
                         c.lanes.data + c.lanes.first * c.lanes.stride, c.lanes.stride, static_cast<int>(lanes)),
                 kDoing);
    return;
  }
  const int64_t group_step = std::min(groups, kBatch), lane_step = std::max<int64_t>(kBatch / groups, 1);
  for (int64_t lane = 0; lane < lanes; lane += lane_step) {
    for (int64_t group = 0; group < groups; group += group_step) {
      MultiplyPointed(memory, shape, std::min(lane_step, lanes - lane), std::min(group_step, groups - group),
                      From(a, lane, group), From(b, lane, group), From(c, lane, group));
    }
  }
}

template void Multiply<float>(const CudaMemory&, const GemmShape&, int64_t, int64_t, GroupedOperand<const float>,
                              GroupedOperand<const float>, GroupedOperand<float>);
template void Multiply<double>(const CudaMemory&, const GemmShape&, int64_t, int64_t, GroupedOperand<const double>,
                               GroupedOperand<const double>, GroupedOperand<double>);

}  // namespace jacserve::worker::cuda
