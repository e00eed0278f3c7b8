// Einsum: products and sums over labelled axes, as a graph of others. A label that an operand has twice becomes its
// diagonal; labels that nobody needs any more are summed; two operands join by a MatMul over the labels that they share
// and nobody needs, or by a product when there are none; more operands join from left to right.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

using Labels = std::vector<int>;  // letters; axes of an ellipsis are -1, -2, .. from its end

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
  bool has_output = false;
};

absl::StatusOr<Equation> Parse(std::string equation) {
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  Equation terms;
  const size_t arrow = equation.find("->");
  if (arrow != std::string::npos) {
    terms.has_output = true;
    terms.output = equation.substr(arrow + 2);
  }
  std::string rest = equation.substr(0, arrow);
  while (true) {
    const size_t comma = rest.find(',');
    terms.inputs.push_back(rest.substr(0, comma));
    if (comma == std::string::npos) return terms;
    rest = rest.substr(comma + 1);
  }
}

// The labels of a term whose ellipsis stands for `wide` axes.
absl::StatusOr<Labels> ReadLabels(const std::string& term, int64_t wide) {
  Labels labels;
  bool seen = false;
  for (size_t p = 0; p < term.size(); ++p) {
    if (std::isalpha(static_cast<unsigned char>(term[p]))) {
      labels.push_back(term[p]);
    } else if (!seen && term.compare(p, 3, "...") == 0) {
      for (int64_t k = wide; k > 0; --k) labels.push_back(static_cast<int>(-k));
      seen = true;
      p += 2;
    } else {
      return absl::InvalidArgumentError(absl::StrCat("the equation's term '", term, "' is not one"));
    }
  }
  return labels;
}

int64_t Letters(const std::string& term) {
  return std::count_if(term.begin(), term.end(), [](unsigned char c) { return std::isalpha(c); });
}

bool Has(const Labels& labels, int label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }

struct Operand {
  std::string name;
  Labels labels;
  Shape shape;
  int batch_label = 0;  // 0: none
};

class Builder {
 public:
  explicit Builder(Expansion& e) : e_(e) {}

  absl::Status Run(const Equation& terms) {
    RETURN_IF_ERROR(ReadOperands(terms));
    ASSIGN_OR_RETURN(const Labels output, OutputLabels(terms));
    for (Operand& operand : operands_) Prepare(operand);
    Operand result = operands_[0];
    for (size_t k = 1; k < operands_.size(); ++k) {
      std::set<int> needed(output.begin(), output.end());
      for (size_t later = k + 1; later < operands_.size(); ++later) {
        needed.insert(operands_[later].labels.begin(), operands_[later].labels.end());
      }
      result = Join(result, operands_[k], needed);
    }
    SumOthers(result, {output.begin(), output.end()});
    for (int label : output) {
      if (!Has(result.labels, label)) return absl::InvalidArgumentError("the equation's output has a label of its own");
    }
    Permute(result, output);
    e_.Output(0, result.name);
    return absl::OkStatus();
  }

