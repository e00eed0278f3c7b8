#include "worker/engine/record_window.h"

#include <algorithm>

#include "common/status.h"

namespace jacserve::worker {

absl::StatusOr<RecordWindow> RecordWindow::Make(const CompiledProblem& problem, int64_t lanes, int64_t samples) {
  RecordWindow window(problem);
  ASSIGN_OR_RETURN(window.record_of_, problem.backend.memory().AllocateIndex(lanes));
  if (problem.all_records != nullptr) return window;
  const int64_t record_bytes = problem.linearizer.record_elements() * problem.backend.element_bytes();
  window.samples_ = std::min(samples, problem.target.samples());
  ASSIGN_OR_RETURN(window.memory_, problem.backend.memory().Allocate(window.samples_ * record_bytes));
  return window;
}

void RecordWindow::Find(std::span<const int32_t> sample_of, Scratch& scratch) {
  auto* record_of = static_cast<int32_t*>(record_of_.get());
  std::copy(sample_of.begin(), sample_of.end(), record_of);
  if (problem_.all_records != nullptr) {
    records_ = problem_.all_records;
  } else {
    FillWindow(sample_of, record_of, scratch);
  }
  problem_.backend.memory().PublishIndex(record_of, static_cast<int64_t>(sample_of.size()));
}

void RecordWindow::FillWindow(std::span<const int32_t> sample_of, int32_t* record_of, Scratch& scratch) {
  const Linearizer& linearizer = problem_.linearizer;
  std::vector<int64_t> chunks;
  for (const int32_t sample : sample_of) chunks.push_back(linearizer.ChunkOf(sample));
  std::sort(chunks.begin(), chunks.end());
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  const int64_t stride = linearizer.record_elements(), bytes = problem_.backend.element_bytes();
  std::vector<int64_t> place(chunks.size());
  int64_t used = 0;
  for (size_t k = 0; k < chunks.size(); ++k) {
    place[k] = used;
    used += linearizer.Chunk(chunks[k]).count;
  }
  JACSERVE_CHECK(used <= samples_);
  auto* records = static_cast<std::byte*>(memory_.get());
  records_ = records;
  if (chunks != chunks_) {
    for (size_t k = 0; k < chunks.size(); ++k) {
      linearizer.Forward(chunks[k], {records + place[k] * stride * bytes, stride}, nullptr, scratch);
    }
    chunks_ = chunks;
  }
  for (size_t lane = 0; lane < sample_of.size(); ++lane) {
    const int64_t chunk = linearizer.ChunkOf(sample_of[lane]);
    const size_t k = std::lower_bound(chunks.begin(), chunks.end(), chunk) - chunks.begin();
    record_of[lane] = static_cast<int32_t>(place[k] + sample_of[lane] - linearizer.Chunk(chunk).first_sample);
  }
}

ConstLanes RecordWindow::Primal(int value, const int32_t* record_of) const {
  if (value < 0) return {};
  const ProgramValue& v = problem_.program.values[value];
  JACSERVE_CHECK(problem_.program.values[v.root].batched == v.batched);
  return v.batched ? problem_.linearizer.InRecord(v.root, records_, record_of) : problem_.shared.Value(v.root);
}

}  // namespace jacserve::worker
