// Cases of convolution, pooling and normalisation.
#include "tests/worker/ops/op_builder.h"

namespace jacserve::worker {
namespace {

void AddWindows(std::vector<OpCase>& cases) {
  const auto conv = [&](const std::string& name, Shape x, Shape w, Attributes attributes, bool bias = true) {
    const Shape b = {w[0]};
    std::vector<std::string> in = {"x", "w"};
    OpCaseBuilder builder(name);
    builder.X(std::move(x)).W("w", std::move(w));
    if (bias) {
      builder.W("b", b);
      in.push_back("b");
    }
    cases.push_back(builder.Node("Conv", in, "y", std::move(attributes)).Done());
  };
  conv("Conv1d", {2, 6}, {3, 2, 3}, {{"pads", Ints{1, 0}}});
  conv("Conv2d", {2, 5, 4}, {3, 2, 3, 2}, {});
  conv("Conv2dStridesPads", {2, 6, 5}, {3, 2, 4, 3}, {{"strides", Ints{2, 3}}, {"pads", Ints{1, 0, 2, 1}}});
  conv("Conv2dDilated", {1, 7, 6}, {2, 1, 3, 2}, {{"dilations", Ints{2, 3}}, {"pads", Ints{1, 1, 1, 1}}});
  conv("Conv2dGroups", {4, 4, 4}, {6, 2, 2, 2}, {{"group", int64_t{2}}});
  conv("Conv2dDepthwise", {3, 4, 4}, {3, 1, 3, 3}, {{"group", int64_t{3}}, {"pads", Ints{1, 1, 1, 1}}}, false);
  conv("Conv2dSameUpper", {2, 5, 6}, {2, 2, 2, 4}, {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2, 2}}});
  conv("Conv2dSameLower", {2, 5, 6}, {2, 2, 2, 4}, {{"auto_pad", std::string("SAME_LOWER")}, {"strides", Ints{2, 1}}});
  conv("Conv3d", {1, 3, 4, 3}, {2, 1, 2, 2, 2}, {{"pads", Ints{0, 1, 0, 1, 0, 0}}});
  cases.push_back(OpCaseBuilder("ConvHwioKernel")
                      .X({5, 4, 2})
                      .W("w", {3, 2, 2, 3})
                      .Node("Transpose", {"x"}, "t", {{"perm", Ints{0, 3, 1, 2}}})
                      .Node("Transpose", {"w"}, "k", {{"perm", Ints{3, 2, 0, 1}}})
                      .Node("Conv", {"t", "k"}, "y", {{"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 1, 1}}})
                      .Done());
  cases.push_back(OpCaseBuilder("ConvHwioGroups")
                      .X({4, 4, 4})
                      .W("w", {2, 2, 2, 6})
                      .Node("Transpose", {"w"}, "k", {{"perm", Ints{3, 2, 0, 1}}})
                      .Node("Conv", {"x", "k"}, "y", {{"group", int64_t{2}}})
                      .Done());
  cases.push_back(OpCaseBuilder("ConvKernelTwice")
                      .X({2, 5, 5})
                      .W("w", {2, 2, 3, 3})
                      .Node("Conv", {"x", "w"}, "h", {{"pads", Ints{1, 1, 1, 1}}})
                      .Node("Tanh", {"h"}, "t")
                      .Node("Conv", {"t", "w"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("ConvOfComputedKernel")
                      .X({2, 4, 4})
                      .W("w", {2, 2, 3, 3})
                      .W("g", {2, 1, 1, 1})
                      .Node("Mul", {"w", "g"}, "k")
                      .Node("Conv", {"x", "k"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("MaxPool")
                      .X({2, 4, 6})
                      .Node("MaxPool", {"x"}, "y", {{"kernel_shape", Ints{2, 3}}, {"strides", Ints{2, 2}}})
                      .Done());
  cases.push_back(OpCaseBuilder("MaxPoolPadsCeil")
                      .X({1, 5, 5})
                      .Node("MaxPool", {"x"}, "y",
                            {{"kernel_shape", Ints{3, 2}},
                             {"strides", Ints{2, 2}},
                             {"pads", Ints{1, 0, 1, 1}},
                             {"ceil_mode", int64_t{1}}})
                      .Done());
}

}  // namespace

void AddWindowCases(std::vector<OpCase>& cases) { AddWindows(cases); }

}  // namespace jacserve::worker
