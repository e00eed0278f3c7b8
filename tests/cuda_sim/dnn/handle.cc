// cuDNN handles, versions, and what went wrong.
#include <cstdio>
#include <cstring>

#include "tests/cuda_sim/dnn/descriptors.h"

namespace jacserve::cuda_sim {
namespace {

thread_local std::string last_error;

}  // namespace

cudnnStatus_t Fail(cudnnStatus_t status, std::string why) {
  last_error = std::move(why);
  return status;
}

}  // namespace jacserve::cuda_sim

using namespace jacserve::cuda_sim;

size_t cudnnGetVersion() { return CUDNN_VERSION; }
size_t cudnnGetCudartVersion() { return CUDART_VERSION; }

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  World& world = World::Get();
  const Lock lock(world.mutex);
  CUDNN_REQUIRE(handle != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  CUDNN_REQUIRE(world.Ready() == cudaSuccess, CUDNN_STATUS_NOT_INITIALIZED);
  *handle = world.Make("a cuDNN handle", cudnnContext{.device = CurrentDevice()});
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  World& world = World::Get();
  const Lock lock(world.mutex);
  return world.DropHandle("a cuDNN handle", handle) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return CallDnn(handle, [&](World& world, Lock&) {
    const StreamPtr found = world.FindStream(stream);
    CUDNN_REQUIRE(found, CUDNN_STATUS_BAD_PARAM);
    CUDNN_REQUIRE(found->device == handle->device, CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH);
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  return CallDnn(handle, [&](World&, Lock&) {
    CUDNN_REQUIRE(stream != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    *stream = handle->stream;
    return CUDNN_STATUS_SUCCESS;
  });
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM:
      return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_BAD_PARAM_NULL_POINTER:
      return "CUDNN_STATUS_BAD_PARAM_NULL_POINTER";
    case CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH:
      return "CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH";
    case CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT:
      return "CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT";
    case CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH:
      return "CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_NOT_SUPPORTED_SHAPE:
      return "CUDNN_STATUS_NOT_SUPPORTED_SHAPE";
    case CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE:
      return "CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE";
    case CUDNN_STATUS_NOT_SUPPORTED_LAYOUT:
      return "CUDNN_STATUS_NOT_SUPPORTED_LAYOUT";
    case CUDNN_STATUS_EXECUTION_FAILED:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    case CUDNN_STATUS_EXECUTION_FAILED_CUDART:
      return "CUDNN_STATUS_EXECUTION_FAILED_CUDART";
    default:
      return "CUDNN_UNKNOWN_STATUS";
  }
}

void cudnnGetLastErrorString(char* message, size_t max_size) {
  if (message != nullptr && max_size > 0) std::snprintf(message, max_size, "%s", last_error.c_str());
  last_error.clear();
}
