// Device and pinned memory, and copies between them: what works, what is refused, what is a misuse.
#include <cstring>
#include <functional>
#include <numeric>

#include "tests/cuda_sim/sim_test.h"

namespace jacserve::cuda_sim {
namespace {

class MemoryTest : public SimTest {};
using MemoryDeathTest = MemoryTest;

template <class T>
class Pinned {
 public:
  explicit Pinned(int64_t n) { EXPECT_CUDA_OK(cudaMallocHost(&data_, n * sizeof(T))); }
  ~Pinned() { EXPECT_CUDA_OK(cudaFreeHost(data_)); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  T* get() const { return static_cast<T*>(data_); }

 private:
  void* data_ = nullptr;
};

TEST_F(MemoryTest, AllocationsAreAlignedCountedAndPoisoned) {
  const OnDevice<char> a(1), b(257);
  for (const char* p : {a.get(), b.get()}) EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 256, 0u);
  EXPECT_EQ(Read().bytes_in_use, 256 + 512);
  EXPECT_THAT(b.Values(), testing::Each(static_cast<char>(0xff)));
  EXPECT_THAT(Leaks(), testing::UnorderedElementsAre("1 bytes on device 0", "257 bytes on device 0"));
}

TEST_F(MemoryTest, PeakStaysAfterTheFree) {
  { const OnDevice<char> a(1024); }
  EXPECT_EQ(Read().bytes_in_use, 0);
  EXPECT_EQ(Read().peak_bytes, 1024);
}

TEST_F(MemoryTest, MemoryOfTheDeviceRunsOut) {
  Reset({.devices = {{.memory_bytes = 1 << 20, .occupied_bytes = 400 << 10}}, .record_misuses = true});
  const OnDevice<char> most(600 << 10);
  size_t free = 0, total = 0;
  EXPECT_CUDA_OK(cudaMemGetInfo(&free, &total));
  EXPECT_EQ(free, 24u << 10);
  EXPECT_EQ(total, 1u << 20);
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 25 << 10), cudaErrorMemoryAllocation);
  EXPECT_EQ(more, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_CUDA_OK(cudaGetLastError());
  EXPECT_CUDA_OK(cudaMalloc(&more, 24 << 10));
  EXPECT_CUDA_OK(cudaFree(more));
}

TEST_F(MemoryTest, AChosenAllocationFails) {
  Reset({.faults = {.fail_allocation = 2, .fail_host_allocation = 1}, .record_misuses = true});
  void* p[3] = {};
  EXPECT_CUDA_OK(cudaMalloc(&p[0], 16));
  EXPECT_EQ(cudaMalloc(&p[1], 16), cudaErrorMemoryAllocation);
  EXPECT_CUDA_OK(cudaMalloc(&p[2], 16));
  EXPECT_CUDA_OK(cudaFree(p[0]));
  EXPECT_CUDA_OK(cudaFree(p[2]));
  EXPECT_EQ(cudaMallocHost(&p[0], 16), cudaErrorMemoryAllocation);
}

TEST_F(MemoryTest, WrongFreesAreMisuses) {
  char* const p = OnDevice<char>(1024).release();
  const Pinned<char> pinned(16);
  char host = 0;
  struct Case {
    std::function<cudaError_t()> call;
    const char* misuse;
  };
  const Case cases[] = {
      {[&] { return cudaFree(&host); }, "cudaFree of memory that was never allocated by CUDA"},
      {[&] { return cudaFree(p + 256); }, "cudaFree of a pointer into the middle of an allocation"},
      {[&] { return cudaFree(pinned.get()); }, "cudaFree of pinned host memory"},
      {[&] { return cudaFreeHost(p); }, "cudaFreeHost of device memory"},
      {[&] { return cudaFree(p), cudaFree(p); }, "cudaFree of memory that was freed before"},
      {[&] { return cudaMemset(p, 0, 4); }, "the destination of a memset is memory that was freed"},
      {[&] { return cudaMemcpy(&host, p, 1, cudaMemcpyDeviceToHost); },
       "the source of a copy is memory that was freed"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(c.call(), cudaErrorInvalidValue) << c.misuse;
    ExpectMisuse(c.misuse);
  }
}

TEST_F(MemoryTest, AFreeUnderQueuedWorkIsAMisuse) {
  char* const p = OnDevice<char>(64).release();
  EXPECT_CUDA_OK(cudaMemsetAsync(p, 0, 64, nullptr));
  EXPECT_EQ(cudaFree(p), cudaSuccess);  // the real one waits, but says so nowhere
  ExpectMisuse("cudaFree of memory that queued work still uses");
}

TEST_F(MemoryTest, AWritePastTheEndShowsWhenFreed) {
  char* const p = OnDevice<char>(100).release();
  cuda_sim_launch(nullptr, [p] { p[100] = 0; });
  EXPECT_CUDA_OK(cudaDeviceSynchronize());
  EXPECT_CUDA_OK(cudaFree(p));
  ExpectMisuse("something wrote past the end of an allocation of 100 bytes");
}

TEST_F(MemoryDeathTest, HostCodeCannotTouchDeviceMemory) {
  const OnDevice<char> p(64);
  EXPECT_DEATH(*const_cast<volatile char*>(p.get()) = 1, "host code touched device memory");
}

TEST_F(MemoryDeathTest, DeviceWorkCannotGoFarPastTheEnd) {
  const OnDevice<char> p(256);
  const auto run = [&p] {
    cuda_sim_launch(nullptr, [data = p.get()] { *const_cast<volatile char*>(data + 256) = 1; });
    cudaDeviceSynchronize();
  };
  EXPECT_DEATH(run(), "went past the end of an allocation");
}

TEST_F(MemoryDeathTest, AMisuseEndsTheProgramUnlessRecorded) {
  Reset({});
  char host = 0;
  EXPECT_DEATH(cudaFree(&host), "cuda_sim: cudaFree of memory that was never allocated by CUDA");
}

TEST_F(MemoryTest, CopiesGoWhereTheirKindSays) {
  std::vector<int> host(8), back(8);
  std::iota(host.begin(), host.end(), 0);
  const OnDevice<int> a(8), b(8);
  EXPECT_CUDA_OK(cudaMemcpy(a.get(), host.data(), 32, cudaMemcpyHostToDevice));
  EXPECT_CUDA_OK(cudaMemcpy(b.get(), a.get(), 32, cudaMemcpyDefault));
  EXPECT_CUDA_OK(cudaMemcpy(back.data(), b.get(), 32, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back, host);
  EXPECT_EQ(Read().copies, 3);
  EXPECT_EQ(Read().pageable_copies, 2);

  EXPECT_EQ(cudaMemcpy(a.get(), b.get(), 32, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  ExpectMisuse("lies elsewhere than its kind says");
  EXPECT_EQ(cudaMemcpy(a.get(), host.data(), 33, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  ExpectMisuse("the destination of a copy ends past its allocation of 32 bytes");
  EXPECT_EQ(cudaMemcpy(a.get(), host.data(), 4, static_cast<cudaMemcpyKind>(7)), cudaErrorInvalidMemcpyDirection);
}

TEST_F(MemoryTest, CopiesInTwoDimensionsKeepTheirPitches) {
  const std::vector<char> host = {'a', 'b', '-', 'c', 'd', '-'};
  std::vector<char> back(8, '.');
  const OnDevice<char> a(4);
  EXPECT_CUDA_OK(cudaMemcpy2D(a.get(), 2, host.data(), 3, 2, 2, cudaMemcpyHostToDevice));
  EXPECT_CUDA_OK(cudaMemcpy2DAsync(back.data(), 4, a.get(), 2, 2, 2, cudaMemcpyDeviceToHost, nullptr));
  EXPECT_EQ(std::string(back.begin(), back.end()), "ab..cd..");
  EXPECT_EQ(cudaMemcpy2D(a.get(), 1, host.data(), 3, 2, 2, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
}

// Pageable memory may change as soon as the call returns; pinned memory is read when the stream gets there.
TEST_F(MemoryTest, PinnedSourcesAreReadLate) {
  cudaStream_t stream = nullptr;
  ASSERT_CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const OnDevice<char> a(1), b(1);
  char pageable = 'p';
  const Pinned<char> pinned(1);
  *pinned.get() = 'p';
  EXPECT_CUDA_OK(cudaMemcpyAsync(a.get(), &pageable, 1, cudaMemcpyHostToDevice, stream));
  EXPECT_CUDA_OK(cudaMemcpyAsync(b.get(), pinned.get(), 1, cudaMemcpyHostToDevice, stream));
  pageable = 'x';
  *pinned.get() = 'x';
  EXPECT_THAT(a.Values(), testing::ElementsAre('p'));
  EXPECT_THAT(b.Values(), testing::ElementsAre('x'));
  EXPECT_CUDA_OK(cudaStreamDestroy(stream));
}

TEST_F(MemoryTest, PinnedDestinationsArePoisonUntilTheStreamGetsThere) {
  cudaStream_t stream = nullptr;
  ASSERT_CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const OnDevice<char> a(std::vector<char>{'a'});
  const Pinned<char> pinned(1);
  *pinned.get() = 'a';
  EXPECT_CUDA_OK(cudaDeviceSynchronize());
  EXPECT_CUDA_OK(cudaMemcpyAsync(pinned.get(), a.get(), 1, cudaMemcpyDeviceToHost, stream));
  EXPECT_EQ(*pinned.get(), static_cast<char>(0xff));
  EXPECT_CUDA_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(*pinned.get(), 'a');
  EXPECT_CUDA_OK(cudaStreamDestroy(stream));
}

TEST_F(MemoryTest, PointersSayWhatTheyAre) {
  const OnDevice<char> device(8);
  const Pinned<char> pinned(8);
  char host = 0;
  const auto type = [](const void* p) {
    cudaPointerAttributes attributes;
    EXPECT_CUDA_OK(cudaPointerGetAttributes(&attributes, p));
    return attributes.type;
  };
  EXPECT_EQ(type(device.get() + 7), cudaMemoryTypeDevice);
  EXPECT_EQ(type(pinned.get()), cudaMemoryTypeHost);
  EXPECT_EQ(type(&host), cudaMemoryTypeUnregistered);
}

TEST_F(MemoryTest, PooledMemoryIsFreedInItsStream) {
  void* p = nullptr;
  ASSERT_CUDA_OK(cudaMallocAsync(&p, 64, nullptr));
  EXPECT_CUDA_OK(cudaMemsetAsync(p, 0, 64, nullptr));
  EXPECT_CUDA_OK(cudaFreeAsync(p, nullptr));
  EXPECT_CUDA_OK(cudaDeviceSynchronize());
  EXPECT_EQ(Read().bytes_in_use, 0);
  EXPECT_EQ(cudaFreeAsync(p, nullptr), cudaErrorInvalidValue);
  ExpectMisuse("cudaFreeAsync of what is no live allocation");
}

TEST_F(MemoryTest, DeviceResetFreesAll) {
  OnDevice<char>(64).release();
  cudaStream_t stream = nullptr;
  ASSERT_CUDA_OK(cudaStreamCreate(&stream));
  EXPECT_CUDA_OK(cudaDeviceReset());
  EXPECT_EQ(Read().bytes_in_use, 0);
  EXPECT_EQ(Read().streams, 0);
}

}  // namespace
}  // namespace jacserve::cuda_sim
