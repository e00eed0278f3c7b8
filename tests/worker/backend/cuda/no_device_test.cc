// The real build on whatever machine this is: programs start, and where there is no GPU they say what is missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "tests/worker/engine/golden_case.h"
#include "worker/backend/cuda/cuda_backend.h"

namespace jacserve::worker {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

const auto kSaysWhatIsMissing = AnyOf(HasSubstr("no NVIDIA driver"), HasSubstr("sees no GPU"),
                                      HasSubstr("this build has no CUDA"), HasSubstr("CUDA cannot be loaded"));

bool HasGpu() { return FindCudaDevice().ok(); }

TEST(NoDevice, IsSaidByTheDeviceAndTheEngine) {
  if (HasGpu()) {
    EXPECT_FALSE(FindCudaDevice()->name.empty());
    return;
  }
  EXPECT_THAT(std::string(FindCudaDevice().status().message()), kSaysWhatIsMissing);
  const absl::Status status =
      Engine::Create(LoadGoldenCase("mlp_tanh", false).problem, {.backend = BackendKind::kCuda}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), kSaysWhatIsMissing);
}

TEST(NoDevice, AWorkerThatWasAskedForOneEndsAndSaysSo) {
  if (HasGpu()) return;
  const std::string command = std::string(std::getenv("JACSERVE_BIN")) +
                              "/jacserve-worker --device cuda --coordinator unix:/nowhere --log-level off 2>&1";
  FILE* worker = popen(command.c_str(), "r");
  ASSERT_NE(worker, nullptr);
  std::string said(4096, '\0');
  said.resize(fread(said.data(), 1, said.size(), worker));
  const int ended = pclose(worker);
  EXPECT_EQ(WEXITSTATUS(ended), EXIT_FAILURE);
  EXPECT_THAT(said, kSaysWhatIsMissing);
}

}  // namespace
}  // namespace jacserve::worker
