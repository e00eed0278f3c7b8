// What goes by indices. Where several terms meet in one number they are added in order, never by floating-point
// atomics: a lane's terms take turns, or one thread goes through them.
#include "worker/backend/cuda/kernels.h"
#include "worker/backend/cuda/launch.h"

namespace jacserve::worker::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int32_t kNobody = INT32_MAX;
constexpr int64_t kNoPlace = -1;

template <class T>
JACSERVE_KERNEL TakeAtKernel(int64_t lanes, int64_t n_out, Operand<const int32_t> arg, Operand<const T> x,
                             Operand<T> y) {
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    const int32_t* where = arg.At(lane);
    const T* in = x.At(lane);
    for (int64_t p = BlockX() * Threads() + Thread(); p < n_out; p += BlocksX() * Threads()) {
      y.At(lane)[p] = where[p] >= 0 ? in[where[p]] : T(0);
    }
  }
}

// A block per lane, in rounds: of the terms that wait for a number the first one adds itself. There are as many rounds
// as terms in the fullest number, for pooling a few. turns [lanes of the launch, 2, n_in]: whose turn it is, and who
// was last.
template <class T>
JACSERVE_KERNEL ScatterAddKernel(int64_t lanes, int64_t n_out, int64_t n_in, Operand<const int32_t> arg,
                                 Operand<const T> ct_y, Operand<T> ct_x, int32_t* turns) {
  int32_t* next = turns + BlockX() * 2 * n_in;
  int32_t* last = next + n_in;
  auto* any = static_cast<int*>(SharedBytes());
  for (int64_t lane = BlockX(); lane < lanes; lane += BlocksX()) {
    const int32_t* where = arg.At(lane);
    const T* from = ct_y.At(lane);
    T* to = ct_x.At(lane);
    for (int64_t q = Thread(); q < n_in; q += Threads()) {
      to[q] = T(0);
      next[q] = kNobody;
      last[q] = -1;
    }
    while (true) {
      if (Thread() == 0) *any = 0;
      SyncThreads();
      for (int64_t p = Thread(); p < n_out; p += Threads()) {
        if (where[p] >= 0 && p > last[where[p]]) AtomicMin(&next[where[p]], static_cast<int32_t>(p));
      }
      SyncThreads();
      for (int64_t p = Thread(); p < n_out; p += Threads()) {
        const int32_t q = where[p];
        if (q < 0 || next[q] != p) continue;
        to[q] += from[p];
        last[q] = static_cast<int32_t>(p);
        next[q] = kNobody;
        *any = 1;
      }
      SyncThreads();
      const bool done = *any == 0;
      SyncThreads();
      if (done) break;
    }
  }
}

// Lanes too large for turns: one thread each.
template <class T>
JACSERVE_KERNEL ScatterInOrderKernel(int64_t lanes, int64_t n_out, int64_t n_in, Operand<const int32_t> arg,
                                     Operand<const T> ct_y, Operand<T> ct_x) {
  for (int64_t lane = BlockX(); lane < lanes; lane += BlocksX()) {
    const int32_t* where = arg.At(lane);
    T* to = ct_x.At(lane);
    for (int64_t q = Thread(); q < n_in; q += Threads()) to[q] = T(0);
    SyncThreads();
    for (int64_t p = 0; p < n_out && Thread() == 0; ++p) {
      if (where[p] >= 0) to[where[p]] += ct_y.At(lane)[p];
    }
    SyncThreads();
  }
}

// IndexGeometry as kernels take it: strides of base and index over the points.
struct Places {
  Axes<2> points;
  int rank = 0;
  int64_t sizes[kMostAxes], strides[kMostAxes];
  int64_t component_stride, block;

  explicit Places(const IndexGeometry& g)
      : points(g.points, {&g.base_strides, &g.index_strides}),
        rank(static_cast<int>(g.sizes.size())),
        component_stride(g.component_stride),
        block(g.block) {
    for (int k = 0; k < rank; ++k) {
      sizes[k] = g.sizes[k];
      strides[k] = g.strides[k];
    }
  }

  template <class T>
  JACSERVE_DEVICE int64_t At(int64_t p, const T* index) const {
    int64_t offset[2];
    points.Offsets(p, offset);
    int64_t at = offset[0];
    for (int k = 0; k < rank; ++k) {
      const T i = index[offset[1] + k * component_stride], size = static_cast<T>(sizes[k]);
      if (!(i >= -size && i < size)) return kNoPlace;  // NaN too
      const auto whole = static_cast<int64_t>(i);
      at += (whole < 0 ? whole + sizes[k] : whole) * strides[k];
    }
    return at;
  }
};

template <class T>
JACSERVE_KERNEL TakeIndexedKernel(Places places, int64_t lanes, Operand<const T> x, Operand<const T> index, T outside,
                                  Operand<T> y) {
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    const T *in = x.At(lane), *where = index.At(lane);
    T* out = y.At(lane);
    const int64_t size = places.points.points * places.block;
    for (int64_t q = BlockX() * Threads() + Thread(); q < size; q += BlocksX() * Threads()) {
      const int64_t at = places.At(q / places.block, where);
      out[q] = at == kNoPlace ? outside : in[at + q % places.block];
    }
  }
}

