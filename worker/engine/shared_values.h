// Values that are the same for every sample: bound weights, constants, and what is computed from them alone.
// In: the program and its tensors. Out: per value its numbers in the compute type, computed once.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "worker/backend/backend.h"
#include "worker/engine/engine.h"
#include "worker/engine/pullback_plan.h"
#include "worker/engine/value_rounding.h"
#include "worker/program/sample_program.h"

namespace jacserve::worker {

// A tensor's numbers in the backend's memory and type: shared with the tensor when that is its memory and type, a
// rounded copy otherwise. ResourceExhausted: as Memory::Allocate.
absl::StatusOr<std::shared_ptr<const void>> NumbersOf(const HostTensor& tensor, const Backend& backend,
                                                      const ValueRounding& rounding);

class SharedValues {
 public:
  // Bytes that Compute will allocate.
  static int64_t PlannedBytes(const SampleProgram& program, const PullbackPlan& plan, const Backend& backend);

  static int64_t ScratchBytes(const SampleProgram& program, const Backend& backend);  // that Compute takes

  // Errors: as Memory::Allocate and Memory::Wait.
  absl::Status Compute(const SampleProgram& program, const PullbackPlan& plan, const JacobianProblem& problem,
                       const Backend& backend, const ValueRounding& rounding, Scratch& scratch);

  ConstLanes Value(int root) const { return {values_[root].get(), 0, nullptr}; }
  ConstLanes Saved(int node) const { return {saved_[node].get(), 0, nullptr}; }

 private:
  absl::Status Place(const SampleProgram& program, const JacobianProblem& problem, const Backend& backend,
                     const ValueRounding& rounding);

  std::vector<std::shared_ptr<const void>> values_;  // by root; null for batched values
  std::vector<std::shared_ptr<const void>> saved_;   // by node that runs once
};

}  // namespace jacserve::worker
