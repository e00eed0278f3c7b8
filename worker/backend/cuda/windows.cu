// What slides a window: patches, the sum of columns back into an input, pooling. Every number of a result is made by
// one thread that goes over kernel positions in C order.
#include "worker/backend/cuda/kernels.h"
#include "worker/backend/cuda/launch.h"

namespace jacserve::worker::cuda {
namespace {

constexpr int kThreads = 256;

// a / b of numbers that are not negative. A GPU divides 32 bits several times faster.
JACSERVE_DEVICE int64_t Quotient(int64_t a, int64_t b) {
  return (a | b) >> 32 == 0 ? static_cast<uint32_t>(a) / static_cast<uint32_t>(b) : a / b;
}

// A position of C order along three axes.
struct Place {
  int64_t at[kSpatialAxes];
  JACSERVE_DEVICE Place(int64_t p, const int64_t (&size)[kSpatialAxes]) {
    for (int axis = kSpatialAxes - 1; axis >= 0; --axis) {
      const int64_t quotient = Quotient(p, size[axis]);
      at[axis] = p - quotient * size[axis];
      p = quotient;
    }
  }
};

// WindowGeometry as kernels take it.
struct Window {
  int64_t in_channels, out_channels, groups;
  int64_t in[kSpatialAxes], out[kSpatialAxes], kernel[kSpatialAxes], stride[kSpatialAxes], dilation[kSpatialAxes];
  int64_t pad_begin[kSpatialAxes], pad_end[kSpatialAxes];
  int64_t in_volume, out_volume, kernel_volume;
  bool kernel_major;

  explicit Window(const WindowGeometry& g)
      : in_channels(g.in_channels),
        out_channels(g.out_channels),
        groups(g.groups),
        in_volume(WindowGeometry::Volume(g.in)),
        out_volume(g.L()),
        kernel_volume(WindowGeometry::Volume(g.kernel)),
        kernel_major(g.kernel_major) {
    for (int axis = 0; axis < kSpatialAxes; ++axis) {
      in[axis] = g.in[axis];
      out[axis] = g.out[axis];
      kernel[axis] = g.kernel[axis];
      stride[axis] = g.stride[axis];
      dilation[axis] = g.dilation[axis];
      pad_begin[axis] = g.pad_begin[axis];
      pad_end[axis] = g.pad_end[axis];
    }
  }

