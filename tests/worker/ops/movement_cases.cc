// Cases of operators that move numbers.
#include "tests/worker/ops/op_builder.h"

namespace jacserve::worker {
namespace {

using Strings = std::vector<std::string>;

// A layer over rows [2 * N, 3] that come from a sequence [2, N, 3].
OpCaseBuilder TimeFirst(const std::string& name) {
  OpCaseBuilder builder(name);
  builder.X({2, 3}).W("w", {3, 2}).W("b", {2}).I("s", {-1, 3});
  builder.Node("Transpose", {"x"}, "sequence", {{"perm", Ints{1, 0, 2}}}).Node("Reshape", {"sequence", "s"}, "rows");
  builder.Node("MatMul", {"rows", "w"}, "product").Node("Add", {"product", "b"}, "sum").Node("Tanh", {"sum"}, "h");
  return builder;
}

void AddShapes(std::vector<OpCase>& cases) {
  cases.push_back(OpCaseBuilder("Reshape").X({2, 6}).I("s", {-1, 4, 3}).Node("Reshape", {"x", "s"}, "y").Done());
  cases.push_back(OpCaseBuilder("ReshapeMergesBatch")
                      .X({2, 3})
                      .W("w", {3, 2})
                      .I("s", {-1, 3})
                      .I("t", {-1, 4})
                      .Node("Reshape", {"x", "s"}, "f")
                      .Node("MatMul", {"f", "w"}, "h")
                      .Node("Reshape", {"h", "t"}, "y")
                      .Done());
  cases.push_back(TimeFirst("ReshapeMergesBatchBehindTime").Done("h"));
  cases.push_back(TimeFirst("ReshapeTakesTimeOffBatch")
                      .I("t", {2, -1, 2})
                      .Node("Reshape", {"h", "t"}, "r")
                      .Node("Transpose", {"r"}, "y", {{"perm", Ints{1, 0, 2}}})
                      .Done());
  cases.push_back(OpCaseBuilder("Flatten").X({2, 3, 2}).Node("Flatten", {"x"}, "y").Done());
  cases.push_back(OpCaseBuilder("SqueezeUnsqueeze")
                      .X({1, 3})
                      .I("a", {1})
                      .I("b", {2, 0})
                      .Node("Squeeze", {"x", "a"}, "s")
                      .Node("Unsqueeze", {"s", "b"}, "y")
                      .Done());
  cases.push_back(
      OpCaseBuilder("SqueezeByAttribute").Opset(11).X({1, 3}).Node("Squeeze", {"x"}, "y", {{"axes", Ints{1}}}).Done());
  cases.push_back(
      OpCaseBuilder("Transpose").X({2, 3, 4}).Node("Transpose", {"x"}, "y", {{"perm", Ints{2, 0, 3, 1}}}).Done());
  cases.push_back(OpCaseBuilder("ExpandWeight")
                      .X({2, 3})
                      .W("w", {3})
                      .I("s", {2, 3})
                      .Node("Expand", {"w", "s"}, "e")
                      .Node("Mul", {"x", "e"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("ExpandX").X({1, 3}).I("s", {1, 2, 3}).Node("Expand", {"x", "s"}, "y").Done());
  cases.push_back(OpCaseBuilder("Concat")
                      .X({2, 3})
                      .Input("z", {2, 2})
                      .Node("Concat", {"x", "z", "x"}, "y", {{"axis", int64_t{-1}}})
                      .Done());
  cases.push_back(OpCaseBuilder("Slice")
                      .X({5, 4})
                      .I("a", {1, 3})
                      .I("b", {5, 0})
                      .I("c", {1, 2})
                      .I("d", {2, -1})
                      .Node("Slice", {"x", "a", "b", "c", "d"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("SliceByAttribute")
                      .Opset(9)
                      .X({5})
                      .Node("Slice", {"x"}, "y", {{"starts", Ints{1}}, {"ends", Ints{-1}}, {"axes", Ints{1}}})
                      .Done());
  cases.push_back(OpCaseBuilder("Gather")
                      .X({4, 2})
                      .I("i", {3, 0, 3, -2})
                      .Node("Gather", {"x", "i"}, "y", {{"axis", int64_t{1}}})
                      .Done());
  cases.push_back(OpCaseBuilder("FlattenByShapeArithmetic")
                      .X({2, 3, 2})
                      .I("zero", {0})
                      .I("one", {1})
                      .I("rest", {12})
                      .Node("Shape", {"x"}, "s")
                      .Node("Slice", {"s", "zero", "one", "zero"}, "n")
                      .Node("Cast", {"n"}, "n32", {{"to", int64_t{6}}})
                      .Node("Cast", {"n32"}, "n64", {{"to", int64_t{7}}})
                      .Node("Concat", {"n64", "rest"}, "t", {{"axis", int64_t{0}}})
                      .Node("Reshape", {"x", "t"}, "y")
                      .Done());
}

void AddIndexed(std::vector<OpCase>& cases) {
  cases.push_back(OpCaseBuilder("GatherTokens")  // a table that all samples share
                      .X({2, 4})
                      .IntInput("ids", {2}, {0, 3, 3, 3, -5, 1})
                      .W("w", {5, 4})
                      .Node("Gather", {"w", "ids"}, "e")
                      .Node("Mul", {"x", "e"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("GatherColumnsOfATable")
                      .X({3, 2})
                      .IntInput("ids", {2}, {0, 3, 3, 2, -1, 1})
                      .W("w", {3, 4})
                      .Node("Gather", {"w", "ids"}, "e", {{"axis", int64_t{1}}})
                      .Node("Transpose", {"e"}, "t", {{"perm", Ints{1, 0, 2}}})
                      .Node("Mul", {"x", "t"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("GatherOfComputedTable")
                      .X({2, 3})
                      .IntInput("ids", {2}, {0, 3, 3, 1, 2, 1})
                      .W("w", {4, 3})
                      .W("g", {3})
                      .Node("Mul", {"w", "g"}, "v")
                      .Node("Gather", {"v", "ids"}, "e")
                      .Node("Mul", {"x", "e"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("GatherOfTransposedTable")
                      .X({2, 3})
                      .IntInput("ids", {2}, {0, 3, 3, 1, 2, 1})
                      .W("w", {3, 4})
                      .Node("Transpose", {"w"}, "v")
                      .Node("Gather", {"v", "ids"}, "e")
                      .Node("Mul", {"x", "e"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("GatherTableTwice")
                      .X({1, 3})
                      .IntInput("ids", {1}, {0, 3, 2})
                      .IntInput("more", {1}, {0, 1, 3})
                      .W("w", {4, 3})
                      .Node("Gather", {"w", "ids"}, "e")
                      .Node("Gather", {"w", "more"}, "f")
                      .Node("Mul", {"f", "e"}, "g")
                      .Node("Mul", {"x", "g"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("GatherLastAxis")
                      .X({2, 4})
                      .I("i", {3, 0, 3})
                      .Node("Gather", {"x", "i"}, "y", {{"axis", int64_t{-1}}})
                      .Done());
  cases.push_back(OpCaseBuilder("GatherOne")
                      .X({4, 2})
                      .Node("Constant", {}, "i", {{"value_int", int64_t{-1}}})
                      .Node("Gather", {"x", "i"}, "y", {{"axis", int64_t{1}}})
                      .Done());
  cases.push_back(
      OpCaseBuilder("GatherSamples").MixesSamples().X({2}).I("i", {2, 0, 2}).Node("Gather", {"x", "i"}, "y").Done());
  cases.push_back(OpCaseBuilder("GatherElements")
                      .X({3, 2})
                      .IntInput("i", {2, 2}, {0, 2, -1, 2, 1, 1, 0, 1, 2, 2, 0, -3})
                      .Node("GatherElements", {"x", "i"}, "y", {{"axis", int64_t{1}}})
                      .Done());
  cases.push_back(OpCaseBuilder("GatherND")
                      .X({3, 2})
                      .IntInput("i", {2, 1}, {0, 2, -1, 1, 1, 1})
                      .Node("GatherND", {"x", "i"}, "y", {{"batch_dims", int64_t{1}}})
                      .Done());
  cases.push_back(OpCaseBuilder("GatherNDOfTable")
                      .X({2, 2})
                      .IntInput("i", {2, 2}, {0, 2, -1, 1, 1, 1, 0, 0, 0, 2, 1, 0})
                      .W("w", {2, 3, 2})
                      .Node("GatherND", {"w", "i"}, "e")
                      .Node("Mul", {"x", "e"}, "y")
                      .Done());
  for (const std::string reduction : {"none", "add"}) {
    cases.push_back(OpCaseBuilder("ScatterElements_" + reduction)
                        .X({3, 2})
                        .IntInput("i", {2, 2}, {0, 2, -1, 1, 1, 1, 0, 0, 2, 2, 0, -3})
                        .Input("u", {2, 2})
                        .Node("ScatterElements", {"x", "i", "u"}, "y", {{"axis", int64_t{1}}, {"reduction", reduction}})
                        .Done());
    cases.push_back(OpCaseBuilder("ScatterND_" + reduction)
                        .Input("u", {2, 2})
                        .X({3, 2})
                        .I("i", {2, 0})
                        .I("column", {2, 1})
                        .Node("Reshape", {"i", "column"}, "j")
                        .Node("Transpose", {"x"}, "t", {{"perm", Ints{1, 0, 2}}})
                        .Node("Transpose", {"u"}, "v", {{"perm", Ints{1, 0, 2}}})
                        .Node("ScatterND", {"t", "j", "v"}, "y", {{"reduction", reduction}})
                        .Done());
  }
  cases.push_back(OpCaseBuilder("ScatterOpset9")
                      .Opset(9)
                      .X({3})
                      .IntInput("i", {1}, {0, -1, 2})
                      .Input("u", {1})
                      .Node("Scatter", {"x", "i", "u"}, "y", {{"axis", int64_t{1}}})
                      .Done());
  cases.push_back(OpCaseBuilder("OneHot")
                      .X({2, 4})
                      .IntInput("i", {2}, {0, 3, -1, 7, 1, 1})
                      .W("v", {2})
                      .I("depth", {4})
                      .Node("OneHot", {"i", "depth", "v"}, "h")
                      .Node("Mul", {"x", "h"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("OneHotMiddle")
                      .X({4, 2})
                      .IntInput("i", {2}, {0, 3, -1, 7, 1, 1})
                      .W("v", {2})
                      .I("depth", {4})
                      .Node("OneHot", {"i", "depth", "v"}, "h", {{"axis", int64_t{1}}})
                      .Node("Mul", {"x", "h"}, "y")
                      .Done());
}

void AddParts(std::vector<OpCase>& cases) {
  for (const int64_t upper : {0, 1}) {
    for (const int64_t k : {-1, 0, 2}) {
      cases.push_back(OpCaseBuilder("Trilu" + std::to_string(upper) + "_" + std::to_string(k + 1))
                          .X({3, 4})
                          .Node("Constant", {}, "k", {{"value_int", k}})
                          .Node("Trilu", {"x", "k"}, "y", {{"upper", upper}})
                          .Done());
    }
  }
  const auto pad = [&](const std::string& mode, const Ints& pads) {
    OpCaseBuilder builder("Pad_" + mode + (pads[2] < 0 ? "_negative" : ""));
    cases.push_back(builder.X({3, 4}).I("p", pads).Node("Pad", {"x", "p"}, "y", {{"mode", mode}}).Done());
  };
  for (const char* mode : {"constant", "reflect", "edge", "wrap"}) {
    pad(mode, {0, 2, 1, 0, 0, 3});
    pad(mode, {0, 2, -1, 0, -1, -1});
  }
  cases.push_back(OpCaseBuilder("PadValueAxes")
                      .X({3, 2})
                      .W("v", {})
                      .I("p", {1, 2, 0, 1})
                      .I("a", {-1, 1})
                      .Node("Pad", {"x", "p", "v", "a"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("PadByAttribute")
                      .Opset(10)
                      .X({3})
                      .Node("Pad", {"x"}, "y", {{"pads", Ints{0, 1, 0, 2}}, {"value", 1.5f}})
                      .Done());
  cases.push_back(OpCaseBuilder("PadWeight")
                      .X({5})
                      .W("w", {3})
                      .I("p", {1, 1})
                      .Node("Pad", {"w", "p"}, "v")
                      .Node("Mul", {"x", "v"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("Split")
                      .X({5, 2})
                      .I("s", {1, 4})
                      .Node("Split", {"x", "s"}, Strings{"a", "b"}, {{"axis", int64_t{1}}})
                      .Node("Mul", {"b", "a"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("SplitUneven")
                      .X({5, 2})
                      .Node("Split", {"x"}, Strings{"a", "b", "c"}, {{"axis", int64_t{1}}, {"num_outputs", int64_t{3}}})
                      .Node("Mul", {"b", "a"}, "d")
                      .Node("Mul", {"c", "d"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("SplitOneUsed")
                      .X({6})
                      .Node("Split", {"x"}, Strings{"a", "y"}, {{"axis", int64_t{-1}}, {"num_outputs", int64_t{2}}})
                      .Done());
  cases.push_back(OpCaseBuilder("SplitByAttribute")
                      .Opset(11)
                      .X({6})
                      .Node("Split", {"x"}, Strings{"a", "b"}, {{"axis", int64_t{1}}, {"split", Ints{3, 3}}})
                      .Node("Mul", {"a", "b"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("SplitWeight")
                      .X({2})
                      .W("w", {6})
                      .Node("Split", {"w"}, Strings{"a", "b", "c"}, {{"num_outputs", int64_t{3}}})
                      .Node("Mul", {"a", "c"}, "d")
                      .Node("Mul", {"x", "d"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("ReverseSequence")
                      .X({2, 4, 2})
                      .I("lens", {3, 1})
                      .Node("Transpose", {"x"}, "t", {{"perm", Ints{2, 1, 0, 3}}})
                      .Node("ReverseSequence", {"t", "lens"}, "y")
                      .Done());
  cases.push_back(
      OpCaseBuilder("ReverseSequenceSamples")
          .MixesSamples()
          .X({4})
          .I("lens", {3, 1, 4})
          .Node("ReverseSequence", {"x", "lens"}, "y", {{"time_axis", int64_t{1}}, {"batch_axis", int64_t{0}}})
          .Done());
  cases.push_back(OpCaseBuilder("Tile").X({2, 1, 3}).I("r", {1, 2, 3, 2}).Node("Tile", {"x", "r"}, "y").Done());
  cases.push_back(OpCaseBuilder("TileToSamples")
                      .X({2})
                      .W("w", {1, 2})
                      .I("zero", {0})
                      .I("one", {1})
                      .Node("Shape", {"x"}, "s")
                      .Node("Slice", {"s", "zero", "one"}, "n")
                      .Node("Concat", {"n", "one"}, "r", {{"axis", int64_t{0}}})
                      .Node("Tile", {"w", "r"}, "t")
                      .Node("Concat", {"t", "x"}, "y", {{"axis", int64_t{1}}})
                      .Done());
  cases.push_back(OpCaseBuilder("Compress")
                      .X({4, 2})
                      .I("c", {0, 1, 1})
                      .Node("Compress", {"x", "c"}, "y", {{"axis", int64_t{1}}})
                      .Done());
  cases.push_back(OpCaseBuilder("DropoutMask").X({4}).Node("Dropout", {"x"}, Strings{"y", "mask"}).Done());
}

// Files that hold one sample: shared values stand beside it without the axis of the samples being repeated.
void AddExportedAtOne(std::vector<OpCase>& cases) {
  cases.push_back(OpCaseBuilder("ClassTokenAtOne")
                      .X({2, 3})
                      .W("token", {1, 1, 3})
                      .Node("Concat", {"token", "x"}, "y", {{"axis", int64_t{1}}})
                      .ExportedAt(1)
                      .Done());
  cases.push_back(OpCaseBuilder("RowsAtOne")  // samples' rows are one axis, then apart again
                      .X({4, 3})
                      .W("w", {3, 2})
                      .I("rows", {4, 3})
                      .I("apart", {1, 4, 2})
                      .Node("Reshape", {"x", "rows"}, "r")
                      .Node("MatMul", {"r", "w"}, "h")
                      .Node("Reshape", {"h", "apart"}, "y")
                      .ExportedAt(1)
                      .Done());
  cases.push_back(OpCaseBuilder("LSTMAtOne")
                      .X({3, 2})
                      .W("w", {1, 8, 2})
                      .W("r", {1, 8, 2})
                      .W("h0", {1, 1, 2})
                      .Node("Transpose", {"x"}, "t", {{"perm", Ints{1, 0, 2}}})
                      .Node("LSTM", {"t", "w", "r", "", "", "h0"}, "y", {{"hidden_size", int64_t{2}}})
                      .ExportedAt(1)
                      .Done());
}

// What exporters write when a size is not known to them.
void AddShapeArithmetic(std::vector<OpCase>& cases) {
  const auto number = [](OpCaseBuilder& builder, const std::string& name, int64_t value) -> OpCaseBuilder& {
    return builder.Node("Constant", {}, name, {{"value_int", value}});
  };
  OpCaseBuilder positions("PositionsByRange");  // a table of positions, repeated for every sample
  number(number(number(positions.X({3, 2}).W("w", {5, 2}), "zero", 0), "one", 1), "two", 2)
      .I("first", {0})
      .I("cut", {2})
      .Node("Shape", {"x"}, "s")
      .Node("Gather", {"s", "one"}, "steps")
      .Node("Range", {"zero", "steps", "one"}, "range")
      .Node("Unsqueeze", {"range", "first"}, "row")
      .Node("Slice", {"s", "first", "cut"}, "shape")
      .Node("Expand", {"row", "shape"}, "ids")
      .Node("Gather", {"w", "ids"}, "e")
      .Node("Mul", {"x", "e"}, "y");
  cases.push_back(positions.Done());
  OpCaseBuilder state("ConstantOfShapeState");  // a zero state with the samples in the middle
  number(state.X({2}).W("w", {2}), "zero", 0)
      .I("one", {1})
      .I("two", {2})
      .I("axis", {0})
      .Node("Shape", {"x"}, "s")
      .Node("Gather", {"s", "zero"}, "n")
      .Node("Unsqueeze", {"n", "axis"}, "n1")
      .Node("Concat", {"one", "n1", "two"}, "shape", {{"axis", int64_t{0}}})
      .Node("ConstantOfShape", {"shape"}, "h",
            {{"value", HostTensor{DType::kFloat32, {1}, std::make_shared<std::vector<std::byte>>(4)}}})
      .Node("Unsqueeze", {"x", "axis"}, "u")
      .Node("Add", {"h", "w"}, "hw")
      .Node("Mul", {"hw", "u"}, "y");
  cases.push_back(state.Done());
  cases.push_back(OpCaseBuilder("EyeLike")
                      .X({3, 3})
                      .W("w", {3, 3})
                      .Node("EyeLike", {"w"}, "e", {{"k", int64_t{1}}})
                      .Node("MatMul", {"e", "w"}, "v")
                      .Node("MatMul", {"x", "v"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("NonZeroOfConstant")
                      .X({4})
                      .I("c", {1, 0, 1, 1})
                      .I("axis", {0})
                      .Node("NonZero", {"c"}, "z")
                      .Node("Squeeze", {"z", "axis"}, "i")
                      .Node("Gather", {"x", "i"}, "y", {{"axis", int64_t{1}}})
                      .Done());
  cases.push_back(OpCaseBuilder("SizeOfConstant")
                      .X({2, 3})
                      .I("c", {1, 2, 3, 4, 5, 6})
                      .I("axis", {0})
                      .I("open", {-1})
                      .Node("Size", {"c"}, "n")
                      .Node("Unsqueeze", {"n", "axis"}, "n1")
                      .Node("Concat", {"open", "n1"}, "s", {{"axis", int64_t{0}}})
                      .Node("Reshape", {"x", "s"}, "y")
                      .Done());
}

}  // namespace

void AddMovementCases(std::vector<OpCase>& cases) {
  AddShapes(cases);
  AddIndexed(cases);
  AddParts(cases);
  AddExportedAtOne(cases);
  AddShapeArithmetic(cases);
}

}  // namespace jacserve::worker
