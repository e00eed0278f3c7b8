// Elementwise functions of numbers that are known when the graph is compiled: exporters compute shapes with them.
// In: constants in Facts. Out: the constant result, or nullopt when an input is not known.
// Known floats are kept as float64 tensors, whatever the type that Facts state.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/ops/op.h"

namespace jacserve::worker {

using Folded = absl::StatusOr<std::optional<std::vector<HostTensor>>>;

std::vector<double> ConstantNumbers(const HostTensor& tensor);  // of any type
HostTensor FloatConstant(Shape shape, const std::vector<double>& values);
// A tensor of this type: integers and truth values from what the numbers hold.
HostTensor ConstantOf(DType dtype, Shape shape, const std::vector<double>& values);

// Exporters count in float32, where 0.7 * 10 is 7: what differs from a whole number by less than float32 can tell is
// that number.
double NearestWhole(double x);

Folded FoldUnary(UnaryFunction f, UnaryParams params, const Facts& x, DType out);
// InvalidArgument: a division by zero among integers.
Folded FoldBinary(BinaryFunction f, const Facts& a, const Facts& b, const Facts& out);
Folded FoldSelect(const Facts& condition, const Facts& a, const Facts& b, const Facts& out);

}  // namespace jacserve::worker
