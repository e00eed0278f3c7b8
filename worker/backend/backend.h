// The primitives of a device. Operators are formulas in these; a device is one implementation of them.
// Everything runs over lanes: forward a lane is a sample, backward a term (row, sample, cotangent) or a row.
// Calls are single-threaded and reentrant: the engine runs row tiles side by side, so no sum is ever split.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "common/dtype.h"
#include "common/shape.h"
#include "worker/backend/formulas.h"
#include "worker/backend/geometry.h"
#include "worker/backend/half.h"
#include "worker/backend/memory.h"
#include "worker/backend/scratch.h"

namespace jacserve::worker {

// An operand over lanes: lane l starts `stride` elements times index[l] (or l) into data; stride 0: the same for all.
// data is the backend's memory, index is the host's and comes from Memory::AllocateIndex.
struct ConstLanes {
  const void* data = nullptr;
  int64_t stride = 0;
  const int32_t* index = nullptr;

  template <class T>
  const T* At(int64_t lane) const {
    return static_cast<const T*>(data) + stride * (index ? index[lane] : lane);
  }
};

struct Lanes {
  void* data = nullptr;
  int64_t stride = 0;

  template <class T>
  T* At(int64_t lane) const {
    return static_cast<T*>(data) + stride * lane;
  }
  operator ConstLanes() const { return {data, stride, nullptr}; }
};

// Where the rows of a shared value go: row r at data + r * row_stride, element [i, j, ..] at the dot product with
// `strides`. accumulate: add to what is there.
struct RowSink {
  void* data = nullptr;
  int64_t row_stride = 0;
  Shape shape;
  Shape strides;
  bool accumulate = false;

  bool contiguous() const { return strides == RowMajorStrides(shape); }
};

// Term lanes r * per_row .. r * per_row + per_row - 1 belong to row r.
struct Terms {
  int64_t rows = 0;
  int64_t per_row = 1;
  int64_t lanes() const { return rows * per_row; }
};

struct GemmShape {  // C[m, n] = alpha * op(A)[m, k] op(B)[k, n] + beta * C, row-major
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;
  double alpha = 1.0, beta = 0.0;
};

// The operands of an elementwise f(a, b) = y over a shape, each by its own strides (0 along a broadcast axis); y is C
// order. What the derivative in use does not read may have no data.
struct BinaryOperands {
  ConstLanes a;
  Shape a_strides;
  ConstLanes b;
  Shape b_strides;
  ConstLanes y = {};
};

// The k first of the n numbers along the middle axis of [outer, n, inner], in descending order when `largest`, else
// ascending. Of equal numbers the one at the lower index comes first, or with last_of_equal that at the higher.
struct TopKShape {
  int64_t outer = 1, n = 1, inner = 1, k = 1;
  bool largest = true;
  bool last_of_equal = false;
};

// How much a backend wants to do at a time. Rows' bits follow from these sizes, so no budget changes them.
struct TileLimits {
  int64_t bytes = int64_t{16} << 20;  // cotangents or tangents of a tile: what is in flight stays in the outer caches
  int64_t lanes = 256;
  int64_t piece_bytes = 0;  // finished rows made together on a device, before they go to the host
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  virtual DType dtype() const = 0;
  virtual const Memory& memory() const = 0;
  virtual TileLimits tile_limits() const { return {}; }
  // Memory of the device that each thread's libraries take beside what is allocated from memory().
  virtual int64_t library_bytes() const { return 0; }
  // Called on every thread before the rest is; what it gives is kept on that thread for as long as it calls. Keeps
  // libraries from starting threads of their own. ResourceExhausted: the device has no room for another thread.
  virtual absl::StatusOr<std::shared_ptr<void>> EnterThread() const { return nullptr; }
  int64_t element_bytes() const { return SizeOf(dtype()); }

  // y = f(x), n elements a lane.
  virtual void Unary(UnaryFunction f, UnaryParams params, int64_t lanes, int64_t n, ConstLanes x, Lanes y) const = 0;
  // ct_x = ct_y * f'(x), 0 where either factor is (Term in formulas.h).
  virtual void UnaryPullback(UnaryFunction f, UnaryParams params, int64_t lanes, int64_t n, ConstLanes x, ConstLanes y,
                             ConstLanes ct_y, Lanes ct_x) const = 0;

