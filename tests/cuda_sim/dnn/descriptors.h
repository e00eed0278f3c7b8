// What cuDNN's handles and descriptors hold here, and the frame of every call that queues work.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda_sim/runtime/world.h"

struct cudnnContext {
  int device = 0;
  cudaStream_t stream = nullptr;
};

// Sizes are [n, c, spatial..]; a stride for each, in elements.
struct cudnnTensorStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<int64_t> dims, strides;  // empty: not set

  int64_t Elements() const;  // from the first to the last number
};

struct cudnnFilterStruct {  // [o, i / groups, spatial..], packed
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  std::vector<int64_t> dims;

  int64_t Elements() const;
};

struct cudnnConvolutionStruct {
  std::vector<int64_t> pad, stride, dilation;  // one of each per spatial axis; the pad is on both sides
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  int64_t groups = 1;
};

struct cudnnPoolingStruct {
  cudnnPoolingMode_t mode = CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
  std::vector<int64_t> window, pad, stride;
};

namespace jacserve::cuda_sim {

int64_t SizeOf(cudnnDataType_t type);

// Keeps why a call failed for cudnnGetLastErrorString.
cudnnStatus_t Fail(cudnnStatus_t status, std::string why);

#define CUDNN_REQUIRE(condition, status) \
  if (!(condition)) return ::jacserve::cuda_sim::Fail(status, #condition)

// f(World&, Lock&) -> cudnnStatus_t.
template <class F>
cudnnStatus_t CallDnn(cudnnHandle_t handle, F f) {
  World& world = World::Get();
  Lock lock(world.mutex);
  CUDNN_REQUIRE(handle != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  if (!world.handles.contains(handle)) {
    world.Misuse("a cuDNN handle was used that never was, or after it was destroyed");
    return CUDNN_STATUS_NOT_INITIALIZED;
  }
  if (world.sticky != cudaSuccess) return Fail(CUDNN_STATUS_EXECUTION_FAILED_CUDART, "the context is broken");
  return f(world, lock);
}

// Is the descriptor alive and set? Else null pointer, misuse, or not set. For use below CUDNN_RETURN_IF.
cudnnStatus_t CheckDescriptor(World& world, const void* descriptor, bool set);

#define CUDNN_RETURN_IF_ERROR(expr) \
  if (const cudnnStatus_t status_ = (expr); status_ != CUDNN_STATUS_SUCCESS) return status_

// The tensor's memory lies in one block of the device and is aligned to its numbers.
bool CheckTensor(World& world, int device, const std::string& what, const cudnnTensorStruct& tensor, const void* data);

// alpha and beta: on the host, float for all types but double.
double Scalar(cudnnDataType_t type, const void* pointer);
bool CheckScalars(World& world, const void* alpha, const void* beta);

// A tensor as [n, c, d, h, w]; the depth is 1 when there is none.
struct View {
  int64_t n = 1, c = 1;
  int64_t size[3] = {1, 1, 1};
  int64_t n_stride = 0, c_stride = 0;
  int64_t strides[3] = {0, 0, 0};

  explicit View(const cudnnTensorStruct& tensor);
  int64_t Volume() const { return size[0] * size[1] * size[2]; }
  int64_t Offset(int64_t in, int64_t ic, int64_t d, int64_t h, int64_t w) const {
    return in * n_stride + ic * c_stride + d * strides[0] + h * strides[1] + w * strides[2];
  }
};

double Load(cudnnDataType_t type, const void* data, int64_t i);
void Store(cudnnDataType_t type, void* data, int64_t i, double value);
// data[i] = alpha * value + beta * data[i], which is not read when beta is 0.
inline void Blend(cudnnDataType_t type, void* data, int64_t i, double alpha, double beta, double value) {
  Store(type, data, i, alpha * value + (beta == 0 ? 0.0 : beta * Load(type, data, i)));
}

}  // namespace jacserve::cuda_sim
