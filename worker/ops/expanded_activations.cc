// Activations that are graphs of elementwise functions.
// Celu: max(0, x) + min(0, alpha (exp(x / alpha) - 1)) = alpha elu(x / alpha). Mish: x tanh(softplus(x)).
// Swish: x sigmoid(alpha x). SwiGLU: swish(a) b.
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

absl::StatusOr<std::string> Swish(Expansion& e) {
  ASSIGN_OR_RETURN(const double alpha, FloatAttribute(e.node(), "alpha", 1.0));
  const std::string gate = alpha == 1 ? e.x(0) : e.Add("Mul", {e.x(0), e.Number(alpha)});
  return e.Add("Mul", {e.x(0), e.Add("Sigmoid", {gate})});
}

}  // namespace

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

absl::Status ExpandSwish(Expansion& e, int) {
  ASSIGN_OR_RETURN(const std::string y, Swish(e));
  e.Output(0, y);
  return absl::OkStatus();
}

absl::Status ExpandSwiGLU(Expansion& e, int) {
  ASSIGN_OR_RETURN(const std::string gate, Swish(e));
  e.Output(0, e.Add("Mul", {gate, e.x(1)}));
  return absl::OkStatus();
}

}  // namespace jacserve::worker
