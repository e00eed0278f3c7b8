// MatMul: Y = A B with broadcast leading axes. Gemm: Y = alpha op(A) op(B) + beta C.
// Pullbacks: ct_A = ct_Y B^T, ct_B = A^T ct_Y, ct_C = beta ct_Y summed where C repeats.
// Rows of a shared B: sum over a row's terms of A^T ct_Y; with one row in A that is an outer product.
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/broadcast.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

// One product of a stack: offsets in elements of its three operands.
struct Slice {
  int64_t a = 0, b = 0, y = 0;
};

class MatrixProduct : public Op {
 public:
  MatrixProduct(bool transpose_a, bool transpose_b, double alpha, double beta)
      : transpose_a_(transpose_a), transpose_b_(transpose_b), alpha_(alpha), beta_(beta) {}

  bool PullbackReadsInput(int ct_input, int input) const override { return ct_input < 2 && input == 1 - ct_input; }
  double Flops() const override { return 2.0 * m_ * n_ * k_ * static_cast<double>(slices_.size()); }

  void Forward(const ForwardArgs& args) const override {
    const Backend& backend = args.backend;
    const GemmShape product{transpose_a_, transpose_b_, m_, n_, k_, LdA(), LdB(), n_, alpha_, 0.0};
    if (Folds(args.x[0], args.x[1], args.y[0], k_, n_)) {
      backend.Gemm(Fold(product, args.lanes, args.x[0], args.y[0]), 1, args.x[0], args.x[1], args.y[0]);
    } else {
      for (const Slice& s : slices_) {
        backend.Gemm(product, args.lanes, At(args.x[0], s.a, backend), At(args.x[1], s.b, backend),
                     At(args.y[0], s.y, backend));
      }
    }
    if (HasC()) {
      const Shape own = RowMajorStrides(out_[0]), repeat = BroadcastStrides(in_[2], out_[0]);
      args.backend.CopyStrided(args.lanes, out_[0], args.x[2], repeat, args.y[0], own, true, beta_);
    }
  }

  void Pullback(int input, const PullbackArgs& args, Lanes ct_x) const override {
    const Backend& backend = args.backend;
    const ConstLanes& ct_y = args.ct_y[0];
    if (input == 2) {
      backend.Fill(args.lanes, Elements(in_[2]), 0.0, ct_x);
      backend.CopyStrided(args.lanes, out_[0], ct_y, RowMajorStrides(out_[0]), ct_x, BroadcastStrides(in_[2], out_[0]),
                          true, beta_);
      return;
    }
    GemmShape product = input == 0 ? PullbackToA() : PullbackToB();
    if (input == 0 && Folds(ct_y, args.x[1], ct_x, n_, k_)) {
      backend.Gemm(Fold(product, args.lanes, ct_y, ct_x), 1, ct_y, args.x[1], ct_x);
      return;
    }
    if (slices_.size() > 1) {
      backend.Fill(args.lanes, Elements(in_[input]), 0.0, ct_x);
      product.beta = 1.0;  // an operand that repeats over the stack gets the sum
    }
    for (const Slice& s : slices_) {
      const ConstLanes ct = At(ct_y, s.y, backend);
      const ConstLanes other = input == 0 ? At(args.x[1], s.b, backend) : At(args.x[0], s.a, backend);
      const bool ct_first = input == 0 ? !transpose_a_ : transpose_b_;
      backend.Gemm(product, args.lanes, ct_first ? ct : other, ct_first ? other : ct,
                   At(ct_x, input == 0 ? s.a : s.b, backend));
    }
  }

  void PullbackToRows(int input, Terms terms, const PullbackArgs& args, const RowSink& rows) const override {
    const Backend& backend = args.backend;
    if (input == 2 && beta_ == 1.0 && in_[2] == out_[0]) {
      backend.SumTerms(terms, args.ct_y[0], rows);
      return;
    }
    // The sink's two axes in memory order decide whether rows are wanted as A^T ct_Y or as its transpose.
    const bool single = input == 1 && m_ == 1 && slices_.size() == 1 && alpha_ == 1.0 && rows.shape.size() == 2;
    const Shape& s = rows.shape;
    const bool in_order = single && rows.strides == RowMajorStrides(s);
    const bool swapped = single && rows.strides == Shape{1, s[0]};
    if (!in_order && !swapped) {
      Op::PullbackToRows(input, terms, args, rows);
      return;
    }
    const bool ct_leads = transpose_b_ != swapped;
    const ConstLanes &a = args.x[0], &ct = args.ct_y[0];
    backend.OuterRows(terms, ct_leads ? n_ : k_, ct_leads ? k_ : n_, ct_leads ? ct : a, ct_leads ? a : ct,
                      {rows.data, rows.row_stride}, rows.accumulate);
  }

