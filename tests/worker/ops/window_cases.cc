// Cases of what slides a window: convolutions and pools.
#include "tests/worker/ops/op_builder.h"

namespace jacserve::worker {
namespace {

using Names = std::vector<std::string>;

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

// Several images in one sample: a merged batch axis, or the whole batch as one sample.
void AddManyImages(std::vector<OpCase>& cases) {
  const auto merged = [&](OpCaseBuilder builder, const std::string& op, Names in, Attributes attributes, Ints back) {
    in.insert(in.begin(), "m");
    cases.push_back(builder.I("s", {-1, 2, 4, 3})
                        .I("t", back)
                        .Node("Reshape", {"x", "s"}, "m")
                        .Node(op, in, "h", std::move(attributes))
                        .Node("Reshape", {"h", "t"}, "y")
                        .Done());
  };
  merged(OpCaseBuilder("ConvOfMergedBatch").X({2, 2, 4, 3}).W("w", {3, 2, 2, 2}).W("b", {3}), "Conv", {"w", "b"}, {},
         {-1, 2, 3, 3, 2});
  merged(OpCaseBuilder("ConvTransposeOfMergedBatch").X({2, 2, 4, 3}).W("w", {2, 1, 2, 2}).W("b", {1}), "ConvTranspose",
         {"w", "b"}, {}, {-1, 2, 1, 5, 4});
  merged(OpCaseBuilder("MaxPoolOfMergedBatch").X({2, 2, 4, 3}), "MaxPool", {}, {{"kernel_shape", Ints{2, 2}}},
         {-1, 2, 2, 3, 2});
  merged(OpCaseBuilder("AveragePoolOfMergedBatch").X({2, 2, 4, 3}), "AveragePool", {}, {{"kernel_shape", Ints{2, 2}}},
         {-1, 2, 2, 3, 2});
  cases.push_back(OpCaseBuilder("ConvOfCoupledBatch")
                      .MixesSamples()
                      .X({2, 4, 3})
                      .W("w", {2, 2, 2, 2})
                      .I("a", {0})
                      .Node("Conv", {"x", "w"}, "h")
                      .Node("ReduceMean", {"x", "a"}, "r")
                      .Node("ReduceSum", {"r"}, "v")
                      .Node("Mul", {"h", "v"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("ConvHwioOfMergedBatch")
                      .X({2, 2, 3, 3})
                      .W("w", {2, 2, 2, 3})
                      .I("s", {-1, 2, 3, 3})
                      .I("t", {-1, 2, 3, 2, 2})
                      .Node("Reshape", {"x", "s"}, "m")
                      .Node("Transpose", {"w"}, "k", {{"perm", Ints{3, 2, 0, 1}}})
                      .Node("Conv", {"m", "k"}, "h")
                      .Node("Reshape", {"h", "t"}, "y")
                      .Done());
}

void AddTransposed(std::vector<OpCase>& cases) {
  const auto conv = [&](const std::string& name, Shape x, Shape w, int64_t bias, Attributes attributes) {
    OpCaseBuilder builder(name);
    builder.X(std::move(x)).W("w", std::move(w));
    if (bias > 0) builder.W("b", {bias});
    const Names in = bias > 0 ? Names{"x", "w", "b"} : Names{"x", "w"};
    cases.push_back(builder.Node("ConvTranspose", in, "y", std::move(attributes)).Done());
  };
  conv("ConvTranspose1d", {2, 4}, {2, 3, 3}, 3, {{"strides", Ints{2}}, {"pads", Ints{1, 0}}});
  conv("ConvTranspose2d", {2, 3, 2}, {2, 2, 2, 3}, 0, {});
  conv("ConvTransposeStridesPadding", {2, 3, 2}, {2, 2, 3, 3}, 2,
       {{"strides", Ints{2, 3}}, {"pads", Ints{1, 0, 0, 2}}, {"output_padding", Ints{1, 2}}});
  conv("ConvTransposeDilatedGroups", {4, 3, 3}, {4, 1, 2, 2}, 2, {{"group", int64_t{2}}, {"dilations", Ints{2, 1}}});
  conv("ConvTransposeOutputShape", {1, 3, 3}, {1, 2, 3, 3}, 0,
       {{"strides", Ints{3, 2}}, {"output_shape", Ints{10, 8}}});
  conv("ConvTransposeSameUpper", {1, 3, 2}, {1, 2, 4, 3}, 0,
       {{"strides", Ints{2, 2}}, {"auto_pad", std::string("SAME_UPPER")}});
  conv("ConvTransposeSameLower", {1, 3, 2}, {1, 2, 4, 3}, 0,
       {{"strides", Ints{2, 1}}, {"auto_pad", std::string("SAME_LOWER")}});
  conv("ConvTranspose3d", {1, 2, 2, 2}, {1, 2, 2, 1, 2}, 2, {{"strides", Ints{1, 2, 1}}});
}

void AddPools(std::vector<OpCase>& cases) {
  const auto pool = [&](const std::string& name, const char* op, Shape x, Attributes attributes) {
    cases.push_back(OpCaseBuilder(name).X(std::move(x)).Node(op, {"x"}, "y", std::move(attributes)).Done());
  };
  const Attributes ceil = {
      {"kernel_shape", Ints{3, 2}}, {"strides", Ints{2, 3}}, {"pads", Ints{1, 0, 1, 1}}, {"ceil_mode", int64_t{1}}};
  Attributes ceil_counted = ceil;
  ceil_counted["count_include_pad"] = int64_t{1};
  const Attributes dilated = {{"kernel_shape", Ints{2, 3}}, {"dilations", Ints{3, 2}}, {"pads", Ints{0, 1, 2, 1}}};
  const Attributes lower = {
      {"kernel_shape", Ints{2, 3}}, {"strides", Ints{1, 2}}, {"auto_pad", std::string("SAME_LOWER")}};
  Attributes upper = lower;
  upper["auto_pad"] = std::string("SAME_UPPER");
  pool("AveragePool", "AveragePool", {2, 4, 5}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  pool("AveragePool1dCountPads", "AveragePool", {2, 5},
       {{"kernel_shape", Ints{3}}, {"pads", Ints{1, 1}}, {"count_include_pad", int64_t{1}}});
  pool("AveragePoolCeil", "AveragePool", {1, 6, 6}, ceil);
  pool("AveragePoolCeilCountPads", "AveragePool", {1, 6, 6}, ceil_counted);
  pool("AveragePoolDilated", "AveragePool", {1, 6, 6}, dilated);
  pool("AveragePoolSameUpper", "AveragePool", {1, 4, 5}, upper);
  pool("AveragePool3d", "AveragePool", {1, 3, 2, 3}, {{"kernel_shape", Ints{2, 2, 2}}});
  pool("MaxPoolDilated", "MaxPool", {1, 6, 6}, dilated);
  pool("MaxPoolSameLower", "MaxPool", {1, 4, 5}, lower);
  pool("MaxPool1d", "MaxPool", {2, 6}, {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}});
  pool("MaxPool3d", "MaxPool", {1, 3, 2, 3}, {{"kernel_shape", Ints{2, 2, 2}}});
  pool("LpPool", "LpPool", {2, 4, 5}, {{"kernel_shape", Ints{2, 3}}, {"strides", Ints{2, 1}}});
  pool("LpPoolOne", "LpPool", {1, 4, 4}, {{"kernel_shape", Ints{2, 2}}, {"p", int64_t{1}}, {"pads", Ints{1, 0, 0, 1}}});
  Attributes cubes = ceil;
  cubes["p"] = int64_t{3};
  pool("LpPoolCubesCeil", "LpPool", {1, 6, 6}, cubes);
  pool("GlobalAveragePool", "GlobalAveragePool", {2, 3, 2}, {});
  pool("GlobalAveragePoolOfVector", "GlobalAveragePool", {3}, {});
  pool("GlobalMaxPool", "GlobalMaxPool", {2, 2, 3}, {});
  pool("GlobalLpPool", "GlobalLpPool", {2, 2, 3}, {});
  pool("GlobalLpPoolCubes", "GlobalLpPool", {2, 3}, {{"p", int64_t{3}}});
  for (const int64_t p : {2, 3}) {  // windows of zeros, and others
    cases.push_back(OpCaseBuilder("LpPoolOfZeros" + std::to_string(p))
                        .X({2, 2, 4})
                        .F("mask", {0.0f, 0.0f, 1.0f, 1.0f})
                        .Node("Mul", {"x", "mask"}, "h")
                        .Node("LpPool", {"h"}, "y", {{"kernel_shape", Ints{1, 2}}, {"p", p}})
                        .Done());
    cases.push_back(OpCaseBuilder("GlobalLpPoolOfZeros" + std::to_string(p))
                        .X({2, 4})
                        .F("mask", {0.0f})
                        .Node("Mul", {"x", "mask"}, "h")
                        .Node("GlobalLpPool", {"h"}, "y", {{"p", p}})
                        .Done());
  }
}

}  // namespace

void AddWindowCases(std::vector<OpCase>& cases) {
  AddWindows(cases);
  AddManyImages(cases);
  AddTransposed(cases);
  AddPools(cases);
}

}  // namespace jacserve::worker
