#include "worker/ops/recurrent_parts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

constexpr size_t kW = 1, kR = 2, kB = 3, kLengths = 4, kInitialH = 5, kInitialC = 6, kP = 7;

struct Form {
  const char* name;
  bool has_alpha, has_beta;
  float alpha, beta;  // by default
};
constexpr Form kForms[] = {
    {"Sigmoid", false, false, 0, 0},        {"Tanh", false, false, 0, 0},           {"Relu", false, false, 0, 0},
    {"Softsign", false, false, 0, 0},       {"Softplus", false, false, 0, 0},       {"Affine", true, true, 1, 0},
    {"ScaledTanh", true, true, 1, 1},       {"LeakyRelu", true, false, 0.01f, 0},   {"Elu", true, false, 1, 0},
    {"ThresholdedRelu", true, false, 1, 0}, {"HardSigmoid", true, true, 0.2f, 0.5f}};
}  // namespace

absl::Status RecurrentExpansion::Read(int opset) {
  const GraphNode& node = e_.node();
  for (size_t i : {size_t{0}, kW, kR}) {
    if (!e_.in().has(i)) return absl::InvalidArgumentError("needs an input, W and R");
  }
  ASSIGN_OR_RETURN(direction_, StringAttribute(node, "direction", "forward"));
  if (direction_ != "forward" && direction_ != "reverse" && direction_ != "bidirectional") {
    return absl::InvalidArgumentError(absl::StrCat("there is no direction ", direction_));
  }
  directions_ = direction_ == "bidirectional" ? 2 : 1;
  ASSIGN_OR_RETURN(layout_, IntAttribute(node, "layout", 0));
  if (layout_ != 0 && (layout_ != 1 || opset < 14)) return absl::InvalidArgumentError("the layout is not 0 or 1");
  if (node.attributes.contains("clip")) {
    ASSIGN_OR_RETURN(clip_, FloatAttribute(node, "clip", 0.0f));
  }
  if (e_.shape(0).size() != 3 || e_.shape(kR).size() != 3) {
    return absl::InvalidArgumentError("its input, W and R are not of rank 3");
  }
  hidden_ = e_.shape(kR)[2];
  ASSIGN_OR_RETURN(const int64_t stated, IntAttribute(node, "hidden_size", hidden_));
  if (stated != hidden_) return absl::InvalidArgumentError(absl::StrCat("hidden_size is ", stated, ", not ", hidden_));
  steps_ = e_.shape(0)[layout_ == 0 ? 0 : 1];
  constexpr int64_t kMostSteps = 10'000;
  if (steps_ > kMostSteps) return absl::UnimplementedError(absl::StrCat("more than ", kMostSteps, " steps of time"));
  RETURN_IF_ERROR(CheckShapes());
  RETURN_IF_ERROR(ReadLengths());
  h_.resize(directions_);
  last_h_.resize(directions_);
  last_c_.resize(directions_);
  return ReadActivations();
}

absl::Status RecurrentExpansion::CheckShapes() const {
  const int64_t g = gates_ * hidden_, inputs = e_.shape(0)[2], samples = e_.shape(0)[layout_ == 0 ? 1 : 0];
  const Shape state = layout_ == 0 ? Shape{directions_, samples, hidden_} : Shape{samples, directions_, hidden_};
  const std::pair<size_t, Shape> wanted[] = {{kW, {directions_, g, inputs}},
                                             {kR, {directions_, g, hidden_}},
                                             {kB, {directions_, 2 * g}},
                                             {kInitialH, state},
                                             {kInitialC, state},
                                             {kP, {directions_, 3 * hidden_}}};
  for (const auto& [i, shape] : wanted) {
    if (e_.in().has(i) && e_.shape(i) != shape) {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", i, " has shape ", ShapeText(e_.shape(i)), ", not ", ShapeText(shape)));
    }
  }
  if (steps_ == 0) return absl::InvalidArgumentError("there is no step of time");
  return absl::OkStatus();
}

