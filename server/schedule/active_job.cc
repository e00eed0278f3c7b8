#include "server/schedule/active_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/process.h"
#include "common/proto_convert.h"
#include "common/shape.h"
#include "common/status.h"
#include "server/plan/shard_plan.h"

namespace jacserve::server {
namespace {

constexpr size_t kMostRuns = 4096;  // so that a summary stays far below gRPC's limit of a message

double Seconds(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// The smallest range that holds them all.
RowRange Hull(const std::vector<RowRange>& ranges) {
  if (ranges.empty()) return {};
  return {ranges.front().begin, ranges.back().end() - ranges.front().begin};
}

absl::Status NoSuchRows(RowRange range, const Shape& target, int64_t rows) {
  return absl::OutOfRangeError(absl::StrCat("rows ", range.begin, ":", range.end(),
                                            " were asked for; the target of shape ", ShapeText(target), " has ", rows,
                                            " rows"));
}

}  // namespace

ActiveJob::ActiveJob(JobRequest request, int64_t queue_bytes, std::shared_ptr<const void> keep_alive)
    : request_(std::move(request)), keep_alive_(std::move(keep_alive)), queue_(queue_bytes) {}

std::optional<v1::FollowingRows> ActiveJob::Following() const {
  v1::FollowingRows following;
  following.set_most_bytes(kWorthwhileBytes);
  following.set_most_flops(kWorthwhileFlops);
  if (!request_.rows) return following;
  if (request_.rows->size() != 1) return std::nullopt;
  *following.mutable_rows() = ToProto(request_.rows->front());
  return following;
}

void ActiveJob::set_workers(int64_t workers) {
  std::lock_guard lock(mutex_);
  workers_ = std::max<int64_t>(workers, 1);
}

absl::StatusOr<std::optional<v1::JacobianEvent>> ActiveJob::OnHeader(const v1::JacobianHeader& header) {
  std::lock_guard lock(mutex_);
  if (header_) {  // an earlier worker got this far and was lost
    if (header_->backend() == header.backend()) return std::optional<v1::JacobianEvent>();
    return absl::UnavailableError(absl::StrCat("the ", header_->backend(),
                                               " worker that began this was lost, and rows ",
                                               "of another backend have other bits; try again"));
  }
  const Shape target(header.target_shape().begin(), header.target_shape().end());
  ASSIGN_OR_RETURN(const int64_t rows, ElementCount(target));
  ASSIGN_OR_RETURN(layout_, LayoutOf(header));
  RowSet wanted;
  for (const RowRange& range : request_.rows.value_or(std::vector<RowRange>{{0, rows}})) {
    if (range.end() > rows) return NoSuchRows(range, target, rows);
    wanted.Add(range);
  }
  wanted_ = wanted.Ranges();
  header_ = header;
  *header_->mutable_rows() = ToProto(Hull(wanted_));
  header_->set_workers(workers_);
  v1::JacobianEvent event;
  *event.mutable_header() = *header_;
  return std::optional(std::move(event));
}

std::vector<RowRange> ActiveJob::Plan() const {
  std::lock_guard lock(mutex_);
  JACSERVE_CHECK(header_.has_value());
  PlanInput input;
  input.missing = wanted_;
  input.row_tile = std::max<int64_t>(header_->row_tile(), 1);
  input.workers = workers_;
  input.row_bytes = layout_.row_bytes;
  input.flops_per_row = header_->flops_per_row();
  return PlanShards(input);
}

void ActiveJob::AddSummary(const std::string& worker_id, const v1::JacobianSummary& summary) {
  std::lock_guard lock(mutex_);
  for (const v1::PhaseSeconds& phase : summary.phases()) phases_[phase.phase()] += phase.seconds();
  underflows_ += summary.underflows();
  overflows_ += summary.overflows();
  v1::ProcessUsage& usage = processes_[worker_id];
  usage.set_role("worker");
  usage.set_name(worker_id);
  for (const v1::ProcessUsage& process : summary.processes()) {
    usage.set_peak_rss_bytes(std::max(usage.peak_rss_bytes(), process.peak_rss_bytes()));
  }
}

void ActiveJob::AddDelivered(int64_t payload_bytes) {
  std::lock_guard lock(mutex_);
  payload_bytes_ += payload_bytes;
}

void ActiveJob::AddRun(const std::string& worker_id, RowRange rows, double begin, double end, bool completed) {
  std::lock_guard lock(mutex_);
  if (runs_.size() == kMostRuns) return;
  v1::ShardRun& run = runs_.emplace_back();
  run.set_worker_id(worker_id);
  if (rows.count > 0) *run.mutable_rows() = ToProto(rows);
  run.set_begin_seconds(begin - Seconds(started_));
  run.set_end_seconds(end - Seconds(started_));
  run.set_completed(completed);
}

v1::JacobianSummary ActiveJob::Summary() const {
  std::lock_guard lock(mutex_);
  v1::JacobianSummary summary;
  summary.set_payload_bytes(payload_bytes_);
  summary.set_seconds(Seconds(std::chrono::steady_clock::now()) - Seconds(started_));
  summary.set_underflows(underflows_);
  summary.set_overflows(overflows_);
  for (const auto& [phase, seconds] : phases_) {
    v1::PhaseSeconds* sum = summary.add_phases();
    sum->set_phase(phase);
    sum->set_seconds(seconds);
  }
  v1::ProcessUsage* own = summary.add_processes();
  own->set_role("coordinator");
  own->set_peak_rss_bytes(PeakRssBytes());
  for (const auto& [id, usage] : processes_) *summary.add_processes() = usage;
  summary.mutable_shard_runs()->Add(runs_.begin(), runs_.end());
  return summary;
}

}  // namespace jacserve::server
