// Threads that stay on their cores.
#include "worker/service/cpu_list.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <future>
#include <thread>

namespace jacserve::worker {
namespace {

TEST(CpuListTest, PinsThreadsThatExistAndThatFollow) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  std::vector<int> usable;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before)) usable.push_back(cpu);
  }
  std::promise<void> pinned;
  std::promise<int> earlier_cpus;
  std::thread earlier([&] {
    pinned.get_future().wait();
    earlier_cpus.set_value(UsableCpus());
  });
  ASSERT_TRUE(PinToCpus({usable.front()}).ok());
  pinned.set_value();
  EXPECT_EQ(earlier_cpus.get_future().get(), 1);
  std::thread([] { EXPECT_EQ(UsableCpus(), 1); }).join();
  earlier.join();
  ASSERT_TRUE(PinToCpus(usable).ok());
  EXPECT_EQ(UsableCpus(), static_cast<int>(usable.size()));
}

TEST(CpuListTest, CoresThatAreNotThereAreRefused) {
  EXPECT_EQ(PinToCpus({CPU_SETSIZE - 1}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace jacserve::worker
