// Transitions one by one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/state/transitions.h"
#include "tests/server/state_rig.h"

namespace jacserve::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Jobs, AreQueuedThenRunThenDone) {
  State state;
  const WorkerKey worker = AddReady(state, "w");
  const JobId job = AddJob(state, 0);
  EXPECT_EQ(state.jobs.at(job).phase, JobPhase::kQueued);
  const Lease prepare = *Assign(state, worker, 1);
  EXPECT_EQ(state.jobs.at(job).phase, JobPhase::kRunning);
  EXPECT_THAT(PrepareDone(state, prepare.id, {{0, 10}}, 2).ended, IsEmpty());
  const Lease lease = *Assign(state, worker, 3);
  EXPECT_EQ(lease.rows, (RowRange{0, 10}));
  EXPECT_TRUE(*RowsDelivered(state, lease.id, {0, 10}, 4));
  EXPECT_THAT(ShardDone(state, lease.id, 5).ended, ElementsAre(job));
  EXPECT_EQ(state.jobs.at(job).phase, JobPhase::kDone);
  EXPECT_EQ(state.jobs.at(job).rows_delivered, 10);
  RemoveJob(state, job);
  EXPECT_TRUE(state.jobs.empty());
}

TEST(Jobs, GoOnWithTheirRowsAtTheWorkerThatPreparedThem) {
  State state;
  const WorkerKey worker = AddReady(state, "w"), other = AddReady(state, "other");
  const JobId job = AddJob(state, 0);
  const Lease prepare = *Assign(state, worker, 0);
  const std::optional<Lease> rows = PrepareDoneAndOn(state, prepare.id, {3, 7}, 1);
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ(rows->worker, worker);
  EXPECT_EQ(rows->rows, (RowRange{3, 7}));
  EXPECT_FALSE(Progress(state, prepare.id, 1)) << "that lease is over";
  EXPECT_FALSE(Assign(state, other, 1).has_value()) << "nothing is left for others";
  EXPECT_TRUE(*RowsDelivered(state, rows->id, {3, 2}, 2));
  EndWorker(state, worker, WorkerPhase::kLost, 3);
  const Lease rest = *Assign(state, other, 3);
  EXPECT_EQ(rest.rows, (RowRange{5, 5}));
  EXPECT_TRUE(*RowsDelivered(state, rest.id, {5, 5}, 4));
  EXPECT_THAT(ShardDone(state, rest.id, 5).ended, ElementsAre(job));
  EXPECT_FALSE(PrepareDoneAndOn(state, prepare.id, {3, 7}, 6).has_value()) << "a lease that is void";
}

TEST(Workers, HadWorkOnceTheyWereGivenAny) {
  State state;
  const WorkerKey worker = AddReady(state, "w", 5);
  AddJob(state, 5);
  EXPECT_FALSE(HadWorkSince(state, "w", 4));
  Assign(state, worker, 6);
  EXPECT_TRUE(HadWorkSince(state, "w", 4));
  EndWorker(state, worker, WorkerPhase::kLost, 7);
  EXPECT_TRUE(HadWorkSince(state, "w", 4)) << "lost by now";
  EXPECT_FALSE(HadWorkSince(state, "w", 6)) << "one that joined before is another process";
  EXPECT_FALSE(HadWorkSince(state, "other", 4));
}

TEST(Jobs, WithoutRowsAreDoneOncePrepared) {
  State state;
  const WorkerKey worker = AddReady(state, "w");
  const JobId job = AddJob(state, 0);
  EXPECT_THAT(PrepareDone(state, Assign(state, worker, 0)->id, {}, 0).ended, ElementsAre(job));
}

TEST(Jobs, NothingIsAssignedWhilePreparing) {
  State state;
  const WorkerKey a = AddReady(state, "a"), b = AddReady(state, "b");
  AddJob(state, 0);
  ASSERT_TRUE(Assign(state, a, 0).has_value());
  EXPECT_FALSE(Assign(state, b, 0).has_value());
}

TEST(Jobs, CancelRevokesEveryLease) {
  State state;
  const WorkerKey a = AddReady(state, "a"), b = AddReady(state, "b");
  const JobId job = AddPrepared(state, a, 30);
  const Lease first = *Assign(state, a, 0), second = *Assign(state, b, 0);
  const Effects effects = CancelJob(state, job, 1);
  EXPECT_EQ(effects.revoked.size(), 2u);
  EXPECT_THAT(effects.ended, ElementsAre(job));
  EXPECT_FALSE(Progress(state, first.id, 1));
  EXPECT_FALSE(*RowsDelivered(state, second.id, {10, 1}, 1));
  EXPECT_THAT(ShardDone(state, first.id, 1).ended, IsEmpty());
  EXPECT_THAT(CancelJob(state, job, 2).ended, IsEmpty());  // only once
  EXPECT_FALSE(Assign(state, a, 2).has_value());
}

