// A convolution and its transpose for the data, by patches and products, one sample at a time.
#include "tests/cuda_sim/dnn/convolution.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/cuda_sim/blas/product.h"

namespace jacserve::cuda_sim {
namespace {

struct Axes {  // of three spatial axes, those that are missing lead
  int64_t kernel[3] = {1, 1, 1}, pad[3] = {0, 0, 0}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1};

  explicit Axes(const Convolution& c) {
    const size_t spatial = c.conv.pad.size(), missing = 3 - spatial;
    for (size_t i = 0; i < spatial; ++i) {
      kernel[missing + i] = c.w.dims[2 + i];
      pad[missing + i] = c.conv.pad[i];
      stride[missing + i] = c.conv.stride[i];
      dilation[missing + i] = c.conv.dilation[i];
    }
  }
  int64_t KernelVolume() const { return kernel[0] * kernel[1] * kernel[2]; }
};

// One sample of a convolution in T, all of it packed: x [i, d, h, w], y [o, L], w [o, i / groups, k].
template <class T>
class Sample {
 public:
  explicit Sample(const Convolution& c) : c_(c), x_(c.x), y_(c.y), axes_(c), patches_(K() * L()) {}

  void Forward(const T* w, const T* x, T* y) {
    for (int64_t g = 0; g < c_.conv.groups; ++g) {
      ForEachTap([&](int64_t patch, int64_t at, bool inside) { patches_[patch] = inside ? x[at] : T{0}; },
                 g * ChannelsIn());
      // y' [L, o] = patches' [L, K] w' [K, o] in column order.
      Multiply({.m = L(), .n = ChannelsOut(), .k = K(), .lda = L(), .ldb = K(), .ldc = L()}, patches_.data(),
               w + g * ChannelsOut() * K(), y + g * ChannelsOut() * L());
    }
  }

  void BackwardData(const T* w, const T* y, T* x) {
    std::fill(x, x + x_.c * x_.Volume(), T{0});
    for (int64_t g = 0; g < c_.conv.groups; ++g) {
      // patches' [L, K] = y' [L, o] w [o, K] in column order.
      Multiply({.transpose_b = true, .m = L(), .n = K(), .k = ChannelsOut(), .lda = L(), .ldb = K(), .ldc = L()},
               y + g * ChannelsOut() * L(), w + g * ChannelsOut() * K(), patches_.data());
      ForEachTap(
          [&](int64_t patch, int64_t at, bool inside) {
            if (inside) x[at] += patches_[patch];
          },
          g * ChannelsIn());
    }
  }

  int64_t K() const { return ChannelsIn() * axes_.KernelVolume(); }
  int64_t L() const { return y_.Volume(); }

 private:
  int64_t ChannelsIn() const { return x_.c / c_.conv.groups; }
  int64_t ChannelsOut() const { return y_.c / c_.conv.groups; }

  static void Multiply(Product p, const T* a, const T* b, T* c) {
    p.type_a = p.type_b = p.type_c = sizeof(T) == 8 ? CUDA_R_64F : CUDA_R_32F;
    cuda_sim::Multiply(p, a, b, c);
  }

  // f(place in patches [K, L], place in x, is the place inside x?) for a group whose channels begin there.
  template <class F>
  void ForEachTap(F f, int64_t channel_begin) {
    const Axes& a = axes_;
    int64_t patch = 0;
    for (int64_t k = 0; k < K(); ++k) {
      const int64_t kw = k % a.kernel[2], kh = k / a.kernel[2] % a.kernel[1];
      const int64_t kd = k / (a.kernel[2] * a.kernel[1]) % a.kernel[0];
      const int64_t channel = channel_begin + k / a.KernelVolume();
      for (int64_t l = 0; l < L(); ++l, ++patch) {
        const int64_t w = l % y_.size[2] * a.stride[2] - a.pad[2] + kw * a.dilation[2];
        const int64_t h = l / y_.size[2] % y_.size[1] * a.stride[1] - a.pad[1] + kh * a.dilation[1];
        const int64_t d = l / (y_.size[2] * y_.size[1]) * a.stride[0] - a.pad[0] + kd * a.dilation[0];
        const bool inside = d >= 0 && d < x_.size[0] && h >= 0 && h < x_.size[1] && w >= 0 && w < x_.size[2];
        f(patch, ((channel * x_.size[0] + d) * x_.size[1] + h) * x_.size[2] + w, inside);
      }
    }
  }

