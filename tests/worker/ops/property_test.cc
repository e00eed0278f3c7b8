// Random forms of the operators that have many: shapes, strides, pads, dilations, groups, axes, broadcasts. For each:
// J v against a central difference along v with respect to every tensor, J pushed forward against J pulled back, and
// every backend and type against the float64 reference.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "tests/worker/ops/compute_jacobian.h"
#include "tests/worker/ops/op_builder.h"

namespace jacserve::worker {
namespace {

int64_t Between(int64_t low, int64_t high) { return *rc::gen::inRange<int64_t>(low, high + 1); }
bool Coin() { return Between(0, 1) == 1; }
Shape RandomShape(int64_t rank, int64_t most = 4) {
  Shape shape;
  for (int64_t axis = 0; axis < rank; ++axis) shape.push_back(Between(1, most));
  return shape;
}

// A direction that is no axis, the same for a shape each time.
std::vector<double> Direction(size_t elements) {
  std::vector<double> direction;
  for (size_t p = 0; p < elements; ++p) direction.push_back(std::sin(0.7 * static_cast<double>(p) + 1));
  return direction;
}

void CheckDerivative(const OpCase& op, const Jacobian& jacobian) {
  constexpr double kStep = 1e-5;
  for (size_t b = 0; b < jacobian.blocks.size(); ++b) {
    const std::string& name = jacobian.layout.blocks[b].name;
    const auto columns = static_cast<size_t>(Elements(jacobian.layout.blocks[b].shape));
    const std::vector<double> v = Direction(columns);
    JacobianProblem up = Widened(op.problem), down = up;
    *Tensor(up, name) = Moved(*Tensor(up, name), v, kStep);
    *Tensor(down, name) = Moved(*Tensor(down, name), v, -kStep);
    const std::vector<double> high = ValueOf(std::move(up)), low = ValueOf(std::move(down));
    for (size_t row = 0; row < high.size(); ++row) {
      double product = 0;
      for (size_t column = 0; column < columns; ++column)
        product += jacobian.blocks[b][row * columns + column] * v[column];
      const double difference = (high[row] - low[row]) / (2 * kStep);
      RC_ASSERT(std::fabs(product - difference) <= 1e-6 * std::max(1.0, std::fabs(difference)));
    }
  }
}

void CheckSame(const Jacobian& got, const Jacobian& expected, double tolerance) {
  RC_ASSERT(got.blocks.size() == expected.blocks.size());
  for (size_t p = 0; p < expected.value.size(); ++p) {
    RC_ASSERT(std::fabs(got.value[p] - expected.value[p]) <= tolerance * std::max(1.0, std::fabs(expected.value[p])));
  }
  for (size_t b = 0; b < expected.blocks.size(); ++b) {
    RC_ASSERT(got.blocks[b].size() == expected.blocks[b].size());
    double largest = 1;
    for (double x : expected.blocks[b]) largest = std::max(largest, std::fabs(x));
    for (size_t p = 0; p < expected.blocks[b].size(); ++p) {
      RC_ASSERT(std::fabs(got.blocks[b][p] - expected.blocks[b][p]) <= tolerance * largest);
    }
  }
}

void Check(const OpCase& op) {
  const Jacobian expected = Compute(op.problem, BackendKind::kReference, DType::kFloat64);
  CheckDerivative(op, expected);
  CheckSame(Compute(op.problem, BackendKind::kCpu, DType::kFloat64), expected, 1e-11);
  CheckSame(Compute(op.problem, BackendKind::kCpu, DType::kFloat32), expected, 5e-5);
  JacobianProblem inputs = op.problem;
  inputs.wrt_parameters.clear();
  CheckSame(Compute(inputs, BackendKind::kCpu, DType::kFloat64, Direction::kPushforward),
            Compute(inputs, BackendKind::kReference, DType::kFloat64, Direction::kPullback), 1e-11);
}

struct Window {
  Ints kernel, strides, dilations, pads;
  Shape in;
  Attributes attributes() const {
    return {{"kernel_shape", kernel}, {"strides", strides}, {"dilations", dilations}, {"pads", pads}};
  }
};

// Pads stay smaller than the kernel, and every window lies on at least one number.
Window RandomWindow(int64_t rank) {
  Window w;
  for (int64_t axis = 0; axis < rank; ++axis) {
    w.kernel.push_back(Between(1, 3));
    w.strides.push_back(Between(1, 3));
    w.dilations.push_back(Between(1, 2));
    const int64_t extent = (w.kernel[axis] - 1) * w.dilations[axis] + 1;
    w.in.push_back(extent + Between(0, 3));
  }
  for (int64_t side = 0; side < 2 * rank; ++side) w.pads.push_back(Between(0, w.kernel[side % rank] - 1));
  return w;
}

Shape With(std::initializer_list<int64_t> first, const Shape& rest) {
  Shape shape(first);
  shape.insert(shape.end(), rest.begin(), rest.end());
  return shape;
}

RC_GTEST_PROP(Property, Conv, ()) {
  const Window w = RandomWindow(Between(1, 3));
  const int64_t groups = Between(1, 3), in = Between(1, 2), out = Between(1, 2);
  OpCaseBuilder builder("Conv");
  builder.X(With({groups * in}, w.in)).W("w", With({groups * out, in}, {w.kernel.begin(), w.kernel.end()}));
  Attributes attributes = w.attributes();
  attributes["group"] = groups;
  std::vector<std::string> names = {"x", "w"};
  if (Coin()) {
    builder.W("b", {groups * out});
    names.push_back("b");
  }
  Check(builder.Node("Conv", names, "y", attributes).Done());
}

RC_GTEST_PROP(Property, ConvTranspose, ()) {
  Window w = RandomWindow(Between(1, 3));
  const int64_t groups = Between(1, 3), in = Between(1, 2), out = Between(1, 2);
  w.pads.assign(w.pads.size(), 0);
  Ints output_padding;
  for (size_t axis = 0; axis < w.kernel.size(); ++axis) output_padding.push_back(Between(0, w.strides[axis] - 1));
  for (int64_t& size : w.in) size = std::min<int64_t>(size, 3);
  Attributes attributes = w.attributes();
  attributes["group"] = groups;
  attributes["output_padding"] = output_padding;
  Check(OpCaseBuilder("ConvTranspose")
            .X(With({groups * in}, w.in))
            .W("w", With({groups * in, out}, {w.kernel.begin(), w.kernel.end()}))
            .Node("ConvTranspose", {"x", "w"}, "y", attributes)
            .Done());
}

RC_GTEST_PROP(Property, Pools, ()) {
  const Window w = RandomWindow(Between(1, 3));
  const std::string op = *rc::gen::element<std::string>("MaxPool", "AveragePool", "LpPool");
  Attributes attributes = w.attributes();
  if (op == "AveragePool") attributes["count_include_pad"] = Between(0, 1);
  Check(OpCaseBuilder(op).X(With({Between(1, 3)}, w.in)).Node(op, {"x"}, "y", attributes).Done());
}

RC_GTEST_PROP(Property, BroadcastArithmetic, ()) {
  const std::string op = *rc::gen::element<std::string>("Add", "Sub", "Mul", "Div");
  const Shape full = RandomShape(Between(1, 3));
  Shape x = full, w(full.begin() + Between(0, static_cast<int64_t>(full.size())), full.end());
  for (int64_t& size : x) size = Coin() ? size : 1;
  for (int64_t& size : w) size = Coin() ? size : 1;
  OpCaseBuilder builder(op);
  builder.X(x).W("w", w);
  Check(builder.Node(op, Coin() ? std::vector<std::string>{"x", "w"} : std::vector<std::string>{"w", "x"}, "y").Done());
}

RC_GTEST_PROP(Property, MatMul, ()) {
  const int64_t m = Between(1, 4), k = Between(1, 4), n = Between(1, 4);
  const Shape stack = RandomShape(Between(0, 2), 3);
  Shape x = stack, w = {k, n};
  if (Coin() || !stack.empty()) x.push_back(m);
  x.push_back(k);
  if (Coin() && !stack.empty()) w.insert(w.begin(), Coin() ? stack.back() : 1);
  Check(OpCaseBuilder("MatMul").X(x).W("w", w).Node("MatMul", {"x", "w"}, "y").Done());
}

RC_GTEST_PROP(Property, Reductions, ()) {
  const std::string op =
      *rc::gen::element<std::string>("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
                                     "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp");
  const Shape shape = RandomShape(Between(1, 3));
  Ints axes;
  for (int64_t axis = 1; axis <= static_cast<int64_t>(shape.size()); ++axis) {
    if (Coin()) axes.push_back(Coin() ? axis : axis - static_cast<int64_t>(shape.size()) - 1);
  }
  if (axes.empty()) axes = {Between(1, static_cast<int64_t>(shape.size()))};
  Check(OpCaseBuilder(op).X(shape).I("axes", axes).Node(op, {"x", "axes"}, "y", {{"keepdims", Between(0, 1)}}).Done());
}

RC_GTEST_PROP(Property, Softmaxes, ()) {
  const Shape shape = RandomShape(Between(1, 3));
  const int64_t axis = Between(1, static_cast<int64_t>(shape.size()));
  const std::string op = *rc::gen::element<std::string>("Softmax", "LogSoftmax");
  Check(OpCaseBuilder(op).X(shape).Node(op, {"x"}, "y", {{"axis", axis}}).Done());
}

RC_GTEST_PROP(Property, Slices, ()) {
  const Shape shape = RandomShape(Between(1, 3), 6);
  Ints starts, ends, axes, steps;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t step = Coin() ? Between(1, 3) : -Between(1, 3), at = Between(0, shape[axis] - 1);
    axes.push_back(static_cast<int64_t>(axis) + 1);
    steps.push_back(step);
    starts.push_back(at);
    ends.push_back(step > 0 ? Between(at + 1, shape[axis]) : Between(-shape[axis] - 1, at - shape[axis] - 1));
  }
  Check(OpCaseBuilder("Slice")
            .X(shape)
            .I("s", starts)
            .I("e", ends)
            .I("a", axes)
            .I("t", steps)
            .Node("Slice", {"x", "s", "e", "a", "t"}, "y")
            .Done());
}

RC_GTEST_PROP(Property, Transposes, ()) {
  const Shape shape = RandomShape(Between(1, 4));
  Ints perm(shape.size() + 1);
  for (size_t axis = 0; axis < perm.size(); ++axis) perm[axis] = static_cast<int64_t>(axis);
  for (size_t axis = perm.size() - 1; axis > 1; --axis)
    std::swap(perm[axis], perm[Between(1, static_cast<int64_t>(axis))]);
  Check(OpCaseBuilder("Transpose").X(shape).Node("Transpose", {"x"}, "y", {{"perm", perm}}).Done());
}

RC_GTEST_PROP(Property, Pads, ()) {
  const std::string mode = *rc::gen::element<std::string>("constant", "reflect", "edge");
  const Shape shape = RandomShape(Between(1, 3), 5);
  Ints pads(2 * (shape.size() + 1), 0);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t most = mode == "reflect" ? shape[axis] - 1 : 2;
    pads[axis + 1] = Between(0, most);
    pads[shape.size() + axis + 2] = Between(0, most);
  }
  Check(OpCaseBuilder("Pad").X(shape).I("p", pads).Node("Pad", {"x", "p"}, "y", {{"mode", mode}}).Done());
}

RC_GTEST_PROP(Property, LayerNormalization, ()) {
  Shape shape = RandomShape(Between(1, 3), 5);
  shape.back() += 2;
  const int64_t axis = Between(1, static_cast<int64_t>(shape.size()));
  const Shape inner(shape.begin() + axis - 1, shape.end());
  Check(OpCaseBuilder("LayerNormalization")
            .X(shape)
            .W("g", inner)
            .W("b", inner)
            .Node("LayerNormalization", {"x", "g", "b"}, "y", {{"axis", axis}, {"epsilon", 0.01f}})
            .Done());
}

}  // namespace
}  // namespace jacserve::worker
