// cuDNN's softmax and log softmax with their derivatives, over the channels or over all of a sample.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/cuda_sim/dnn/descriptors.h"

namespace jacserve::cuda_sim {
namespace {

// Lines of numbers that are normalised together: f(places), a place in each tensor for each number.
struct Line {
  std::vector<int64_t> y, other, out;
};

template <class F>
void ForEachLine(const View& y, const View& other, const View& out, cudnnSoftmaxMode_t mode, F f) {
  const int64_t volume = y.Volume();
  const int64_t lines = mode == CUDNN_SOFTMAX_MODE_CHANNEL ? volume : 1;
  const int64_t length = y.c * volume / lines;
  Line line;
  for (int64_t n = 0; n < y.n; ++n) {
    for (int64_t l = 0; l < lines; ++l) {
      for (auto* places : {&line.y, &line.other, &line.out}) places->clear();
      for (int64_t i = 0; i < length; ++i) {
        const int64_t c = lines == 1 ? i / volume : i, at = lines == 1 ? i % volume : l;
        const int64_t w = at % y.size[2], h = at / y.size[2] % y.size[1], d = at / (y.size[2] * y.size[1]);
        line.y.push_back(y.Offset(n, c, d, h, w));
        line.other.push_back(other.Offset(n, c, d, h, w));
        line.out.push_back(out.Offset(n, c, d, h, w));
      }
      f(line);
    }
  }
}

struct Softmax {
  cudnnSoftmaxAlgorithm_t algorithm;
  cudnnSoftmaxMode_t mode;
  cudnnTensorStruct y, other, out;  // forward: out = f(y); backward: out from y and its cotangent, the other
  double alpha = 1.0, beta = 0.0;
};

void Forward(const Softmax& s, const void* x, void* y) {
  const View from(s.y), to(s.out);
  std::vector<double> values;
  ForEachLine(from, from, to, s.mode, [&](const Line& line) {
    values.clear();
    for (const int64_t place : line.y) values.push_back(Load(s.y.type, x, place));
    const double largest = s.algorithm == CUDNN_SOFTMAX_FAST ? 0.0 : *std::max_element(values.begin(), values.end());
    double sum = 0.0;
    for (const double v : values) sum += std::exp(v - largest);
    for (size_t i = 0; i < values.size(); ++i) {
      const double v = values[i] - largest;
      Blend(s.out.type, y, line.out[i], s.alpha, s.beta,
            s.algorithm == CUDNN_SOFTMAX_LOG ? v - std::log(sum) : std::exp(v) / sum);
    }
  });
}

void Backward(const Softmax& s, const void* y, const void* dy, void* dx) {
  ForEachLine(View(s.y), View(s.other), View(s.out), s.mode, [&](const Line& line) {
    const bool log = s.algorithm == CUDNN_SOFTMAX_LOG;
    std::vector<double> values, cotangents;
    double sum = 0.0;
    for (size_t i = 0; i < line.y.size(); ++i) {
      values.push_back(Load(s.y.type, y, line.y[i]));
      cotangents.push_back(Load(s.other.type, dy, line.other[i]));
      sum += log ? cotangents[i] : cotangents[i] * values[i];
    }
    for (size_t i = 0; i < values.size(); ++i) {
      Blend(s.out.type, dx, line.out[i], s.alpha, s.beta,
            log ? cotangents[i] - std::exp(values[i]) * sum : values[i] * (cotangents[i] - sum));
    }
  });
}

cudnnStatus_t Check(World& world, const Softmax& s, const void* alpha, const void* beta) {
  CUDNN_REQUIRE(s.y.dims.size() == 4 || s.y.dims.size() == 5, CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
  CUDNN_REQUIRE(s.y.dims == s.out.dims && s.y.dims == s.other.dims, CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  CUDNN_REQUIRE(s.y.type == s.out.type && s.y.type == s.other.type, CUDNN_STATUS_BAD_PARAM);
  CUDNN_REQUIRE(s.y.strides == s.other.strides, CUDNN_STATUS_BAD_PARAM);
  CUDNN_REQUIRE(s.algorithm >= CUDNN_SOFTMAX_FAST && s.algorithm <= CUDNN_SOFTMAX_LOG, CUDNN_STATUS_BAD_PARAM);
  CUDNN_REQUIRE(s.mode == CUDNN_SOFTMAX_MODE_INSTANCE || s.mode == CUDNN_SOFTMAX_MODE_CHANNEL, CUDNN_STATUS_BAD_PARAM);
  return CheckScalars(world, alpha, beta) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t CheckSet(World& world, cudnnTensorDescriptor_t tensor) {
  return CheckDescriptor(world, tensor, tensor != nullptr && !tensor->dims.empty());
}

// In place is allowed where the strides agree.
bool CheckInPlace(World& world, const void* from, const cudnnTensorStruct& from_tensor, const void* to,
                  const cudnnTensorStruct& to_tensor) {
  if (from != to || from_tensor.strides == to_tensor.strides) return true;
  world.Misuse("a softmax in place has other strides for its output than for its input");
  return false;
}

}  // namespace
}  // namespace jacserve::cuda_sim

using namespace jacserve::cuda_sim;

cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algo, cudnnSoftmaxMode_t mode,
                                  const void* alpha, const cudnnTensorDescriptor_t xDesc, const void* x,
                                  const void* beta, const cudnnTensorDescriptor_t yDesc, void* y) {
  return CallDnn(handle, [&](World& world, Lock& lock) {
    CUDNN_REQUIRE(alpha != nullptr && x != nullptr && beta != nullptr && y != nullptr,
                  CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    for (const cudnnTensorDescriptor_t tensor : {xDesc, yDesc}) CUDNN_RETURN_IF_ERROR(CheckSet(world, tensor));
    Softmax s = {.algorithm = algo, .mode = mode, .y = *xDesc, .other = *xDesc, .out = *yDesc};
    CUDNN_RETURN_IF_ERROR(Check(world, s, alpha, beta));
    const StreamPtr stream = world.FindStream(handle->stream);
    if (!stream || !CheckTensor(world, handle->device, "the input of a softmax", s.y, x) ||
        !CheckTensor(world, handle->device, "the output of a softmax", s.out, y) ||
        !CheckInPlace(world, x, s.y, y, s.out)) {
      return CUDNN_STATUS_EXECUTION_FAILED;
    }
    s.alpha = Scalar(s.y.type, alpha);
    s.beta = Scalar(s.y.type, beta);
    const int64_t size = SizeOf(s.y.type);
    world.EnqueueLaunch(
        stream,
        {.run = [=] { Forward(s, x, y); }, .ranges = {{x, s.y.Elements() * size}, {y, s.out.Elements() * size}}}, lock);
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnSoftmaxBackward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algo, cudnnSoftmaxMode_t mode,
                                   const void* alpha, const cudnnTensorDescriptor_t yDesc, const void* y,
                                   const cudnnTensorDescriptor_t dyDesc, const void* dy, const void* beta,
                                   const cudnnTensorDescriptor_t dxDesc, void* dx) {
  return CallDnn(handle, [&](World& world, Lock& lock) {
    CUDNN_REQUIRE(alpha != nullptr && y != nullptr && dy != nullptr && beta != nullptr && dx != nullptr,
                  CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    for (const cudnnTensorDescriptor_t tensor : {yDesc, dyDesc, dxDesc}) CUDNN_RETURN_IF_ERROR(CheckSet(world, tensor));
    Softmax s = {.algorithm = algo, .mode = mode, .y = *yDesc, .other = *dyDesc, .out = *dxDesc};
    CUDNN_RETURN_IF_ERROR(Check(world, s, alpha, beta));
    const StreamPtr stream = world.FindStream(handle->stream);
    if (!stream || !CheckTensor(world, handle->device, "the softmax", s.y, y) ||
        !CheckTensor(world, handle->device, "the cotangent of a softmax", s.other, dy) ||
        !CheckTensor(world, handle->device, "the output of a softmax's pullback", s.out, dx) ||
        !CheckInPlace(world, y, s.y, dx, s.out) || !CheckInPlace(world, dy, s.other, dx, s.out)) {
      return CUDNN_STATUS_EXECUTION_FAILED;
    }
    s.alpha = Scalar(s.y.type, alpha);
    s.beta = Scalar(s.y.type, beta);
    const int64_t size = SizeOf(s.y.type);
    world.EnqueueLaunch(
        stream,
        {.run = [=] { Backward(s, y, dy, dx); },
         .ranges = {{y, s.y.Elements() * size}, {dy, s.other.Elements() * size}, {dx, s.out.Elements() * size}}},
        lock);
    return CUDNN_STATUS_SUCCESS;
  });
}
