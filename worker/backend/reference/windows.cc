// Plain loops for what slides a window: patches, convolution and its pullbacks, max pooling.
#include <algorithm>
#include <cmath>

#include "worker/backend/reference/reference_backend.h"
#include "worker/backend/window_lines.h"

namespace jacserve::worker {
namespace {

// Row of the patch matrix for input channel i (within its group) at kernel position k.
int64_t PatchRow(const WindowGeometry& g, int64_t i, int64_t k) {
  return g.kernel_major ? k * (g.in_channels / g.groups) + i : i * WindowGeometry::Volume(g.kernel) + k;
}

// Does no window hang over an edge?
bool AllInside(const WindowGeometry& g) {
  for (int axis = 0; axis < kSpatialAxes; ++axis) {
    const int64_t last = (g.out[axis] - 1) * g.stride[axis] + (g.kernel[axis] - 1) * g.dilation[axis];
    if (g.pad_begin[axis] > 0 || last >= g.in[axis]) return false;
  }
  return true;
}

// 1 / count of each output position's window; 0 where it is empty.
template <class T>
std::vector<T> InverseCounts(const WindowGeometry& g, bool count_pads) {
  std::array<std::vector<int64_t>, kSpatialAxes> counts;
  for (int axis = 0; axis < kSpatialAxes; ++axis) {
    const int64_t low = count_pads ? -g.pad_begin[axis] : 0, high = g.in[axis] + (count_pads ? g.pad_end[axis] : 0);
    counts[axis].assign(g.out[axis], 0);
    for (int64_t l = 0; l < g.out[axis]; ++l) {
      for (int64_t k = 0; k < g.kernel[axis]; ++k) {
        const int64_t n = l * g.stride[axis] + k * g.dilation[axis] - g.pad_begin[axis];
        if (n >= low && n < high) ++counts[axis][l];
      }
    }
  }
  std::vector<T> inverse;
  inverse.reserve(g.L());
  for (int64_t c0 : counts[0]) {
    for (int64_t c1 : counts[1]) {
      for (int64_t c2 : counts[2]) inverse.push_back(c0 * c1 * c2 == 0 ? T(0) : T(1) / static_cast<T>(c0 * c1 * c2));
    }
  }
  return inverse;
}

// best, arg: of each window of one channel, which begins at number `base` of its sample. Kernel positions come in C
// order, so the first maximum is met first.
template <class T>
void MaxOfChannel(const WindowGeometry& g, const T* in, int32_t base, T* best, int32_t* arg) {
  const auto at = [&](const WindowLine& line, int64_t p) { return line.n + p * line.step; };
  std::fill_n(arg, g.L(), -1);
  std::fill_n(best, g.L(), static_cast<T>(-INFINITY));
  bool ordered = true;
  ForEachLine(g, [&](const WindowLine& line) {
    const T* __restrict from = in + line.n;
    T* __restrict own = best + line.l;
    int32_t* __restrict own_arg = arg + line.l;
    const auto step = static_cast<int32_t>(line.step);
    int32_t n = base + static_cast<int32_t>(line.n);
    bool line_ordered = true;
    for (int64_t p = 0; p < line.count; ++p, n += step) {  // selections, not branches: those would be taken at random
      const T value = from[p * line.step];
      const bool better = value > own[p];
      own_arg[p] = better ? n : own_arg[p];
      own[p] = better ? value : own[p];
      line_ordered = line_ordered & (value == value);
    }
    ordered = ordered && line_ordered;
  });
  if (ordered && std::find(arg, arg + g.L(), -1) == arg + g.L()) return;
  // A NaN wins, as in frameworks; of a window of nothing but -infinity the first position does.
  ForEachLine(g, [&](const WindowLine& line) {
    for (int64_t p = 0; p < line.count; ++p) {
      const T value = in[at(line, p)];
      T& own = best[line.l + p];
      int32_t& own_arg = arg[line.l + p];
      if (own_arg < 0 || (std::isnan(value) && !std::isnan(own))) {
        own = value;
        own_arg = base + static_cast<int32_t>(at(line, p));
      }
    }
  });
}

}  // namespace

template <class T>
void ReferenceBackend<T>::Patches(const WindowGeometry& g, int64_t lanes, ConstLanes x, Lanes patches) const {
  const int64_t in_volume = WindowGeometry::Volume(g.in), group_in = g.in_channels / g.groups;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const T* in = x.At<T>(lane);
    T* out = patches.At<T>(lane);
    if (!AllInside(g)) std::fill_n(out, g.PatchSize(), T(0));
    for (int64_t c = 0; c < g.in_channels; ++c) {
      T* group = out + c / group_in * g.K() * g.L();
      ForEachLine(g, [&](const WindowLine& line) {
        T* to = group + PatchRow(g, c % group_in, line.k) * g.L() + line.l;
        const T* from = in + c * in_volume + line.n;
        if (line.step == 1) {
          std::copy_n(from, line.count, to);
        } else {
          for (int64_t p = 0; p < line.count; ++p) to[p] = from[p * line.step];
        }
      });
    }
  }
}

template <class T>
void ReferenceBackend<T>::ConvForward(const WindowGeometry& g, int64_t lanes, ConstLanes patches, ConstLanes w,
                                      Lanes y) const {
  const int64_t group_out = g.out_channels / g.groups;
  const GemmShape product{.m = group_out, .n = g.L(), .k = g.K(), .lda = g.K(), .ldb = g.L(), .ldc = g.L()};
  for (int64_t lane = 0; lane < lanes; ++lane) {
    for (int64_t group = 0; group < g.groups; ++group) {
      Gemm(product, 1, {w.At<T>(lane) + group * group_out * g.K()}, {patches.At<T>(lane) + group * g.K() * g.L()},
           {y.At<T>(lane) + group * group_out * g.L()});
    }
  }
}