  const Convolution& c_;
  const View x_, y_;
  const Axes axes_;
  std::vector<T> patches_;
};

// f(place in a packed sample [c, d, h, w], place in the tensor's memory).
template <class F>
void ForEachPlace(const View& v, int64_t n, F f) {
  int64_t packed = 0;
  for (int64_t c = 0; c < v.c; ++c) {
    for (int64_t d = 0; d < v.size[0]; ++d) {
      for (int64_t h = 0; h < v.size[1]; ++h) {
        for (int64_t w = 0; w < v.size[2]; ++w) f(packed++, v.Offset(n, c, d, h, w));
      }
    }
  }
}

template <class T>
T Rounded(double value, bool tf32) {
  return tf32 ? static_cast<T>(RoundToTf32(static_cast<float>(value))) : static_cast<T>(value);
}

// The filter, its taps reversed when it is to be convolved in the mathematical sense.
template <class T>
std::vector<T> LoadFilter(const Convolution& c, const void* w) {
  const int64_t taps = Axes(c).KernelVolume();
  std::vector<T> filter(c.w.Elements());
  for (int64_t i = 0; i < c.w.Elements(); ++i) {
    const int64_t tap = i % taps;
    const int64_t from = c.conv.mode == CUDNN_CONVOLUTION ? i - tap + (taps - 1 - tap) : i;
    filter[i] = Rounded<T>(Load(c.w.type, w, from), c.tf32);
  }
  return filter;
}

// Sample by sample from one tensor to the other: f(in, out).
template <class T, class F>
void ForEachSample(const Convolution& c, const cudnnTensorStruct& from, const void* in, const cudnnTensorStruct& to,
                   void* out, F f) {
  const View from_view(from), to_view(to);
  std::vector<T> in_sample(from_view.c * from_view.Volume()), out_sample(to_view.c * to_view.Volume());
  for (int64_t n = 0; n < from_view.n; ++n) {
    ForEachPlace(from_view, n, [&](int64_t packed, int64_t place) {
      in_sample[packed] = Rounded<T>(Load(from.type, in, place), c.tf32);
    });
    f(in_sample.data(), out_sample.data());
    ForEachPlace(to_view, n, [&](int64_t packed, int64_t place) {
      Blend(to.type, out, place, c.alpha, c.beta, out_sample[packed]);
    });
  }
}

template <class T>
void Forward(const Convolution& c, const void* x, const void* w, void* y) {
  const std::vector<T> filter = LoadFilter<T>(c, w);
  Sample<T> sample(c);
  ForEachSample<T>(c, c.x, x, c.y, y, [&](const T* in, T* out) { sample.Forward(filter.data(), in, out); });
}

template <class T>
void BackwardData(const Convolution& c, const void* w, const void* y, void* x) {
  const std::vector<T> filter = LoadFilter<T>(c, w);
  Sample<T> sample(c);
  ForEachSample<T>(c, c.y, y, c.x, x, [&](const T* in, T* out) { sample.BackwardData(filter.data(), in, out); });
}

}  // namespace

void ConvolveForward(const Convolution& c, const void* x, const void* w, void* y) {
  c.x.type == CUDNN_DATA_DOUBLE ? Forward<double>(c, x, w, y) : Forward<float>(c, x, w, y);
}

void ConvolveBackwardData(const Convolution& c, const void* w, const void* y, void* x) {
  c.x.type == CUDNN_DATA_DOUBLE ? BackwardData<double>(c, w, y, x) : BackwardData<float>(c, w, y, x);
}

int64_t PatchElements(const Convolution& c) { return View(c.x).c * Axes(c).KernelVolume() * View(c.y).Volume(); }

}  // namespace jacserve::cuda_sim
