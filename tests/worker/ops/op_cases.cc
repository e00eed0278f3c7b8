#include "tests/worker/ops/op_cases.h"

namespace jacserve::worker {

std::vector<OpCase> AllOpCases() {
  std::vector<OpCase> cases;
  AddCoupledCases(cases);
  AddActivationCases(cases);
  AddElementwiseCases(cases);
  AddReductionCases(cases);
  AddNormalisationCases(cases);
  AddResizeCases(cases);
  AddWindowCases(cases);
  AddMovementCases(cases);
  AddProductCases(cases);
  AddRecurrentCases(cases);
  return cases;
}

}  // namespace jacserve::worker