  // out = a (f) b over `shape`, each operand by its own strides (0 along a broadcast axis); out is C order.
  virtual void Binary(BinaryFunction f, int64_t lanes, const Shape& shape, ConstLanes a, const Shape& a_strides,
                      ConstLanes b, const Shape& b_strides, Lanes out) const = 0;
  // out[p . out_strides] = (or +=) v[p . v_strides] * df/da (side 0) or df/db (side 1) at p, for every p in shape; 0
  // where either factor is. With accumulate, an out stride of 0 sums along that axis.
  virtual void BinaryTerm(BinaryFunction f, int side, int64_t lanes, const Shape& shape, const BinaryOperands& at,
                          ConstLanes v, const Shape& v_strides, Lanes out, const Shape& out_strides,
                          bool accumulate) const = 0;
  // out = c is not 0 ? a : b, by strides as for Binary.
  virtual void Select(int64_t lanes, const Shape& shape, ConstLanes c, const Shape& c_strides, ConstLanes a,
                      const Shape& a_strides, ConstLanes b, const Shape& b_strides, Lanes out) const = 0;

  // dst[p . dst_strides] = (or +=) scale * src[p . src_strides] for every p in shape. With accumulate, a dst stride of
  // 0 sums along that axis, in C order of p.
  virtual void CopyStrided(int64_t lanes, const Shape& shape, ConstLanes src, const Shape& src_strides, Lanes dst,
                           const Shape& dst_strides, bool accumulate, double scale) const = 0;
  virtual void Fill(int64_t lanes, int64_t n, double value, Lanes x) const = 0;

  // sink row r = sum over its terms of src (C order of sink.shape).
  virtual void SumTerms(Terms terms, ConstLanes src, const RowSink& sink) const = 0;

  // One product per lane.
  virtual void Gemm(const GemmShape& shape, int64_t lanes, ConstLanes a, ConstLanes b, Lanes c) const = 0;

  // row r [m, n] = sum over its terms of a [m] outer b [n], C order, row_stride elements from row to row.
  virtual void OuterRows(Terms terms, int64_t m, int64_t n, ConstLanes a, ConstLanes b, Lanes rows,
                         bool accumulate) const = 0;

  // patches [g, K, L]: the input values under each kernel position, zero where it hangs over the edge.
  virtual void Patches(const WindowGeometry& g, int64_t lanes, ConstLanes x, Lanes patches) const = 0;
  // y [o, L] = w [g, o/g, K] patches; w in the order of g.kernel_major == false needs patches of that order.
  virtual void ConvForward(const WindowGeometry& g, int64_t lanes, ConstLanes patches, ConstLanes w, Lanes y) const = 0;
  // ct_x [i, n] = transpose of the convolution applied to ct_y [o, L]; w is OIHW.
  virtual void ConvDataPullback(const WindowGeometry& g, int64_t lanes, ConstLanes ct_y, ConstLanes w, Lanes ct_x,
                                Scratch& scratch) const = 0;
  // row r = sum over its terms of ct_y [o, L] times transposed patches: [o, K], or [K, o] with g.kernel_major.
  virtual void ConvWeightRows(const WindowGeometry& g, Terms terms, ConstLanes ct_y, ConstLanes patches, Lanes rows,
                              bool accumulate) const = 0;

  // y = the first maximum of each window, arg = its offset within the sample (int32), out_channels == in_channels.
  virtual void MaxPool(const WindowGeometry& g, int64_t lanes, ConstLanes x, Lanes y, Lanes arg) const = 0;
  // ct_x[arg[p]] += ct_y[p], ct_x otherwise zero.
  virtual void ScatterAdd(int64_t lanes, int64_t n_out, int64_t n_in, ConstLanes arg, ConstLanes ct_y,
                          Lanes ct_x) const = 0;

  // y[p] = x[arg[p]], 0 where arg is negative: the transpose of ScatterAdd.
  virtual void TakeAt(int64_t lanes, int64_t n_out, ConstLanes arg, ConstLanes x, Lanes y) const = 0;

