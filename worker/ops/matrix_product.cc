#include "worker/ops/matrix_product.h"

#include <utility>

#include "common/status.h"
#include "worker/ops/broadcast.h"
#include "worker/ops/lanes.h"

namespace jacserve::worker {
namespace {

// Backend::Gemm, and what it means when there is nothing to multiply.
void Product(const GemmShape& product, int64_t lanes, ConstLanes a, ConstLanes b, Lanes c, const Backend& backend) {
  if (product.m == 0 || product.n == 0) return;
  if (product.k > 0) return backend.Gemm(product, lanes, a, b, c);
  if (product.beta != 0.0) return;
  for (int64_t i = 0; i < product.m; ++i) backend.Fill(lanes, product.n, 0.0, At(c, i * product.ldc, backend));
}

// The product with its result transposed: C^T = op(B)^T op(A)^T. Its operands change places.
GemmShape Transposed(const GemmShape& p) {
  return {!p.transpose_b, !p.transpose_a, p.n, p.m, p.k, p.ldb, p.lda, p.ldc, p.alpha, p.beta};
}

// Where element `offset` of a value in C order of `shape` lies under other strides.
int64_t Moved(int64_t offset, const Shape& shape, const Shape& strides) {
  int64_t moved = 0;
  const Shape steps = RowMajorStrides(shape);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] > 1) moved += offset / steps[axis] % shape[axis] * strides[axis];
  }
  return moved;
}

}  // namespace

// B is shared and lanes of A and Y are rows at one distance: all lanes are one product with more rows.
bool MatrixProduct::Folds(const ConstLanes& a, const ConstLanes& b, const Lanes& y, int64_t a_row,
                          int64_t y_row) const {
  if (slices_.size() != 1 || b.stride != 0 || a.index != nullptr || a.stride < a_row) return false;
  return m_ == 1 || (!transpose_a_ && a.stride == m_ * a_row && y.stride == m_ * y_row);
}

GemmShape MatrixProduct::Fold(GemmShape product, int64_t lanes, const ConstLanes& a, const Lanes& y) const {
  if (m_ == 1) {
    product.transpose_a = false;
    product.lda = a.stride;
    product.ldc = y.stride;
  }
  product.m = m_ * lanes;
  return product;
}

GemmShape MatrixProduct::PullbackToA() const {
  if (transpose_a_) return {transpose_b_, true, k_, m_, n_, LdB(), n_, m_, alpha_, 0.0};
  return {false, !transpose_b_, m_, k_, n_, n_, LdB(), k_, alpha_, 0.0};
}

GemmShape MatrixProduct::PullbackToB() const {
  if (transpose_b_) return {true, transpose_a_, n_, k_, m_, n_, LdA(), k_, alpha_, 0.0};
  return {!transpose_a_, false, k_, n_, m_, LdA(), n_, n_, alpha_, 0.0};
}

void MatrixProduct::Multiply(int64_t lanes, ConstLanes a, ConstLanes b, Lanes y, double beta,
                             const Backend& backend) const {
  const GemmShape product{transpose_a_, transpose_b_, m_, n_, k_, LdA(), LdB(), n_, alpha_, beta};
  if (Folds(a, b, y, k_, n_)) {
    Product(Fold(product, lanes, a, y), 1, a, b, y, backend);
    return;
  }
  for (const Slice& s : slices_) {
    Product(product, lanes, At(a, s.a, backend), At(b, s.b, backend), At(y, s.y, backend), backend);
  }
}

void MatrixProduct::AddC(int64_t lanes, ConstLanes c, Lanes y, bool accumulate, const Backend& backend) const {
  backend.CopyStrided(lanes, out_[0], c, BroadcastStrides(in_[2], out_[0]), y, RowMajorStrides(out_[0]), accumulate,
                      beta_);
}

void MatrixProduct::Forward(const ForwardArgs& args) const {
  Multiply(args.lanes, args.x[0], args.x[1], args.y[0], 0.0, args.backend);
  if (HasC()) AddC(args.lanes, args.x[2], args.y[0], true, args.backend);
}

void MatrixProduct::Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const {
  bool begun = false;
  if (args.tan_x[0].data != nullptr) {
    Multiply(args.lanes, args.tan_x[0], args.x[1], tan_y[0], 0.0, args.backend);
    begun = true;
  }
  if (args.tan_x[1].data != nullptr) {
    Multiply(args.lanes, args.x[0], args.tan_x[1], tan_y[0], begun ? 1.0 : 0.0, args.backend);
    begun = true;
  }
  if (HasC() && args.tan_x[2].data != nullptr) {
    AddC(args.lanes, args.tan_x[2], tan_y[0], begun, args.backend);
    begun = true;
  }
  if (!begun) args.backend.Fill(args.lanes, Elements(out_[0]), 0.0, tan_y[0]);
}

