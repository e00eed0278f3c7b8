// Primitives -> kernels and batches of products, in the stream of the thread that calls. Nothing waits here; the first
// error is kept and told by Memory::Wait.
// Convolutions go through patches, columns and cuBLAS, softmax and pooling through own kernels; docs/gpu.md says why
// not through cuDNN.
#include "worker/backend/cuda/cuda_backend.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/status.h"
#include "worker/backend/cuda/cuda_memory.h"
#include "worker/backend/cuda/kernels.h"
#include "worker/backend/cuda/products.h"

namespace jacserve::worker {
namespace {

using cuda::Axes;
using cuda::Operand;

// Columns of a convolution's data pullback that are made at a time.
constexpr int64_t kColumnElements = int64_t{4} << 20;

// Finished rows that are made before somebody waits for them. A GPU writes some TB/s: 16 MiB are gone in the time that
// starting and waiting for the kernels takes, 64 and a little for small blocks beside a large one are worth it.
constexpr int64_t kPieceBytes = int64_t{66} << 20;

// The axes of a shape, those along which the result has no extent apart: with accumulate they are summed, else their
// last number is the one that stays.
template <int N>
struct SplitAxes {
  Axes<N> kept, summed;
  std::array<int64_t, N> last{};  // where that number is, by operand

  SplitAxes(const Shape& shape, const std::array<const Shape*, N>& strides, bool accumulate) {
    Shape sizes[2];
    std::array<Shape, N> steps[2];
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const bool apart = (*strides[N - 1])[axis] == 0 && shape[axis] > 1;
      if (apart && !accumulate) {
        for (int v = 0; v < N; ++v) last[v] += (shape[axis] - 1) * (*strides[v])[axis];
        continue;
      }
      sizes[apart].push_back(shape[axis]);
      for (int v = 0; v < N; ++v) steps[apart][v].push_back((*strides[v])[axis]);
    }
    kept = Make(sizes[0], steps[0], std::make_index_sequence<N>());
    summed = Make(sizes[1], steps[1], std::make_index_sequence<N>());
  }

 private:
  template <size_t... V>
  static Axes<N> Make(const Shape& sizes, const std::array<Shape, N>& steps, std::index_sequence<V...>) {
    return Axes<N>(sizes, {&steps[V]...});
  }
};

template <class T>
class CudaBackend : public Backend {
 public:
  CudaBackend(const CudaDevice& device, bool tf32)
      : contexts_(std::make_shared<cuda::ThreadContextPool>(
            cuda::ProductOptions{.workspace_bytes = cuda::ProductBytes(device.compute_major), .tf32 = tf32})) {}

  std::string_view name() const override { return "cuda"; }
  DType dtype() const override { return sizeof(T) == 4 ? DType::kFloat32 : DType::kFloat64; }
  const Memory& memory() const override { return memory_; }
  TileLimits tile_limits() const override {
    return {.bytes = int64_t{32} << 20, .lanes = 512, .piece_bytes = kPieceBytes};
  }
  int64_t library_bytes() const override { return contexts_->context_bytes(); }
  absl::StatusOr<std::shared_ptr<void>> EnterThread() const override { return contexts_->Enter(); }

  void Unary(UnaryFunction f, UnaryParams params, int64_t lanes, int64_t n, ConstLanes x, Lanes y) const override {
    Run([&](cudaStream_t s) {
      return cuda::Unary<T>(s, f, static_cast<T>(params.alpha), static_cast<T>(params.beta), lanes, n, In(x), Out(y));
    });
  }
  void UnaryPullback(UnaryFunction f, UnaryParams params, int64_t lanes, int64_t n, ConstLanes x, ConstLanes y,
                     ConstLanes ct_y, Lanes ct_x) const override {
    Run([&](cudaStream_t s) {  // what the derivative does not read is not kept
      return cuda::UnaryPullback<T>(s, f, static_cast<T>(params.alpha), static_cast<T>(params.beta), lanes, n,
                                    In(x.data ? x : ct_y), In(y.data ? y : ct_y), In(ct_y), Out(ct_x));
    });
  }