 protected:
  // Sizes of one product and the stack of them, from sample shapes of rank >= 2.
  void SetSizes(const Shape& a, const Shape& b, const Shape& y) {
    m_ = transpose_a_ ? a[a.size() - 1] : a[a.size() - 2];
    k_ = transpose_a_ ? a[a.size() - 2] : a[a.size() - 1];
    n_ = transpose_b_ ? b[b.size() - 2] : b[b.size() - 1];
    const Shape stack(y.begin(), y.end() - 2);
    const Shape a_strides = BroadcastStrides({a.begin(), a.end() - 2}, stack);
    const Shape b_strides = BroadcastStrides({b.begin(), b.end() - 2}, stack);
    const Shape y_strides = RowMajorStrides(stack);
    slices_.clear();
    for (int64_t p = 0; p < Elements(stack); ++p) {
      Slice slice;
      int64_t rest = p;
      for (size_t axis = 0; axis < stack.size(); ++axis) {
        const int64_t at = rest / y_strides[axis];
        rest %= y_strides[axis];
        slice.a += at * a_strides[axis] * m_ * k_;
        slice.b += at * b_strides[axis] * k_ * n_;
      }
      slice.y = p * m_ * n_;
      slices_.push_back(slice);
    }
    // One B for the whole stack: the stack is part of A's rows.
    if (!transpose_a_ && Elements(b) == k_ * n_ && Elements(a) == m_ * k_ * static_cast<int64_t>(slices_.size())) {
      m_ *= static_cast<int64_t>(slices_.size());
      slices_.assign(1, Slice{});
    }
  }

 private:
  bool HasC() const { return in_.size() > 2 && beta_ != 0.0; }
  int64_t LdA() const { return transpose_a_ ? m_ : k_; }
  int64_t LdB() const { return transpose_b_ ? k_ : n_; }

  // B is shared and lanes of A and Y are rows at one distance: all lanes are one product with more rows.
  bool Folds(const ConstLanes& a, const ConstLanes& b, const Lanes& y, int64_t a_row, int64_t y_row) const {
    if (slices_.size() != 1 || b.stride != 0 || a.index != nullptr || a.stride < a_row) return false;
    return m_ == 1 || (!transpose_a_ && a.stride == m_ * a_row && y.stride == m_ * y_row);
  }
  GemmShape Fold(GemmShape product, int64_t lanes, const ConstLanes& a, const Lanes& y) const {
    if (m_ == 1) {
      product.transpose_a = false;
      product.lda = a.stride;
      product.ldc = y.stride;
    }
    product.m = m_ * lanes;
    return product;
  }

  GemmShape PullbackToA() const {
    if (transpose_a_ && m_ > 1) return {transpose_b_, true, k_, m_, n_, LdB(), n_, m_, alpha_, 0.0};
    return {false, !transpose_b_, m_, k_, n_, n_, LdB(), k_, alpha_, 0.0};
  }
  GemmShape PullbackToB() const {
    if (transpose_b_) return {true, transpose_a_, n_, k_, m_, n_, LdA(), k_, alpha_, 0.0};
    return {!transpose_a_, false, k_, n_, m_, LdA(), n_, n_, alpha_, 0.0};
  }

  static ConstLanes At(ConstLanes lanes, int64_t offset, const Backend& backend) {
    if (lanes.data != nullptr)
      lanes.data = static_cast<const std::byte*>(lanes.data) + offset * backend.element_bytes();
    return lanes;
  }
  static Lanes At(Lanes lanes, int64_t offset, const Backend& backend) {
    lanes.data = static_cast<std::byte*>(lanes.data) + offset * backend.element_bytes();
    return lanes;
  }

