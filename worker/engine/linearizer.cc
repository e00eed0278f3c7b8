#include "worker/engine/linearizer.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace jacserve::worker {
namespace {

constexpr int64_t kChunkSamples = 8;
constexpr int64_t kChunkBytes = int64_t{32} << 20;

int64_t Aligned(int64_t elements) { return (elements + 15) / 16 * 16; }

}  // namespace

Linearizer::Linearizer(const SampleProgram& program, const PullbackPlan& plan, const Backend& backend,
                       const ValueRounding& rounding)
    : program_(program), plan_(plan), backend_(backend), rounding_(rounding) {
  value_offset_.assign(program.values.size(), -1);
  saved_offset_.assign(program.nodes.size(), -1);
  for (size_t v = 0; v < program.values.size(); ++v) {
    const ProgramValue& value = program.values[v];
    if (!value.batched || value.root != static_cast<int>(v)) continue;
    if (plan.keep_value[v]) {
      value_offset_[v] = record_elements_;
      record_elements_ += Aligned(value.elements);
    } else if (!value.source.has_value()) {
      transient_elements_ += Aligned(value.elements);
    }
  }
  for (size_t n = 0; n < program.nodes.size(); ++n) {
    const Op& op = *program.nodes[n].op;
    op_scratch_elements_ = std::max(op_scratch_elements_, op.ScratchElements(backend));
    if (!program.nodes[n].batched) continue;
    if (plan.keep_saved[n]) {
      saved_offset_[n] = record_elements_;
      record_elements_ += Aligned(op.SavedElements(backend));
    } else {
      transient_elements_ += Aligned(op.SavedElements(backend));
    }
  }
  // The chunk follows from the program alone, never from the budget: it must not change a bit.
  const int64_t sample_bytes = (record_elements_ + transient_elements_ + 1) * backend.element_bytes();
  chunk_ = std::clamp<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(kChunkBytes / sample_bytes, 1))),
                               1, kChunkSamples);
}

void Linearizer::SetInputs(std::vector<BatchInputs> batches, std::vector<int64_t> samples, const SharedValues* shared) {
  inputs_ = std::move(batches);
  samples_ = std::move(samples);
  shared_ = shared;
}

int64_t Linearizer::ScratchBytes() const {
  // 64 bytes of alignment for every buffer taken.
  const auto buffers = static_cast<int64_t>(program_.values.size() + program_.nodes.size() + 8);
  return (chunk_ * transient_elements_ + 2 * op_scratch_elements_) * backend_.element_bytes() + 64 * buffers;
}

int64_t Linearizer::chunks() const {
  int64_t chunks = 0;
  for (int64_t samples : samples_) chunks += (samples + chunk_ - 1) / chunk_;
  return chunks;
}

Linearizer::ChunkRange Linearizer::Chunk(int64_t chunk) const {
  int64_t first = 0;
  for (int batch = 0;; ++batch) {
    const int64_t here = (samples_[batch] + chunk_ - 1) / chunk_;
    if (chunk < here) {
      const int64_t begin = chunk * chunk_;
      return {batch, begin, std::min(chunk_, samples_[batch] - begin), first + begin};
    }
    chunk -= here;
    first += samples_[batch];
  }
}

int64_t Linearizer::ChunkOf(int64_t sample) const {
  int64_t chunk = 0;
  for (int64_t samples : samples_) {
    if (sample < samples) return chunk + sample / chunk_;
    sample -= samples;
    chunk += (samples + chunk_ - 1) / chunk_;
  }
  return chunk;
}

void Linearizer::Forward(int64_t chunk, Lanes records, void* embeddings, Scratch& scratch) const {
  const ChunkRange range = Chunk(chunk);
  const Scratch::Frame frame(scratch);
  const int64_t bytes = backend_.element_bytes();
  const auto in_record = [&](int64_t offset) {
    return Lanes{static_cast<std::byte*>(records.data) + offset * bytes, record_elements_};
  };
  const auto transient = [&](int64_t elements) {
    return Lanes{scratch.Take(range.count * elements * bytes), elements};
  };
  std::vector<ConstLanes> where(program_.values.size());
  for (size_t v = 0; v < program_.values.size(); ++v) {
    const ProgramValue& value = program_.values[v];
    if (value.root != static_cast<int>(v)) continue;
    if (!value.batched) {
      where[v] = shared_->Value(value.root);
      continue;
    }
    if (value.source.has_value()) {
      const auto* numbers = static_cast<const std::byte*>(inputs_[range.batch][*value.source].get());
      const ConstLanes given{numbers + range.begin * value.elements * bytes, value.elements, nullptr};
      where[v] = given;
      if (value_offset_[v] >= 0) {
        const Lanes kept = in_record(value_offset_[v]);
        backend_.CopyStrided(range.count, {value.elements}, given, {1}, kept, {1}, false, 1.0);
        where[v] = kept;
      }
    } else {
      where[v] = value_offset_[v] >= 0 ? in_record(value_offset_[v]) : transient(value.elements);
    }
  }
  for (size_t n = 0; n < program_.nodes.size(); ++n) {
    const ProgramNode& node = program_.nodes[n];
    if (!node.batched) continue;
    std::vector<ConstLanes> x;
    std::vector<Lanes> y;
    for (int input : node.inputs) x.push_back(input < 0 ? ConstLanes{} : where[program_.values[input].root]);
    for (int output : node.outputs) {
      const ConstLanes& to = where[program_.values[output].root];
      y.push_back({const_cast<void*>(to.data), to.stride});
    }
    const int64_t saved_elements = node.op->SavedElements(backend_);
    const Lanes saved = saved_offset_[n] >= 0 ? in_record(saved_offset_[n]) : transient(saved_elements);
    node.op->Forward({range.count, x, y, saved, backend_, scratch});
    for (size_t k = 0; k < y.size(); ++k) rounding_.Round(program_.values[node.outputs[k]], range.count, y[k]);
  }
  if (embeddings == nullptr) return;
  const ProgramValue& output = program_.values[program_.output];
  backend_.CopyStrided(range.count, {output.elements}, where[output.root], {1}, {embeddings, output.elements}, {1},
                       false, 1.0);
}

ConstLanes Linearizer::InRecord(int root, const void* records, const int32_t* record_of) const {
  if (value_offset_[root] < 0) return {};
  return {static_cast<const std::byte*>(records) + value_offset_[root] * backend_.element_bytes(), record_elements_,
          record_of};
}

ConstLanes Linearizer::SavedInRecord(int node, const void* records, const int32_t* record_of) const {
  if (saved_offset_[node] < 0) return {};
  return {static_cast<const std::byte*>(records) + saved_offset_[node] * backend_.element_bytes(), record_elements_,
          record_of};
}

}  // namespace jacserve::worker
