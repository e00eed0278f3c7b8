// cuDNN's average pooling and its derivative. Maxima are not known here: cuDNN does not say which of equal numbers
// takes the cotangent.
#include <algorithm>
#include <vector>

#include "tests/cuda_sim/dnn/descriptors.h"

namespace jacserve::cuda_sim {
namespace {

struct Pooling {
  cudnnPoolingStruct pool;
  cudnnTensorStruct x, y;
  double alpha = 1.0, beta = 0.0;
};

int64_t OutputSize(const Pooling& p, size_t axis) {
  const int64_t room = p.x.dims[2 + axis] + 2 * p.pool.pad[axis] - p.pool.window[axis];
  return room < 0 ? 0 : room / p.pool.stride[axis] + 1;
}

// The part of a window that lies inside the input, along one of three axes, and its length with the padding.
struct Span {
  int64_t begin = 0, end = 1, padded = 1;
};

Span SpanOf(const Pooling& p, const View& x, int axis, int64_t l) {
  const int missing = 3 - static_cast<int>(p.pool.window.size());
  if (axis < missing) return {};
  const int i = axis - missing;
  const int64_t begin = l * p.pool.stride[i] - p.pool.pad[i];
  const int64_t end = std::min(begin + p.pool.window[i], x.size[axis] + p.pool.pad[i]);
  return {std::max<int64_t>(begin, 0), std::min(end, x.size[axis]), end - begin};
}

// f(place in y, places in x, count).
template <class F>
void ForEachWindow(const Pooling& p, F f) {
  const View x(p.x), y(p.y);
  const bool padding_counts = p.pool.mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
  std::vector<int64_t> places;
  for (int64_t i = 0; i < y.n * y.c * y.Volume(); ++i) {
    const int64_t w = i % y.size[2], h = i / y.size[2] % y.size[1], d = i / (y.size[2] * y.size[1]) % y.size[0];
    const int64_t c = i / y.Volume() % y.c, n = i / (y.Volume() * y.c);
    const Span spans[3] = {SpanOf(p, x, 0, d), SpanOf(p, x, 1, h), SpanOf(p, x, 2, w)};
    places.clear();
    for (int64_t xd = spans[0].begin; xd < spans[0].end; ++xd) {
      for (int64_t xh = spans[1].begin; xh < spans[1].end; ++xh) {
        for (int64_t xw = spans[2].begin; xw < spans[2].end; ++xw) places.push_back(x.Offset(n, c, xd, xh, xw));
      }
    }
    const int64_t padded = spans[0].padded * spans[1].padded * spans[2].padded;
    f(y.Offset(n, c, d, h, w), places, padding_counts ? padded : static_cast<int64_t>(places.size()));
  }
}

void Forward(const Pooling& p, const void* x, void* y) {
  ForEachWindow(p, [&](int64_t out, const std::vector<int64_t>& places, int64_t count) {
    double sum = 0.0;
    for (const int64_t place : places) sum += Load(p.x.type, x, place);
    Blend(p.y.type, y, out, p.alpha, p.beta, count == 0 ? 0.0 : sum / static_cast<double>(count));
  });
}

void Backward(const Pooling& p, const void* dy, void* dx) {
  std::vector<double> sums(p.x.Elements(), 0.0);
  ForEachWindow(p, [&](int64_t out, const std::vector<int64_t>& places, int64_t count) {
    for (const int64_t place : places) sums[place] += Load(p.y.type, dy, out) / static_cast<double>(count);
  });
  const View x(p.x);
  for (int64_t i = 0; i < x.n * x.c * x.Volume(); ++i) {
    const int64_t w = i % x.size[2], h = i / x.size[2] % x.size[1], d = i / (x.size[2] * x.size[1]) % x.size[0];
    const int64_t place = x.Offset(i / (x.Volume() * x.c), i / x.Volume() % x.c, d, h, w);
    Blend(p.x.type, dx, place, p.alpha, p.beta, sums[place]);
  }
}

cudnnStatus_t Check(const Pooling& p) {
  const size_t dims = p.x.dims.size();
  CUDNN_REQUIRE(dims == 4 || dims == 5, CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
  CUDNN_REQUIRE(p.y.dims.size() == dims && p.pool.window.size() + 2 == dims, CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  CUDNN_REQUIRE(p.x.type == p.y.type, CUDNN_STATUS_BAD_PARAM);
  CUDNN_REQUIRE(p.x.dims[0] == p.y.dims[0] && p.x.dims[1] == p.y.dims[1], CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  for (size_t i = 0; i + 2 < dims; ++i) {
    CUDNN_REQUIRE(p.y.dims[2 + i] == OutputSize(p, i), CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CheckSet(World& world, cudnnPoolingDescriptor_t pool,
                       std::initializer_list<cudnnTensorDescriptor_t> tensors) {
  CUDNN_RETURN_IF_ERROR(CheckDescriptor(world, pool, pool != nullptr && !pool->window.empty()));
  for (const cudnnTensorDescriptor_t tensor : tensors) {
    CUDNN_RETURN_IF_ERROR(CheckDescriptor(world, tensor, tensor != nullptr && !tensor->dims.empty()));
  }
  return CUDNN_STATUS_SUCCESS;
}

bool Same(const cudnnTensorStruct& a, const cudnnTensorStruct& b) {
  return a.type == b.type && a.dims == b.dims && a.strides == b.strides;
}

}  // namespace
}  // namespace jacserve::cuda_sim

using namespace jacserve::cuda_sim;

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t poolingDesc, const void* alpha,
                                  const cudnnTensorDescriptor_t xDesc, const void* x, const void* beta,
                                  const cudnnTensorDescriptor_t yDesc, void* y) {
  return CallDnn(handle, [&](World& world, Lock& lock) {
    CUDNN_REQUIRE(alpha != nullptr && x != nullptr && beta != nullptr && y != nullptr,
                  CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    CUDNN_RETURN_IF_ERROR(CheckSet(world, poolingDesc, {xDesc, yDesc}));
    Pooling p = {.pool = *poolingDesc, .x = *xDesc, .y = *yDesc};
    CUDNN_RETURN_IF_ERROR(Check(p));
    const StreamPtr stream = world.FindStream(handle->stream);
    if (!stream || !CheckScalars(world, alpha, beta) ||
        !CheckTensor(world, handle->device, "the input of a pooling", p.x, x) ||
        !CheckTensor(world, handle->device, "the output of a pooling", p.y, y)) {
      return CUDNN_STATUS_EXECUTION_FAILED;
    }
    p.alpha = Scalar(p.x.type, alpha);
    p.beta = Scalar(p.x.type, beta);
    const int64_t size = SizeOf(p.x.type);
    world.EnqueueLaunch(
        stream, {.run = [=] { Forward(p, x, y); }, .ranges = {{x, p.x.Elements() * size}, {y, p.y.Elements() * size}}},
        lock);
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t poolingDesc, const void* alpha,
                                   const cudnnTensorDescriptor_t yDesc, const void* y,
                                   const cudnnTensorDescriptor_t dyDesc, const void* dy,
                                   const cudnnTensorDescriptor_t xDesc, const void* x, const void* beta,
                                   const cudnnTensorDescriptor_t dxDesc, void* dx) {
  return CallDnn(handle, [&](World& world, Lock& lock) {
    for (const void* pointer : {alpha, y, dy, x, beta, static_cast<const void*>(dx)}) {
      CUDNN_REQUIRE(pointer != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    }
    CUDNN_RETURN_IF_ERROR(CheckSet(world, poolingDesc, {yDesc, dyDesc, xDesc, dxDesc}));
    Pooling p = {.pool = *poolingDesc, .x = *dxDesc, .y = *dyDesc};
    CUDNN_REQUIRE(Same(*yDesc, *dyDesc) && Same(*xDesc, *dxDesc), CUDNN_STATUS_BAD_PARAM);
    CUDNN_RETURN_IF_ERROR(Check(p));
    const StreamPtr stream = world.FindStream(handle->stream);
    if (!stream || !CheckScalars(world, alpha, beta) || !CheckTensor(world, handle->device, "y of a pooling", p.y, y) ||
        !CheckTensor(world, handle->device, "the cotangent of a pooling", p.y, dy) ||
        !CheckTensor(world, handle->device, "x of a pooling", p.x, x) ||
        !CheckTensor(world, handle->device, "the output of a pooling's pullback", p.x, dx)) {
      return CUDNN_STATUS_EXECUTION_FAILED;
    }
    p.alpha = Scalar(p.x.type, alpha);
    p.beta = Scalar(p.x.type, beta);
    const int64_t size = SizeOf(p.x.type);
    world.EnqueueLaunch(
        stream,
        {.run = [=] { Backward(p, dy, dx); }, .ranges = {{dy, p.y.Elements() * size}, {dx, p.x.Elements() * size}}},
        lock);
    return CUDNN_STATUS_SUCCESS;
  });
}
