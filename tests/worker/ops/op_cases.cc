#include "tests/worker/ops/op_cases.h"

namespace jacserve::worker {

std::vector<OpCase> AllOpCases() {
  std::vector<OpCase> cases;
  AddElementwiseCases(cases);
  AddNormalisationCases(cases);
  AddResizeCases(cases);
  AddWindowCases(cases);
  AddMovementCases(cases);
  return cases;
}

}  // namespace jacserve::worker
