// Who may work on what: memory budgets, backends, idle GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/state_rig.h"

namespace jacserve::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

WorkerKey AddWithBudget(State& state, const std::string& id, int64_t budget_bytes, const std::string& backend = "cpu") {
  WorkerDetails details = Named(id);
  details.memory_budget_bytes = budget_bytes;
  details.backend = backend;
  return AddReady(state, details);
}

WorkerKey AddOnCpu(State& state, const std::string& id) { return AddWithBudget(state, id, 1 << 30); }

WorkerKey AddOnGpu(State& state, const std::string& id) {
  WorkerDetails details = Named(id);
  details.backend = "cuda";
  details.gpu = WorkerGpu{.uuid = id};
  return AddReady(state, details);
}

TEST(Refusals, LeaveTheJobToWorkersWithTheMemory) {
  State state;
  const WorkerKey small = AddWithBudget(state, "small", 100), middle = AddWithBudget(state, "middle", 199);
  const WorkerKey large = AddWithBudget(state, "large", 200), gpu = AddWithBudget(state, "gpu", 50, "cuda");
  const JobId job = AddJob(state, 0);
  const Lease lease = *Assign(state, small, 0);
  EXPECT_THAT(LeaseRefused(state, lease.id, 200, absl::ResourceExhaustedError("too small"), 1).ended, IsEmpty());
  EXPECT_EQ(state.jobs.at(job).retries, 0) << "nobody is to blame";
  EXPECT_FALSE(Assign(state, small, 2).has_value());
  EXPECT_FALSE(Assign(state, middle, 2).has_value());
  const Lease next = *Assign(state, gpu, 2);  // a budget of another memory
  LeaseRefused(state, next.id, 0, absl::ResourceExhaustedError("too small for me"), 3);
  EXPECT_FALSE(Assign(state, gpu, 4).has_value());
  EXPECT_TRUE(Assign(state, large, 4).has_value());
}

TEST(Refusals, EndTheJobWhenNobodyHasTheMemory) {
  State state;
  const WorkerKey a = AddWithBudget(state, "a", 1 << 20);
  AddWithBudget(state, "b", 3 << 20);
  const JobId job = AddJob(state, 0);
  const absl::Status refusal = absl::ResourceExhaustedError("it needs 4.0 MiB");
  const Effects effects = LeaseRefused(state, Assign(state, a, 0)->id, 4 << 20, refusal, 1);
  EXPECT_THAT(effects.ended, ElementsAre(job));
  EXPECT_EQ(state.jobs.at(job).error,
            absl::ResourceExhaustedError("it needs 4.0 MiB; the largest among the workers is that of b, 3.0 MiB"));
}

TEST(Refusals, WaitForAWorkerThatWasLostJustNow) {
  State state;
  state.limits.no_worker_seconds = 15;
  const WorkerKey small = AddWithBudget(state, "small", 100), large = AddWithBudget(state, "large", 200);
  const JobId job = AddJob(state, 0);
  EndWorker(state, large, WorkerPhase::kLost, 0);
  const absl::Status refusal = absl::ResourceExhaustedError("too small");
  EXPECT_THAT(LeaseRefused(state, Assign(state, small, 0)->id, 200, refusal, 1).ended, IsEmpty());
  const WorkerKey back = AddWithBudget(state, "large", 200);
  EXPECT_TRUE(Assign(state, back, 2).has_value());
  EndWorker(state, back, WorkerPhase::kLost, 3);
  EXPECT_THAT(EndUnfit(state, 17).ended, IsEmpty());
  EXPECT_THAT(EndUnfit(state, 18).ended, ElementsAre(job));
  EXPECT_EQ(state.jobs.at(job).error, refusal) << "there is one budget only: its own words say all";
}

