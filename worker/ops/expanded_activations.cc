// Activations that are graphs of elementwise functions.
// Celu: max(0, x) + min(0, alpha (exp(x / alpha) - 1)) = alpha elu(x / alpha). Mish: x tanh(softplus(x)).
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {

absl::Status ExpandCelu(Expansion& e, int) {
  ASSIGN_OR_RETURN(const double alpha, FloatAttribute(e.node(), "alpha", 1.0));
  if (alpha == 0) return absl::InvalidArgumentError("alpha is 0");
  const std::string scale = e.Number(alpha);
  e.Output(0, e.Add("Mul", {e.Add("Elu", {e.Add("Div", {e.x(0), scale})}), scale}));
  return absl::OkStatus();
}

absl::Status ExpandMish(Expansion& e, int) {
  e.Output(0, e.Add("Mul", {e.x(0), e.Add("Tanh", {e.Add("Softplus", {e.x(0)})})}));
  return absl::OkStatus();
}

}  // namespace jacserve::worker
