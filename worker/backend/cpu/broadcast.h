// Elementwise functions of operands with strides of their own, as stretches for the kernels of elementwise.h.
// In: operands as Backend::Binary takes them. Out: the same results as the plain loops.
#pragma once

#include "worker/backend/backend.h"

namespace jacserve::worker::cpu {

template <class T>
void BroadcastBinary(BinaryFunction f, int64_t lanes, const Shape& shape, ConstLanes a, const Shape& a_strides,
                     ConstLanes b, const Shape& b_strides, Lanes out);

template <class T>
void BroadcastTerm(BinaryFunction f, int side, int64_t lanes, const Shape& shape, const BinaryOperands& at,
                   ConstLanes v, const Shape& v_strides, Lanes out, const Shape& out_strides, bool accumulate);

template <class T>
void BroadcastSelect(int64_t lanes, const Shape& shape, ConstLanes c, const Shape& c_strides, ConstLanes a,
                     const Shape& a_strides, ConstLanes b, const Shape& b_strides, Lanes out);

}  // namespace jacserve::worker::cpu
