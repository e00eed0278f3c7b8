// Streams run late, so that a forgotten wait shows; events carry order from one to another; a broken context stays so.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "tests/cuda_sim/sim_test.h"

namespace jacserve::cuda_sim {
namespace {

class StreamTest : public SimTest {
 protected:
  StreamTest() { Begin({.record_misuses = true}); }

  void Begin(Options options) {
    Reset(std::move(options));
    EXPECT_CUDA_OK(cudaStreamCreateWithFlags(&a_, cudaStreamNonBlocking));
    EXPECT_CUDA_OK(cudaStreamCreateWithFlags(&b_, cudaStreamNonBlocking));
    EXPECT_CUDA_OK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    log_.clear();
  }
  void TearDown() override {
    for (const cudaStream_t stream : {a_, b_}) EXPECT_CUDA_OK(cudaStreamDestroy(stream));
    EXPECT_CUDA_OK(cudaEventDestroy(event_));
    SimTest::TearDown();
  }
  // Work that leaves its letter.
  void Put(cudaStream_t stream, char letter) {
    cuda_sim_launch(stream, [this, letter] { log_ += letter; });
  }

  cudaStream_t a_ = nullptr, b_ = nullptr;
  cudaEvent_t event_ = nullptr;
  std::string log_;
};

TEST_F(StreamTest, WorkWaitsUntilSomethingWaitsForIt) {
  Put(a_, 'a');
  Put(b_, 'b');
  Put(a_, 'c');
  EXPECT_EQ(log_, "");
  EXPECT_CUDA_OK(cudaStreamSynchronize(b_));
  EXPECT_EQ(log_, "b");
  EXPECT_CUDA_OK(cudaDeviceSynchronize());
  EXPECT_EQ(log_, "bac");
  EXPECT_EQ(Read().launches, 3);
}

// The copy in b needs what a computes. Without an event it reads poison.
TEST_F(StreamTest, AMissingEventShowsAsWrongData) {
  for (const bool waits : {false, true}) {
    const OnDevice<char> value(1);
    char result = '?';
    cuda_sim_launch(a_, [p = value.get()] { *p = 'v'; });
    EXPECT_CUDA_OK(cudaEventRecord(event_, a_));
    if (waits) {
      EXPECT_CUDA_OK(cudaStreamWaitEvent(b_, event_, 0));
    }
    EXPECT_CUDA_OK(cudaMemcpyAsync(&result, value.get(), 1, cudaMemcpyDeviceToHost, b_));
    EXPECT_CUDA_OK(cudaStreamSynchronize(b_));
    EXPECT_EQ(result, waits ? 'v' : static_cast<char>(0xff));
    EXPECT_CUDA_OK(cudaDeviceSynchronize());
  }
}

// cudaMemcpy waits for the legacy stream and those that go with it, not for a non-blocking one.
TEST_F(StreamTest, CudaMemcpyDoesNotWaitForNonBlockingStreams) {
  cudaStream_t blocking = nullptr;
  ASSERT_CUDA_OK(cudaStreamCreate(&blocking));
  for (const cudaStream_t stream : {a_, blocking}) {
    const OnDevice<char> value(1);
    char result = '?';
    cuda_sim_launch(stream, [p = value.get()] { *p = 'v'; });
    EXPECT_CUDA_OK(cudaMemcpy(&result, value.get(), 1, cudaMemcpyDeviceToHost));
    EXPECT_EQ(result, stream == blocking ? 'v' : static_cast<char>(0xff));
  }
  EXPECT_CUDA_OK(cudaStreamDestroy(blocking));
}

TEST_F(StreamTest, AnEventMeansWhatWasQueuedWhenItWasRecorded) {
  Put(a_, 'a');
  EXPECT_CUDA_OK(cudaEventRecord(event_, a_));
  Put(a_, 'c');
  EXPECT_CUDA_OK(cudaStreamWaitEvent(b_, event_, 0));
  EXPECT_CUDA_OK(cudaEventRecord(event_, b_));  // what was waited for stays
  Put(b_, 'b');
  EXPECT_CUDA_OK(cudaStreamSynchronize(b_));
  EXPECT_EQ(log_, "ab");
  EXPECT_CUDA_OK(cudaDeviceSynchronize());
}

TEST_F(StreamTest, AskingAgainAndAgainGetsThere) {
  Put(a_, 'a');
  Put(a_, 'b');
  EXPECT_CUDA_OK(cudaEventRecord(event_, a_));
  EXPECT_EQ(cudaStreamQuery(a_), cudaErrorNotReady);
  EXPECT_CUDA_OK(cudaPeekAtLastError());
  while (cudaEventQuery(event_) == cudaErrorNotReady) {
  }
  EXPECT_EQ(log_, "ab");
  EXPECT_CUDA_OK(cudaStreamQuery(b_));
}

TEST_F(StreamTest, ElapsedTimeNeedsEventsThatHappened) {
  cudaEvent_t begin = nullptr, end = nullptr;
  ASSERT_CUDA_OK(cudaEventCreate(&begin));
  ASSERT_CUDA_OK(cudaEventCreate(&end));
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA_OK(cudaEventRecord(begin, a_));
  cuda_sim_launch(a_, [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
  EXPECT_CUDA_OK(cudaEventRecord(end, a_));
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorNotReady);
  EXPECT_CUDA_OK(cudaEventSynchronize(end));
  EXPECT_CUDA_OK(cudaEventElapsedTime(&milliseconds, begin, end));
  EXPECT_GE(milliseconds, 2.0f);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, event_), cudaErrorInvalidResourceHandle);  // made without timing
  EXPECT_CUDA_OK(cudaEventDestroy(begin));
  EXPECT_CUDA_OK(cudaEventDestroy(end));
}

TEST_F(StreamTest, DestroyedThingsMustNotBeUsed) {
  cudaStream_t stream = nullptr;
  ASSERT_CUDA_OK(cudaStreamCreate(&stream));
  Put(stream, 'a');
  EXPECT_CUDA_OK(cudaStreamDestroy(stream));
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  ExpectMisuse("a stream was used after it was destroyed");
  EXPECT_CUDA_OK(cudaDeviceSynchronize());
  EXPECT_EQ(log_, "a");  // what was queued still ran

  cudaEvent_t event = nullptr;
  ASSERT_CUDA_OK(cudaEventCreate(&event));
  EXPECT_CUDA_OK(cudaEventDestroy(event));
  EXPECT_EQ(cudaEventRecord(event, a_), cudaErrorInvalidResourceHandle);
  ExpectMisuse("an event was used");
}

TEST_F(StreamTest, SeedsRunWorkInOrdersOfTheirOwn) {
  std::vector<std::string> orders;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Begin({.seed = seed, .record_misuses = true});
    for (const char letter : {'1', '2', '3'}) {
      Put(a_, letter);
      Put(b_, static_cast<char>(letter + 'a' - '1'));
    }
    EXPECT_CUDA_OK(cudaDeviceSynchronize());
    std::string numbers, letters;
    for (const char c : log_) (c < 'a' ? numbers : letters) += c;
    EXPECT_EQ(numbers, "123");
    EXPECT_EQ(letters, "abc");
    orders.push_back(log_);
  }
  std::sort(orders.begin(), orders.end());
  EXPECT_GT(std::unique(orders.begin(), orders.end()) - orders.begin(), 3);
}

