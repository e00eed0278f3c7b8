// One request while it is being answered: what was asked, the queue to its client, what the summary will say.
// In: a checked request, a header, the workers' summaries. Out: shards to compute, the merged summary.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/row_range.h"
#include "jacserve/v1/types.pb.h"
#include "jacserve/v1/worker_service.pb.h"
#include "server/relay/event_queue.h"
#include "server/relay/relay.h"

namespace jacserve::server {

struct JobRequest {
  v1::JacobianSpec spec;
  std::optional<std::vector<RowRange>> rows;  // may overlap; absent: all rows
};

// Thread-safe.
class ActiveJob : public HeaderSink {
 public:
  // `keep_alive` goes with the job: what must not be evicted meanwhile.
  ActiveJob(JobRequest request, int64_t queue_bytes, std::shared_ptr<const void> keep_alive);

  const v1::JacobianSpec& spec() const { return request_.spec; }
  EventQueue& queue() { return queue_; }

  // The rows that a worker may compute at once when it has prepared the job; none when they lie apart.
  std::optional<v1::FollowingRows> Following() const;

  // Workers that are ready, for the header and the plan.
  void set_workers(int64_t workers);

  // OutOfRange: rows that the target does not have.
  absl::StatusOr<std::optional<v1::JacobianEvent>> OnHeader(const v1::JacobianHeader& header) override;

  // After OnHeader.
  std::vector<RowRange> Plan() const;
  const RowLayout& layout() const { return layout_; }

  void AddSummary(const std::string& worker_id, const v1::JacobianSummary& summary);
  void AddDelivered(int64_t payload_bytes);

  // A worker's turn has ended. Times are seconds of std::chrono::steady_clock; no rows: it prepared the job.
  void AddRun(const std::string& worker_id, RowRange rows, double begin, double end, bool completed);

  // What the summary can say from here; the caller adds rows and shards.
  v1::JacobianSummary Summary() const;

 private:
  const JobRequest request_;
  const std::shared_ptr<const void> keep_alive_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  EventQueue queue_;
  mutable std::mutex mutex_;
  int64_t workers_ = 1;
  std::optional<v1::JacobianHeader> header_;
  std::vector<RowRange> wanted_;  // disjoint, in order, none empty
  RowLayout layout_;              // set once, before any shard is assigned
  int64_t payload_bytes_ = 0;
  int64_t underflows_ = 0, overflows_ = 0;  // as workers reported them
  std::map<std::string, double> phases_;
  std::map<std::string, v1::ProcessUsage> processes_;
  std::vector<v1::ShardRun> runs_;
};

}  // namespace jacserve::server
