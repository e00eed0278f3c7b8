// What a process knows about itself, and that it ends with its parent.
#include "common/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

namespace jacserve {
namespace {

TEST(ProcessTest, PeakRssCoversWhatWasTouched) {
  TuneAllocator({.keep_bytes = 64 << 20, .arenas = 2});
  const std::vector<char> touched(64 << 20, 'x');
  EXPECT_EQ(touched.back(), 'x');
  EXPECT_GE(PeakRssBytes(), 64 << 20);
}

// The C library's allocator; the sanitizers bring one of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(ProcessTest, FreeMemoryGoesBackToTheSystem) {
  constexpr int64_t kBytes = 64 << 20;
  std::vector<std::vector<char>> blocks(64);
  for (auto& block : blocks) block.assign(kBytes / 64, 'x');
  std::vector<char> last(1 << 20, 'x');  // keeps the top of the heap in use
  const int64_t full = RssBytes();
  blocks.clear();
  ReleaseFreeMemory();
  EXPECT_LT(RssBytes(), full - kBytes / 2);
  EXPECT_EQ(last.back(), 'x');
}
#endif

TEST(ProcessTest, ProcessorHasAName) { EXPECT_FALSE(ProcessorName().empty()); }

// A child whose child writes its id into a pipe and then waits for ever; the middle process dies by itself.
TEST(ProcessTest, DiesWithItsParent) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t middle = fork();
  if (middle == 0) {
    const pid_t self = getpid();
    if (fork() == 0) {
      DieWithParent(self);
      const char ready = 'r';
      if (write(pipe_ends[1], &ready, 1) != 1) _exit(1);
      while (true) pause();
    }
    close(pipe_ends[1]);
    char ready = 0;
    if (read(pipe_ends[0], &ready, 1) != 1) _exit(1);
    _exit(0);
  }
  close(pipe_ends[1]);
  int status = 0;
  ASSERT_EQ(waitpid(middle, &status, 0), middle);
  EXPECT_EQ(status, 0);
  char byte = 0;
  EXPECT_EQ(read(pipe_ends[0], &byte, 1), 0);  // the last writer is gone
  close(pipe_ends[0]);
}

TEST(ProcessTest, EndsAtOnceWhenTheParentIsAlreadyAnother) {
  const pid_t child = fork();
  if (child == 0) {
    DieWithParent(1 << 30);  // nobody's id
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_NE(status, 0);
}

}  // namespace
}  // namespace jacserve
