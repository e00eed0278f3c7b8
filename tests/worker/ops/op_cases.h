// Small graphs, one per operator and form, for tests that run over all of them.
// In: nothing. Out: JacobianProblems with random numbers away from kinks.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "worker/engine/engine.h"

namespace jacserve::worker {

struct OpCase {
  std::string name;
  std::shared_ptr<const Graph> graph;
  JacobianProblem problem;  // with respect to every float tensor: inputs and weights
  bool mixes_samples = false;
};

inline void PrintTo(const OpCase& op, std::ostream* out) { *out << op.name; }

// One function a file: *_cases.cc.
void AddCoupledCases(std::vector<OpCase>& cases);
void AddActivationCases(std::vector<OpCase>& cases);
void AddElementwiseCases(std::vector<OpCase>& cases);
void AddMovementCases(std::vector<OpCase>& cases);
void AddReductionCases(std::vector<OpCase>& cases);
void AddProductCases(std::vector<OpCase>& cases);
void AddRecurrentCases(std::vector<OpCase>& cases);
void AddNormalisationCases(std::vector<OpCase>& cases);
void AddResizeCases(std::vector<OpCase>& cases);
void AddWindowCases(std::vector<OpCase>& cases);

std::vector<OpCase> AllOpCases();

}  // namespace jacserve::worker
