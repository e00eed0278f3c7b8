// A fixture over the simulated GPU: each test begins anew, and at its end nothing may be wrong or left over.
#pragma once

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/cuda_sim/cuda_sim.h"

#define EXPECT_CUDA_OK(expr) EXPECT_EQ(expr, cudaSuccess)
#define ASSERT_CUDA_OK(expr) ASSERT_EQ(expr, cudaSuccess)

namespace jacserve::cuda_sim {

// Memory of the current device; unless it is released, the test's end frees it.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(int64_t n) : n_(n) { EXPECT_CUDA_OK(cudaMalloc(&data_, n * sizeof(T))); }
  explicit OnDevice(const std::vector<T>& values) : OnDevice(static_cast<int64_t>(values.size())) {
    EXPECT_CUDA_OK(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~OnDevice() {
    if (data_ != nullptr) {
      EXPECT_CUDA_OK(cudaFree(data_));
    }
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  T* get() const { return static_cast<T*>(data_); }
  T* release() { return static_cast<T*>(std::exchange(data_, nullptr)); }

  // What is there once the device has done all its work.
  std::vector<T> Values() const {
    std::vector<T> values(n_);
    EXPECT_CUDA_OK(cudaDeviceSynchronize());
    EXPECT_CUDA_OK(cudaMemcpy(values.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  int64_t n_;
  void* data_ = nullptr;
};

class SimTest : public testing::Test {
 protected:
  SimTest() { Reset({.record_misuses = true}); }
  void TearDown() override {
    EXPECT_THAT(TakeMisuses(), testing::IsEmpty());
    EXPECT_THAT(Leaks(), testing::IsEmpty());
  }

  // One misuse, and its sentence has this in it.
  static void ExpectMisuse(const char* part) {
    EXPECT_THAT(TakeMisuses(), testing::ElementsAre(testing::HasSubstr(part)));
  }
};

}  // namespace jacserve::cuda_sim
