// A convolution and its transpose for the data, by patches and products, one sample at a time.
// In: descriptors that agree. Out: numbers in device memory.
#pragma once

#include <cstdint>

#include "tests/cuda_sim/dnn/descriptors.h"

namespace jacserve::cuda_sim {

struct Convolution {
  cudnnTensorStruct x, y;
  cudnnFilterStruct w;
  cudnnConvolutionStruct conv;
  bool tf32 = false;
  double alpha = 1.0, beta = 0.0;
};

// y = alpha * (x convolved with w) + beta * y.
void ConvolveForward(const Convolution& c, const void* x, const void* w, void* y);
// x = alpha * (the transpose applied to y) + beta * x.
void ConvolveBackwardData(const Convolution& c, const void* w, const void* y, void* x);

// Elements of one sample's patches, over all groups.
int64_t PatchElements(const Convolution& c);

}  // namespace jacserve::cuda_sim
