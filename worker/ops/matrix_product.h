// Stacks of matrix products Y = alpha op(A) op(B) + beta C, for operators that say what the stack is.
// Pullbacks: ct_A = alpha ct_Y op(B)^T, ct_B = alpha op(A)^T ct_Y (each as A and B are stored), ct_C = beta ct_Y summed
// where C repeats. Rows of a shared operand: the sum over a row's terms and, where the operand repeats, over the stack;
// each term is one product over all rows of A, written where the rows are wanted.
#pragma once

#include <vector>

#include "worker/ops/op.h"

namespace jacserve::worker {

class MatrixProduct : public Op {
 public:
  MatrixProduct(bool transpose_a, bool transpose_b, double alpha, double beta)
      : transpose_a_(transpose_a), transpose_b_(transpose_b), alpha_(alpha), beta_(beta) {}

  bool PullbackReadsInput(int ct_input, int input) const override { return ct_input < 2 && input == 1 - ct_input; }
  double Flops() const override { return 2.0 * m_ * n_ * k_ * static_cast<double>(slices_.size()); }
  bool HasPushforward() const override { return true; }

  void Forward(const ForwardArgs& args) const override;
  void Pullback(int input, const PullbackArgs& args, Lanes ct_x) const override;
  void PullbackToRows(int input, Terms terms, const PullbackArgs& args, const RowSink& rows) const override;
  void Pushforward(const PushforwardArgs& args, const std::vector<Lanes>& tan_y) const override;

 protected:
  // Sizes of one product and the stack of them, from sample shapes of rank >= 2.
  void SetSizes(const Shape& a, const Shape& b, const Shape& y);

  const bool transpose_a_, transpose_b_;

 private:
  // One product of a stack: offsets in elements of its operands, and whether it is the first that uses them.
  struct Slice {
    int64_t a = 0, b = 0, y = 0;
    bool first_a = true, first_b = true;
  };

  bool HasC() const { return in_.size() > 2 && beta_ != 0.0; }
  int64_t LdA() const { return transpose_a_ ? m_ : k_; }
  int64_t LdB() const { return transpose_b_ ? k_ : n_; }
  bool Folds(const ConstLanes& a, const ConstLanes& b, const Lanes& y, int64_t a_row, int64_t y_row) const;
  GemmShape Fold(GemmShape product, int64_t lanes, const ConstLanes& a, const Lanes& y) const;
  GemmShape PullbackToA() const;
  GemmShape PullbackToB() const;
  void Multiply(int64_t lanes, ConstLanes a, ConstLanes b, Lanes y, double beta, const Backend& backend) const;
  void AddC(int64_t lanes, ConstLanes c, Lanes y, bool accumulate, const Backend& backend) const;
  void OperandRows(int input, Terms terms, const PullbackArgs& args, const RowSink& rows, Shape strides) const;

  double alpha_, beta_;
  int64_t m_ = 0, n_ = 0, k_ = 0;
  std::vector<Slice> slices_;
};

}  // namespace jacserve::worker
