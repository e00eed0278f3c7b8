// Reductions of a line x[0], x[1], .. into one number y that are not sums.
// Max, Min: the first extreme alone takes the cotangent. Prod: ct_x[i] = ct_y * product of the others, right with
// zeros. L2: y = sqrt(sum x^2), ct_x = ct_y x / y, 0 where y = 0. LogSumExp: y = m + log sum exp(x - m), m the largest
// x; ct_x = ct_y exp(x - y).
#include <algorithm>
#include <cmath>
#include <limits>

#include "common/status.h"
#include "worker/ops/op_table.h"
#include "worker/ops/reduce_lines.h"

namespace jacserve::worker {
namespace {

double LargestOf(const std::vector<double>& line) { return *std::max_element(line.begin(), line.end()); }
double SmallestOf(const std::vector<double>& line) { return *std::min_element(line.begin(), line.end()); }
double ProductOf(const std::vector<double>& line) {
  double product = 1;
  for (double x : line) product *= x;
  return product;
}
double NormOf(const std::vector<double>& line) {
  double squares = 0;
  for (double x : line) squares += x * x;
  return std::sqrt(squares);
}
double LogSumExpOf(const std::vector<double>& line) {
  const double largest = std::clamp(LargestOf(line), -1e308, 1e308);
  double sum = 0;
  for (double x : line) sum += std::exp(x - largest);
  return largest + std::log(sum);
}

class ReduceExtreme : public ReduceLines {
 public:
  ReduceExtreme(bool largest, ReduceForm form)
      : ReduceLines(std::move(form), largest ? LargestOf : SmallestOf), largest_(largest) {}

  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(ReduceLines::Bind(facts, in, out));
    truth_ = facts[0].dtype == DType::kBool;
    if (Size() > INT32_MAX) return absl::UnimplementedError("an extreme of more than 2^31 numbers per sample");
    return absl::OkStatus();
  }
  bool PullbackReadsInput(int, int) const override { return false; }
  bool PullbackReadsSaved(int) const override { return true; }
  int64_t SavedElements(const Backend&) const override { return Lines(); }  // int32 in elements of 4 or 8 bytes

 protected:
  void Reduce(const Line& line, Lanes y) const override {
    if (n_ == 0) {
      const double none = truth_ ? (largest_ ? 0 : 1) : std::numeric_limits<double>::infinity() * (largest_ ? -1 : 1);
      line.backend.Fill(1, Lines(), none, y);
      return;
    }
    const TopKShape first{.outer = outer_, .n = n_, .inner = inner_, .largest = largest_};
    line.backend.TopK(first, 1, line.x, y, {}, {line.saved, 0});
  }
  void Pull(const Line& line, ConstLanes ct_y, Lanes ct_x) const override {
    line.backend.ScatterAdd(1, n_ == 0 ? 0 : Lines(), Size(), {line.saved}, ct_y, ct_x);
  }
  void Push(const Line& line, ConstLanes tan_x, Lanes tan_y) const override {
    if (n_ == 0) return line.backend.Fill(1, Lines(), 0.0, tan_y);
    line.backend.TakeAt(1, Lines(), {line.saved}, tan_x, tan_y);
  }

 private:
  bool largest_;
  bool truth_ = false;  // of truth values, where none is false or true
};

class ReduceProd : public ReduceLines {
 public:
  explicit ReduceProd(ReduceForm form) : ReduceLines(std::move(form), ProductOf) {}

 protected:
  int64_t LineScratch() const override { return 2 * Size(); }

  void Reduce(const Line& line, Lanes y) const override {
    if (n_ == 0) return line.backend.Fill(1, Lines(), 1.0, y);
    const Lanes products = Take(line, Size());
    line.backend.Scan(true, false, false, 1, outer_, n_, inner_, line.x, products);
    const auto* last = static_cast<const std::byte*>(products.data) + (n_ - 1) * inner_ * line.backend.element_bytes();
    line.backend.CopyStrided(1, {outer_, inner_}, {last}, {n_ * inner_, 1}, y, {inner_, 1}, false, 1.0);
  }
  void Pull(const Line& line, ConstLanes ct_y, Lanes ct_x) const override {
    const Lanes others = Others(line);
    line.backend.Binary(BinaryFunction::kMul, 1, shape(), others, own(), ct_y, repeated(), ct_x);
  }
  void Push(const Line& line, ConstLanes tan_x, Lanes tan_y) const override {
    const Lanes others = Others(line);
    line.backend.Binary(BinaryFunction::kMul, 1, shape(), others, own(), tan_x, own(), others);
    SumLines(line, others, tan_y);
  }

 private:
  // The product of the numbers before each number, times that of those after it.
  Lanes Others(const Line& line) const {
    const Lanes before = Take(line, Size()), after = Take(line, Size());
    line.backend.Scan(true, true, false, 1, outer_, n_, inner_, line.x, before);
    line.backend.Scan(true, true, true, 1, outer_, n_, inner_, line.x, after);
    line.backend.Binary(BinaryFunction::kMul, 1, shape(), before, own(), after, own(), before);
    return before;
  }
};

class ReduceL2 : public ReduceLines {
 public:
  explicit ReduceL2(ReduceForm form) : ReduceLines(std::move(form), NormOf) {}
  bool PullbackReadsOutput(int) const override { return true; }