  void Binary(BinaryFunction f, int64_t lanes, const Shape& shape, ConstLanes a, const Shape& a_strides, ConstLanes b,
              const Shape& b_strides, Lanes out) const override {
    const Shape out_strides = RowMajorStrides(shape);
    const Axes<3> axes(shape, {&a_strides, &b_strides, &out_strides});
    Run([&](cudaStream_t s) { return cuda::Binary<T>(s, f, lanes, axes, In(a), In(b), Out(out)); });
  }
  void BinaryTerm(BinaryFunction f, int side, int64_t lanes, const Shape& shape, const BinaryOperands& at, ConstLanes v,
                  const Shape& v_strides, Lanes out, const Shape& out_strides, bool accumulate) const override {
    const int bits = DerivativeReads(f, side);
    const Shape y_strides = RowMajorStrides(shape), none(shape.size(), 0);
    const SplitAxes<5> axes(shape,
                            {bits & kReadsA ? &at.a_strides : &none, bits & kReadsB ? &at.b_strides : &none,
                             bits & kReadsY ? &y_strides : &none, &v_strides, &out_strides},
                            accumulate);
    const auto read = [&](int bit, const ConstLanes& operand, int place) {
      return Moved(In(bits & bit ? operand : v), bits & bit ? axes.last[place] : 0);
    };
    Run([&](cudaStream_t s) {
      return cuda::BinaryTerm<T>(s, f, side, lanes, axes.kept, axes.summed, read(kReadsA, at.a, 0),
                                 read(kReadsB, at.b, 1), read(kReadsY, at.y, 2), Moved(In(v), axes.last[3]),
                                 Moved(Out(out), axes.last[4]), accumulate);
    });
  }
  void Select(int64_t lanes, const Shape& shape, ConstLanes c, const Shape& c_strides, ConstLanes a,
              const Shape& a_strides, ConstLanes b, const Shape& b_strides, Lanes out) const override {
    const Shape out_strides = RowMajorStrides(shape);
    const Axes<4> axes(shape, {&c_strides, &a_strides, &b_strides, &out_strides});
    Run([&](cudaStream_t s) { return cuda::Select<T>(s, lanes, axes, In(c), In(a), In(b), Out(out)); });
  }

  void CopyStrided(int64_t lanes, const Shape& shape, ConstLanes src, const Shape& src_strides, Lanes dst,
                   const Shape& dst_strides, bool accumulate, double scale) const override {
    CopyOperands(lanes, shape, In(src), src_strides, Out(dst), dst_strides, accumulate, scale);
  }
  void Fill(int64_t lanes, int64_t n, double value, Lanes x) const override {
    Run([&](cudaStream_t s) { return cuda::Fill<T>(s, lanes, n, static_cast<T>(value), Out(x)); });
  }
  void SumTerms(Terms terms, ConstLanes src, const RowSink& sink) const override {
    const Shape src_strides = RowMajorStrides(sink.shape);
    for (int64_t t = 0; t < terms.per_row; ++t) {
      Operand<const T> term = In(src);
      term.step = terms.per_row;
      term.first = t;
      CopyOperands(terms.rows, sink.shape, term, src_strides, Out({sink.data, sink.row_stride}), sink.strides,
                   sink.accumulate || t > 0, 1.0);
    }
  }

  void Gemm(const GemmShape& shape, int64_t lanes, ConstLanes a, ConstLanes b, Lanes c) const override {
    cuda::Multiply<T>(memory_, shape, lanes, 1, {In(a)}, {In(b)}, {Out(c)});
  }
  void OuterRows(Terms terms, int64_t m, int64_t n, ConstLanes a, ConstLanes b, Lanes rows,
                 bool accumulate) const override {
    Run([&](cudaStream_t s) { return cuda::OuterRows<T>(s, terms, m, n, In(a), In(b), Out(rows), accumulate); });
  }

