// The target: its shape, its value from embeddings, and the cotangents that its rows start from.
// In: what f gives for every sample. Out: the value; per row its terms (sample, cotangent).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/shape.h"
#include "worker/engine/engine.h"

namespace jacserve::worker {

class TargetFunction {
 public:
  // sample_shape: f's output for one sample, the batch along `batch_axis`, behind before_samples of its elements; -1:
  // for a whole batch, which is one sample.
  // first, second: sizes of the batches (second 0 without a pairwise target). A pairwise target over whole batches
  // needs them along axis 0, and equal.
  TargetFunction(std::optional<PairwiseTarget> pairwise, Shape sample_shape, int batch_axis, int64_t before_samples,
                 int64_t first, int64_t second);

  const Shape& shape() const { return shape_; }
  int64_t rows() const { return rows_; }
  bool pairwise() const { return pairwise_.has_value(); }
  int per_row() const { return pairwise() ? 2 : 1; }
  // Samples of the program; the second batch's follow the first's.
  int64_t samples() const { return whole_ ? per_row() : first_ + second_; }
  int64_t first_samples() const { return whole_ ? 1 : first_; }

  // Samples of row r's terms, per_row() of them.
  void SamplesOf(int64_t row, int32_t* samples) const;

  // value [shape] from embeddings [samples, D]; T is float or double.
  template <class T>
  void Value(const T* embeddings, T* value) const;

  // Of a pairwise target: cotangents [2, elements of sample_shape] of row r.
  template <class T>
  void PairCotangents(int64_t row, const T* embeddings, T* cotangents) const;

  // Of outputs: the element of `sample`'s output that row r is; its cotangent is 1 there and 0 elsewhere.
  int64_t ElementOf(int64_t row, int64_t* sample) const;

 private:
  // M[i, j] and, when wanted, its derivatives with respect to u and v. Sums in double.
  template <class T>
  double Similarity(const T* u, const T* v, T* ct_u, T* ct_v) const;

  std::optional<PairwiseTarget> pairwise_;
  bool whole_;
  Shape sample_shape_, shape_;
  int64_t lane_;                                    // elements of the program's output
  int64_t d_;                                       // elements that one embedding or one sample's output has
  int64_t outer_ = 1, per_sample_ = 1, inner_ = 1;  // axes before, at and after the batch axis, of one sample
  int64_t first_, second_, rows_;
};

}  // namespace jacserve::worker