void MatrixProduct::Pullback(int input, const PullbackArgs& args, Lanes ct_x) const {
  const Backend& backend = args.backend;
  const ConstLanes& ct_y = args.ct_y[0];
  if (input == 2) {
    backend.Fill(args.lanes, Elements(in_[2]), 0.0, ct_x);
    if (beta_ == 0.0) return;
    backend.CopyStrided(args.lanes, out_[0], ct_y, RowMajorStrides(out_[0]), ct_x, BroadcastStrides(in_[2], out_[0]),
                        true, beta_);
    return;
  }
  GemmShape product = input == 0 ? PullbackToA() : PullbackToB();
  if (input == 0 && Folds(ct_y, args.x[1], ct_x, n_, k_)) {
    product = {false, !transpose_b_, m_, k_, n_, n_, LdB(), k_, alpha_, 0.0};  // one row is stored alike either way
    Product(Fold(product, args.lanes, ct_y, ct_x), 1, ct_y, args.x[1], ct_x, backend);
    return;
  }
  if (slices_.empty()) backend.Fill(args.lanes, Elements(in_[input]), 0.0, ct_x);
  const bool ct_first = input == 0 ? !transpose_a_ : transpose_b_;
  for (const Slice& s : slices_) {
    const ConstLanes ct = At(ct_y, s.y, backend);
    const ConstLanes other = input == 0 ? At(args.x[1], s.b, backend) : At(args.x[0], s.a, backend);
    product.beta = (input == 0 ? s.first_a : s.first_b) ? 0.0 : 1.0;
    Product(product, args.lanes, ct_first ? ct : other, ct_first ? other : ct,
            At(ct_x, input == 0 ? s.a : s.b, backend), backend);
  }
}

void MatrixProduct::PullbackToRows(int input, Terms terms, const PullbackArgs& args, const RowSink& rows) const {
  if (input == 2) {
    if (beta_ == 1.0 && Elements(in_[2]) == Elements(out_[0])) {
      args.backend.SumTerms(terms, args.ct_y[0], rows);
    } else {
      Op::PullbackToRows(input, terms, args, rows);
    }
    return;
  }
  // The sink's strides for the operand's own rows and columns; a stack that became rows of A needs C order.
  const bool folded = input == 0 && Elements(in_[0]) == m_ * k_;
  const GemmShape product = input == 0 ? PullbackToA() : PullbackToB();
  Shape strides;
  if (rows.shape.size() >= 2 && !folded) {
    strides = {rows.strides.end() - 2, rows.strides.end()};
  } else if (rows.contiguous()) {
    strides = {product.n, 1};
  } else if (rows.shape.size() == 2) {
    strides = rows.strides;
  }
  if (!strides.empty() && product.m == 1) strides[0] = product.n;
  if (!strides.empty() && product.n == 1 && strides[0] != 1) strides[1] = 1;
  const bool in_order = !strides.empty() && strides[1] == 1 && strides[0] >= product.n;
  const bool swapped = !strides.empty() && strides[0] == 1 && strides[1] >= product.m;
  if (slices_.empty() || Elements(in_[input]) == 0 || (!in_order && !swapped)) {
    Op::PullbackToRows(input, terms, args, rows);
    return;
  }
  OperandRows(input, terms, args, rows, std::move(strides));
}

void MatrixProduct::OperandRows(int input, Terms terms, const PullbackArgs& args, const RowSink& rows,
                                Shape strides) const {
  const Backend& backend = args.backend;
  GemmShape product = input == 0 ? PullbackToA() : PullbackToB();
  bool ct_first = input == 0 ? !transpose_a_ : transpose_b_;
  const bool swapped = strides[1] != 1 || strides[0] < product.n;
  if (swapped) {
    product = Transposed(product);
    ct_first = !ct_first;
    std::swap(strides[0], strides[1]);
  }
  product.ldc = strides[0];
  const ConstLanes &other = args.x[1 - input], &ct_y = args.ct_y[0];
  if (product.k == 1 && slices_.size() == 1 && alpha_ == 1.0 && product.ldc == product.n) {
    backend.OuterRows(terms, product.m, product.n, ct_first ? ct_y : other, ct_first ? other : ct_y,
                      {rows.data, rows.row_stride}, rows.accumulate);
    return;
  }
  for (int64_t lane = 0; lane < terms.lanes(); ++lane) {
    const ConstLanes ct_lane = From(ct_y, lane, backend), other_lane = From(other, lane, backend);
    for (const Slice& s : slices_) {
      const ConstLanes ct = At(ct_lane, s.y, backend), with = At(other_lane, input == 0 ? s.b : s.a, backend);
      const bool first = (input == 0 ? s.first_a : s.first_b) && lane % terms.per_row == 0;
      product.beta = first && !rows.accumulate ? 0.0 : 1.0;
      const int64_t offset = slices_.size() == 1 ? 0 : Moved(input == 0 ? s.a : s.b, rows.shape, rows.strides);
      const Lanes to{rows.data, 0};
      Product(product, 1, ct_first ? ct : with, ct_first ? with : ct,
              At(to, lane / terms.per_row * rows.row_stride + offset, backend), backend);
    }
  }
}

void MatrixProduct::SetSizes(const Shape& a, const Shape& b, const Shape& y) {
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
      if (at > 0 && a_strides[axis] == 0) slice.first_a = false;
      if (at > 0 && b_strides[axis] == 0) slice.first_b = false;
    }
    slice.y = p * m_ * n_;
    slices_.push_back(slice);
  }
  // One B for the whole stack: the stack is part of A's rows.
  const auto count = static_cast<int64_t>(slices_.size());
  if (count > 1 && !transpose_a_ && Elements(b) == k_ * n_ && Elements(a) == m_ * k_ * count) {
    m_ *= count;
    slices_.assign(1, Slice{});
  }
}

}  // namespace jacserve::worker