  // The input position that output position l meets by kernel position k; -1: outside.
  JACSERVE_DEVICE int64_t Input(const Place& l, const Place& k) const {
    int64_t n = 0;
    for (int axis = 0; axis < kSpatialAxes; ++axis) {
      const int64_t at = l.at[axis] * stride[axis] + k.at[axis] * dilation[axis] - pad_begin[axis];
      if (at < 0 || at >= in[axis]) return -1;
      n = n * in[axis] + at;
    }
    return n;
  }
  // Where along an axis the output position is that meets input position n by kernel position k; -1: none.
  JACSERVE_DEVICE int64_t OutputAlong(int axis, int64_t n, int64_t k) const {
    const int64_t shifted = n + pad_begin[axis] - k * dilation[axis];
    if (shifted < 0) return -1;
    const int64_t l = Quotient(shifted, stride[axis]);
    return l * stride[axis] == shifted && l < out[axis] ? l : -1;
  }
  // The output position that meets input position n by kernel position k; -1: none.
  JACSERVE_DEVICE int64_t Output(const Place& n, const Place& k) const {
    int64_t l = 0;
    for (int axis = 0; axis < kSpatialAxes; ++axis) {
      const int64_t along = OutputAlong(axis, n.at[axis], k.at[axis]);
      if (along < 0) return -1;
      l = l * out[axis] + along;
    }
    return l;
  }
  // Positions that the average over the window at l counts.
  JACSERVE_DEVICE int64_t Count(const Place& l, bool count_pads) const {
    int64_t count = 1;
    for (int axis = 0; axis < kSpatialAxes; ++axis) {
      const int64_t low = count_pads ? -pad_begin[axis] : 0, high = in[axis] + (count_pads ? pad_end[axis] : 0);
      int64_t here = 0;
      for (int64_t k = 0; k < kernel[axis]; ++k) {
        const int64_t at = l.at[axis] * stride[axis] + k * dilation[axis] - pad_begin[axis];
        here += at >= low && at < high;
      }
      count *= here;
    }
    return count;
  }
};

// patches [channels, kernel, L], or [kernel, channels, L] of each group.
template <class T>
JACSERVE_KERNEL PatchesKernel(Window w, int64_t lanes, Operand<const T> x, Operand<T> patches) {
  const int64_t inputs = w.in_channels / w.groups, size = w.in_channels * w.kernel_volume * w.out_volume;
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    const T* in = x.At(lane);
    T* out = patches.At(lane);
    for (int64_t p = BlockX() * Threads() + Thread(); p < size; p += BlocksX() * Threads()) {
      const int64_t row = p / w.out_volume, in_group = row % (inputs * w.kernel_volume);
      const int64_t i = w.kernel_major ? in_group % inputs : in_group / w.kernel_volume;
      const int64_t k = w.kernel_major ? in_group / inputs : in_group % w.kernel_volume;
      const int64_t channel = row / (inputs * w.kernel_volume) * inputs + i;
      const int64_t n = w.Input(Place(p % w.out_volume, w.out), Place(k, w.kernel));
      out[p] = n < 0 ? T(0) : in[channel * w.in_volume + n];
    }
  }
}

// The columns of a channel that meet its input position n. Axis by axis: what misses along one is left out at once.
template <class T>
JACSERVE_DEVICE T FoldAt(const Window& w, const Place& n, const T* channel) {
  T sum = T(0);
  for (int64_t k0 = 0; k0 < w.kernel[0]; ++k0) {
    const int64_t l0 = w.OutputAlong(0, n.at[0], k0);
    if (l0 < 0) continue;
    for (int64_t k1 = 0; k1 < w.kernel[1]; ++k1) {
      const int64_t l1 = w.OutputAlong(1, n.at[1], k1);
      if (l1 < 0) continue;
      const T* row = channel + (k0 * w.kernel[1] + k1) * w.kernel[2] * w.out_volume + (l0 * w.out[1] + l1) * w.out[2];
      for (int64_t k2 = 0; k2 < w.kernel[2]; ++k2) {
        const int64_t l2 = w.OutputAlong(2, n.at[2], k2);
        if (l2 >= 0) sum += row[k2 * w.out_volume + l2];
      }
    }
  }
  return sum;
}

template <class T>
JACSERVE_KERNEL FoldKernel(Window w, int64_t lanes, Operand<const T> columns, Operand<T> ct_x) {
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    const T* from = columns.At(lane);
    T* to = ct_x.At(lane);
    for (int64_t p = BlockX() * Threads() + Thread(); p < w.in_channels * w.in_volume; p += BlocksX() * Threads()) {
      const int64_t channel = Quotient(p, w.in_volume);
      to[p] = FoldAt(w, Place(p - channel * w.in_volume, w.in), from + channel * w.kernel_volume * w.out_volume);
    }
  }
}

// A NaN wins, as in frameworks; of equal numbers the first.
template <class T>
JACSERVE_KERNEL MaxPoolKernel(Window w, int64_t lanes, Operand<const T> x, Operand<T> y, Operand<int32_t> arg) {
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    const T* in = x.At(lane);
    for (int64_t p = BlockX() * Threads() + Thread(); p < w.in_channels * w.out_volume; p += BlocksX() * Threads()) {
      const Place l(p % w.out_volume, w.out);
      const int64_t base = p / w.out_volume * w.in_volume;
      T best = static_cast<T>(-INFINITY);
      int64_t best_at = -1;
      for (int64_t k = 0; k < w.kernel_volume; ++k) {
        const int64_t n = w.Input(l, Place(k, w.kernel));
        if (n < 0) continue;
        const T value = in[base + n];
        if (best_at < 0 || value > best || (value != value && best == best)) {
          best = value;
          best_at = base + n;
        }
      }
      y.At(lane)[p] = best;
      arg.At(lane)[p] = static_cast<int32_t>(best_at);
    }
  }
}

template <class T>
JACSERVE_KERNEL AveragePoolKernel(Window w, bool count_pads, int64_t lanes, Operand<const T> x, Operand<T> y) {
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    const T* in = x.At(lane);
    for (int64_t p = BlockX() * Threads() + Thread(); p < w.in_channels * w.out_volume; p += BlocksX() * Threads()) {
      const Place l(p % w.out_volume, w.out);
      const T* channel = in + p / w.out_volume * w.in_volume;
      const int64_t count = w.Count(l, count_pads);
      T sum = T(0);
      for (int64_t k = 0; k < w.kernel_volume; ++k) {
        const int64_t n = w.Input(l, Place(k, w.kernel));
        if (n >= 0) sum += channel[n];
      }
      y.At(lane)[p] = count == 0 ? T(0) : sum * (T(1) / static_cast<T>(count));
    }
  }
}

