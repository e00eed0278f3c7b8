// Plain loops for strided copies, products and softmax.
#include "worker/backend/reference/reference_backend.h"

#include <algorithm>
#include <cmath>

#include "worker/backend/reference/for_each_point.h"

namespace jacserve::worker {

template <class T>
void ReferenceBackend<T>::CopyStrided(int64_t lanes, const Shape& shape, ConstLanes src, const Shape& src_strides,
                                      Lanes dst, const Shape& dst_strides, bool accumulate, double scale) const {
  const T factor = static_cast<T>(scale);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const T* in = src.At<T>(lane);
    T* out = dst.At<T>(lane);
    ForEachPoint<2>(shape, {&src_strides, &dst_strides}, [&](const std::array<int64_t, 2>& o) {
      out[o[1]] = factor * in[o[0]] + (accumulate ? out[o[1]] : T(0));
    });
  }
}

template <class T>
void ReferenceBackend<T>::Fill(int64_t lanes, int64_t n, double value, Lanes x) const {
  for (int64_t lane = 0; lane < lanes; ++lane) std::fill_n(x.At<T>(lane), n, static_cast<T>(value));
}

template <class T>
void ReferenceBackend<T>::SumTerms(Terms terms, ConstLanes src, const RowSink& sink) const {
  const Shape src_strides = RowMajorStrides(sink.shape);
  for (int64_t row = 0; row < terms.rows; ++row) {
    for (int64_t t = 0; t < terms.per_row; ++t) {
      const T* in = src.At<T>(row * terms.per_row + t);
      T* out = static_cast<T*>(sink.data) + row * sink.row_stride;
      CopyStrided(1, sink.shape, {in, 0, nullptr}, src_strides, {out, 0}, sink.strides, sink.accumulate || t > 0, 1.0);
    }
  }
}

template <class T>
void ReferenceBackend<T>::Gemm(const GemmShape& s, int64_t lanes, ConstLanes a, ConstLanes b, Lanes c) const {
  const int64_t a_row = s.transpose_a ? 1 : s.lda, a_col = s.transpose_a ? s.lda : 1;
  const int64_t b_row = s.transpose_b ? 1 : s.ldb, b_col = s.transpose_b ? s.ldb : 1;
  const T alpha = static_cast<T>(s.alpha), beta = static_cast<T>(s.beta);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const T* pa = a.At<T>(lane);
    const T* pb = b.At<T>(lane);
    for (int64_t i = 0; i < s.m; ++i) {
      T* pc = c.At<T>(lane) + i * s.ldc;
      for (int64_t j = 0; j < s.n; ++j) {
        T sum = 0;
        for (int64_t k = 0; k < s.k; ++k) sum += pa[i * a_row + k * a_col] * pb[k * b_row + j * b_col];
        pc[j] = alpha * sum + (beta == T(0) ? T(0) : beta * pc[j]);
      }
    }
  }
}

template <class T>
void ReferenceBackend<T>::OuterRows(Terms terms, int64_t m, int64_t n, ConstLanes a, ConstLanes b, Lanes rows,
                                    bool accumulate) const {
  for (int64_t row = 0; row < terms.rows; ++row) {
    T* out = rows.At<T>(row);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        T sum = accumulate ? out[i * n + j] : T(0);
        for (int64_t t = 0; t < terms.per_row; ++t) {
          const int64_t lane = row * terms.per_row + t;
          sum += a.At<T>(lane)[i] * b.At<T>(lane)[j];
        }
        out[i * n + j] = sum;
      }
    }
  }
}

template <class T>
void ReferenceBackend<T>::Softmax(bool log, int64_t lanes, int64_t outer, int64_t n, int64_t inner, ConstLanes x,
                                  Lanes y) const {
  for (int64_t lane = 0; lane < lanes; ++lane) {
    for (int64_t p = 0; p < outer * inner; ++p) {
      const int64_t base = p / inner * n * inner + p % inner;
      const T* in = x.At<T>(lane) + base;
      T* out = y.At<T>(lane) + base;
      T largest = -INFINITY;
      for (int64_t k = 0; k < n; ++k) largest = std::max(largest, in[k * inner]);
      T sum = 0;
      for (int64_t k = 0; k < n; ++k) sum += std::exp(in[k * inner] - largest);
      const T log_sum = std::log(sum);
      for (int64_t k = 0; k < n; ++k) {
        const T log_y = in[k * inner] - largest - log_sum;
        out[k * inner] = log ? log_y : std::exp(log_y);
      }
    }
  }
}

template <class T>
void ReferenceBackend<T>::SoftmaxPullback(bool log, int64_t lanes, int64_t outer, int64_t n, int64_t inner,
                                          ConstLanes y, ConstLanes ct_y, Lanes ct_x) const {
  for (int64_t lane = 0; lane < lanes; ++lane) {
    for (int64_t p = 0; p < outer * inner; ++p) {
      const int64_t base = p / inner * n * inner + p % inner;
      const T* out = y.At<T>(lane) + base;
      const T* ct_out = ct_y.At<T>(lane) + base;
      T* ct_in = ct_x.At<T>(lane) + base;
      T sum = 0;
      for (int64_t k = 0; k < n; ++k) sum += log ? ct_out[k * inner] : out[k * inner] * ct_out[k * inner];
      for (int64_t k = 0; k < n; ++k) {
        const int64_t q = k * inner;
        ct_in[q] = log ? ct_out[q] - std::exp(out[q]) * sum : out[q] * (ct_out[q] - sum);
      }
    }
  }
}

template class ReferenceBackend<float>;
template class ReferenceBackend<double>;

std::unique_ptr<Backend> MakeReferenceBackend(DType dtype) {
  if (dtype == DType::kFloat64) return std::make_unique<ReferenceBackend<double>>();
  return std::make_unique<ReferenceBackend<float>>();
}

}  // namespace jacserve::worker
