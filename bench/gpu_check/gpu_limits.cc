// What the GPU itself can do, measured: float32 products of cuBLAS in its modes, writing and copying its memory, and
// the link to page-locked memory of the host. Out: one JSON object, in operations and bytes per second. usage:
// gpu_limits [SIDE of the products] [MEBIBYTES to copy]
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

namespace {

void Check(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", doing, cudaGetErrorString(error));
  std::exit(EXIT_FAILURE);
}
void Check(cublasStatus_t error, const char* doing) {
  if (error == CUBLAS_STATUS_SUCCESS) return;
  std::fprintf(stderr, "%s: %s\n", doing, cublasGetStatusString(error));
  std::exit(EXIT_FAILURE);
}

constexpr int kRuns = 5, kTogether = 8;

// Seconds of one `start`, the best of several runs of some in a row, after one that warms up.
double Best(cudaStream_t stream, const std::function<void()>& start) {
  double best = 1e30;
  for (int run = 0; run <= kRuns; ++run) {
    Check(cudaStreamSynchronize(stream), "waiting for the GPU");
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kTogether; ++i) start();
    Check(cudaStreamSynchronize(stream), "waiting for the GPU");
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (run > 0) best = std::min(best, seconds.count() / kTogether);
  }
  return best;
}

void* OnDevice(size_t bytes) {
  void* memory = nullptr;
  Check(cudaMalloc(&memory, bytes), "allocating memory of the GPU");
  return memory;
}

double ProductsPerSecond(cudaStream_t stream, cublasHandle_t handle, cublasMath_t mode, int side) {
  const size_t bytes = size_t{4} * side * side;
  auto *a = static_cast<float*>(OnDevice(bytes)), *b = static_cast<float*>(OnDevice(bytes)),
       *c = static_cast<float*>(OnDevice(bytes));
  for (float* x : {a, b}) Check(cudaMemsetAsync(x, 1, bytes, stream), "filling memory");
  Check(cublasSetMathMode(handle, mode), "choosing a mode");
  const float one = 1.0f, zero = 0.0f;
  const double seconds = Best(stream, [&] {
    Check(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, side, side, side, &one, a, side, b, side, &zero, c, side),
          "a product");
  });
  for (float* x : {a, b, c}) Check(cudaFree(x), "freeing memory");
  return 2.0 * side * side * side / seconds;
}

}  // namespace

int main(int argc, char** argv) {
  const int side = argc > 1 ? std::atoi(argv[1]) : 8192;
  const size_t bytes = (argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1024) << 20;
  cudaStream_t stream;
  cublasHandle_t handle;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "opening the GPU");
  Check(cublasCreate(&handle), "starting cuBLAS");
  Check(cublasSetStream(handle, stream), "starting cuBLAS");
  const double fp32 = ProductsPerSecond(stream, handle, CUBLAS_DEFAULT_MATH, side);
  const double pedantic = ProductsPerSecond(stream, handle, CUBLAS_PEDANTIC_MATH, side);
  const double tf32 = ProductsPerSecond(stream, handle, CUBLAS_TF32_TENSOR_OP_MATH, side);

  void *from = OnDevice(bytes), *to = OnDevice(bytes), *host = nullptr;
  Check(cudaMallocHost(&host, bytes), "locking memory of the host");
  const double size = static_cast<double>(bytes);
  const double fill = size / Best(stream, [&] { Check(cudaMemsetAsync(from, 1, bytes, stream), "filling memory"); });
  const double copy = 2 * size / Best(stream, [&] {
                        Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "copying memory");
                      });
  const double link =
      size / Best(stream, [&] {
        Check(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, stream), "copying to the host");
      });
  Check(cudaFreeHost(host), "freeing memory");
  for (void* x : {from, to}) Check(cudaFree(x), "freeing memory");
  Check(cublasDestroy(handle), "ending cuBLAS");
  Check(cudaStreamDestroy(stream), "ending");
  std::printf(
      "{\"sgemm\": %.4g, \"sgemm_pedantic\": %.4g, \"sgemm_tf32\": %.4g, \"fill\": %.4g, \"copy\": %.4g, \"link\": "
      "%.4g, "
      "\"cublas\": %d}\n",
      fp32, pedantic, tf32, fill, copy, link, CUBLAS_VERSION);
  return EXIT_SUCCESS;
}