TEST(Refusals, OfABackendSpeakForAllItsWorkers) {
  State state;
  const WorkerKey first = AddOnCpu(state, "first"), second = AddOnCpu(state, "second");
  const JobId job = AddJob(state, 0);
  const absl::Status refusal = absl::InvalidArgumentError("a GPU's affair");
  const Lease lease = *Assign(state, first, 0);
  const WorkerKey gpu = AddOnGpu(state, "gpu");
  EXPECT_THAT(LeaseRefused(state, lease.id, kNoBudget, refusal, 1).ended, IsEmpty());
  EXPECT_FALSE(Assign(state, second, 1).has_value());
  const Lease next = *Assign(state, gpu, 1);
  EXPECT_THAT(LeaseRefused(state, next.id, kNoBudget, refusal, 2).ended, ElementsAre(job));
  EXPECT_EQ(state.jobs.at(job).error, refusal);
}

TEST(Backends, AJobStaysWithTheOneThatPreparedIt) {
  State state;
  const WorkerKey cpu = AddOnCpu(state, "cpu"), other = AddOnCpu(state, "other");
  const JobId job = AddPrepared(state, cpu, 30);
  const WorkerKey gpu = AddOnGpu(state, "gpu");
  EXPECT_FALSE(Assign(state, gpu, 0).has_value()) << "its bits are others";
  EXPECT_EQ(Assign(state, other, 0)->job, job);
}

TEST(Backends, ThatHaveLeftEndTheJobAfterAWhile) {
  State state;
  state.limits.no_worker_seconds = 15;
  const WorkerKey cpu = AddOnCpu(state, "cpu");
  const JobId job = AddPrepared(state, cpu, 30);
  AddOnGpu(state, "gpu");
  EndWorker(state, cpu, WorkerPhase::kGone, 1);
  EXPECT_THAT(EndUnfit(state, 15).ended, IsEmpty()) << "it may come back";
  const WorkerKey back = AddOnCpu(state, "cpu");
  EXPECT_TRUE(Assign(state, back, 15).has_value());
  EndWorker(state, back, WorkerPhase::kLost, 20);
  EXPECT_THAT(EndUnfit(state, 35).ended, ElementsAre(job));
  EXPECT_TRUE(absl::IsUnavailable(state.jobs.at(job).error));
  EXPECT_THAT(std::string(state.jobs.at(job).error.message()), HasSubstr("the cpu workers that began this have left"));
}

TEST(Backends, ANewJobGoesToAnIdleGpuAndToOthersWhenThereIsNone) {
  State state;
  const WorkerKey cpu = AddOnCpu(state, "cpu"), gpu = AddOnGpu(state, "gpu");
  const JobId first = AddJob(state, 0), second = AddJob(state, 0);
  EXPECT_FALSE(Assign(state, cpu, 0).has_value());
  const Lease lease = *Assign(state, gpu, 0);
  EXPECT_EQ(lease.job, first);
  EXPECT_EQ(Assign(state, cpu, 0)->job, second) << "the GPU is busy";
  EXPECT_EQ(ReadyWorkersLike(state, gpu), 1);
}

TEST(Backends, AGpuThatIsBusyWithWhatWasCancelledIsNotIdle) {
  State state;
  const WorkerKey cpu = AddOnCpu(state, "cpu"), gpu = AddOnGpu(state, "gpu");
  const JobId job = AddJob(state, 0);
  LeaseRefusedForNow(state, Assign(state, gpu, 0)->id, 1);
  EXPECT_EQ(Assign(state, cpu, 1)->job, job);
}

TEST(Backends, AGpuThatFailedOnAJobLeavesItToOthers) {
  State state;
  const WorkerKey cpu = AddOnCpu(state, "cpu"), gpu = AddOnGpu(state, "gpu");
  const JobId job = AddJob(state, 0);
  LeaseLost(state, Assign(state, gpu, 0)->id, 1);
  EXPECT_EQ(Assign(state, cpu, 1)->job, job);
}

}  // namespace
}  // namespace jacserve::server