 protected:
  int64_t LineScratch() const override { return Size() + Lines(); }

  void Reduce(const Line& line, Lanes y) const override {
    const Lanes squares = Take(line, Size());
    line.backend.Binary(BinaryFunction::kMul, 1, shape(), line.x, own(), line.x, own(), squares);
    SumLines(line, squares, y);
    line.backend.Unary(UnaryFunction::kSqrt, {}, 1, Lines(), y, y);
  }
  void Pull(const Line& line, ConstLanes ct_y, Lanes ct_x) const override {
    const Lanes factor = Take(line, Lines());
    line.backend.Binary(BinaryFunction::kDivOrZero, 1, {Lines()}, ct_y, {1}, line.y, {1}, factor);
    line.backend.Binary(BinaryFunction::kMul, 1, shape(), line.x, own(), factor, repeated(), ct_x);
  }
  void Push(const Line& line, ConstLanes tan_x, Lanes tan_y) const override {
    const Lanes products = Take(line, Size());
    line.backend.Binary(BinaryFunction::kMul, 1, shape(), line.x, own(), tan_x, own(), products);
    SumLines(line, products, tan_y);
    line.backend.Binary(BinaryFunction::kDivOrZero, 1, {Lines()}, tan_y, {1}, line.y, {1}, tan_y);
  }
};

class ReduceLogSumExp : public ReduceLines {
 public:
  explicit ReduceLogSumExp(ReduceForm form) : ReduceLines(std::move(form), LogSumExpOf) {}
  bool PullbackReadsOutput(int) const override { return true; }

 protected:
  int64_t LineScratch() const override { return Size() + Lines(); }

  void Reduce(const Line& line, Lanes y) const override {
    if (n_ == 0) return line.backend.Fill(1, Lines(), -std::numeric_limits<double>::infinity(), y);
    const Lanes largest = Take(line, Lines());
    line.backend.TopK({.outer = outer_, .n = n_, .inner = inner_}, 1, line.x, largest, {}, {});
    MakeFinite(line, largest, largest);
    SumLines(line, ExpOfDifference(line, largest), y);
    line.backend.Unary(UnaryFunction::kLog, {}, 1, Lines(), y, y);
    line.backend.Binary(BinaryFunction::kAdd, 1, {Lines()}, y, {1}, largest, {1}, y);
  }
  void Pull(const Line& line, ConstLanes ct_y, Lanes ct_x) const override {
    const Lanes y = Take(line, Lines());
    MakeFinite(line, line.y, y);
    const Lanes weights = ExpOfDifference(line, y);
    line.backend.Binary(BinaryFunction::kMul, 1, shape(), weights, own(), ct_y, repeated(), ct_x);
  }
  void Push(const Line& line, ConstLanes tan_x, Lanes tan_y) const override {
    const Lanes y = Take(line, Lines());
    MakeFinite(line, line.y, y);
    const Lanes weights = ExpOfDifference(line, y);
    line.backend.Binary(BinaryFunction::kMul, 1, shape(), weights, own(), tan_x, own(), weights);
    SumLines(line, weights, tan_y);
  }

 private:
  // Lines of infinite numbers: inf - inf is no number, what is taken off must not be infinite.
  void MakeFinite(const Line& line, ConstLanes y, Lanes finite) const {
    const double most = line.backend.dtype() == DType::kFloat32 ? 3e38 : 1e308;
    line.backend.Unary(UnaryFunction::kClip, {.alpha = -most, .beta = most}, 1, Lines(), y, finite);
  }
  Lanes ExpOfDifference(const Line& line, ConstLanes y) const {
    const Lanes e = Take(line, Size());
    line.backend.Binary(BinaryFunction::kSub, 1, shape(), line.x, own(), y, repeated(), e);
    line.backend.Unary(UnaryFunction::kExp, {}, 1, Size(), e, e);
    return e;
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeReduceMax(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(ReduceForm form, ReadReduceForm(node));
  return std::make_unique<ReduceExtreme>(true, std::move(form));
}
absl::StatusOr<std::unique_ptr<Op>> MakeReduceMin(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(ReduceForm form, ReadReduceForm(node));
  return std::make_unique<ReduceExtreme>(false, std::move(form));
}
absl::StatusOr<std::unique_ptr<Op>> MakeReduceProd(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(ReduceForm form, ReadReduceForm(node));
  return std::make_unique<ReduceProd>(std::move(form));
}
absl::StatusOr<std::unique_ptr<Op>> MakeReduceL2(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(ReduceForm form, ReadReduceForm(node));
  return std::make_unique<ReduceL2>(std::move(form));
}
absl::StatusOr<std::unique_ptr<Op>> MakeReduceLogSumExp(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(ReduceForm form, ReadReduceForm(node));
  return std::make_unique<ReduceLogSumExp>(std::move(form));
}

}  // namespace jacserve::worker