template <class T>
JACSERVE_KERNEL AveragePoolPullbackKernel(Window w, bool count_pads, int64_t lanes, Operand<const T> ct_y,
                                          Operand<T> ct_x) {
  for (int64_t lane = BlockY(); lane < lanes; lane += BlocksY()) {
    const T* from = ct_y.At(lane);
    for (int64_t p = BlockX() * Threads() + Thread(); p < w.in_channels * w.in_volume; p += BlocksX() * Threads()) {
      const Place n(p % w.in_volume, w.in);
      const T* channel = from + p / w.in_volume * w.out_volume;
      T sum = T(0);
      for (int64_t k = 0; k < w.kernel_volume; ++k) {
        const int64_t l = w.Output(n, Place(k, w.kernel));
        if (l < 0) continue;
        sum += channel[l] * (T(1) / static_cast<T>(w.Count(Place(l, w.out), count_pads)));
      }
      ct_x.At(lane)[p] = sum;
    }
  }
}

}  // namespace

template <class T>
cudaError_t Patches(cudaStream_t stream, const WindowGeometry& g, int64_t lanes, Operand<const T> x,
                    Operand<T> patches) {
  if (lanes == 0 || g.PatchSize() == 0) return cudaSuccess;
  return Launch(PatchesKernel<T>, GridFor(g.PatchSize(), kThreads, lanes), kThreads, 0, stream, Window(g), lanes, x,
                patches);
}

template <class T>
cudaError_t FoldColumns(cudaStream_t stream, const WindowGeometry& g, int64_t lanes, Operand<const T> columns,
                        Operand<T> ct_x) {
  if (lanes == 0 || g.InSize() == 0) return cudaSuccess;
  return Launch(FoldKernel<T>, GridFor(g.InSize(), kThreads, lanes), kThreads, 0, stream, Window(g), lanes, columns,
                ct_x);
}

template <class T>
cudaError_t MaxPool(cudaStream_t stream, const WindowGeometry& g, int64_t lanes, Operand<const T> x, Operand<T> y,
                    Operand<int32_t> arg) {
  if (lanes == 0 || g.OutSize() == 0) return cudaSuccess;
  return Launch(MaxPoolKernel<T>, GridFor(g.OutSize(), kThreads, lanes), kThreads, 0, stream, Window(g), lanes, x, y,
                arg);
}

template <class T>
cudaError_t AveragePool(cudaStream_t stream, const WindowGeometry& g, bool count_pads, int64_t lanes,
                        Operand<const T> x, Operand<T> y) {
  if (lanes == 0 || g.OutSize() == 0) return cudaSuccess;
  return Launch(AveragePoolKernel<T>, GridFor(g.OutSize(), kThreads, lanes), kThreads, 0, stream, Window(g), count_pads,
                lanes, x, y);
}

template <class T>
cudaError_t AveragePoolPullback(cudaStream_t stream, const WindowGeometry& g, bool count_pads, int64_t lanes,
                                Operand<const T> ct_y, Operand<T> ct_x) {
  if (lanes == 0 || g.InSize() == 0) return cudaSuccess;
  return Launch(AveragePoolPullbackKernel<T>, GridFor(g.InSize(), kThreads, lanes), kThreads, 0, stream, Window(g),
                count_pads, lanes, ct_y, ct_x);
}

#define X(T)                                                                                                        \
  template cudaError_t Patches<T>(cudaStream_t, const WindowGeometry&, int64_t, Operand<const T>, Operand<T>);      \
  template cudaError_t FoldColumns<T>(cudaStream_t, const WindowGeometry&, int64_t, Operand<const T>, Operand<T>);  \
  template cudaError_t MaxPool<T>(cudaStream_t, const WindowGeometry&, int64_t, Operand<const T>, Operand<T>,       \
                                  Operand<int32_t>);                                                                \
  template cudaError_t AveragePool<T>(cudaStream_t, const WindowGeometry&, bool, int64_t, Operand<const T>,         \
                                      Operand<T>);                                                                  \
  template cudaError_t AveragePoolPullback<T>(cudaStream_t, const WindowGeometry&, bool, int64_t, Operand<const T>, \
                                              Operand<T>);
X(float)
X(double)
#undef X

}  // namespace jacserve::worker::cuda