 private:
  absl::Status ReadOperands(const Equation& terms) {
    if (terms.inputs.size() != e_.node().inputs.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the equation has ", terms.inputs.size(), " terms for ", e_.node().inputs.size(), " inputs"));
    }
    for (size_t i = 0; i < terms.inputs.size(); ++i) {
      if (!e_.in().has(i)) return absl::InvalidArgumentError("one of its inputs is missing");
      const Shape& shape = e_.shape(i);
      const bool ellipsis = terms.inputs[i].find('.') != std::string::npos;
      const int64_t wide = static_cast<int64_t>(shape.size()) - Letters(terms.inputs[i]);
      ASSIGN_OR_RETURN(Labels labels, ReadLabels(terms.inputs[i], wide));
      if (labels.size() != shape.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("the term '", terms.inputs[i], "' does not fit shape ", ShapeText(shape)));
      }
      if (ellipsis) wide_ = std::max(wide_, wide);
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        int64_t& size = size_.emplace(labels[axis], 1).first->second;
        if (size != 1 && shape[axis] != 1 && size != shape[axis]) {
          return absl::InvalidArgumentError(
              absl::StrCat("one label stands for axes of ", size, " and ", shape[axis], " elements"));
        }
        if (size == 1) size = shape[axis];
      }
      const int batch_axis = e_.in()[i].batch_axis;
      const int batch_label = batch_axis < 0 ? 0 : labels[batch_axis];
      operands_.push_back({e_.x(i), std::move(labels), shape, batch_label});
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Labels> OutputLabels(const Equation& terms) const {
    if (terms.has_output) {
      ASSIGN_OR_RETURN(Labels output, ReadLabels(terms.output, wide_));
      if (std::set<int>(output.begin(), output.end()).size() != output.size()) {
        return absl::InvalidArgumentError("the equation's output has a label twice");
      }
      return output;
    }
    std::map<int, int> uses;
    for (const Operand& operand : operands_) {
      for (int label : operand.labels) ++uses[label];
    }
    Labels output;
    for (int64_t k = wide_; k > 0; --k) output.push_back(static_cast<int>(-k));
    for (const auto& [label, count] : uses) {
      if (label > 0 && count == 1) output.push_back(label);
    }
    return output;
  }

  // Each label once, and none along which the operand repeats.
  void Prepare(Operand& x) {
    for (size_t axis = 0; axis < x.labels.size();) {
      const auto begin = x.labels.begin() + static_cast<int64_t>(axis) + 1;
      const auto twin = std::find(begin, x.labels.end(), x.labels[axis]);
      if (x.shape[axis] == 1 && (twin != x.labels.end() || size_[x.labels[axis]] != 1)) {
        x.name = e_.Add("Squeeze", {x.name, e_.Ints({static_cast<int64_t>(axis)})});
        x.labels.erase(x.labels.begin() + static_cast<int64_t>(axis));
        x.shape.erase(x.shape.begin() + static_cast<int64_t>(axis));
      } else if (twin != x.labels.end()) {
        TakeDiagonal(x, axis, twin - x.labels.begin());
        axis = 0;
      } else {
        ++axis;
      }
    }
  }

  void TakeDiagonal(Operand& x, size_t first, size_t second) {
    const int label = x.labels[first];
    const int64_t n = x.shape[first];
    std::vector<int64_t> perm;
    Labels labels;
    Shape shape;
    for (size_t axis = 0; axis < x.labels.size(); ++axis) {
      if (axis == first || axis == second) continue;
      perm.push_back(static_cast<int64_t>(axis));
      labels.push_back(x.labels[axis]);
      shape.push_back(x.shape[axis]);
    }
    perm.push_back(static_cast<int64_t>(first));
    perm.push_back(static_cast<int64_t>(second));
    shape.push_back(n * n);
    std::vector<int64_t> places(n);
    for (int64_t k = 0; k < n; ++k) places[k] = k * (n + 1);
    const std::string matrix = e_.Add("Reshape", {Transposed(x.name, perm), e_.Ints(shape)}, kExact);
    x.name = e_.Add("Gather", {matrix, e_.Ints(places)}, {{"axis", int64_t{-1}}});
    labels.push_back(label);
    shape.back() = n;
    x.labels = std::move(labels);
    x.shape = std::move(shape);
  }

  std::string Transposed(const std::string& x, const std::vector<int64_t>& perm) {
    return std::is_sorted(perm.begin(), perm.end()) ? x : e_.Add("Transpose", {x}, {{"perm", perm}});
  }

  void SumOthers(Operand& x, const std::set<int>& needed) {
    std::vector<int64_t> axes;
    Labels labels;
    Shape shape;
    for (size_t axis = 0; axis < x.labels.size(); ++axis) {
      if (needed.contains(x.labels[axis])) {
        labels.push_back(x.labels[axis]);
        shape.push_back(x.shape[axis]);
      } else {
        axes.push_back(static_cast<int64_t>(axis));
      }
    }
    if (axes.empty()) return;
    x.name = e_.Add("ReduceSum", {x.name, e_.Ints(axes)}, {{"keepdims", int64_t{0}}});
    x.labels = std::move(labels);
    x.shape = std::move(shape);
  }