absl::Status RecurrentExpansion::ReadLengths() {
  if (!e_.in().has(kLengths)) return absl::OkStatus();
  const int64_t samples = e_.shape(0)[layout_ == 0 ? 1 : 0];
  std::string lengths;
  if (e_.in()[kLengths].constant != nullptr) {
    const std::vector<int64_t> known = IntsOf(*e_.in()[kLengths].constant);
    for (const int64_t length : known) {
      if (length < 0 || length > steps_) {
        return absl::InvalidArgumentError(absl::StrCat("a sequence of length ", length, " in ", steps_, " steps"));
      }
    }
    const bool same = std::all_of(known.begin(), known.end(), [&](int64_t length) { return length == known[0]; });
    if (same && (known.empty() || known[0] == steps_)) return absl::OkStatus();
    if (same) lengths = e_.Ints({known[0]});  // whatever the number of samples
  }
  if (lengths.empty()) {
    if (e_.shape(kLengths) != Shape{samples}) {
      return absl::InvalidArgumentError(
          absl::StrCat("lengths of shape ", ShapeText(e_.shape(kLengths)), " for ", samples, " sequences"));
    }
    lengths = e_.Add("Cast", {e_.x(kLengths)}, {{"to", int64_t{7}}});  // int64
  }
  for (int64_t t = 0; t < steps_; ++t) {
    runs_.push_back(e_.Add("Unsqueeze", {e_.Add("Less", {e_.Ints({t}), lengths}), e_.Ints({1})}));
  }
  return absl::OkStatus();
}

std::string RecurrentExpansion::Hold(int64_t d, size_t k, const std::string& after, const std::string& before) {
  if (runs_.empty()) return after;
  const std::string& runs = Reversed(d) ? runs_[runs_.size() - 1 - k] : runs_[k];
  return e_.Add("Where", {runs, after, before.empty() ? e_.Number(0.0) : before});
}

absl::Status RecurrentExpansion::ReadActivations() {
  const GraphNode& node = e_.node();
  std::vector<std::string> names;
  if (const auto it = node.attributes.find("activations"); it != node.attributes.end()) {
    const auto* list = std::get_if<std::vector<std::string>>(&it->second);
    if (list == nullptr) return absl::InvalidArgumentError("attribute activations is not a list of strings");
    names = *list;
  }
  if (names.empty()) {
    for (int64_t d = 0; d < directions_; ++d) names.insert(names.end(), defaults_.begin(), defaults_.end());
  }
  if (names.size() != defaults_.size() * directions_) {
    return absl::InvalidArgumentError(
        absl::StrCat(names.size(), " activations, not ", defaults_.size(), " for each direction"));
  }
  ASSIGN_OR_RETURN(const std::vector<float> alphas, FloatsAttribute(node, "activation_alpha", {}));
  ASSIGN_OR_RETURN(const std::vector<float> betas, FloatsAttribute(node, "activation_beta", {}));
  size_t alpha = 0, beta = 0;
  for (const std::string& name : names) {
    const Form* form =
        std::find_if(std::begin(kForms), std::end(kForms), [&](const Form& f) { return f.name == name; });
    if (form == std::end(kForms)) return absl::InvalidArgumentError(absl::StrCat("there is no activation ", name));
    Activation f{name, form->alpha, form->beta};
    if (form->has_alpha && alpha < alphas.size()) f.alpha = alphas[alpha++];
    if (form->has_beta && beta < betas.size()) f.beta = betas[beta++];
    functions_.push_back(std::move(f));
  }
  return absl::OkStatus();
}

// Slice d along the axis of directions. Where there is one, it is the same numbers under another shape.
std::string RecurrentExpansion::OfDirection(size_t input, int64_t d, int64_t axis) {
  if (!e_.in().has(input)) return "";
  std::string value = e_.x(input);
  if (directions_ > 1) {
    value = e_.Add("Slice", {value, e_.Ints({d}), e_.Ints({d + 1}), e_.Ints({axis})});
  }
  return e_.Add("Squeeze", {value, e_.Ints({axis})});
}

