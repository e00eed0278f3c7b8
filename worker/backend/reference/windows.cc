// Plain loops for what slides a window: patches, convolution and its pullbacks, max pooling.
#include <algorithm>
#include <cmath>

#include "worker/backend/reference/reference_backend.h"

namespace jacserve::worker {
namespace {

// Calls visit(kernel position, output position, input position) for every pair that lies inside the input.
template <class Visit>
void ForEachTap(const WindowGeometry& g, Visit visit) {
  Spatial k, l, n;
  for (k[0] = 0; k[0] < g.kernel[0]; ++k[0])
    for (k[1] = 0; k[1] < g.kernel[1]; ++k[1])
      for (k[2] = 0; k[2] < g.kernel[2]; ++k[2])
        for (l[0] = 0; l[0] < g.out[0]; ++l[0])
          for (l[1] = 0; l[1] < g.out[1]; ++l[1])
            for (l[2] = 0; l[2] < g.out[2]; ++l[2]) {
              bool inside = true;
              for (int axis = 0; axis < kSpatialAxes; ++axis) {
                n[axis] = l[axis] * g.stride[axis] + k[axis] * g.dilation[axis] - g.pad_begin[axis];
                inside = inside && n[axis] >= 0 && n[axis] < g.in[axis];
              }
              if (!inside) continue;
              visit((k[0] * g.kernel[1] + k[1]) * g.kernel[2] + k[2], (l[0] * g.out[1] + l[1]) * g.out[2] + l[2],
                    (n[0] * g.in[1] + n[1]) * g.in[2] + n[2]);
            }
}

// Row of the patch matrix for input channel i (within its group) at kernel position k.
int64_t PatchRow(const WindowGeometry& g, int64_t i, int64_t k) {
  return g.kernel_major ? k * (g.in_channels / g.groups) + i : i * WindowGeometry::Volume(g.kernel) + k;
}

}  // namespace

template <class T>
void ReferenceBackend<T>::Patches(const WindowGeometry& g, int64_t lanes, ConstLanes x, Lanes patches) const {
  const int64_t in_volume = WindowGeometry::Volume(g.in), group_in = g.in_channels / g.groups;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const T* in = x.At<T>(lane);
    T* out = patches.At<T>(lane);
    std::fill_n(out, g.PatchSize(), T(0));
    for (int64_t c = 0; c < g.in_channels; ++c) {
      T* group = out + c / group_in * g.K() * g.L();
      ForEachTap(g, [&](int64_t k, int64_t l, int64_t n) {
        group[PatchRow(g, c % group_in, k) * g.L() + l] = in[c * in_volume + n];
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
        ForEachTap(g, [&](int64_t k, int64_t l, int64_t n) { channel[n] += kernel[k] * ct_out[l]; });
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
    const T* in = x.At<T>(lane);
    T* out = y.At<T>(lane);
    int32_t* where = arg.At<int32_t>(lane);
    std::fill_n(where, g.OutSize(), -1);
    std::fill_n(out, g.OutSize(), static_cast<T>(-INFINITY));
    for (int64_t c = 0; c < g.in_channels; ++c) {
      // Kernel positions come in C order, so the first maximum of a window is met first. NaN wins, as in frameworks.
      ForEachTap(g, [&](int64_t, int64_t l, int64_t n) {
        const T value = in[c * in_volume + n];
        const int64_t p = c * g.L() + l;
        if (where[p] < 0 || value > out[p] || (std::isnan(value) && !std::isnan(out[p]))) {
          out[p] = value;
          where[p] = static_cast<int32_t>(c * in_volume + n);
        }
      });
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

template class ReferenceBackend<float>;
template class ReferenceBackend<double>;

}  // namespace jacserve::worker
