#include "worker/engine/shared_values.h"

#include <algorithm>

#include "common/status.h"

namespace jacserve::worker {
namespace {

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

absl::StatusOr<std::shared_ptr<const void>> NumbersOf(const HostTensor& tensor, const Backend& backend,
                                                      const ValueRounding& rounding) {
  const Memory& memory = backend.memory();
  const bool same_type = tensor.dtype == backend.dtype();
  if (same_type && memory.on_host() && !rounding.rounds()) {
    return std::shared_ptr<const void>(tensor.bytes, tensor.bytes->data());
  }
  const int64_t elements = Elements(tensor.shape), bytes = elements * backend.element_bytes();
  ASSIGN_OR_RETURN(const Buffer numbers, memory.Allocate(bytes));
  Buffer converted = numbers;
  if (!memory.on_host() && !same_type) {
    ASSIGN_OR_RETURN(converted, memory.AllocateHost(bytes));
  }
  if (same_type) {
    memory.CopyIn(numbers.get(), tensor.bytes->data(), bytes);
  } else {
    if (backend.dtype() == DType::kFloat32) {
      Convert(tensor, static_cast<float*>(converted.get()));
    } else {
      Convert(tensor, static_cast<double*>(converted.get()));
    }
    memory.CopyIn(numbers.get(), converted.get(), bytes);
  }
  rounding.Round({.dtype = tensor.dtype, .elements = elements}, 1, {numbers.get(), 0});
  RETURN_IF_ERROR(memory.Wait());  // what was copied from lives no longer than this
  return std::shared_ptr<const void>(numbers);
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

// Constants and what was bound.
absl::Status SharedValues::Place(const SampleProgram& program, const JacobianProblem& problem, const Backend& backend,
                                 const ValueRounding& rounding) {
  for (size_t v = 0; v < program.values.size(); ++v) {
    const ProgramValue& value = program.values[v];
    if (value.batched || value.root != static_cast<int>(v)) continue;
    if (value.constant != nullptr) {
      ASSIGN_OR_RETURN(values_[v], NumbersOf(*value.constant, backend, rounding));
    } else if (value.source.has_value()) {
      const ProgramSource& source = program.sources[*value.source];
      const HostTensor* bound = Find(problem.weights, source.name);
      if (source.kind == SourceKind::kSharedInput) bound = Find(problem.shared_inputs, source.name);
      ASSIGN_OR_RETURN(values_[v], NumbersOf(bound != nullptr ? *bound : *source.initial, backend, rounding));
    }
  }
  return absl::OkStatus();
}

absl::Status SharedValues::Compute(const SampleProgram& program, const PullbackPlan& plan,
                                   const JacobianProblem& problem, const Backend& backend,
                                   const ValueRounding& rounding, Scratch& scratch) {
  values_.assign(program.values.size(), nullptr);
  saved_.assign(program.nodes.size(), nullptr);
  RETURN_IF_ERROR(Place(program, problem, backend, rounding));
  for (size_t n = 0; n < program.nodes.size(); ++n) {
    const ProgramNode& node = program.nodes[n];
    if (node.batched) continue;
    const Scratch::Frame frame(scratch);
    std::vector<ConstLanes> x;
    std::vector<Lanes> y;
    for (int input : node.inputs) x.push_back(input < 0 ? ConstLanes{} : Value(program.values[input].root));
    for (int output : node.outputs) {
      ASSIGN_OR_RETURN(const Buffer memory,
                       backend.memory().Allocate(program.values[output].elements * backend.element_bytes()));
      values_[program.values[output].root] = memory;
      y.push_back({memory.get(), 0});
    }
    const int64_t saved_bytes = node.op->SavedElements(backend) * backend.element_bytes();
    Lanes saved{plan.keep_saved[n] ? nullptr : scratch.Take(saved_bytes), 0};
    if (plan.keep_saved[n]) {
      ASSIGN_OR_RETURN(const Buffer memory, backend.memory().Allocate(saved_bytes));
      saved_[n] = memory;
      saved.data = memory.get();
    }
    node.op->Forward({1, x, y, saved, backend, scratch});
    for (size_t k = 0; k < y.size(); ++k) rounding.Round(program.values[node.outputs[k]], 1, y[k]);
  }
  return backend.memory().Wait();
}

}  // namespace jacserve::worker