  void Permute(Operand& x, const Labels& order) {
    std::vector<int64_t> perm;
    Shape shape;
    for (int label : order) {
      perm.push_back(std::find(x.labels.begin(), x.labels.end(), label) - x.labels.begin());
      shape.push_back(x.shape[perm.back()]);
    }
    x.name = Transposed(x.name, perm);
    x.labels = order;
    x.shape = std::move(shape);
  }

  Operand Join(Operand a, Operand b, const std::set<int>& needed) {
    std::set<int> of_a(needed), of_b(needed);
    of_a.insert(b.labels.begin(), b.labels.end());
    of_b.insert(a.labels.begin(), a.labels.end());
    SumOthers(a, of_a);
    SumOthers(b, of_b);
    if (a.batch_label == 0 && b.batch_label != 0) std::swap(a, b);  // all samples are then rows of one product
    Labels stack, contracted, only_a, only_b;
    for (int label : a.labels) {
      (!Has(b.labels, label) ? only_a : needed.contains(label) ? stack : contracted).push_back(label);
    }
    for (int label : b.labels) {
      if (!Has(a.labels, label)) only_b.push_back(label);
    }
    for (Labels* free : {&only_a, &only_b}) {  // where the samples come first they stay in sight
      std::stable_partition(free->begin(), free->end(),
                            [&](int label) { return label == a.batch_label || label == b.batch_label; });
    }
    Operand y{.batch_label = a.batch_label != 0 ? a.batch_label : b.batch_label};
    for (const Labels* part : {&stack, &only_a, &only_b}) y.labels.insert(y.labels.end(), part->begin(), part->end());
    for (int label : y.labels) y.shape.push_back(size_[label]);
    if (contracted.empty()) {
      y.name = e_.Add("Mul", {Spread(a, y.labels), Spread(b, y.labels)});
      return y;
    }
    const std::string left = AsMatrices(a, stack, only_a, contracted);
    y.name = e_.Add("MatMul", {left, AsMatrices(b, stack, contracted, only_b)});
    if (only_a.size() != 1 || only_b.size() != 1) y.name = e_.Add("Reshape", {y.name, e_.Ints(y.shape)}, kExact);
    return y;
  }

  // With axes of size 1 for the labels that x does not have.
  std::string Spread(Operand x, const Labels& order) {
    Labels own;
    std::vector<int64_t> missing;
    for (size_t k = 0; k < order.size(); ++k) {
      if (Has(x.labels, order[k])) {
        own.push_back(order[k]);
      } else {
        missing.push_back(static_cast<int64_t>(k));
      }
    }
    Permute(x, own);
    return missing.empty() ? x.name : e_.Add("Unsqueeze", {x.name, e_.Ints(missing)});
  }

  std::string AsMatrices(Operand x, const Labels& stack, const Labels& rows, const Labels& columns) {
    Labels order = stack;
    order.insert(order.end(), rows.begin(), rows.end());
    order.insert(order.end(), columns.begin(), columns.end());
    Permute(x, order);
    if (rows.size() == 1 && columns.size() == 1) return x.name;
    Shape shape(x.shape.begin(), x.shape.begin() + static_cast<int64_t>(stack.size()));
    for (const Labels* part : {&rows, &columns}) {
      int64_t product = 1;
      for (int label : *part) product *= size_[label];
      shape.push_back(product);
    }
    return e_.Add("Reshape", {x.name, e_.Ints(shape)}, kExact);
  }

  inline static const Expansion::Attributes kExact = {{"allowzero", int64_t{1}}};

  Expansion& e_;
  std::vector<Operand> operands_;
  std::map<int, int64_t> size_;
  int64_t wide_ = 0;
};

}  // namespace

absl::Status ExpandEinsum(Expansion& e, int) {
  ASSIGN_OR_RETURN(std::string equation, StringAttribute(e.node(), "equation", ""));
  ASSIGN_OR_RETURN(const Equation terms, Parse(std::move(equation)));
  return Builder(e).Run(terms);
}

}  // namespace jacserve::worker
