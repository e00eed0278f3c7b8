// What tests ask of the simulated GPU. The library cuda_sim defines the functions of the CUDA runtime and cuBLAS that
// the backend calls, with their real signatures, on host memory. It is stricter than a GPU: work waits in its stream
// until something waits for it, device memory is out of bounds for host code, and what the real libraries leave
// undefined is a misuse. In: options, by call or by environment. Out: counters, misuses, leaks.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace jacserve::cuda_sim {

struct Device {
  std::string name = "Simulated GPU";
  std::string uuid;  // "GPU-" and 8-4-4-4-12 hexadecimal digits; empty: made from its place in the list
  int64_t memory_bytes = int64_t{4} << 30;
  int64_t occupied_bytes = 0;  // of them by other processes
  int compute_major = 8;
  int compute_minor = 6;
};

// Counts begin at Reset, or at the start of the program; 0: never.
struct Faults {
  int64_t fail_allocation = 0;              // cudaMalloc number k has no memory
  int64_t fail_host_allocation = 0;         // cudaMallocHost number k has none
  int64_t sticky_at_launch = 0;             // launch k breaks the context: every call fails until the process ends
  std::string once;                         // a file: a sticky error happens only to the process that creates it
  std::chrono::microseconds copy_delay{0};  // each copy takes so much longer
};

// How a block's threads run. One thread that does the work of all is fast, and never waits at a barrier; all of them
// run from barrier to barrier in their order, or in reverse.
enum class Blocks { kOneThread, kForward, kBackward };

struct Options {
  bool driver = true;                     // false: as a machine without one (cudaErrorInsufficientDriver)
  std::vector<Device> devices{Device{}};  // in the order of their PCI bus numbers
  Faults faults;
  uint64_t seed = 0;            // 0: work runs as late as it may; else some of it earlier, at random
  bool record_misuses = false;  // false: a misuse ends the program with a message
  Blocks blocks = Blocks::kOneThread;
};

// JACSERVE_SIM_DEVICES: how many, or "no-driver". JACSERVE_SIM_MEMORY: of each device in turn, "8GiB" or "8GiB,24GiB",
// the last one again for the rest. JACSERVE_SIM_OCCUPIED: likewise, by other processes. JACSERVE_SIM_COMPUTE: likewise,
// "8.6,9.0". JACSERVE_SIM_SEED: a number. JACSERVE_SIM_BLOCKS: "forward" or "backward". JACSERVE_SIM_FAULT: any of
// "alloc=K", "host_alloc=K", "sticky=K", "once=FILE", "slow_copy=MICROSECONDS", joined by commas. A value that is none
// of these ends the program with a message. Without a call of Reset these hold.
Options FromEnvironment();

// Begins anew: pointers, streams, events and handles of before are gone. CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER are
// read again. No other thread may be in a call.
void Reset(Options options);

struct Counters {
  int64_t bytes_in_use = 0;  // of all devices; every allocation is rounded up to 256 bytes
  int64_t peak_bytes = 0;
  int64_t host_bytes_in_use = 0;  // pinned
  int64_t allocations = 0;
  int64_t host_allocations = 0;
  int64_t launches = 0;  // kernels and products
  int64_t copies = 0;
  int64_t pageable_copies = 0;  // of the copies: from or to host memory that is not pinned
  int64_t tf32_products = 0;    // of the launches: float32 numbers multiplied as TF32
  int64_t synchronizations = 0;
  int64_t streams = 0, events = 0, handles = 0;  // alive
};
Counters Read();

// What was undefined behaviour, a sentence each, since Reset or the last call.
std::vector<std::string> TakeMisuses();

// What is still allocated or alive, a sentence each; empty at the end of a program that cleans up.
std::vector<std::string> Leaks();

// Largest block and grid and shared memory as on devices of compute capability 8 to 12. An error is also what
// cudaGetLastError returns next. Call before a launch; what is wrong must not be launched.
cudaError_t CheckLaunch(dim3 grid, dim3 block, size_t shared_bytes);

}  // namespace jacserve::cuda_sim

// Puts a kernel into a stream: `work` does all that its blocks do, and may touch device memory. An error is what
// cudaGetLastError returns next.
void cuda_sim_launch(cudaStream_t stream, std::function<void()> work);
