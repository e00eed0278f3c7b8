// How a kernel is written and started, so that one source runs on a GPU and, with JACSERVE_CUDA_SIM, on the host.
// Kernels are right for any number of threads in a block: they stride over their work. In the simulation a block has
// one thread, or all of them for tests of its barriers; blocks run one after the other, and the whole grid is a piece
// of work in a simulated stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "worker/backend/cuda/device_code.h"

#ifdef JACSERVE_CUDA_SIM

#include <functional>

// Of the simulated GPU, which runs `work` when something waits for it.
void cuda_sim_launch(cudaStream_t stream, std::function<void()> work);
namespace jacserve::cuda_sim {
cudaError_t CheckLaunch(dim3 grid, dim3 block, size_t shared_bytes);
void RunBlock(int threads, size_t shared_bytes, const std::function<void()>& body);
int BlockThread();
int BlockThreads();
void SyncBlock();
void* SharedMemory();
}  // namespace jacserve::cuda_sim

#define JACSERVE_KERNEL static void

namespace jacserve::worker::cuda {

struct GridPlace {
  int64_t x = 0, y = 0, blocks_x = 1, blocks_y = 1;
};
inline thread_local GridPlace t_place;

inline int64_t BlockX() { return t_place.x; }
inline int64_t BlockY() { return t_place.y; }
inline int64_t BlocksX() { return t_place.blocks_x; }
inline int64_t BlocksY() { return t_place.blocks_y; }
inline int Thread() { return cuda_sim::BlockThread(); }
inline int Threads() { return cuda_sim::BlockThreads(); }
inline void SyncThreads() { cuda_sim::SyncBlock(); }
inline void* SharedBytes() { return cuda_sim::SharedMemory(); }
inline void AtomicMin(int32_t* to, int32_t value) { *to = value < *to ? value : *to; }
inline void AtomicAdd(int64_t* to, int64_t value) { *to += value; }

template <class... Parameters, class... Arguments>
cudaError_t Launch(void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared_bytes, cudaStream_t stream,
                   Arguments... arguments) {
  if (const cudaError_t error = cuda_sim::CheckLaunch(grid, dim3(threads), shared_bytes); error != cudaSuccess) {
    return error;
  }
  cuda_sim_launch(stream, [=] {
    t_place = {0, 0, grid.x, grid.y};
    for (t_place.y = 0; t_place.y < t_place.blocks_y; ++t_place.y) {
      for (t_place.x = 0; t_place.x < t_place.blocks_x; ++t_place.x) {
        cuda_sim::RunBlock(threads, shared_bytes, [&] { kernel(arguments...); });
      }
    }
  });
  return cudaGetLastError();
}

}  // namespace jacserve::worker::cuda

#else

#define JACSERVE_KERNEL static __global__ void

namespace jacserve::worker::cuda {

JACSERVE_DEVICE int64_t BlockX() { return blockIdx.x; }
JACSERVE_DEVICE int64_t BlockY() { return blockIdx.y; }
JACSERVE_DEVICE int64_t BlocksX() { return gridDim.x; }
JACSERVE_DEVICE int64_t BlocksY() { return gridDim.y; }
JACSERVE_DEVICE int Thread() { return static_cast<int>(threadIdx.x); }
JACSERVE_DEVICE int Threads() { return static_cast<int>(blockDim.x); }
JACSERVE_DEVICE void SyncThreads() { __syncthreads(); }
JACSERVE_DEVICE void* SharedBytes() {
  extern __shared__ double2 shared[];
  return shared;
}
JACSERVE_DEVICE void AtomicMin(int32_t* to, int32_t value) { atomicMin(to, value); }
JACSERVE_DEVICE void AtomicAdd(int64_t* to, int64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}

template <class... Parameters, class... Arguments>
cudaError_t Launch(void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared_bytes, cudaStream_t stream,
                   Arguments... arguments) {
  // clang-format off
  kernel<<<grid, threads, shared_bytes, stream>>>(arguments...);
  // clang-format on
  return cudaGetLastError();
}

}  // namespace jacserve::worker::cuda

#endif

namespace jacserve::worker::cuda {

// Numbers of a grid: enough blocks for n pieces of work along x and `lanes` along y, no more than devices take.
inline dim3 GridFor(int64_t n, int64_t threads, int64_t lanes) {
  const int64_t x = (n + threads - 1) / threads;
  return dim3(static_cast<unsigned>(x < (1 << 20) ? x : (1 << 20)),
              static_cast<unsigned>(lanes < (1 << 15) ? lanes : (1 << 15)));
}

// A power of two that suits a block which works on n things together; from n alone, so that sums keep their order.
inline int ThreadsFor(int64_t n) {
  int threads = 32;
  while (threads < 256 && threads < n) threads *= 2;
  return threads;
}

// The sum over a block's threads, for all of them; shared memory of Threads() numbers.
template <class T>
JACSERVE_DEVICE T BlockSum(T value) {
  T* shared = static_cast<T*>(SharedBytes());
  shared[Thread()] = value;
  SyncThreads();
  for (int half = Threads() / 2; half > 0; half /= 2) {
    if (Thread() < half) shared[Thread()] += shared[Thread() + half];
    SyncThreads();
  }
  const T sum = shared[0];
  SyncThreads();
  return sum;
}

template <class T>
JACSERVE_DEVICE T BlockMax(T value) {
  T* shared = static_cast<T*>(SharedBytes());
  shared[Thread()] = value;
  SyncThreads();
  for (int half = Threads() / 2; half > 0; half /= 2) {
    if (Thread() < half && shared[Thread() + half] > shared[Thread()]) shared[Thread()] = shared[Thread() + half];
    SyncThreads();
  }
  const T largest = shared[0];
  SyncThreads();
  return largest;
}

}  // namespace jacserve::worker::cuda