// Each thread has a stream; their work runs side by side and in order.
TEST_F(StreamTest, ThreadsWaitForEachOthersEvents) {
  constexpr int kRounds = 200;
  const OnDevice<int> counter(std::vector<int>{0});
  EXPECT_CUDA_OK(cudaDeviceSynchronize());
  std::vector<cudaEvent_t> events(2 * kRounds + 1);
  for (cudaEvent_t& event : events) ASSERT_CUDA_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (int i = 0; i < 2 * kRounds; ++i) {  // each piece needs the one before, in the other stream
    const cudaStream_t stream = i % 2 == 0 ? a_ : b_;
    EXPECT_CUDA_OK(cudaStreamWaitEvent(stream, events[i], 0));
    cuda_sim_launch(stream, [p = counter.get(), i] { *p = *p == i ? i + 1 : -1; });
    EXPECT_CUDA_OK(cudaEventRecord(events[i + 1], stream));
  }
  std::thread other([&] { EXPECT_CUDA_OK(cudaStreamSynchronize(b_)); });
  EXPECT_CUDA_OK(cudaStreamSynchronize(a_));
  other.join();
  EXPECT_THAT(counter.Values(), testing::ElementsAre(2 * kRounds));
  for (const cudaEvent_t event : events) EXPECT_CUDA_OK(cudaEventDestroy(event));
}

TEST_F(StreamTest, ALaunchBreaksTheContextForGood) {
  Begin({.faults = {.sticky_at_launch = 2}, .record_misuses = true});
  Put(a_, 'a');
  Put(a_, 'b');
  Put(a_, 'c');
  EXPECT_CUDA_OK(cudaGetLastError());  // a launch says nothing; who waits learns it
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaErrorIllegalAddress);
  EXPECT_EQ(log_, "a");
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 1), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaDeviceReset(), cudaErrorIllegalAddress);
  Begin({.record_misuses = true});
}

TEST_F(StreamTest, AStickyErrorCanHappenToOneProcessOnly) {
  const std::string marker = testing::TempDir() + "/cuda_sim_once";
  std::filesystem::remove(marker);
  for (const cudaError_t expected : {cudaErrorIllegalAddress, cudaSuccess}) {
    Begin({.faults = {.sticky_at_launch = 1, .once = marker}, .record_misuses = true});
    Put(a_, 'a');
    EXPECT_EQ(cudaDeviceSynchronize(), expected);
  }
  std::filesystem::remove(marker);
}

TEST_F(StreamTest, LaunchesHaveLimits) {
  EXPECT_CUDA_OK(CheckLaunch({1 << 20, 65535, 1}, {1024, 1, 1}, 48 << 10));
  EXPECT_EQ(CheckLaunch({0, 1, 1}, {1, 1, 1}, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(CheckLaunch({1, 1 << 16, 1}, {1, 1, 1}, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(CheckLaunch({1, 1, 1}, {1025, 1, 1}, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(CheckLaunch({1, 1, 1}, {1, 1, 1}, (48 << 10) + 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
}

TEST_F(StreamTest, CopiesCanBeSlow) {
  Begin({.faults = {.copy_delay = std::chrono::milliseconds(3)}, .record_misuses = true});
  const OnDevice<char> p(1);
  char host = 0;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_CUDA_OK(cudaMemcpy(&host, p.get(), 1, cudaMemcpyDeviceToHost));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(3));
}

}  // namespace
}  // namespace jacserve::cuda_sim
