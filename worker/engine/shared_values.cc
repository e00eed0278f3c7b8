#include "worker/engine/shared_values.h"

#include <algorithm>

namespace jacserve::worker {
namespace {

std::shared_ptr<void> Allocate(int64_t bytes) {
  return {::operator new (std::max<int64_t>(bytes, 1), std::align_val_t{64}),
          [](void* p) { ::operator delete (p, std::align_val_t{64}); }};
}

const HostTensor* Find(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [key, tensor] : tensors) {
    if (key == name) return &tensor;
  }
  return nullptr;
}

template <class From, class To>
void ConvertFrom(const HostTensor& from, To* to) {
  const From* begin = from.data<From>();
  std::transform(begin, begin + Elements(from.shape), to, [](From x) { return static_cast<To>(x); });
}

template <class To>
void Convert(const HostTensor& from, To* to) {
  switch (from.dtype) {
    case DType::kFloat32:
      return ConvertFrom<float>(from, to);
    case DType::kFloat64:
      return ConvertFrom<double>(from, to);
    case DType::kInt32:
      return ConvertFrom<int32_t>(from, to);
    case DType::kInt64:
      return ConvertFrom<int64_t>(from, to);
    case DType::kBool:
      return ConvertFrom<uint8_t>(from, to);
  }
}

}  // namespace

std::shared_ptr<const void> NumbersOf(const HostTensor& tensor, const Backend& backend, const ValueRounding& rounding) {
  if (tensor.dtype == backend.dtype() && !rounding.rounds()) return {tensor.bytes, tensor.bytes->data()};
  const std::shared_ptr<void> copy = Allocate(Elements(tensor.shape) * backend.element_bytes());
  if (backend.dtype() == DType::kFloat32) {
    Convert(tensor, static_cast<float*>(copy.get()));
  } else {
    Convert(tensor, static_cast<double*>(copy.get()));
  }
  rounding.Round({.dtype = tensor.dtype, .elements = Elements(tensor.shape)}, 1, {copy.get(), 0});
  return copy;
}

int64_t SharedValues::PlannedBytes(const SampleProgram& program, const PullbackPlan& plan, const Backend& backend) {
  int64_t elements = 0;
  for (size_t v = 0; v < program.values.size(); ++v) {
    const ProgramValue& value = program.values[v];
    if (!value.batched && value.root == static_cast<int>(v)) elements += value.elements;
  }
  for (size_t n = 0; n < program.nodes.size(); ++n) {
    const bool kept = !program.nodes[n].batched && plan.keep_saved[n];
    if (kept) elements += program.nodes[n].op->SavedElements(backend);
  }
  return elements * backend.element_bytes();
}

int64_t SharedValues::ScratchBytes(const SampleProgram& program, const Backend& backend) {
  int64_t elements = 0;
  for (const ProgramNode& node : program.nodes) {
    if (node.batched) continue;
    elements = std::max(elements, 2 * node.op->ScratchElements(backend) + node.op->SavedElements(backend));
  }
  return elements * backend.element_bytes() + 64 * 64;
}

void SharedValues::Compute(const SampleProgram& program, const PullbackPlan& plan, const JacobianProblem& problem,
                           const Backend& backend, const ValueRounding& rounding, Scratch& scratch) {
  values_.assign(program.values.size(), nullptr);
  saved_.assign(program.nodes.size(), nullptr);
  for (size_t v = 0; v < program.values.size(); ++v) {
    const ProgramValue& value = program.values[v];
    if (value.batched || value.root != static_cast<int>(v)) continue;
    if (value.constant != nullptr) {
      values_[v] = NumbersOf(*value.constant, backend, rounding);
    } else if (value.source.has_value()) {
      const ProgramSource& source = program.sources[*value.source];
      const HostTensor* bound = Find(problem.weights, source.name);
      if (source.kind == SourceKind::kSharedInput) bound = Find(problem.shared_inputs, source.name);
      values_[v] = NumbersOf(bound != nullptr ? *bound : *source.initial, backend, rounding);
    }
  }
  for (size_t n = 0; n < program.nodes.size(); ++n) {
    const ProgramNode& node = program.nodes[n];
    if (node.batched) continue;
    const Scratch::Frame frame(scratch);
    std::vector<ConstLanes> x;
    std::vector<Lanes> y;
    for (int input : node.inputs) x.push_back(input < 0 ? ConstLanes{} : Value(program.values[input].root));
    for (int output : node.outputs) {
      const std::shared_ptr<void> memory = Allocate(program.values[output].elements * backend.element_bytes());
      values_[program.values[output].root] = memory;
      y.push_back({memory.get(), 0});
    }
    const int64_t saved_bytes = node.op->SavedElements(backend) * backend.element_bytes();
    Lanes saved{plan.keep_saved[n] ? nullptr : scratch.Take(saved_bytes), 0};
    if (plan.keep_saved[n]) {
      const std::shared_ptr<void> memory = Allocate(saved_bytes);
      saved_[n] = memory;
      saved.data = memory.get();
    }
    node.op->Forward({1, x, y, saved, backend, scratch});
    for (size_t k = 0; k < y.size(); ++k) rounding.Round(program.values[node.outputs[k]], 1, y[k]);
  }
}

}  // namespace jacserve::worker