  // values [outer, k, inner], their indices along the axis as numbers, and their offsets within the sample (int32).
  // Outputs without data are not wanted.
  virtual void TopK(const TopKShape& shape, int64_t lanes, ConstLanes x, Lanes values, Lanes indices,
                    Lanes arg) const = 0;
  // Along the middle axis of [outer, n, inner]: y[i] = the sum or product of x[j] over j <= i, over j >= i when
  // `reverse`; without j = i when `exclusive`.
  virtual void Scan(bool product, bool exclusive, bool reverse, int64_t lanes, int64_t outer, int64_t n, int64_t inner,
                    ConstLanes x, Lanes y) const = 0;
  // y[p, j] = x[at(p) + j] for j in the block, or `outside` where p names no place. Indices are numbers of this type.
  virtual void TakeIndexed(const IndexGeometry& g, int64_t lanes, ConstLanes x, ConstLanes index, double outside,
                           Lanes y) const = 0;
  // x[at(p) + j] = (or +=) values[p, j], in C order of p. When any p names no place, the first `poison` elements of x
  // become NaN.
  virtual void PutIndexed(const IndexGeometry& g, int64_t lanes, ConstLanes index, ConstLanes values, bool accumulate,
                          int64_t poison, Lanes x) const = 0;
  // y[c, l] = sum of x over the window at l / its count: of the positions inside the input, or with count_pads inside
  // the padded input. 0 where there are none. out_channels == in_channels.
  virtual void AveragePool(const WindowGeometry& g, bool count_pads, int64_t lanes, ConstLanes x, Lanes y) const = 0;
  virtual void AveragePoolPullback(const WindowGeometry& g, bool count_pads, int64_t lanes, ConstLanes ct_y,
                                   Lanes ct_x) const = 0;

  // y[q] = x[q] gain[c] + bias[c] with c the channel of q. No data in gain: 1, in bias: 0. y may be x.
  virtual void Affine(const Channels& c, int64_t lanes, ConstLanes x, ConstLanes gain, ConstLanes bias,
                      Lanes y) const = 0;
  // row r [period] = sum over its terms, and over the q of each channel, of a[q] b[q]. No data in b: 1.
  virtual void ChannelRows(const Channels& c, Terms terms, ConstLanes a, ConstLanes b, Lanes rows,
                           bool accumulate) const = 0;
  // Per group: normal = (x - mean) rstd, rstd = 1 / sqrt(mean((x - mean)^2) + epsilon). No data in mean: not wanted.
  virtual void Normalize(const NormGroups& g, int64_t lanes, ConstLanes x, Lanes normal, Lanes rstd,
                         Lanes mean) const = 0;
  // ct_x = rstd (h - mean(h) - normal mean(h normal)) with h[q] = ct_y[q] gain[c]; mean(h) only where centred. No data
  // in gain: 1. Without a gain the map is its own transpose: tangents go through it too.
  virtual void NormalizePullback(const NormGroups& g, const Channels& c, int64_t lanes, ConstLanes normal,
                                 ConstLanes rstd, ConstLanes gain, ConstLanes ct_y, Lanes ct_x) const = 0;

  // Over the middle axis of [outer, n, inner]: y = x - log sum exp x, or softmax.
  virtual void Softmax(bool log, int64_t lanes, int64_t outer, int64_t n, int64_t inner, ConstLanes x,
                       Lanes y) const = 0;
  // log: ct_x = ct_y - exp(y) sum ct_y; else: ct_x = y (ct_y - sum y ct_y).
  virtual void SoftmaxPullback(bool log, int64_t lanes, int64_t outer, int64_t n, int64_t inner, ConstLanes y,
                               ConstLanes ct_y, Lanes ct_x) const = 0;

  // x = x rounded to the format; float32 only. What became zero or infinite is added to `loss`, which is in the
  // backend's memory and which several threads may add to at once.
  virtual void RoundToHalf(HalfFormat format, int64_t lanes, int64_t n, Lanes x, HalfLoss* loss) const = 0;

  // Elements of scratch that ConvDataPullback takes.
  virtual int64_t ConvScratchElements(const WindowGeometry& g) const = 0;
};

// The oracle: plain loops, float32 or float64.
std::unique_ptr<Backend> MakeReferenceBackend(DType dtype);

}  // namespace jacserve::worker
