// Attributes and constant inputs of a node, read with their types checked.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/ops/op.h"

namespace jacserve::worker {

// The attribute, or the fallback when the node has none. InvalidArgument: it has another type.
absl::StatusOr<int64_t> IntAttribute(const GraphNode& node, const std::string& name, int64_t fallback);
// The file's float as the decimal that it was written as, the shortest that is this float: frameworks mean 0.1, not
// 0.100000001, and float64 arithmetic shows the difference.
absl::StatusOr<double> FloatAttribute(const GraphNode& node, const std::string& name, double fallback);
absl::StatusOr<std::string> StringAttribute(const GraphNode& node, const std::string& name, std::string fallback);
absl::StatusOr<std::vector<int64_t>> IntsAttribute(const GraphNode& node, const std::string& name,
                                                   std::vector<int64_t> fallback);
absl::StatusOr<std::vector<float>> FloatsAttribute(const GraphNode& node, const std::string& name,
                                                   std::vector<float> fallback);

// axis in [-rank, rank) -> [0, rank). InvalidArgument otherwise.
absl::StatusOr<int64_t> NormalAxis(int64_t axis, int64_t rank);
// The same for each, sorted; InvalidArgument: one named twice.
absl::StatusOr<std::vector<int64_t>> NormalAxes(std::vector<int64_t> axes, int64_t rank);

// Integers that input i must be known to hold. InvalidArgument: it has no integer type; Unimplemented: it depends on
// numbers that are not known when the graph is compiled.
absl::StatusOr<std::vector<int64_t>> ConstantInts(const InputFacts& in, size_t i, absl::string_view what);
// The same for floats that the graph itself holds, and for numbers of either kind.
absl::StatusOr<std::vector<double>> ConstantFloats(const InputFacts& in, size_t i, absl::string_view what);
absl::StatusOr<std::vector<double>> KnownNumbers(const InputFacts& in, size_t i, absl::string_view what);
std::vector<int64_t> IntsOf(const HostTensor& tensor);  // int32, int64 or bool
HostTensor IntTensor(DType dtype, Shape shape, const std::vector<int64_t>& values);

}  // namespace jacserve::worker
