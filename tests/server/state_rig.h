// Workers and jobs to begin a test of the state with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "server/state/transitions.h"

namespace jacserve::server {

inline WorkerDetails Named(const std::string& id) {
  WorkerDetails details;
  details.id = id;
  return details;
}

inline WorkerKey AddReady(State& state, const WorkerDetails& details, double now = 0) {
  Effects effects;
  const WorkerKey key = AddWorker(state, details, now, effects);
  WorkerReady(state, key);
  return key;
}

inline WorkerKey AddReady(State& state, const std::string& id, double now = 0) {
  return AddReady(state, Named(id), now);
}

// A job whose rows [0, rows) are cut into shards of ten, prepared by `worker`.
inline JobId AddPrepared(State& state, WorkerKey worker, int64_t rows, double now = 0) {
  const JobId job = AddJob(state, now);
  const std::optional<Lease> prepare = Assign(state, worker, now);
  EXPECT_TRUE(prepare && prepare->job == job && prepare->shard == kPrepareShard);
  std::vector<RowRange> shards;
  for (int64_t begin = 0; begin < rows; begin += 10) shards.push_back({begin, std::min<int64_t>(10, rows - begin)});
  PrepareDone(state, prepare->id, shards, now);
  return job;
}

}  // namespace jacserve::server
