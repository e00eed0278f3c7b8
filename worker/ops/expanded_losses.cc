// Losses of class labels. NegativeLogLikelihoodLoss: l = -w[t] x[t] with x the log-likelihoods of the classes along
// axis 1, t the label and w a weight per class (1 where none is given); 0 for a label to be ignored. Reduced: sum l, or
// sum l / sum w[t] over the labels that count. SoftmaxCrossEntropyLoss: the same of x = log softmax of the scores.
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

constexpr int64_t kOnnxInt64 = 7;  // TensorProto.DataType

absl::Status CheckLabels(const Expansion& e) {
  if (!e.in().has(0) || !e.in().has(1)) return absl::InvalidArgumentError("needs scores and labels");
  Shape expected = e.shape(0);
  if (expected.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("scores of shape ", ShapeText(expected), " have no axis of classes"));
  }
  expected.erase(expected.begin() + 1);
  if (e.shape(1) == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("labels of shape ", ShapeText(e.shape(1)), " for scores of shape ",
                                                 ShapeText(e.shape(0)), ", not ", ShapeText(expected)));
}

// The loss of log-likelihoods x.
absl::Status LossOf(Expansion& e, const std::string& x) {
  ASSIGN_OR_RETURN(const std::string reduction, StringAttribute(e.node(), "reduction", "mean"));
  if (reduction != "none" && reduction != "sum" && reduction != "mean") {
    return absl::InvalidArgumentError(absl::StrCat("reduction ", reduction, " is not one"));
  }
  std::string label = e.Add("Cast", {e.x(1)}, {{"to", kOnnxInt64}});
  std::optional<std::string> ignored, weight;
  if (e.node().attributes.contains("ignore_index")) {
    ASSIGN_OR_RETURN(const int64_t index, IntAttribute(e.node(), "ignore_index", 0));
    ignored = e.Add("Equal", {label, e.Ints({index})});
    label = e.Add("Where", {*ignored, e.Ints({0}), label});
    weight = e.Add("Where", {*ignored, e.Number(0.0), e.Number(1.0)});
  }
  if (e.in().has(2)) {
    weight = e.Add("Gather", {e.x(2), label});
    if (ignored) weight = e.Add("Where", {*ignored, e.Number(0.0), *weight});
  }
  const std::string place = e.Add("Unsqueeze", {label, e.Ints({1})});
  const std::string likelihood = e.Add("GatherElements", {x, place}, {{"axis", int64_t{1}}});
  std::string loss = e.Add("Neg", {e.Add("Squeeze", {likelihood, e.Ints({1})})});
  if (weight) loss = e.Add("Mul", {loss, *weight});
  const Expansion::Attributes scalar = {{"keepdims", int64_t{0}}};
  if (reduction == "mean" && !weight) {
    loss = e.Add("ReduceMean", {loss}, scalar);
  } else if (reduction != "none") {
    loss = e.Add("ReduceSum", {loss}, scalar);
    if (reduction == "mean") loss = e.Add("Div", {loss, e.Add("ReduceSum", {*weight}, scalar)});
  }
  e.Output(0, loss);
  return absl::OkStatus();
}

}  // namespace

absl::Status ExpandNegativeLogLikelihoodLoss(Expansion& e, int) {
  RETURN_IF_ERROR(CheckLabels(e));
  return LossOf(e, e.x(0));
}

absl::Status ExpandSoftmaxCrossEntropyLoss(Expansion& e, int) {
  RETURN_IF_ERROR(CheckLabels(e));
  const std::string x = e.Add("LogSoftmax", {e.x(0)}, {{"axis", int64_t{1}}});
  e.Output(1, x);
  return LossOf(e, x);
}

}  // namespace jacserve::worker