enum class End { kDone, kLost, kGivenBack, kWorkerLost, kWorkerGone };

struct LeaseCase {
  const char* name;
  std::vector<RowRange> delivered;
  End end;
  std::vector<RowRange> waiting;  // afterwards
  int64_t retries;
  bool job_done;
};

class LeaseEnds : public testing::TestWithParam<LeaseCase> {};

TEST_P(LeaseEnds, UndeliveredRowsWaitAgain) {
  const LeaseCase& expected = GetParam();
  State state;
  const WorkerKey worker = AddReady(state, "w");
  const JobId id = AddPrepared(state, worker, 10);
  const Lease lease = *Assign(state, worker, 0);
  for (const RowRange& rows : expected.delivered) ASSERT_TRUE(*RowsDelivered(state, lease.id, rows, 1));
  switch (expected.end) {
    case End::kDone:
      ShardDone(state, lease.id, 2);
      break;
    case End::kLost:
      LeaseLost(state, lease.id, 2);
      break;
    case End::kGivenBack:
      LeaseGivenBack(state, lease.id, 2);
      break;
    case End::kWorkerLost:
      EndWorker(state, worker, WorkerPhase::kLost, 2);
      break;
    case End::kWorkerGone:
      EndWorker(state, worker, WorkerPhase::kGone, 2);
      break;
  }
  const Job& job = state.jobs.at(id);
  std::vector<RowRange> waiting;
  for (int index : job.waiting) waiting.push_back(job.shards[index].rows);
  EXPECT_EQ(waiting, expected.waiting);
  EXPECT_EQ(job.retries, expected.retries);
  EXPECT_EQ(job.phase == JobPhase::kDone, expected.job_done);
  EXPECT_EQ(job.leased, 0);
  EXPECT_TRUE(state.leases.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Cases, LeaseEnds,
    testing::Values(LeaseCase{"DoneWithAllRows", {{0, 10}}, End::kDone, {}, 0, true},
                    LeaseCase{"DoneWithRowsMissing", {{0, 4}}, End::kDone, {{4, 6}}, 1, false},
                    LeaseCase{"LostBeforeAnyRow", {}, End::kLost, {{0, 10}}, 1, false},
                    LeaseCase{"LostWithAHole", {{2, 3}, {8, 1}}, End::kLost, {{0, 2}, {5, 3}, {9, 1}}, 1, false},
                    LeaseCase{"LostAfterTheLastRow", {{0, 10}}, End::kLost, {}, 1, true},
                    LeaseCase{"GivenBackHalfDone", {{0, 5}}, End::kGivenBack, {{5, 5}}, 0, false},
                    LeaseCase{"GivenBackAfterTheLastRow", {{0, 10}}, End::kGivenBack, {}, 0, true},
                    LeaseCase{"WorkerLost", {{0, 5}}, End::kWorkerLost, {{5, 5}}, 1, false},
                    LeaseCase{"WorkerGone", {{0, 5}}, End::kWorkerGone, {{5, 5}}, 0, false}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Leases, RowsOutsideTheShardAreRefused) {
  State state;
  const WorkerKey worker = AddReady(state, "w");
  AddPrepared(state, worker, 20);
  const Lease lease = *Assign(state, worker, 0);
  for (const RowRange& rows : std::vector<RowRange>{{-1, 1}, {9, 2}, {10, 1}, {0, -1}, {1, INT64_MAX}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(RowsDelivered(state, lease.id, rows, 0).status())) << rows.begin;
  }
}

TEST(Leases, ThreeLostOnOneShardFailTheJobNamingItsRows) {
  State state;
  const JobId job = AddPrepared(state, AddReady(state, "w0"), 20);
  for (int i = 0; i < 3; ++i) {
    const WorkerKey worker = *FindWorker(state, absl::StrCat("w", i));
    const Lease lease = *Assign(state, worker, 0);
    EXPECT_EQ(lease.rows.begin, i == 0 ? 0 : 4);
    if (i == 0) {
      ASSERT_TRUE(*RowsDelivered(state, lease.id, {0, 4}, 0));
    }
    const Effects effects = EndWorker(state, worker, WorkerPhase::kLost, 0);
    EXPECT_THAT(effects.lost, ElementsAre(worker));
    EXPECT_EQ(effects.ended.size(), i == 2 ? 1u : 0u);
    AddReady(state, absl::StrCat("w", i + 1));
  }
  EXPECT_EQ(state.jobs.at(job).phase, JobPhase::kFailed);
  EXPECT_TRUE(absl::IsDataLoss(state.jobs.at(job).error));
  EXPECT_THAT(state.jobs.at(job).error.message(), HasSubstr("rows 4 to 9"));
}

TEST(Leases, ThreeLostInPreparingFailTheJob) {
  State state;
  const JobId job = AddJob(state, 0);
  for (int i = 0; i < 3; ++i) {
    const WorkerKey worker = AddReady(state, "w");  // each replaces the one before
    ASSERT_TRUE(Assign(state, worker, 0).has_value());
    EndWorker(state, worker, WorkerPhase::kLost, 0);
  }
  EXPECT_TRUE(absl::IsDataLoss(state.jobs.at(job).error));
}

TEST(Leases, AnotherWorkerIsPreferredAfterALoss) {
  State state;
  const WorkerKey a = AddReady(state, "a");
  AddPrepared(state, a, 10);
  LeaseLost(state, Assign(state, a, 0)->id, 0);
  const WorkerKey b = AddReady(state, "b");
  EXPECT_FALSE(Assign(state, a, 0).has_value());
  EXPECT_TRUE(Assign(state, b, 0).has_value());
}

TEST(Leases, OnlyWorkerMayTryAgain) {
  State state;
  const WorkerKey a = AddReady(state, "a");
  AddPrepared(state, a, 10);
  LeaseLost(state, Assign(state, a, 0)->id, 0);
  EXPECT_TRUE(Assign(state, a, 0).has_value());
}

TEST(Fairness, WorkersGoToTheJobWithFewest) {
  State state;
  std::vector<WorkerKey> workers;
  for (int i = 0; i < 4; ++i) workers.push_back(AddReady(state, std::to_string(i)));
  const JobId first = AddPrepared(state, workers[0], 100);
  for (WorkerKey worker : workers) EXPECT_EQ(Assign(state, worker, 0)->job, first);
  const JobId second = AddJob(state, 1);
  // As workers come free, they go over until both jobs have two.
  std::vector<JobId> next;
  for (WorkerKey worker : workers) {
    const LeaseId lease = state.workers.at(worker).lease;
    ASSERT_TRUE(*RowsDelivered(state, lease, state.leases.at(lease).rows, 2));
    ShardDone(state, lease, 2);
    const Lease taken = *Assign(state, worker, 2);
    next.push_back(taken.job);
    if (taken.shard == kPrepareShard) {
      PrepareDone(state, taken.id, {{0, 1}, {1, 1}, {2, 1}}, 2);
      next.back() = Assign(state, worker, 2)->job;
    }
  }
  EXPECT_EQ(state.jobs.at(first).leased, 2);
  EXPECT_EQ(state.jobs.at(second).leased, 2);
}

TEST(Fairness, OneWorkerAlternatesByTimeUsed) {
  State state;
  state.limits.turn_seconds = 0;
  const WorkerKey worker = AddReady(state, "w");
  const JobId slow = AddPrepared(state, worker, 100);
  SetStalled(state, slow, true);  // so that the second is prepared at once
  const JobId quick = AddPrepared(state, worker, 100);
  SetStalled(state, slow, false);
  std::map<JobId, double> used;
  double now = 0;
  for (int i = 0; i < 12; ++i) {
    const Lease lease = *Assign(state, worker, now);
    const double takes = lease.job == slow ? 3 : 1;
    now += takes;
    used[lease.job] += takes;
    ASSERT_TRUE(*RowsDelivered(state, lease.id, lease.rows, now));
    ShardDone(state, lease.id, now);
  }
  EXPECT_NEAR(used[slow], used[quick], 3);
}

TEST(Fairness, WorkerStaysWithAJobForATurn) {
  State state;
  state.limits.turn_seconds = 10;
  const WorkerKey worker = AddReady(state, "w");
  const JobId first = AddPrepared(state, worker, 1000);
  SetStalled(state, first, true);
  const JobId second = AddPrepared(state, worker, 1000);
  SetStalled(state, first, false);
  int changes = 0;
  JobId last = 0;
  for (double now = 0; now < 80; ++now) {
    const Lease lease = *Assign(state, worker, now);
    changes += lease.job != last ? 1 : 0;
    last = lease.job;
    ASSERT_TRUE(*RowsDelivered(state, lease.id, lease.rows, now + 1));
    ShardDone(state, lease.id, now + 1);
  }
  EXPECT_LE(changes, 8);
  EXPECT_NEAR(state.jobs.at(first).served_seconds, state.jobs.at(second).served_seconds, 11);
}

TEST(Fairness, NewcomerDoesNotHoldOldJobsUp) {
  State state;
  const WorkerKey worker = AddReady(state, "w");
  const JobId old = AddPrepared(state, worker, 100);
  for (double now = 0; now < 5; ++now) {
    const Lease lease = *Assign(state, worker, now * 100);
    ASSERT_TRUE(*RowsDelivered(state, lease.id, lease.rows, now * 100 + 100));
    ShardDone(state, lease.id, now * 100 + 100);
  }
  const JobId fresh = AddJob(state, 500);
  EXPECT_EQ(state.jobs.at(fresh).served_seconds, state.jobs.at(old).served_seconds);
}

TEST(Fairness, StalledJobTakesNoLeaseUntilItsClientReads) {
  State state;
  const WorkerKey worker = AddReady(state, "w");
  const JobId stalled = AddPrepared(state, worker, 30);
  const Lease lease = *Assign(state, worker, 0);
  EXPECT_FALSE(OtherJobWaits(state, worker, stalled));
  const JobId other = AddJob(state, 0);
  EXPECT_TRUE(OtherJobWaits(state, worker, stalled));
  SetStalled(state, stalled, true);
  LeaseGivenBack(state, lease.id, 1);
  EXPECT_EQ(Assign(state, worker, 1)->job, other);
  CancelJob(state, other, 1);
  EXPECT_FALSE(Assign(state, worker, 1).has_value());
  SetStalled(state, stalled, false);
  EXPECT_EQ(Assign(state, worker, 1)->job, stalled);
}

TEST(Workers, JoinBecomeReadyAndDrain) {
  State state;
  Effects effects;
  const WorkerKey worker = AddWorker(state, Named("w"), 0, effects);
  AddJob(state, 0);
  EXPECT_FALSE(Assign(state, worker, 0).has_value());  // joining
  WorkerReady(state, worker);
  Heartbeat(state, worker, /*draining=*/true, 5, 1);
  EXPECT_EQ(state.workers.at(worker).phase, WorkerPhase::kDraining);
  EXPECT_FALSE(Assign(state, worker, 1).has_value());
  EXPECT_THAT(EndWorker(state, worker, WorkerPhase::kGone, 2).lost, IsEmpty());
  Heartbeat(state, worker, false, 5, 3);
  WorkerReady(state, worker);
  EXPECT_EQ(state.workers.at(worker).phase, WorkerPhase::kGone);
  EXPECT_FALSE(FindWorker(state, "w").has_value());
}

TEST(Workers, SecondRegistrationReplacesTheFirst) {
  State state;
  const WorkerKey first = AddReady(state, "w");
  AddJob(state, 0);
  const Lease lease = *Assign(state, first, 0);
  Effects effects;
  const WorkerKey second = AddWorker(state, Named("w"), 1, effects);
  EXPECT_THAT(effects.lost, ElementsAre(first));
  ASSERT_EQ(effects.revoked.size(), 1u);
  EXPECT_EQ(effects.revoked[0].id, lease.id);
  EXPECT_EQ(*FindWorker(state, "w"), second);
}

TEST(Ticks, SilentWorkerIsLostAndForgottenLater) {
  State state;
  state.limits.silence_seconds = 3;
  const WorkerKey worker = AddReady(state, "w", 0);
  EXPECT_THAT(Tick(state, 3).lost, IsEmpty());
  Heartbeat(state, worker, false, 0, 3);
  EXPECT_THAT(Tick(state, 6).lost, IsEmpty());
  EXPECT_THAT(Tick(state, 6.1).lost, ElementsAre(worker));
  EXPECT_TRUE(state.workers.contains(worker));
  Tick(state, 6.1 + state.limits.keep_ended_seconds + 1);
  EXPECT_FALSE(state.workers.contains(worker));
}

TEST(Ticks, LeaseThatStandsStillLosesItsWorker) {
  State state;
  state.limits.lease_seconds = 10;
  state.limits.silence_seconds = 1000;
  const WorkerKey worker = AddReady(state, "w");
  AddJob(state, 0);
  const Lease lease = *Assign(state, worker, 0);
  EXPECT_TRUE(Progress(state, lease.id, 8));
  EXPECT_THAT(Tick(state, 18).lost, IsEmpty());
  EXPECT_THAT(Tick(state, 18.1).lost, ElementsAre(worker));
}

TEST(Ticks, JobsFailWhenNoWorkerCame) {
  State state;
  state.limits.no_worker_seconds = 5;
  Tick(state, 0);
  const JobId job = AddJob(state, 100);
  EXPECT_THAT(Tick(state, 105).ended, IsEmpty());
  EXPECT_THAT(Tick(state, 105.1).ended, ElementsAre(job));
  EXPECT_TRUE(absl::IsUnavailable(state.jobs.at(job).error));
}

}  // namespace
}  // namespace jacserve::server
