// cuDNN's convolutions: descriptors checked as it documents, algorithms with their workspaces, then queued.
// Of the algorithms those that compute by patches are known: forward IMPLICIT_GEMM, IMPLICIT_PRECOMP_GEMM and GEMM, for
// the data ALGO_0 (which is not deterministic, and stands first among the proposals) and ALGO_1.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "tests/cuda_sim/dnn/convolution.h"

namespace jacserve::cuda_sim {
namespace {

enum class Direction { kForward, kBackwardData };

bool TypesAgree(const Convolution& c) {
  if (c.x.type != c.y.type || c.x.type != c.w.type) return false;
  return c.conv.compute == (c.x.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
}

int64_t OutputSize(const Convolution& c, size_t axis) {
  const int64_t reach = (c.w.dims[2 + axis] - 1) * c.conv.dilation[axis] + 1;
  const int64_t padded = c.x.dims[2 + axis] + 2 * c.conv.pad[axis];
  return padded < reach ? 0 : (padded - reach) / c.conv.stride[axis] + 1;
}

// Each number of the tensor has a place of its own.
bool Injective(const cudnnTensorStruct& t) {
  std::vector<std::pair<int64_t, int64_t>> axes;
  for (size_t i = 0; i < t.dims.size(); ++i) {
    if (t.dims[i] > 1) axes.emplace_back(t.strides[i], t.dims[i]);
  }
  std::sort(axes.begin(), axes.end());
  int64_t reach = 1;
  for (const auto& [stride, dim] : axes) {
    if (stride < reach) return false;
    reach = stride * (dim - 1) + reach;
  }
  return true;
}

// All but the outermost axis lie close together, in C order.
bool SamplesPacked(const cudnnTensorStruct& t) {
  int64_t stride = 1;
  for (size_t i = t.dims.size() - 1; i > 0; --i) {
    if (t.dims[i] > 1 && t.strides[i] != stride) return false;
    stride *= t.dims[i];
  }
  return true;
}

cudnnStatus_t CheckShapes(const Convolution& c) {
  const size_t dims = c.x.dims.size();
  CUDNN_REQUIRE(c.y.dims.size() == dims && c.w.dims.size() == dims, CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  CUDNN_REQUIRE(dims == 4 || dims == 5, CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
  CUDNN_REQUIRE(c.conv.pad.size() == dims - 2, CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  CUDNN_REQUIRE(TypesAgree(c), CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
  CUDNN_REQUIRE(c.w.format == CUDNN_TENSOR_NCHW, CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
  CUDNN_REQUIRE(c.w.dims[0] % c.conv.groups == 0, CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  CUDNN_REQUIRE(c.x.dims[1] == c.w.dims[1] * c.conv.groups, CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  CUDNN_REQUIRE(c.y.dims[0] == c.x.dims[0], CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  CUDNN_REQUIRE(c.y.dims[1] == c.w.dims[0], CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  for (size_t i = 0; i + 2 < dims; ++i) {
    CUDNN_REQUIRE(c.y.dims[2 + i] == OutputSize(c, i), CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  }
  return CUDNN_STATUS_SUCCESS;
}

// ALGO_0 and ALGO_1 want the cotangent's samples packed, and ALGO_1 in three dimensions all of both tensors.
cudnnStatus_t CheckLayouts(const Convolution& c, Direction direction, int algorithm) {
  CUDNN_REQUIRE(Injective(direction == Direction::kForward ? c.y : c.x), CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
  if (direction == Direction::kForward) return CUDNN_STATUS_SUCCESS;
  CUDNN_REQUIRE(SamplesPacked(c.y), CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
  if (algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 && c.x.dims.size() == 5) {
    for (const cudnnTensorStruct* t : {&c.x, &c.y}) {
      const bool packed =
          SamplesPacked(*t) && t->Elements() == t->dims[0] * (t->Elements() - (t->dims[0] - 1) * t->strides[0]);
      CUDNN_REQUIRE(packed, CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

// Bytes, or -1 for an algorithm that is not known here.
int64_t Workspace(const Convolution& c, Direction direction, int algorithm) {
  const int64_t patches = PatchElements(c) * SizeOf(c.conv.compute);
  if (direction == Direction::kForward) {
    switch (algorithm) {
      case CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM:
        return 0;
      case CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM:
        return 4096;
      case CUDNN_CONVOLUTION_FWD_ALGO_GEMM:
        return patches;
      default:
        return -1;
    }
  }
  switch (algorithm) {
    case CUDNN_CONVOLUTION_BWD_DATA_ALGO_0:
      return 0;
    case CUDNN_CONVOLUTION_BWD_DATA_ALGO_1:
      return patches;
    default:
      return -1;
  }
}

struct Descriptors {
  cudnnTensorDescriptor_t x;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t conv;
  cudnnTensorDescriptor_t y;
};

cudnnStatus_t Read(World& world, const Descriptors& d, Convolution& c) {
  CUDNN_RETURN_IF_ERROR(CheckDescriptor(world, d.x, d.x != nullptr && !d.x->dims.empty()));
  CUDNN_RETURN_IF_ERROR(CheckDescriptor(world, d.w, d.w != nullptr && !d.w->dims.empty()));
  CUDNN_RETURN_IF_ERROR(CheckDescriptor(world, d.conv, d.conv != nullptr && !d.conv->pad.empty()));
  CUDNN_RETURN_IF_ERROR(CheckDescriptor(world, d.y, d.y != nullptr && !d.y->dims.empty()));
  c = {.x = *d.x, .y = *d.y, .w = *d.w, .conv = *d.conv};
  return CheckShapes(c);
}

cudnnStatus_t WorkspaceSize(cudnnHandle_t handle, const Descriptors& d, Direction direction, int algorithm,
                            size_t* bytes) {
  return CallDnn(handle, [&](World& world, Lock&) {
    CUDNN_REQUIRE(bytes != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    Convolution c;
    CUDNN_RETURN_IF_ERROR(Read(world, d, c));
    CUDNN_RETURN_IF_ERROR(CheckLayouts(c, direction, algorithm));
    const int64_t needed = Workspace(c, direction, algorithm);
    CUDNN_REQUIRE(needed >= 0, CUDNN_STATUS_NOT_SUPPORTED);
    *bytes = needed;
    return CUDNN_STATUS_SUCCESS;
  });
}

struct Memory {
  const void* w;
  const void* in;
  void* out;
  void* workspace;
  size_t workspace_bytes;
};

// TF32 is what cuDNN takes for float32 unless it is told CUDNN_FMA_MATH.
bool TakesTf32(const Convolution& c) { return c.x.type == CUDNN_DATA_FLOAT && c.conv.math != CUDNN_FMA_MATH; }

cudnnStatus_t CheckMemory(World& world, int device, const Convolution& c, Direction direction, const Memory& m,
                          int64_t workspace) {
  const bool forward = direction == Direction::kForward;
  CUDNN_REQUIRE(m.workspace_bytes >= static_cast<size_t>(workspace), CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
  CUDNN_REQUIRE(workspace == 0 || m.workspace != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  const int64_t filter_bytes = c.w.Elements() * SizeOf(c.w.type);
  const bool good = CheckTensor(world, device, "the input of a convolution", forward ? c.x : c.y, m.in) &&
                    CheckTensor(world, device, "the output of a convolution", forward ? c.y : c.x, m.out) &&
                    world.CheckDevice(device, "the filter of a convolution", m.w, filter_bytes) &&
                    (workspace == 0 || world.CheckDevice(device, "a convolution's workspace", m.workspace,
                                                         static_cast<int64_t>(m.workspace_bytes)));
  return good ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

cudnnStatus_t Convolve(cudnnHandle_t handle, const Descriptors& d, Direction direction, int algorithm,
                       const void* alpha, const void* beta, const Memory& m) {
  return CallDnn(handle, [&](World& world, Lock& lock) {
    for (const void* pointer : {alpha, beta, m.w, m.in, static_cast<const void*>(m.out)}) {
      CUDNN_REQUIRE(pointer != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    }
    Convolution c;
    CUDNN_RETURN_IF_ERROR(Read(world, d, c));
    CUDNN_RETURN_IF_ERROR(CheckLayouts(c, direction, algorithm));
    const int64_t workspace = Workspace(c, direction, algorithm);
    CUDNN_REQUIRE(workspace >= 0, CUDNN_STATUS_NOT_SUPPORTED);
    CUDNN_RETURN_IF_ERROR(CheckMemory(world, handle->device, c, direction, m, workspace));
    const StreamPtr stream = world.FindStream(handle->stream);
    if (!stream || !CheckScalars(world, alpha, beta)) return CUDNN_STATUS_EXECUTION_FAILED;
    c.alpha = Scalar(c.x.type, alpha);
    c.beta = Scalar(c.x.type, beta);
    c.tf32 = TakesTf32(c);
    if (c.tf32) ++world.counters.tf32_products;
    const bool forward = direction == Direction::kForward;
    if (!forward && algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_0) ++world.counters.nondeterministic_launches;
    Task task;
    task.ranges = {{m.in, (forward ? c.x : c.y).Elements() * SizeOf(c.x.type)},
                   {m.out, (forward ? c.y : c.x).Elements() * SizeOf(c.x.type)},
                   {m.w, c.w.Elements() * SizeOf(c.w.type)},
                   {m.workspace, workspace}};
    task.run = [=] {
      if (workspace > 0) std::memset(m.workspace, kPoison, workspace);
      forward ? ConvolveForward(c, m.in, m.w, m.out) : ConvolveBackwardData(c, m.w, m.in, m.out);
    };
    world.EnqueueLaunch(stream, std::move(task), lock);
    return CUDNN_STATUS_SUCCESS;
  });
}

// The known algorithms in this order, the others as not supported.
template <class Perf, class Algorithm>
cudnnStatus_t Propose(cudnnHandle_t handle, const Descriptors& d, Direction direction, int requested, int* returned,
                      Perf* perf, std::initializer_list<Algorithm> algorithms) {
  return CallDnn(handle, [&](World& world, Lock&) {
    CUDNN_REQUIRE(returned != nullptr && perf != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    CUDNN_REQUIRE(requested >= 1, CUDNN_STATUS_BAD_PARAM);
    Convolution c;
    CUDNN_RETURN_IF_ERROR(Read(world, d, c));
    *returned = 0;
    for (const Algorithm algorithm : algorithms) {
      if (*returned == requested) break;
      Perf& p = perf[(*returned)++];
      p = {};
      p.algo = algorithm;
      const int64_t workspace = Workspace(c, direction, algorithm);
      p.status = workspace < 0 ? CUDNN_STATUS_NOT_SUPPORTED : CheckLayouts(c, direction, algorithm);
      p.memory = std::max<int64_t>(workspace, 0);
      const bool varies = direction == Direction::kBackwardData && algorithm == Algorithm{};
      p.determinism = varies ? CUDNN_NON_DETERMINISTIC : CUDNN_DETERMINISTIC;
      p.mathType = c.conv.math;
      p.time = p.status == CUDNN_STATUS_SUCCESS ? 0.0f : -1.0f;
    }
    return CUDNN_STATUS_SUCCESS;
  });
}

}  // namespace
}  // namespace jacserve::cuda_sim

using namespace jacserve::cuda_sim;

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t xDesc,
                                      const void* x, const cudnnFilterDescriptor_t wDesc, const void* w,
                                      const cudnnConvolutionDescriptor_t convDesc, cudnnConvolutionFwdAlgo_t algo,
                                      void* workSpace, size_t workSpaceSizeInBytes, const void* beta,
                                      const cudnnTensorDescriptor_t yDesc, void* y) {
  return Convolve(handle, {xDesc, wDesc, convDesc, yDesc}, Direction::kForward, algo, alpha, beta,
                  {w, x, y, workSpace, workSpaceSizeInBytes});
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha, const cudnnFilterDescriptor_t wDesc,
                                           const void* w, const cudnnTensorDescriptor_t dyDesc, const void* dy,
                                           const cudnnConvolutionDescriptor_t convDesc,
                                           cudnnConvolutionBwdDataAlgo_t algo, void* workSpace,
                                           size_t workSpaceSizeInBytes, const void* beta,
                                           const cudnnTensorDescriptor_t dxDesc, void* dx) {
  return Convolve(handle, {dxDesc, wDesc, convDesc, dyDesc}, Direction::kBackwardData, algo, alpha, beta,
                  {w, dy, dx, workSpace, workSpaceSizeInBytes});
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc,
                                                      const cudnnFilterDescriptor_t wDesc,
                                                      const cudnnConvolutionDescriptor_t convDesc,
                                                      const cudnnTensorDescriptor_t yDesc,
                                                      cudnnConvolutionFwdAlgo_t algo, size_t* sizeInBytes) {
  return WorkspaceSize(handle, {xDesc, wDesc, convDesc, yDesc}, Direction::kForward, algo, sizeInBytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t handle, const cudnnFilterDescriptor_t wDesc,
                                                           const cudnnTensorDescriptor_t dyDesc,
                                                           const cudnnConvolutionDescriptor_t convDesc,
                                                           const cudnnTensorDescriptor_t dxDesc,
                                                           cudnnConvolutionBwdDataAlgo_t algo, size_t* sizeInBytes) {
  return WorkspaceSize(handle, {dxDesc, wDesc, convDesc, dyDesc}, Direction::kBackwardData, algo, sizeInBytes);
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t srcDesc,
                                                     const cudnnFilterDescriptor_t filterDesc,
                                                     const cudnnConvolutionDescriptor_t convDesc,
                                                     const cudnnTensorDescriptor_t destDesc, const int requested,
                                                     int* returned, cudnnConvolutionFwdAlgoPerf_t* perf) {
  return Propose(
      handle, {srcDesc, filterDesc, convDesc, destDesc}, Direction::kForward, requested, returned, perf,
      {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_GEMM,
       CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, CUDNN_CONVOLUTION_FWD_ALGO_FFT});
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle,
                                                          const cudnnFilterDescriptor_t filterDesc,
                                                          const cudnnTensorDescriptor_t diffDesc,
                                                          const cudnnConvolutionDescriptor_t convDesc,
                                                          const cudnnTensorDescriptor_t gradDesc, const int requested,
                                                          int* returned, cudnnConvolutionBwdDataAlgoPerf_t* perf) {
  return Propose(handle, {gradDesc, filterDesc, convDesc, diffDesc}, Direction::kBackwardData, requested, returned,
                 perf,
                 {CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,
                  CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD, CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT});
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithmMaxCount(cudnnHandle_t, int* count) {
  CUDNN_REQUIRE(count != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  *count = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithmMaxCount(cudnnHandle_t, int* count) {
  CUDNN_REQUIRE(count != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  *count = CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionNdForwardOutputDim(const cudnnConvolutionDescriptor_t convDesc,
                                                    const cudnnTensorDescriptor_t xDesc,
                                                    const cudnnFilterDescriptor_t wDesc, int count, int dims[]) {
  CUDNN_REQUIRE(convDesc != nullptr && xDesc != nullptr && wDesc != nullptr && dims != nullptr,
                CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  const Convolution c = {.x = *xDesc, .w = *wDesc, .conv = *convDesc};
  CUDNN_REQUIRE(c.x.dims.size() == c.w.dims.size() && count == static_cast<int>(c.x.dims.size()) &&
                    c.conv.pad.size() + 2 == c.x.dims.size(),
                CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  dims[0] = static_cast<int>(c.x.dims[0]);
  dims[1] = static_cast<int>(c.w.dims[0]);
  for (size_t i = 0; i + 2 < c.x.dims.size(); ++i) dims[2 + i] = static_cast<int>(OutputSize(c, i));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(const cudnnConvolutionDescriptor_t convDesc,
                                                    const cudnnTensorDescriptor_t xDesc,
                                                    const cudnnFilterDescriptor_t wDesc, int* n, int* c, int* h,
                                                    int* w) {
  int dims[4];
  CUDNN_RETURN_IF_ERROR(cudnnGetConvolutionNdForwardOutputDim(convDesc, xDesc, wDesc, 4, dims));
  *n = dims[0];
  *c = dims[1];
  *h = dims[2];
  *w = dims[3];
  return CUDNN_STATUS_SUCCESS;
}
