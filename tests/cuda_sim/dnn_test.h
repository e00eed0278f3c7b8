// A cuDNN handle and descriptors that end with their scope, for the tests of cuDNN's stand-in.
#pragma once

#include <cudnn.h>

#include <random>
#include <vector>

#include "tests/cuda_sim/sim_test.h"

namespace jacserve::cuda_sim {

#define EXPECT_DNN_OK(expr) EXPECT_EQ(expr, CUDNN_STATUS_SUCCESS)

class DnnTest : public SimTest {
 protected:
  DnnTest() { EXPECT_DNN_OK(cudnnCreate(&handle_)); }
  void TearDown() override {
    EXPECT_DNN_OK(cudnnDestroy(handle_));
    SimTest::TearDown();
  }

  cudnnHandle_t handle_ = nullptr;
  const float one_ = 1.0f, zero_ = 0.0f;
};

class Tensor {
 public:
  explicit Tensor(const std::vector<int>& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT) : Tensor() {
    const int count = static_cast<int>(dims.size());
    EXPECT_DNN_OK(cudnnSetTensorNdDescriptorEx(get_, CUDNN_TENSOR_NCHW, type, count, dims.data()));
  }
  Tensor(const std::vector<int>& dims, const std::vector<int>& strides, cudnnDataType_t type = CUDNN_DATA_FLOAT)
      : Tensor() {
    EXPECT_DNN_OK(cudnnSetTensorNdDescriptor(get_, type, static_cast<int>(dims.size()), dims.data(), strides.data()));
  }
  ~Tensor() { EXPECT_DNN_OK(cudnnDestroyTensorDescriptor(get_)); }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  operator cudnnTensorDescriptor_t() const { return get_; }

 private:
  Tensor() { EXPECT_DNN_OK(cudnnCreateTensorDescriptor(&get_)); }
  cudnnTensorDescriptor_t get_ = nullptr;
};

// Small whole numbers: their sums are exact in any order.
template <class T>
std::vector<T> SmallNumbers(int64_t n, int seed) {
  std::mt19937 random(seed);
  std::vector<T> values(n);
  for (T& value : values) value = static_cast<T>(static_cast<int>(random() % 9) - 4);
  return values;
}

}  // namespace jacserve::cuda_sim