  void Patches(const WindowGeometry& g, int64_t lanes, ConstLanes x, Lanes patches) const override {
    Run([&](cudaStream_t s) { return cuda::Patches<T>(s, g, lanes, In(x), Out(patches)); });
  }
  void ConvForward(const WindowGeometry& g, int64_t lanes, ConstLanes patches, ConstLanes w, Lanes y) const override {
    const int64_t outputs = g.out_channels / g.groups, l = g.L();
    const GemmShape product{.m = outputs, .n = l, .k = g.K(), .lda = g.K(), .ldb = l, .ldc = l};
    cuda::Multiply<T>(memory_, product, lanes, g.groups, {In(w), outputs * g.K()}, {In(patches), g.K() * l},
                      {Out(y), outputs * l});
  }
  // columns [i, k, L] = W^T ct_y, then each input position gathers the columns that meet it. As many lanes at a time as
  // the geometry says.
  void ConvDataPullback(const WindowGeometry& g, int64_t lanes, ConstLanes ct_y, ConstLanes w, Lanes ct_x,
                        Scratch& scratch) const override {
    const int64_t outputs = g.out_channels / g.groups, k = g.K(), l = g.L();
    const GemmShape product{.transpose_a = true, .m = k, .n = l, .k = outputs, .lda = k, .ldb = l, .ldc = l};
    if (IsPointwise(g)) {
      cuda::Multiply<T>(memory_, product, lanes, g.groups, {In(w), outputs * k}, {In(ct_y), outputs * l},
                        {Out(ct_x), k * l});
      return;
    }
    const Scratch::Frame frame(scratch);
    const int64_t together = ColumnLanes(g);
    const Operand<T> columns{static_cast<T*>(scratch.Take(together * g.PatchSize() * sizeof(T))), g.PatchSize()};
    for (int64_t lane = 0; lane < lanes; lane += together) {
      const int64_t count = std::min(together, lanes - lane);
      cuda::Multiply<T>(memory_, product, count, g.groups, {FromLane(In(w), lane), outputs * k},
                        {FromLane(In(ct_y), lane), outputs * l}, {columns, k * l});
      Run([&](cudaStream_t s) {
        return cuda::FoldColumns<T>(s, g, count, {columns.data, columns.stride}, FromLane(Out(ct_x), lane));
      });
    }
  }
  int64_t ConvScratchElements(const WindowGeometry& g) const override {
    return IsPointwise(g) ? 0 : ColumnLanes(g) * g.PatchSize() + 64;
  }
  void ConvWeightRows(const WindowGeometry& g, Terms terms, ConstLanes ct_y, ConstLanes patches, Lanes rows,
                      bool accumulate) const override {
    const int64_t outputs = g.out_channels / g.groups, k = g.K(), l = g.L();
    GemmShape product{.transpose_b = true, .m = outputs, .n = k, .k = l, .lda = l, .ldb = l, .ldc = k};
    if (g.kernel_major) std::swap(product.m, product.n);
    if (g.kernel_major) product.ldc = g.out_channels;
    for (int64_t t = 0; t < terms.per_row; ++t) {
      cuda::GroupedOperand<const T> a{In(ct_y), outputs * l}, b{In(patches), k * l};
      for (auto* operand : {&a, &b}) {
        operand->lanes.step = terms.per_row;
        operand->lanes.first = t;
      }
      if (g.kernel_major) std::swap(a, b);
      product.beta = accumulate || t > 0 ? 1.0 : 0.0;
      cuda::Multiply<T>(memory_, product, terms.rows, g.groups, a, b, {Out(rows), outputs * (g.kernel_major ? 1 : k)});
    }
  }

