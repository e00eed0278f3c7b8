// MatMul: Y = A B with broadcast leading axes; a vector is a row on the left and a column on the right.
// Gemm: Y = alpha op(A) op(B) + beta C.
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/broadcast.h"
#include "worker/ops/matrix_product.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

Shape RowShape(Shape a) {
  if (a.size() == 1) a.insert(a.begin(), 1);
  return a;
}
Shape ColumnShape(Shape b) {
  if (b.size() == 1) b.push_back(1);
  return b;
}

absl::Status DoNotMultiply(const Shape& a, const Shape& b) {
  return absl::InvalidArgumentError(absl::StrCat("shapes ", ShapeText(a), " and ", ShapeText(b), " do not multiply"));
}

class MatMul : public MatrixProduct {
 public:
  MatMul() : MatrixProduct(false, false, 1.0, 0.0) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0) || !in.has(1)) return absl::InvalidArgumentError("needs two inputs");
    if (in[0].shape.empty() || in[1].shape.empty()) return DoNotMultiply(in[0].shape, in[1].shape);
    ASSIGN_OR_RETURN(Shape shape, FullShape(in[0].shape, in[1].shape));
    if (in[1].shape.size() == 1) shape.erase(shape.end() - 1);
    if (in[0].shape.size() == 1) shape.erase(shape.end() - (in[1].shape.size() == 1 ? 1 : 2));
    return std::vector<Facts>{{in[0].dtype, std::move(shape)}};
  }

  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>&) const override {
    InputFacts full = in;  // with vectors as matrices
    full.facts[0].shape = RowShape(in[0].shape);
    full.facts[1].shape = ColumnShape(in[1].shape);
    if (in[0].shape.size() == 1 && in[0].batch_axis == 0) full.facts[0].batch_axis = 1;
    const auto from_end = [&](int i) { return static_cast<int>(full[i].shape.size()) - full[i].batch_axis; };
    const bool a = in[0].batch_axis >= 0, b = in[1].batch_axis >= 0;
    if ((a && from_end(0) == 1) || (b && from_end(1) == 2)) return MixesSamples("it sums over the samples");
    ASSIGN_OR_RETURN(const Shape shape, FullShape(in[0].shape, in[1].shape));
    const int rank = static_cast<int>(shape.size());
    const bool a_rows = a && from_end(0) == 2, b_columns = b && from_end(1) == 1;
    if (a_rows || b_columns) {
      if (a && b) return MixesSamples("it multiplies every sample with every");
      return std::vector<int>{a_rows ? rank - 2 : rank - 1 - (in[0].shape.size() == 1 ? 1 : 0)};
    }
    ASSIGN_OR_RETURN(const int axis, BroadcastBatchAxis(full, shape));
    return std::vector<int>{axis};
  }

  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    ASSIGN_OR_RETURN(const Shape y, FullShape(in[0], in[1]));
    SetSizes(RowShape(in[0]), ColumnShape(in[1]), y);
    return absl::OkStatus();
  }

 private:
  // With the row of a vector on the left and the column of one on the right.
  static absl::StatusOr<Shape> FullShape(const Shape& left, const Shape& right) {
    const Shape a = RowShape(left), b = ColumnShape(right);
    if (a[a.size() - 1] != b[b.size() - 2]) return DoNotMultiply(left, right);
    ASSIGN_OR_RETURN(Shape shape, BroadcastShape({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2}));
    shape.push_back(a[a.size() - 2]);
    shape.push_back(b[b.size() - 1]);
    return shape;
  }
};

class Gemm : public MatrixProduct {
 public:
  using MatrixProduct::MatrixProduct;

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0) || !in.has(1)) return absl::InvalidArgumentError("needs two inputs");
    const Shape &a = in[0].shape, &b = in[1].shape;
    if (a.size() != 2 || b.size() != 2 || a[transpose_a_ ? 0 : 1] != b[transpose_b_ ? 1 : 0]) {
      return DoNotMultiply(a, b);
    }
    Shape shape = {a[transpose_a_ ? 1 : 0], b[transpose_b_ ? 0 : 1]};
    if (in.has(2)) {
      ASSIGN_OR_RETURN(const Shape with_c, BroadcastShape(shape, in[2].shape));
      if (with_c != shape) {
        return absl::InvalidArgumentError(
            absl::StrCat("C of shape ", ShapeText(in[2].shape), " does not broadcast to ", ShapeText(shape)));
      }
    }
    return std::vector<Facts>{{in[0].dtype, std::move(shape)}};
  }

  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>& out) const override {
    if (in[0].batch_axis == (transpose_a_ ? 0 : 1) || in[1].batch_axis == (transpose_b_ ? 1 : 0)) {
      return MixesSamples("it sums over the samples");
    }
    if (in[0].batch_axis >= 0 && in[1].batch_axis >= 0) return MixesSamples("it multiplies every sample with every");
    const int axis = in[0].batch_axis >= 0 ? 0 : (in[1].batch_axis >= 0 ? 1 : -1);
    if (!in.has(2)) return std::vector<int>{axis};
    InputFacts parts = in;  // the product, then C
    parts.facts = {out[0], in[2]};
    parts.facts[0].batch_axis = axis;
    parts.present = {true, true};
    ASSIGN_OR_RETURN(const int result, BroadcastBatchAxis(parts, out[0].shape));
    return std::vector<int>{result};
  }

  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    SetSizes(in[0], in[1], out[0]);
    return absl::OkStatus();
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeMatMul(const GraphNode&, int) { return std::make_unique<MatMul>(); }

absl::StatusOr<std::unique_ptr<Op>> MakeGemm(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(const int64_t transpose_a, IntAttribute(node, "transA", 0));
  ASSIGN_OR_RETURN(const int64_t transpose_b, IntAttribute(node, "transB", 0));
  ASSIGN_OR_RETURN(const double alpha, FloatAttribute(node, "alpha", 1.0f));
  ASSIGN_OR_RETURN(const double beta, FloatAttribute(node, "beta", 1.0f));
  return std::make_unique<Gemm>(transpose_a != 0, transpose_b != 0, alpha, beta);
}

}  // namespace jacserve::worker