  bool transpose_a_, transpose_b_;
  double alpha_, beta_;
  int64_t m_ = 0, n_ = 0, k_ = 0;
  std::vector<Slice> slices_;
};

class MatMul : public MatrixProduct {
 public:
  MatMul() : MatrixProduct(false, false, 1.0, 0.0) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0) || !in.has(1)) return absl::InvalidArgumentError("needs two inputs");
    const Shape &a = in[0].shape, &b = in[1].shape;
    if (a.size() < 2 || b.size() < 2) return absl::UnimplementedError("MatMul with a vector");
    if (a[a.size() - 1] != b[b.size() - 2]) {
      return absl::InvalidArgumentError(
          absl::StrCat("shapes ", ShapeText(a), " and ", ShapeText(b), " do not multiply"));
    }
    ASSIGN_OR_RETURN(Shape shape, BroadcastShape({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2}));
    shape.push_back(a[a.size() - 2]);
    shape.push_back(b[b.size() - 1]);
    return std::vector<Facts>{{in[0].dtype, std::move(shape)}};
  }

  absl::StatusOr<std::vector<int>> FollowBatchAxis(const InputFacts& in, const std::vector<Facts>& out) const override {
    const int rank = static_cast<int>(out[0].shape.size());
    const auto from_end = [](const Facts& f) { return static_cast<int>(f.shape.size()) - f.batch_axis; };
    if (in[0].batch_axis >= 0 && from_end(in[0]) == 1) return MixesSamples("it sums over the samples");
    if (in[1].batch_axis >= 0 && from_end(in[1]) == 2) return MixesSamples("it sums over the samples");
    const bool a_rows = in[0].batch_axis >= 0 && from_end(in[0]) == 2;
    const bool b_columns = in[1].batch_axis >= 0 && from_end(in[1]) == 1;
    if (a_rows || b_columns) {
      if (in[0].batch_axis >= 0 && in[1].batch_axis >= 0) return MixesSamples("it multiplies every sample with every");
      return std::vector<int>{rank - (a_rows ? 2 : 1)};
    }
    ASSIGN_OR_RETURN(const int axis, BroadcastBatchAxis(in, out[0].shape));
    return std::vector<int>{axis};
  }

  absl::Status Bind(const InputFacts& facts, const std::vector<Shape>& in, const std::vector<Shape>& out) override {
    RETURN_IF_ERROR(Op::Bind(facts, in, out));
    SetSizes(in[0], in[1], out[0]);
    return absl::OkStatus();
  }
};

class Gemm : public MatrixProduct {
 public:
  Gemm(bool transpose_a, bool transpose_b, double alpha, double beta)
      : MatrixProduct(transpose_a, transpose_b, alpha, beta), transpose_a_(transpose_a), transpose_b_(transpose_b) {}

  absl::StatusOr<std::vector<Facts>> InferShapes(const InputFacts& in) const override {
    if (!in.has(0) || !in.has(1)) return absl::InvalidArgumentError("needs two inputs");
    const Shape &a = in[0].shape, &b = in[1].shape;
    if (a.size() != 2 || b.size() != 2 || a[transpose_a_ ? 0 : 1] != b[transpose_b_ ? 1 : 0]) {
      return absl::InvalidArgumentError(
          absl::StrCat("shapes ", ShapeText(a), " and ", ShapeText(b), " do not multiply"));
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

 private:
  bool transpose_a_, transpose_b_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeMatMul(const GraphNode&, int) { return std::make_unique<MatMul>(); }

absl::StatusOr<std::unique_ptr<Op>> MakeGemm(const GraphNode& node, int) {
  ASSIGN_OR_RETURN(const int64_t transpose_a, IntAttribute(node, "transA", 0));
  ASSIGN_OR_RETURN(const int64_t transpose_b, IntAttribute(node, "transB", 0));
  ASSIGN_OR_RETURN(const float alpha, FloatAttribute(node, "alpha", 1.0f));
  ASSIGN_OR_RETURN(const float beta, FloatAttribute(node, "beta", 1.0f));
  return std::make_unique<Gemm>(transpose_a != 0, transpose_b != 0, alpha, beta);
}

}  // namespace jacserve::worker
