// Normalisations that are graphs of others. LRN: x (bias + alpha / size * sum of x^2 over `size` channels)^-beta.
// LpNormalization: x / |x|_p along an axis. MeanVarianceNormalization: (x - mean) / (sqrt(var) + 1e-9).
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"
#include "worker/ops/power.h"

namespace jacserve::worker {

absl::Status ExpandLRN(Expansion& e, int) {
  ASSIGN_OR_RETURN(const int64_t size, IntAttribute(e.node(), "size", 0));
  ASSIGN_OR_RETURN(const double alpha, FloatAttribute(e.node(), "alpha", 0.0001));
  ASSIGN_OR_RETURN(const double beta, FloatAttribute(e.node(), "beta", 0.75));
  ASSIGN_OR_RETURN(const double bias, FloatAttribute(e.node(), "bias", 1.0));
  if (!e.in().has(0)) return absl::InvalidArgumentError("needs an input");
  const Shape& x = e.shape(0);
  if (x.size() < 2) return absl::InvalidArgumentError(absl::StrCat("shape ", ShapeText(x), " has no channels"));
  if (size < 1) return absl::InvalidArgumentError(absl::StrCat("size ", size, " must be positive"));
  // The channels become an axis of space: an average pool with padding counted is sum / size.
  const auto reshape = [&](const std::string& value, std::vector<int64_t> shape) {
    return e.Add("Reshape", {value, e.Ints(std::move(shape))}, {{"allowzero", int64_t{1}}});
  };
  const std::string flat = reshape(e.Add("Mul", {e.x(0), e.x(0)}), {x[0], 1, x[1], Elements({x.begin() + 2, x.end()})});
  const std::string mean = e.Add("AveragePool", {flat},
                                 {{"kernel_shape", std::vector<int64_t>{size, 1}},
                                  {"pads", std::vector<int64_t>{(size - 1) / 2, 0, size / 2, 0}},
                                  {"count_include_pad", int64_t{1}}});
  const std::string scaled = e.Add("Mul", {reshape(mean, x), e.Number(alpha)});
  const std::string base = e.Add("Add", {scaled, e.Number(bias)});
  e.Output(0, e.Add("Mul", {e.x(0), PositivePower(e, base, -beta)}));
  return absl::OkStatus();
}

absl::Status ExpandLpNormalization(Expansion& e, int) {
  ASSIGN_OR_RETURN(const int64_t axis, IntAttribute(e.node(), "axis", -1));
  ASSIGN_OR_RETURN(const int64_t p, IntAttribute(e.node(), "p", 2));
  if (p != 1 && p != 2) return absl::InvalidArgumentError(absl::StrCat("p ", p, " is neither 1 nor 2"));
  const std::string powers = AbsolutePower(e, e.x(0), static_cast<double>(p));
  const std::string sum = e.Add("ReduceSum", {powers, e.Ints({axis})});
  // Where all numbers are 0 so is the result, and so is its derivative.
  const std::string zero = e.Add("Equal", {sum, e.Number(0.0)});
  const std::string length = PositivePower(e, e.Add("Where", {zero, e.Number(1.0), sum}), 1.0 / static_cast<double>(p));
  e.Output(0, e.Add("Where", {zero, e.Number(0.0), e.Add("Div", {e.x(0), length})}));
  return absl::OkStatus();
}

absl::Status ExpandMeanVarianceNormalization(Expansion& e, int) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, IntsAttribute(e.node(), "axes", {0, 2, 3}));
  const std::string over = e.Ints(axes);
  const std::string moved = e.Add("Sub", {e.x(0), e.Add("ReduceMean", {e.x(0), over})});
  const std::string variance = e.Add("ReduceMean", {e.Add("Mul", {moved, moved}), over});
  e.Output(0, e.Add("Div", {moved, e.Add("Add", {e.Add("Sqrt", {variance}), e.Number(1e-9)})}));
  return absl::OkStatus();
}

}  // namespace jacserve::worker
