// Makes, sets and ends cuDNN's descriptors.
#include "tests/cuda_sim/dnn/descriptors.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace jacserve::cuda_sim {
namespace {

constexpr int kMostDims = CUDNN_DIM_MAX;

template <class T>
cudnnStatus_t Create(T** descriptor, const char* what) {
  World& world = World::Get();
  const Lock lock(world.mutex);
  CUDNN_REQUIRE(descriptor != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  *descriptor = world.Make(what, T{});
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Destroy(const void* descriptor, const char* what) {
  World& world = World::Get();
  const Lock lock(world.mutex);
  if (descriptor == nullptr) return CUDNN_STATUS_SUCCESS;
  return world.DropHandle(what, descriptor) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

// f() changes a descriptor that is alive.
template <class F>
cudnnStatus_t Change(const void* descriptor, F f) {
  World& world = World::Get();
  const Lock lock(world.mutex);
  CUDNN_RETURN_IF_ERROR(CheckDescriptor(world, descriptor, /*set=*/true));
  return f();
}

bool KnownType(cudnnDataType_t type) {
  return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_DOUBLE || type == CUDNN_DATA_HALF ||
         type == CUDNN_DATA_BFLOAT16;
}

bool AllAtLeast(int64_t least, const std::vector<int64_t>& values) {
  return std::all_of(values.begin(), values.end(), [least](int64_t v) { return v >= least; });
}

std::vector<int64_t> Packed(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

// Channels last: [n, spatial.., c] in memory.
std::vector<int64_t> PackedChannelsLast(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = dims[1];
  strides[1] = 1;
  for (size_t i = dims.size() - 1; i > 1; --i) {
    strides[i] = stride;
    stride *= dims[i];
  }
  strides[0] = stride;
  return strides;
}

int64_t Product(const std::vector<int64_t>& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

cudnnStatus_t SetTensor(cudnnTensorDescriptor_t descriptor, cudnnDataType_t type, std::vector<int64_t> dims,
                        std::vector<int64_t> strides) {
  return Change(descriptor, [&] {
    CUDNN_REQUIRE(dims.size() >= 3 && dims.size() <= kMostDims, CUDNN_STATUS_NOT_SUPPORTED);
    CUDNN_REQUIRE(KnownType(type), CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
    CUDNN_REQUIRE(AllAtLeast(1, dims), CUDNN_STATUS_BAD_PARAM);
    CUDNN_REQUIRE(AllAtLeast(0, strides), CUDNN_STATUS_BAD_PARAM);
    cudnnTensorStruct tensor = {.type = type, .dims = std::move(dims), .strides = std::move(strides)};
    CUDNN_REQUIRE(tensor.Elements() < (int64_t{1} << 31), CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
    *descriptor = std::move(tensor);
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t SetPackedTensor(cudnnTensorDescriptor_t descriptor, cudnnTensorFormat_t format, cudnnDataType_t type,
                              std::vector<int64_t> dims) {
  CUDNN_REQUIRE(format == CUDNN_TENSOR_NCHW || format == CUDNN_TENSOR_NHWC, CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
  CUDNN_REQUIRE(dims.size() >= 3, CUDNN_STATUS_NOT_SUPPORTED);
  std::vector<int64_t> strides = format == CUDNN_TENSOR_NCHW ? Packed(dims) : PackedChannelsLast(dims);
  return SetTensor(descriptor, type, std::move(dims), std::move(strides));
}

std::vector<int64_t> List(const int* values, int count) {
  return values == nullptr || count < 0 ? std::vector<int64_t>() : std::vector<int64_t>(values, values + count);
}

cudnnStatus_t SetFilter(cudnnFilterDescriptor_t descriptor, cudnnDataType_t type, cudnnTensorFormat_t format,
                        std::vector<int64_t> dims) {
  return Change(descriptor, [&] {
    CUDNN_REQUIRE(dims.size() >= 3 && dims.size() <= kMostDims, CUDNN_STATUS_NOT_SUPPORTED);
    CUDNN_REQUIRE(KnownType(type), CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
    CUDNN_REQUIRE(AllAtLeast(1, dims), CUDNN_STATUS_BAD_PARAM);
    *descriptor = {.type = type, .format = format, .dims = std::move(dims)};
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t SetConvolution(cudnnConvolutionDescriptor_t descriptor, std::vector<int64_t> pad,
                             std::vector<int64_t> stride, std::vector<int64_t> dilation, cudnnConvolutionMode_t mode,
                             cudnnDataType_t compute) {
  return Change(descriptor, [&] {
    CUDNN_REQUIRE(!pad.empty() && pad.size() <= 3, CUDNN_STATUS_NOT_SUPPORTED);
    CUDNN_REQUIRE(AllAtLeast(0, pad) && AllAtLeast(1, stride) && AllAtLeast(1, dilation), CUDNN_STATUS_BAD_PARAM);
    CUDNN_REQUIRE(mode == CUDNN_CROSS_CORRELATION || mode == CUDNN_CONVOLUTION, CUDNN_STATUS_BAD_PARAM);
    CUDNN_REQUIRE(KnownType(compute), CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
    descriptor->pad = std::move(pad);
    descriptor->stride = std::move(stride);
    descriptor->dilation = std::move(dilation);
    descriptor->mode = mode;
    descriptor->compute = compute;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t SetPooling(cudnnPoolingDescriptor_t descriptor, cudnnPoolingMode_t mode, std::vector<int64_t> window,
                         std::vector<int64_t> pad, std::vector<int64_t> stride) {
  return Change(descriptor, [&] {
    const bool average =
        mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING || mode == CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
    CUDNN_REQUIRE(average, CUDNN_STATUS_NOT_SUPPORTED);  // of maxima the simulation knows nothing
    CUDNN_REQUIRE(window.size() == 2 || window.size() == 3, CUDNN_STATUS_NOT_SUPPORTED);
    CUDNN_REQUIRE(AllAtLeast(1, window) && AllAtLeast(1, stride) && AllAtLeast(0, pad), CUDNN_STATUS_BAD_PARAM);
    for (size_t i = 0; i < window.size(); ++i) CUDNN_REQUIRE(pad[i] < window[i], CUDNN_STATUS_BAD_PARAM);
    *descriptor = {.mode = mode, .window = std::move(window), .pad = std::move(pad), .stride = std::move(stride)};
    return CUDNN_STATUS_SUCCESS;
  });
}

}  // namespace

int64_t SizeOf(cudnnDataType_t type) { return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2; }

cudnnStatus_t CheckDescriptor(World& world, const void* descriptor, bool set) {
  CUDNN_REQUIRE(descriptor != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  if (!world.handles.contains(descriptor)) {
    world.Misuse("a cuDNN descriptor was used that never was, or after it was destroyed");
    return CUDNN_STATUS_BAD_PARAM;
  }
  CUDNN_REQUIRE(set, CUDNN_STATUS_BAD_PARAM);
  return CUDNN_STATUS_SUCCESS;
}

bool CheckTensor(World& world, int device, const std::string& what, const cudnnTensorStruct& tensor, const void* data) {
  if (reinterpret_cast<uintptr_t>(data) % SizeOf(tensor.type) != 0) {
    world.Misuse(what + " is not aligned to its numbers");
    return false;
  }
  return world.CheckDevice(device, what, data, tensor.Elements() * SizeOf(tensor.type));
}

double Scalar(cudnnDataType_t type, const void* pointer) {
  return type == CUDNN_DATA_DOUBLE ? *static_cast<const double*>(pointer) : *static_cast<const float*>(pointer);
}

bool CheckScalars(World& world, const void* alpha, const void* beta) {
  return world.CheckHost("cuDNN's alpha", alpha) && world.CheckHost("cuDNN's beta", beta);
}

View::View(const cudnnTensorStruct& tensor)
    : n(tensor.dims[0]), c(tensor.dims[1]), n_stride(tensor.strides[0]), c_stride(tensor.strides[1]) {
  const size_t missing = 5 - tensor.dims.size();
  for (size_t i = 2; i < tensor.dims.size(); ++i) {
    size[missing + i - 2] = tensor.dims[i];
    strides[missing + i - 2] = tensor.strides[i];
  }
}

double Load(cudnnDataType_t type, const void* data, int64_t i) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return static_cast<const double*>(data)[i];
    case CUDNN_DATA_HALF:
      return __half2float(static_cast<const __half*>(data)[i]);
    case CUDNN_DATA_BFLOAT16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
    default:
      return static_cast<const float*>(data)[i];
  }
}

void Store(cudnnDataType_t type, void* data, int64_t i, double value) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      static_cast<double*>(data)[i] = value;
      break;
    case CUDNN_DATA_HALF:
      static_cast<__half*>(data)[i] = __float2half(static_cast<float>(value));
      break;
    case CUDNN_DATA_BFLOAT16:
      static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(static_cast<float>(value));
      break;
    default:
      static_cast<float*>(data)[i] = static_cast<float>(value);
  }
}

}  // namespace jacserve::cuda_sim

int64_t cudnnTensorStruct::Elements() const {
  int64_t last = 0;
  for (size_t i = 0; i < dims.size(); ++i) last += (dims[i] - 1) * strides[i];
  return last + 1;
}

int64_t cudnnFilterStruct::Elements() const { return jacserve::cuda_sim::Product(dims); }

using namespace jacserve::cuda_sim;

#define JACSERVE_CUDA_SIM_DESCRIPTOR(Name, what)                                       \
  cudnnStatus_t cudnnCreate##Name##Descriptor(cudnn##Name##Descriptor_t* descriptor) { \
    return Create(descriptor, what);                                                   \
  }                                                                                    \
  cudnnStatus_t cudnnDestroy##Name##Descriptor(cudnn##Name##Descriptor_t descriptor) { \
    return Destroy(descriptor, what);                                                  \
  }

JACSERVE_CUDA_SIM_DESCRIPTOR(Tensor, "a cuDNN tensor descriptor")
JACSERVE_CUDA_SIM_DESCRIPTOR(Filter, "a cuDNN filter descriptor")
JACSERVE_CUDA_SIM_DESCRIPTOR(Convolution, "a cuDNN convolution descriptor")
JACSERVE_CUDA_SIM_DESCRIPTOR(Pooling, "a cuDNN pooling descriptor")

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t descriptor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  return SetPackedTensor(descriptor, format, type, {n, c, h, w});
}

cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t descriptor, cudnnDataType_t type, int n, int c,
                                           int h, int w, int nStride, int cStride, int hStride, int wStride) {
  return SetTensor(descriptor, type, {n, c, h, w}, {nStride, cStride, hStride, wStride});
}

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t descriptor, cudnnDataType_t type, int count,
                                         const int dims[], const int strides[]) {
  CUDNN_REQUIRE(dims != nullptr && strides != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  return SetTensor(descriptor, type, List(dims, count), List(strides, count));
}

cudnnStatus_t cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t descriptor, cudnnTensorFormat_t format,
                                           cudnnDataType_t type, int count, const int dims[]) {
  CUDNN_REQUIRE(dims != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  return SetPackedTensor(descriptor, format, type, List(dims, count));
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t descriptor, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  return SetFilter(descriptor, type, format, {k, c, h, w});
}

cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t descriptor, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int count, const int dims[]) {
  CUDNN_REQUIRE(dims != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  return SetFilter(descriptor, type, format, List(dims, count));
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t descriptor, int pad_h, int pad_w, int u,
                                              int v, int dilation_h, int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  return SetConvolution(descriptor, {pad_h, pad_w}, {u, v}, {dilation_h, dilation_w}, mode, compute);
}

cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t descriptor, int count, const int pad[],
                                              const int stride[], const int dilation[], cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  CUDNN_REQUIRE(pad != nullptr && stride != nullptr && dilation != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  return SetConvolution(descriptor, List(pad, count), List(stride, count), List(dilation, count), mode, compute);
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t descriptor, cudnnMathType_t math) {
  return Change(descriptor, [&] {
    CUDNN_REQUIRE(math >= CUDNN_DEFAULT_MATH && math <= CUDNN_FMA_MATH, CUDNN_STATUS_BAD_PARAM);
    descriptor->math = math;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t descriptor, int groups) {
  return Change(descriptor, [&] {
    CUDNN_REQUIRE(groups >= 1, CUDNN_STATUS_BAD_PARAM);
    descriptor->groups = groups;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t descriptor, cudnnPoolingMode_t mode,
                                          cudnnNanPropagation_t, int windowHeight, int windowWidth, int padH, int padW,
                                          int strideH, int strideW) {
  return SetPooling(descriptor, mode, {windowHeight, windowWidth}, {padH, padW}, {strideH, strideW});
}

cudnnStatus_t cudnnSetPoolingNdDescriptor(cudnnPoolingDescriptor_t descriptor, const cudnnPoolingMode_t mode,
                                          const cudnnNanPropagation_t, int count, const int window[], const int pad[],
                                          const int stride[]) {
  CUDNN_REQUIRE(window != nullptr && pad != nullptr && stride != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  return SetPooling(descriptor, mode, List(window, count), List(pad, count), List(stride, count));
}
