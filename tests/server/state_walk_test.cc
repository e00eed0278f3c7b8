// Transitions in random order, with what must hold after each.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "server/state/transitions.h"

namespace jacserve::server {
namespace {

class RandomWalk {
 private:
  int Upto(int most) { return std::uniform_int_distribution<int>(0, most)(random_); }

  template <class Map>
  auto AnyOf(Map& map) {
    return std::next(map.begin(), Upto(static_cast<int>(map.size()) - 1));
  }

 public:
  explicit RandomWalk(uint32_t seed) : random_(seed) { state_.limits.silence_seconds = 20; }

  void Step() {
    now_ += 0.1;
    switch (Upto(12)) {
      case 0:
        if (state_.jobs.size() < 4) AddJob(state_, now_);
        break;
      case 1:
        if (LiveWorkers(state_) < 5) AddAWorker();
        break;
      case 2:
        if (Upto(20) == 0) EndAWorker();
        break;
      case 3:
        if (Upto(30) == 0) CancelAJob();
        break;
      case 4:
        for (auto& [key, worker] : state_.workers) Heartbeat(state_, key, Upto(200) == 0, 0, now_);
        break;
      case 5:
        if (!state_.jobs.empty()) SetStalled(state_, AnyOf(state_.jobs)->first, Upto(1) == 0);
        break;
      case 6:
        Note(Tick(state_, now_));
        break;
      case 7:
      case 8:
        if (!state_.workers.empty()) Assign(state_, AnyOf(state_.workers)->first, now_);
        break;
      default:
        if (!state_.leases.empty()) MoveALease(AnyOf(state_.leases)->second);
    }
    CheckLeases();
    CheckJobs();
  }

  int done() const { return done_; }

 private:
  void AddAWorker() {
    WorkerDetails details;
    details.id = std::to_string(Upto(6));
    details.memory_budget_bytes = Upto(3);
    if (Upto(2) == 0) details.gpu = WorkerGpu{};
    details.backend = details.gpu ? "cuda" : "cpu";
    Effects effects;
    WorkerReady(state_, AddWorker(state_, details, now_, effects));
    Note(effects);
  }

  void EndAWorker() {
    if (state_.workers.empty()) return;
    Note(EndWorker(state_, AnyOf(state_.workers)->first, Upto(1) ? WorkerPhase::kGone : WorkerPhase::kLost, now_));
  }

  void CancelAJob() {
    if (!state_.jobs.empty()) Note(CancelJob(state_, AnyOf(state_.jobs)->first, now_));
  }

  void MoveALease(Lease lease) {
    if (lease.shard == kPrepareShard) {
      std::vector<RowRange> shards;
      for (int64_t begin = Upto(3), left = Upto(4); left > 0; --left) {
        shards.push_back({begin, 1 + Upto(7)});
        begin = shards.back().end() + Upto(2);
      }
      planned_[lease.job] = {};
      for (const RowRange& rows : shards) planned_[lease.job].Add(rows);
      if (shards.size() == 1 && Upto(1) == 0) {
        ASSERT_TRUE(PrepareDoneAndOn(state_, lease.id, shards[0], now_).has_value());
        return;
      }
      Note(PrepareDone(state_, lease.id, shards, now_));
      return;
    }
    const int what = Upto(20);
    if (what == 0) return Note(LeaseLost(state_, lease.id, now_));
    if (what == 1) return Note(LeaseGivenBack(state_, lease.id, now_));
    if (what == 4) {
      const int64_t needed = Upto(10) == 0 ? kNoBudget : Upto(4);
      return Note(LeaseRefused(state_, lease.id, needed, absl::ResourceExhaustedError("small"), now_));
    }
    if (what <= 3) return Note(ShardDone(state_, lease.id, now_));
    RowRange rows{lease.rows.begin + Upto(static_cast<int>(lease.rows.count) - 1), 1};
    ASSERT_TRUE(*RowsDelivered(state_, lease.id, rows, now_));
    delivered_[lease.job].Add(rows);
  }

  void Note(const Effects& effects) {
    for (const Lease& lease : effects.revoked) ASSERT_FALSE(state_.leases.contains(lease.id));
    for (JobId id : effects.ended) {
      ASSERT_TRUE(ended_.insert(id).second) << "job " << id << " ended twice";
      const Job& job = state_.jobs.at(id);
      ASSERT_TRUE(IsEnded(job.phase));
      if (job.phase == JobPhase::kDone) {
        ++done_;
        ASSERT_EQ(delivered_[id].Ranges(), planned_[id].Ranges());
        ASSERT_EQ(job.rows_delivered, planned_[id].count());  // no row counted twice
      }
      RemoveJob(state_, id);
    }
  }

  void CheckLeases() const {
    std::set<WorkerKey> busy;
    for (const auto& [id, lease] : state_.leases) {
      ASSERT_TRUE(busy.insert(lease.worker).second) << "a worker with two shards";
      const Worker& worker = state_.workers.at(lease.worker);
      ASSERT_EQ(worker.lease, id);
      ASSERT_FALSE(IsEnded(worker.phase));
      const Job& job = state_.jobs.at(lease.job);
      ASSERT_FALSE(IsEnded(job.phase));
      ASSERT_TRUE(job.backend.empty() || job.backend == worker.details.backend);
      const Shard& shard = lease.shard == kPrepareShard ? job.prepare : job.shards[lease.shard];
      ASSERT_EQ(shard.phase, ShardPhase::kLeased);
      ASSERT_EQ(shard.lease, id);
    }
    for (const auto& [key, worker] : state_.workers) ASSERT_EQ(worker.lease != 0, busy.contains(key));
  }

  void CheckJobs() {
    for (const auto& [id, job] : state_.jobs) {
      int leased = job.prepare.phase == ShardPhase::kLeased ? 1 : 0;
      int done = 0;
      RowSet covered = delivered_[id];
      for (size_t i = 0; i < job.shards.size(); ++i) {
        const Shard& shard = job.shards[i];
        leased += shard.phase == ShardPhase::kLeased ? 1 : 0;
        done += shard.phase == ShardPhase::kDone ? 1 : 0;
        ASSERT_EQ(shard.phase == ShardPhase::kWaiting, job.waiting.contains(static_cast<int>(i)));
        ASSERT_TRUE(shard.phase != ShardPhase::kDone || delivered_[id].Contains(shard.rows));
        covered.Add(shard.rows);
      }
      ASSERT_EQ(job.leased, leased);
      ASSERT_EQ(job.shards_done, done);
      ASSERT_TRUE(job.prepare.phase != ShardPhase::kDone || covered.Ranges() == planned_[id].Ranges());
    }
  }

  State state_;
  double now_ = 0;
  std::mt19937 random_;
  std::map<JobId, RowSet> planned_, delivered_;
  std::set<JobId> ended_;
  int done_ = 0;
};

TEST(AnyOrderOfEvents, KeepsEveryRowAndNoWorkerTwice) {
  int done = 0;
  for (uint32_t seed = 0; seed < 80; ++seed) {
    RandomWalk walk(seed);
    for (int step = 0; step < 3000 && !testing::Test::HasFatalFailure(); ++step) walk.Step();
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed;
    done += walk.done();
  }
  EXPECT_GT(done, 500);  // the walk gets somewhere
}

}  // namespace
}  // namespace jacserve::server