template <class T>
void ReferenceBackend<T>::ConvDataPullback(const WindowGeometry& g, int64_t lanes, ConstLanes ct_y, ConstLanes w,
                                           Lanes ct_x, Scratch&) const {
  const int64_t in_volume = WindowGeometry::Volume(g.in), kernel_volume = WindowGeometry::Volume(g.kernel);
  const int64_t group_in = g.in_channels / g.groups, group_out = g.out_channels / g.groups;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    T* ct_in = ct_x.At<T>(lane);
    std::fill_n(ct_in, g.InSize(), T(0));
    for (int64_t o = 0; o < g.out_channels; ++o) {
      const T* ct_out = ct_y.At<T>(lane) + o * g.L();
      for (int64_t i = 0; i < group_in; ++i) {
        const T* kernel = w.At<T>(lane) + (o * group_in + i) * kernel_volume;
        T* channel = ct_in + (o / group_out * group_in + i) * in_volume;
        ForEachLine(g, [&](const WindowLine& line) {
          for (int64_t p = 0; p < line.count; ++p) {
            channel[line.n + p * line.step] += kernel[line.k] * ct_out[line.l + p];
          }
        });
      }
    }
  }
}

template <class T>
int64_t ReferenceBackend<T>::ConvScratchElements(const WindowGeometry&) const {
  return 0;
}

template <class T>
void ReferenceBackend<T>::ConvWeightRows(const WindowGeometry& g, Terms terms, ConstLanes ct_y, ConstLanes patches,
                                         Lanes rows, bool accumulate) const {
  const int64_t group_out = g.out_channels / g.groups;
  GemmShape product{.transpose_b = true, .lda = g.L(), .ldb = g.L()};
  product.k = g.L();
  product.m = g.kernel_major ? g.K() : group_out;
  product.n = g.kernel_major ? group_out : g.K();
  product.ldc = g.kernel_major ? g.out_channels : g.K();
  for (int64_t lane = 0; lane < terms.lanes(); ++lane) {
    product.beta = accumulate || lane % terms.per_row > 0 ? 1.0 : 0.0;
    for (int64_t group = 0; group < g.groups; ++group) {
      const T* ct = ct_y.At<T>(lane) + group * group_out * g.L();
      const T* patch = patches.At<T>(lane) + group * g.K() * g.L();
      T* row = rows.At<T>(lane / terms.per_row) + group * group_out * (g.kernel_major ? 1 : g.K());
      Gemm(product, 1, {g.kernel_major ? patch : ct}, {g.kernel_major ? ct : patch}, {row});
    }
  }
}

template <class T>
void ReferenceBackend<T>::MaxPool(const WindowGeometry& g, int64_t lanes, ConstLanes x, Lanes y, Lanes arg) const {
  const int64_t in_volume = WindowGeometry::Volume(g.in);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    for (int64_t c = 0; c < g.in_channels; ++c) {
      MaxOfChannel(g, x.At<T>(lane) + c * in_volume, static_cast<int32_t>(c * in_volume), y.At<T>(lane) + c * g.L(),
                   arg.At<int32_t>(lane) + c * g.L());
    }
  }
}

template <class T>
void ReferenceBackend<T>::ScatterAdd(int64_t lanes, int64_t n_out, int64_t n_in, ConstLanes arg, ConstLanes ct_y,
                                     Lanes ct_x) const {
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const int32_t* where = arg.At<int32_t>(lane);
    const T* ct_out = ct_y.At<T>(lane);
    T* ct_in = ct_x.At<T>(lane);
    std::fill_n(ct_in, n_in, T(0));
    for (int64_t p = 0; p < n_out; ++p) {
      if (where[p] >= 0) ct_in[where[p]] += ct_out[p];
    }
  }
}

template <class T>
void ReferenceBackend<T>::AveragePool(const WindowGeometry& g, bool count_pads, int64_t lanes, ConstLanes x,
                                      Lanes y) const {
  const std::vector<T> inverse = InverseCounts<T>(g, count_pads);
  const int64_t in_volume = WindowGeometry::Volume(g.in);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    std::fill_n(y.At<T>(lane), g.OutSize(), T(0));
    for (int64_t c = 0; c < g.in_channels; ++c) {
      const T* in = x.At<T>(lane) + c * in_volume;
      T* out = y.At<T>(lane) + c * g.L();
      ForEachLine(g, [&](const WindowLine& line) {
        for (int64_t p = 0; p < line.count; ++p) out[line.l + p] += in[line.n + p * line.step];
      });
      for (int64_t l = 0; l < g.L(); ++l) out[l] *= inverse[l];
    }
  }
}

template <class T>
void ReferenceBackend<T>::AveragePoolPullback(const WindowGeometry& g, bool count_pads, int64_t lanes, ConstLanes ct_y,
                                              Lanes ct_x) const {
  const std::vector<T> inverse = InverseCounts<T>(g, count_pads);
  const int64_t in_volume = WindowGeometry::Volume(g.in);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    std::fill_n(ct_x.At<T>(lane), g.InSize(), T(0));
    for (int64_t c = 0; c < g.in_channels; ++c) {
      const T* ct_out = ct_y.At<T>(lane) + c * g.L();
      T* ct_in = ct_x.At<T>(lane) + c * in_volume;
      ForEachLine(g, [&](const WindowLine& line) {
        for (int64_t p = 0; p < line.count; ++p) {
          ct_in[line.n + p * line.step] += ct_out[line.l + p] * inverse[line.l + p];
        }
      });
    }
  }
}

template class ReferenceBackend<float>;
template class ReferenceBackend<double>;

}  // namespace jacserve::worker