// A thread takes element j of every block, so that terms meet in order.
template <class T>
JACSERVE_KERNEL PutIndexedKernel(Places places, int64_t lanes, Operand<const T> index, Operand<const T> values,
                                 bool accumulate, Operand<T> x) {
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    const T *where = index.At(lane), *from = values.At(lane);
    T* to = x.At(lane);
    for (int64_t j = BlockX() * Threads() + Thread(); j < places.block; j += BlocksX() * Threads()) {
      for (int64_t p = 0; p < places.points.points; ++p) {
        const int64_t at = places.At(p, where);
        if (at == kNoPlace) continue;
        to[at + j] = accumulate ? to[at + j] + from[p * places.block + j] : from[p * places.block + j];
      }
    }
  }
}

template <class T>
JACSERVE_KERNEL PoisonKernel(Places places, int64_t lanes, Operand<const T> index, int64_t poison, Operand<T> x) {
  for (int64_t lane = BlockX(); lane < lanes; lane += BlocksX()) {
    T none = T(0);
    for (int64_t p = Thread(); p < places.points.points; p += Threads()) {
      none += places.At(p, index.At(lane)) == kNoPlace ? T(1) : T(0);
    }
    if (BlockSum(none) == T(0)) continue;
    for (int64_t q = Thread(); q < poison; q += Threads()) x.At(lane)[q] = static_cast<T>(NAN);
  }
}

}  // namespace

template <class T>
cudaError_t TakeAt(cudaStream_t stream, int64_t lanes, int64_t n_out, Operand<const int32_t> arg, Operand<const T> x,
                   Operand<T> y) {
  if (lanes == 0 || n_out == 0) return cudaSuccess;
  return Launch(TakeAtKernel<T>, GridFor(n_out, kThreads, lanes), kThreads, 0, stream, lanes, n_out, arg, x, y);
}

template <class T>
cudaError_t ScatterAdd(cudaStream_t stream, int64_t lanes, int64_t n_out, int64_t n_in, Operand<const int32_t> arg,
                       Operand<const T> ct_y, Operand<T> ct_x, int32_t* turns, int64_t turn_lanes) {
  if (lanes == 0 || n_in == 0) return cudaSuccess;
  if (turn_lanes == 0) {
    return Launch(ScatterInOrderKernel<T>, GridFor(lanes, 1, 1), kThreads, 0, stream, lanes, n_out, n_in, arg, ct_y,
                  ct_x);
  }
  return Launch(ScatterAddKernel<T>, GridFor(lanes < turn_lanes ? lanes : turn_lanes, 1, 1), kThreads, sizeof(int),
                stream, lanes, n_out, n_in, arg, ct_y, ct_x, turns);
}

template <class T>
cudaError_t TakeIndexed(cudaStream_t stream, const IndexGeometry& g, int64_t lanes, Operand<const T> x,
                        Operand<const T> index, T outside, Operand<T> y) {
  const int64_t size = Elements(g.points) * g.block;
  if (lanes == 0 || size == 0) return cudaSuccess;
  return Launch(TakeIndexedKernel<T>, GridFor(size, kThreads, lanes), kThreads, 0, stream, Places(g), lanes, x, index,
                outside, y);
}

template <class T>
cudaError_t PutIndexed(cudaStream_t stream, const IndexGeometry& g, int64_t lanes, Operand<const T> index,
                       Operand<const T> values, bool accumulate, int64_t poison, Operand<T> x) {
  if (lanes == 0 || Elements(g.points) == 0) return cudaSuccess;
  if (g.block > 0) {
    const cudaError_t error = Launch(PutIndexedKernel<T>, GridFor(g.block, kThreads, lanes), kThreads, 0, stream,
                                     Places(g), lanes, index, values, accumulate, x);
    if (error != cudaSuccess) return error;
  }
  const int threads = ThreadsFor(Elements(g.points));
  return Launch(PoisonKernel<T>, GridFor(lanes, 1, 1), threads, threads * sizeof(T), stream, Places(g), lanes, index,
                poison, x);
}

#define X(T)                                                                                                           \
  template cudaError_t TakeAt<T>(cudaStream_t, int64_t, int64_t, Operand<const int32_t>, Operand<const T>,             \
                                 Operand<T>);                                                                          \
  template cudaError_t ScatterAdd<T>(cudaStream_t, int64_t, int64_t, int64_t, Operand<const int32_t>,                  \
                                     Operand<const T>, Operand<T>, int32_t*, int64_t);                                 \
  template cudaError_t TakeIndexed<T>(cudaStream_t, const IndexGeometry&, int64_t, Operand<const T>, Operand<const T>, \
                                      T, Operand<T>);                                                                  \
  template cudaError_t PutIndexed<T>(cudaStream_t, const IndexGeometry&, int64_t, Operand<const T>, Operand<const T>,  \
                                     bool, int64_t, Operand<T>);
X(float)
X(double)
#undef X

}  // namespace jacserve::worker::cuda