  void MaxPool(const WindowGeometry& g, int64_t lanes, ConstLanes x, Lanes y, Lanes arg) const override {
    Run([&](cudaStream_t s) { return cuda::MaxPool<T>(s, g, lanes, In(x), Out(y), Out<int32_t>(arg)); });
  }
  void ScatterAdd(int64_t lanes, int64_t n_out, int64_t n_in, ConstLanes arg, ConstLanes ct_y,
                  Lanes ct_x) const override {
    Run([&](cudaStream_t s) {
      const int64_t turn_lanes = cuda::kTurns / std::max<int64_t>(2 * n_in, 1);
      return cuda::ScatterAdd<T>(s, lanes, n_out, n_in, In<int32_t>(arg), In(ct_y), Out(ct_x),
                                 cuda::ThreadContextPool::Current().turns(), turn_lanes);
    });
  }
  void TakeAt(int64_t lanes, int64_t n_out, ConstLanes arg, ConstLanes x, Lanes y) const override {
    Run([&](cudaStream_t s) { return cuda::TakeAt<T>(s, lanes, n_out, In<int32_t>(arg), In(x), Out(y)); });
  }
  void TopK(const TopKShape& shape, int64_t lanes, ConstLanes x, Lanes values, Lanes indices,
            Lanes arg) const override {
    Run([&](cudaStream_t s) {
      return cuda::TopK<T>(s, shape, lanes, In(x), Out(values), Out(indices), Out<int32_t>(arg));
    });
  }
  void Scan(bool product, bool exclusive, bool reverse, int64_t lanes, int64_t outer, int64_t n, int64_t inner,
            ConstLanes x, Lanes y) const override {
    Run([&](cudaStream_t s) {
      return cuda::Scan<T>(s, product, exclusive, reverse, lanes, outer, n, inner, In(x), Out(y));
    });
  }
  void TakeIndexed(const IndexGeometry& g, int64_t lanes, ConstLanes x, ConstLanes index, double outside,
                   Lanes y) const override {
    Run([&](cudaStream_t s) {
      return cuda::TakeIndexed<T>(s, g, lanes, In(x), In(index), static_cast<T>(outside), Out(y));
    });
  }
  void PutIndexed(const IndexGeometry& g, int64_t lanes, ConstLanes index, ConstLanes values, bool accumulate,
                  int64_t poison, Lanes x) const override {
    Run([&](cudaStream_t s) {
      return cuda::PutIndexed<T>(s, g, lanes, In(index), In(values), accumulate, poison, Out(x));
    });
  }
  void AveragePool(const WindowGeometry& g, bool count_pads, int64_t lanes, ConstLanes x, Lanes y) const override {
    Run([&](cudaStream_t s) { return cuda::AveragePool<T>(s, g, count_pads, lanes, In(x), Out(y)); });
  }
  void AveragePoolPullback(const WindowGeometry& g, bool count_pads, int64_t lanes, ConstLanes ct_y,
                           Lanes ct_x) const override {
    Run([&](cudaStream_t s) { return cuda::AveragePoolPullback<T>(s, g, count_pads, lanes, In(ct_y), Out(ct_x)); });
  }