Cell RecurrentExpansion::Direction(int64_t d, bool one_bias) {
  Cell cell{.r = OfDirection(kR, d, 0)};
  const int64_t g = gates_ * hidden_;
  std::string bias;
  if (const std::string b = OfDirection(kB, d, 0); !b.empty()) {
    bias = Part(b, 0, g);
    cell.rb = Part(b, g, 2 * g);
    if (one_bias) {
      bias = Add(bias, cell.rb);
      cell.rb.clear();
    }
  }
  cell.p = OfDirection(kP, d, 0);
  cell.h0 = OfDirection(kInitialH, d, layout_);
  cell.c0 = OfDirection(kInitialC, d, layout_);
  const std::string w = e_.Add("Transpose", {OfDirection(kW, d, 0)});
  const std::string all = Add(e_.Add("MatMul", {e_.x(0), w}), bias);
  const int64_t time = layout_ == 0 ? 0 : 1;
  for (const std::string& step : e_.AddMany("Split", {all}, steps_, {{"axis", time}, {"num_outputs", steps_}})) {
    cell.x.push_back(e_.Add("Squeeze", {step, e_.Ints({time})}));
  }
  if (Reversed(d)) std::reverse(cell.x.begin(), cell.x.end());
  const auto per_direction = static_cast<int64_t>(defaults_.size());
  cell.f.assign(functions_.begin() + d * per_direction, functions_.begin() + (d + 1) * per_direction);
  return cell;
}

std::string RecurrentExpansion::Clip(const std::string& x) {
  return clip_ ? e_.Add("Clip", {x, e_.Number(-*clip_), e_.Number(*clip_)}) : x;
}

std::string RecurrentExpansion::Apply(const Activation& f, std::string x) {
  x = Clip(x);
  if (f.name == "Affine") {
    return e_.Add("Add", {e_.Add("Mul", {x, e_.Number(f.alpha)}), e_.Number(f.beta)});
  }
  if (f.name == "ScaledTanh") {
    return e_.Add("Mul", {e_.Add("Tanh", {e_.Add("Mul", {x, e_.Number(f.beta)})}), e_.Number(f.alpha)});
  }
  const Form* form =
      std::find_if(std::begin(kForms), std::end(kForms), [&](const Form& g) { return g.name == f.name; });
  Expansion::Attributes attributes;
  if (form->has_alpha) attributes["alpha"] = f.alpha;
  if (form->has_beta) attributes["beta"] = f.beta;
  return e_.Add(f.name, {x}, std::move(attributes));
}

std::string RecurrentExpansion::Add(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return a + b;
  return e_.Add("Add", {a, b});
}

std::string RecurrentExpansion::Part(const std::string& x, int64_t begin, int64_t end) {
  return e_.Add("Slice", {x, e_.Ints({begin}), e_.Ints({end}), e_.Ints({-1})});
}

void RecurrentExpansion::States(int64_t d, std::vector<std::string> h, const std::string& c) {
  last_h_[d] = h.back();
  last_c_[d] = c;
  for (size_t k = 0; k < h.size(); ++k) h[k] = Hold(d, k, h[k], "");
  if (Reversed(d)) std::reverse(h.begin(), h.end());
  h_[d] = std::move(h);
}

std::string RecurrentExpansion::Joined(const std::vector<std::string>& values, int64_t axis) {
  return values.size() == 1 ? values[0] : e_.Add("Concat", values, {{"axis", axis}});
}

void RecurrentExpansion::Finish() {
  const GraphNode& node = e_.node();
  const auto wanted = [&](size_t k) { return k < node.outputs.size() && !node.outputs[k].empty(); };
  const int64_t time = layout_ == 0 ? 0 : 1, direction = layout_ == 0 ? 1 : 2;
  if (wanted(0)) {  // [T, D, B, H], or [B, T, D, H]
    std::vector<std::string> steps;
    for (int64_t t = 0; t < steps_; ++t) {
      std::vector<std::string> states;
      for (int64_t d = 0; d < directions_; ++d) {
        states.push_back(e_.Add("Unsqueeze", {h_[d][t], e_.Ints({time, direction})}));
      }
      steps.push_back(Joined(states, direction));
    }
    e_.Output(0, Joined(steps, time));
  }
  const std::vector<std::string>* last[] = {&last_h_, &last_c_};
  for (size_t k = 1; k <= 2; ++k) {  // [D, B, H], or [B, D, H]
    if (!wanted(k)) continue;
    std::vector<std::string> states;
    for (const std::string& state : *last[k - 1]) states.push_back(e_.Add("Unsqueeze", {state, e_.Ints({layout_})}));
    e_.Output(k, Joined(states, layout_));
  }
}

}  // namespace jacserve::worker
