// Cosine, with n the stated length: c = u.v / (n_u n_v). Where the length is not clamped,
// dc/du = (v/n_v - c u/n_u) / n_u; where it is, n_u is constant and dc/du = v / (n_u n_v).
// add_product: c = u.v / (|u||v| + e), dc/du = v / (|u||v| + e) - u.v |v| u/|u| / (|u||v| + e)^2, with d|u|/du = 0 at
// 0. dot: v. sqdist: 2 (u - v).
#include "worker/engine/target.h"

#include <algorithm>
#include <cmath>

namespace jacserve::worker {

TargetFunction::TargetFunction(std::optional<PairwiseTarget> pairwise, Shape sample_shape, int batch_axis,
                               int64_t before_samples, int64_t first, int64_t second)
    : pairwise_(std::move(pairwise)),
      whole_(batch_axis < 0),
      sample_shape_(std::move(sample_shape)),
      lane_(Elements(sample_shape_)),
      d_(whole_ && pairwise_ && first > 0 ? lane_ / first : lane_),
      first_(first),
      second_(second) {
  if (whole_) {
    inner_ = lane_;
  } else {
    const auto axis = sample_shape_.begin() + batch_axis;
    outer_ = Elements({sample_shape_.begin(), axis}) * before_samples;
    per_sample_ = *axis / before_samples;
    inner_ = Elements({axis + 1, sample_shape_.end()});
  }
  if (pairwise_) {
    shape_ = {first, second};
  } else {
    shape_ = sample_shape_;
    if (!whole_) shape_[batch_axis] *= first;
  }
  rows_ = Elements(shape_);
}

int64_t TargetFunction::ElementOf(int64_t row, int64_t* sample) const {
  const int64_t along = first_samples() * per_sample_;
  const int64_t at = row / inner_ % along;
  *sample = at / per_sample_;
  return (row / inner_ / along * per_sample_ + at % per_sample_) * inner_ + row % inner_;
}

void TargetFunction::SamplesOf(int64_t row, int32_t* samples) const {
  if (whole_) {
    for (int term = 0; term < per_row(); ++term) samples[term] = term;
  } else if (pairwise_) {
    samples[0] = static_cast<int32_t>(row / second_);
    samples[1] = static_cast<int32_t>(first_ + row % second_);
  } else {
    int64_t sample = 0;
    ElementOf(row, &sample);
    samples[0] = static_cast<int32_t>(sample);
  }
}

template <class T>
double TargetFunction::Similarity(const T* u, const T* v, T* ct_u, T* ct_v) const {
  double uu = 0, vv = 0, uv = 0;
  for (int64_t k = 0; k < d_; ++k) {
    uu += static_cast<double>(u[k]) * u[k];
    vv += static_cast<double>(v[k]) * v[k];
    uv += static_cast<double>(u[k]) * v[k];
  }
  const double sign = pairwise_->sign, eps = pairwise_->epsilon;
  // ct_u = a_u v + b_u u, ct_v = a_v u + b_v v.
  double value = 0, a_u = 0, b_u = 0, a_v = 0, b_v = 0;
  if (pairwise_->similarity == Similarity::kDot) {
    value = uv;
    a_u = a_v = 1;
  } else if (pairwise_->similarity == Similarity::kSqdist) {
    for (int64_t k = 0; k < d_; ++k) value += (static_cast<double>(u[k]) - v[k]) * (static_cast<double>(u[k]) - v[k]);
    a_u = a_v = -2;
    b_u = b_v = 2;
  } else if (pairwise_->form == CosineForm::kAddProduct) {
    const double nu = std::sqrt(uu), nv = std::sqrt(vv), length = nu * nv + eps;
    value = uv / length;
    a_u = a_v = 1 / length;
    b_u = nu == 0 ? 0 : -uv * nv / nu / (length * length);
    b_v = nv == 0 ? 0 : -uv * nu / nv / (length * length);
  } else {
    const bool squared = pairwise_->form == CosineForm::kSqrtMaxSum;
    const double nu = squared ? std::sqrt(std::max(uu, eps)) : std::max(std::sqrt(uu), eps);
    const double nv = squared ? std::sqrt(std::max(vv, eps)) : std::max(std::sqrt(vv), eps);
    const bool clamped_u = squared ? uu < eps : std::sqrt(uu) < eps;
    const bool clamped_v = squared ? vv < eps : std::sqrt(vv) < eps;
    value = uv / (nu * nv);
    a_u = a_v = 1 / (nu * nv);
    b_u = clamped_u ? 0 : -value / (nu * nu);
    b_v = clamped_v ? 0 : -value / (nv * nv);
  }
  if (ct_u != nullptr) {
    for (int64_t k = 0; k < d_; ++k) {
      ct_u[k] = static_cast<T>(sign * (a_u * v[k] + b_u * u[k]));
      ct_v[k] = static_cast<T>(sign * (a_v * u[k] + b_v * v[k]));
    }
  }
  return sign * value;
}

template <class T>
void TargetFunction::Value(const T* embeddings, T* value) const {
  for (int64_t row = 0; row < rows_; ++row) {
    if (pairwise_) {
      const T* u = embeddings + row / second_ * d_;
      const T* v = embeddings + (first_ + row % second_) * d_;
      value[row] = static_cast<T>(Similarity<T>(u, v, nullptr, nullptr));
    } else {
      int64_t sample = 0;
      const int64_t element = ElementOf(row, &sample);
      value[row] = embeddings[sample * d_ + element];
    }
  }
}

template <class T>
void TargetFunction::PairCotangents(int64_t row, const T* embeddings, T* cotangents) const {
  const T* u = embeddings + row / second_ * d_;
  const T* v = embeddings + (first_ + row % second_) * d_;
  if (whole_) std::fill_n(cotangents, 2 * lane_, T(0));
  Similarity(u, v, cotangents + (whole_ ? row / second_ * d_ : 0),
             cotangents + lane_ + (whole_ ? row % second_ * d_ : 0));
}

template void TargetFunction::Value<float>(const float*, float*) const;
template void TargetFunction::Value<double>(const double*, double*) const;
template void TargetFunction::PairCotangents<float>(int64_t, const float*, float*) const;
template void TargetFunction::PairCotangents<double>(int64_t, const double*, double*) const;

}  // namespace jacserve::worker
