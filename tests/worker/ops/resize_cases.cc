// Cases of what changes the resolution: Resize, Upsample, blocks to and from channels.
#include "tests/worker/ops/op_builder.h"

namespace jacserve::worker {
namespace {

void AddBySizes(std::vector<OpCase>& cases) {
  const auto resize = [&](const std::string& name, Ints sizes, Attributes attributes) {
    cases.push_back(OpCaseBuilder(name)
                        .X({1, 4, 3})
                        .I("s", sizes)
                        .Node("Resize", {"x", "", "", "s"}, "y", std::move(attributes))
                        .Done());
  };
  const auto word = [](const char* text) { return std::string(text); };
  const Ints axes = {2, 3};
  for (const char* nearest : {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"}) {
    resize(word("ResizeNearest_") + nearest, {7, 2}, {{"axes", axes}, {"nearest_mode", word(nearest)}});
  }
  for (const char* how : {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"}) {
    resize(word("ResizeLinear_") + how, {7, 2},
           {{"axes", axes}, {"mode", word("linear")}, {"coordinate_transformation_mode", word(how)}});
  }
  resize("ResizeCubic", {5, 6}, {{"axes", axes}, {"mode", word("cubic")}});
  resize("ResizeCubicExcludeOutside", {5, 2},
         {{"axes", axes}, {"mode", word("cubic")}, {"exclude_outside", int64_t{1}}, {"cubic_coeff_a", -0.5f}});
  resize("ResizeToOne", {1, 1},
         {{"axes", axes}, {"mode", word("linear")}, {"coordinate_transformation_mode", word("pytorch_half_pixel")}});
  resize("ResizeKeepsRatio", {8, 9},
         {{"axes", axes}, {"mode", word("linear")}, {"keep_aspect_ratio_policy", word("not_larger")}});
  resize("ResizeToItself", {4, 3}, {{"axes", axes}});
}

void AddByScales(std::vector<OpCase>& cases) {
  const Attributes linear = {{"mode", std::string("linear")}};
  cases.push_back(OpCaseBuilder("ResizeScales")
                      .X({2, 3, 2})
                      .F("s", {1, 1, 2, 2.6f})
                      .Node("Resize", {"x", "", "s"}, "y", linear)
                      .Done());
  cases.push_back(
      OpCaseBuilder("ResizeDoubles").X({2, 3, 2}).F("s", {1, 1, 2, 2}).Node("Resize", {"x", "", "s"}, "y").Done());
  cases.push_back(OpCaseBuilder("ResizeOpset10")
                      .Opset(10)
                      .X({1, 4, 3})
                      .F("s", {1, 1, 0.5f, 2})
                      .Node("Resize", {"x", "s"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("UpsampleOpset9")
                      .Opset(9)
                      .X({1, 2, 3})
                      .F("s", {1, 1, 2, 3})
                      .Node("Upsample", {"x", "s"}, "y", linear)
                      .Done());
  cases.push_back(OpCaseBuilder("UpsampleOpset7")
                      .Opset(7)
                      .X({1, 2, 3})
                      .Node("Upsample", {"x"}, "y", {{"scales", std::vector<float>{1, 1, 2, 1.5f}}})
                      .Done());
}

void AddBlocks(std::vector<OpCase>& cases) {
  for (const char* mode : {"DCR", "CRD"}) {
    cases.push_back(OpCaseBuilder(std::string("DepthToSpace") + mode)
                        .X({8, 2, 1})
                        .Node("DepthToSpace", {"x"}, "y", {{"blocksize", int64_t{2}}, {"mode", std::string(mode)}})
                        .Done());
  }
  cases.push_back(
      OpCaseBuilder("SpaceToDepth").X({2, 4, 2}).Node("SpaceToDepth", {"x"}, "y", {{"blocksize", int64_t{2}}}).Done());
  cases.push_back(OpCaseBuilder("SpaceToDepthColumns")
                      .Opset(28)
                      .X({2, 4, 2})
                      .Node("SpaceToDepth", {"x"}, "y", {{"blocksize", int64_t{2}}, {"mode", std::string("CRD")}})
                      .Done());
}

}  // namespace

void AddResizeCases(std::vector<OpCase>& cases) {
  AddBySizes(cases);
  AddByScales(cases);
  AddBlocks(cases);
}

}  // namespace jacserve::worker
