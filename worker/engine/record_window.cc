#include "worker/engine/record_window.h"

#include <algorithm>

namespace jacserve::worker {

RecordWindow::RecordWindow(const CompiledProblem& problem, int64_t samples) : problem_(problem) {
  if (problem.all_records != nullptr) return;
  const int64_t record_bytes = problem.linearizer.record_elements() * problem.backend.element_bytes();
  memory_ = std::make_unique<Scratch>(std::min(samples, problem.target.samples()) * record_bytes);
}

void RecordWindow::Find(std::span<const int32_t> sample_of, Scratch& scratch) {
  record_of_.assign(sample_of.begin(), sample_of.end());
  if (problem_.all_records != nullptr) {
    records_ = problem_.all_records;
    return;
  }
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
  const Scratch::Frame frame(*memory_);
  auto* records = static_cast<std::byte*>(memory_->Take(used * stride * bytes));
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
    record_of_[lane] = static_cast<int32_t>(place[k] + sample_of[lane] - linearizer.Chunk(chunk).first_sample);
  }
}

ConstLanes RecordWindow::Primal(int value, const int32_t* record_of) const {
  if (value < 0) return {};
  const ProgramValue& v = problem_.program.values[value];
  return v.batched ? problem_.linearizer.InRecord(v.root, records_, record_of) : problem_.shared.Value(v.root);
}

}  // namespace jacserve::worker
