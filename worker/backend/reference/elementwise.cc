// Plain loops for elementwise functions and their derivatives.
#include "worker/backend/reference/for_each_point.h"
#include "worker/backend/reference/reference_backend.h"

namespace jacserve::worker {

template <class T>
void ReferenceBackend<T>::Unary(UnaryFunction f, UnaryParams params, int64_t lanes, int64_t n, ConstLanes x,
                                Lanes y) const {
  const T alpha = static_cast<T>(params.alpha), beta = static_cast<T>(params.beta);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const T* in = x.At<T>(lane);
    T* out = y.At<T>(lane);
    switch (f) {
#define X(Name, reads, formula, derivative)                                         \
  case UnaryFunction::k##Name:                                                      \
    for (int64_t p = 0; p < n; ++p) out[p] = Unary##Name<T>::F(in[p], alpha, beta); \
    break;
      JACSERVE_UNARY(X)
#undef X
    }
  }
}

template <class T>
void ReferenceBackend<T>::UnaryPullback(UnaryFunction f, UnaryParams params, int64_t lanes, int64_t n, ConstLanes x,
                                        ConstLanes y, ConstLanes ct_y, Lanes ct_x) const {
  const T alpha = static_cast<T>(params.alpha), beta = static_cast<T>(params.beta);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const T* ct_out = ct_y.At<T>(lane);
    const T* in = x.data ? x.At<T>(lane) : ct_out;  // what the derivative does not read is not kept
    const T* out = y.data ? y.At<T>(lane) : ct_out;
    T* ct_in = ct_x.At<T>(lane);
    switch (f) {
#define X(Name, reads, formula, derivative)                                                                    \
  case UnaryFunction::k##Name:                                                                                 \
    for (int64_t p = 0; p < n; ++p) ct_in[p] = Term(ct_out[p], Unary##Name<T>::D(in[p], out[p], alpha, beta)); \
    break;
      JACSERVE_UNARY(X)
#undef X
    }
  }
}

template <class T>
void ReferenceBackend<T>::Binary(BinaryFunction f, int64_t lanes, const Shape& shape, ConstLanes a,
                                 const Shape& a_strides, ConstLanes b, const Shape& b_strides, Lanes out) const {
  const Shape out_strides = RowMajorStrides(shape);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const T* pa = a.At<T>(lane);
    const T* pb = b.At<T>(lane);
    T* po = out.At<T>(lane);
    const auto map = [&](auto function) {
      ForEachPoint<3>(shape, {&a_strides, &b_strides, &out_strides},
                      [&](const std::array<int64_t, 3>& o) { po[o[2]] = function(pa[o[0]], pb[o[1]]); });
    };
    switch (f) {
#define X(Name, formula, da_bits, da, db_bits, db) \
  case BinaryFunction::k##Name:                    \
    map(Binary##Name<T>::F);                       \
    break;
      JACSERVE_BINARY(X)
#undef X
    }
  }
}

template <class T>
void ReferenceBackend<T>::BinaryTerm(BinaryFunction f, int side, int64_t lanes, const Shape& shape,
                                     const BinaryOperands& at, ConstLanes v, const Shape& v_strides, Lanes out,
                                     const Shape& out_strides, bool accumulate) const {
  const int bits = DerivativeReads(f, side);
  const Shape y_strides = RowMajorStrides(shape), none(shape.size(), 0);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const T* factor = v.At<T>(lane);
    const T* a = bits & kReadsA ? at.a.At<T>(lane) : factor;  // what the derivative does not read is not kept
    const T* b = bits & kReadsB ? at.b.At<T>(lane) : factor;
    const T* y = bits & kReadsY ? at.y.At<T>(lane) : factor;
    T* to = out.At<T>(lane);
    const auto map = [&](auto derivative) {
      ForEachPoint<5>(shape,
                      {bits & kReadsA ? &at.a_strides : &none, bits & kReadsB ? &at.b_strides : &none,
                       bits & kReadsY ? &y_strides : &none, &v_strides, &out_strides},
                      [&](const std::array<int64_t, 5>& o) {
                        const T term = Term(factor[o[3]], derivative(a[o[0]], b[o[1]], y[o[2]]));
                        to[o[4]] = term + (accumulate ? to[o[4]] : T(0));
                      });
    };
    switch (f) {
#define X(Name, formula, da_bits, da, db_bits, db)                                         \
  case BinaryFunction::k##Name:                                                            \
    side == 0 ? map(Binary##Name<T>::template D<0>) : map(Binary##Name<T>::template D<1>); \
    break;
      JACSERVE_BINARY(X)
#undef X
    }
  }
}

template <class T>
void ReferenceBackend<T>::Select(int64_t lanes, const Shape& shape, ConstLanes c, const Shape& c_strides, ConstLanes a,
                                 const Shape& a_strides, ConstLanes b, const Shape& b_strides, Lanes out) const {
  const Shape out_strides = RowMajorStrides(shape);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const T *pc = c.At<T>(lane), *pa = a.At<T>(lane), *pb = b.At<T>(lane);
    T* po = out.At<T>(lane);
    ForEachPoint<4>(shape, {&c_strides, &a_strides, &b_strides, &out_strides},
                    [&](const std::array<int64_t, 4>& o) { po[o[3]] = pc[o[0]] != T(0) ? pa[o[1]] : pb[o[2]]; });
  }
}

template class ReferenceBackend<float>;
template class ReferenceBackend<double>;

}  // namespace jacserve::worker