  void Affine(const Channels& c, int64_t lanes, ConstLanes x, ConstLanes gain, ConstLanes bias,
              Lanes y) const override {
    Run([&](cudaStream_t s) { return cuda::Affine<T>(s, c, lanes, In(x), In(gain), In(bias), Out(y)); });
  }
  void ChannelRows(const Channels& c, Terms terms, ConstLanes a, ConstLanes b, Lanes rows,
                   bool accumulate) const override {
    Run([&](cudaStream_t s) { return cuda::ChannelRows<T>(s, c, terms, In(a), In(b), Out(rows), accumulate); });
  }
  void Normalize(const NormGroups& g, int64_t lanes, ConstLanes x, Lanes normal, Lanes rstd,
                 Lanes mean) const override {
    Run([&](cudaStream_t s) { return cuda::Normalize<T>(s, g, lanes, In(x), Out(normal), Out(rstd), Out(mean)); });
  }
  void NormalizePullback(const NormGroups& g, const Channels& c, int64_t lanes, ConstLanes normal, ConstLanes rstd,
                         ConstLanes gain, ConstLanes ct_y, Lanes ct_x) const override {
    Run([&](cudaStream_t s) {
      return cuda::NormalizePullback<T>(s, g, c, lanes, In(normal), In(rstd), In(gain), In(ct_y), Out(ct_x));
    });
  }
  void Softmax(bool log, int64_t lanes, int64_t outer, int64_t n, int64_t inner, ConstLanes x, Lanes y) const override {
    Run([&](cudaStream_t s) { return cuda::Softmax<T>(s, log, lanes, outer, n, inner, In(x), Out(y)); });
  }
  void SoftmaxPullback(bool log, int64_t lanes, int64_t outer, int64_t n, int64_t inner, ConstLanes y, ConstLanes ct_y,
                       Lanes ct_x) const override {
    Run([&](cudaStream_t s) {
      return cuda::SoftmaxPullback<T>(s, log, lanes, outer, n, inner, In(y), In(ct_y), Out(ct_x));
    });
  }
  void RoundToHalf(HalfFormat format, int64_t lanes, int64_t n, Lanes x, HalfLoss* loss) const override {
    JACSERVE_CHECK(dtype() == DType::kFloat32);
    Run([&](cudaStream_t s) { return cuda::RoundToHalf(s, format, lanes, n, Out<float>(x), loss); });
  }

 private:
  // After an error nothing is started: it would run on numbers that were never made.
  template <class Start>
  void Run(Start start) const {
    if (!memory_.failed()) memory_.Check(start(cuda::ThreadContextPool::Current().stream()), "computing");
  }

  template <class N = T>
  Operand<const N> In(const ConstLanes& lanes) const {
    return {static_cast<const N*>(lanes.data), lanes.stride, memory_.DeviceIndex(lanes.index)};
  }
  template <class N = T>
  static Operand<N> Out(const Lanes& lanes) {
    return {static_cast<N*>(lanes.data), lanes.stride};
  }
  template <class N>
  static Operand<N> Moved(Operand<N> operand, int64_t elements) {
    if (elements != 0) operand.data += elements;
    return operand;
  }
  template <class N>
  static Operand<N> FromLane(Operand<N> operand, int64_t lane) {
    operand.first += lane * operand.step;
    return operand;
  }

  void CopyOperands(int64_t lanes, const Shape& shape, Operand<const T> src, const Shape& src_strides, Operand<T> dst,
                    const Shape& dst_strides, bool accumulate, double scale) const {
    const SplitAxes<2> axes(shape, {&src_strides, &dst_strides}, accumulate);
    Run([&](cudaStream_t s) {
      return cuda::CopyStrided<T>(s, lanes, axes.kept, axes.summed, Moved(src, axes.last[0]), Moved(dst, axes.last[1]),
                                  accumulate, static_cast<T>(scale));
    });
  }

  // Is each patch one input position, all of them in order?
  static bool IsPointwise(const WindowGeometry& g) {
    return WindowGeometry::Volume(g.kernel) == 1 && g.in == g.out && g.pad_begin == Spatial{0, 0, 0} &&
           g.stride == Spatial{1, 1, 1};
  }
  static int64_t ColumnLanes(const WindowGeometry& g) {
    return std::clamp<int64_t>(kColumnElements / std::max<int64_t>(g.PatchSize(), 1), 1, 256);
  }

  const std::shared_ptr<cuda::ThreadContextPool> contexts_;
  cuda::CudaMemory memory_{contexts_};
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(DType dtype, bool tf32) {
  ASSIGN_OR_RETURN(const CudaDevice device, FindCudaDevice());
  if (dtype == DType::kFloat64) return std::make_unique<CudaBackend<double>>(device, false);
  return std::make_unique<CudaBackend<float>>(device, tf32);
}

}  // namespace jacserve::worker
