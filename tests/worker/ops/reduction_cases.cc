// Cases of reductions, running sums and picks along an axis.
#include "tests/worker/ops/op_builder.h"

namespace jacserve::worker {
namespace {

constexpr int kPositive = 1;

void AddReductions(std::vector<OpCase>& cases) {
  for (const char* op : {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
                         "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"}) {
    const std::string name = op;
    const int kind = name == "ReduceLogSum" ? kPositive : 0;
    const auto add = [&](const std::string& suffix, Shape shape, const Ints& axes, Attributes attributes) {
      OpCaseBuilder builder(name + suffix);
      cases.push_back(
          builder.X(std::move(shape), kind).I("a", axes).Node(op, {"x", "a"}, "y", std::move(attributes)).Done());
    };
    add("Last", {3, 4}, {-1}, {});
    add("Middle", {3, 4, 2}, {2}, {{"keepdims", int64_t{0}}});
    add("Apart", {3, 2, 4}, {1, -1}, {{"keepdims", int64_t{0}}});
    add("Side", {2, 3, 2, 2}, {2, 3}, {});
    cases.push_back(OpCaseBuilder(name + "ByAttribute")
                        .Opset(11)
                        .X({3, 4}, kind)
                        .Node(op, {"x"}, "y", {{"axes", Ints{-1, 1}}, {"keepdims", int64_t{0}}})
                        .Done());
    cases.push_back(OpCaseBuilder(name + "OfWeight")
                        .X({1}, kind)
                        .W("w", {3, 4}, kind)
                        .Node(op, {"w"}, "s", {{"keepdims", int64_t{0}}})
                        .Node("Mul", {"x", "s"}, "y")
                        .Done());
    cases.push_back(OpCaseBuilder(name + "OfNoAxes")
                        .X({2, 3}, kind)
                        .Node(op, {"x"}, "y", {{"noop_with_empty_axes", int64_t{1}}})
                        .Done());
  }
  // One and two zeros among the factors.
  cases.push_back(OpCaseBuilder("ReduceProdOfZeros")
                      .X({2, 3})
                      .I("i", {0, 2, 1, 0, 0, 3})
                      .I("s", {2, 3})
                      .I("a", {2})
                      .Node("CastLike", {"i", "x"}, "f")
                      .Node("Reshape", {"f", "s"}, "m")
                      .Node("Mul", {"x", "m"}, "h")
                      .Node("ReduceProd", {"h", "a"}, "y")
                      .Done());
}

void AddPicks(std::vector<OpCase>& cases) {
  for (const int64_t axis : {1, 2}) {
    const std::string suffix = std::to_string(axis);
    cases.push_back(OpCaseBuilder("TopKAxis" + suffix)
                        .X({4, 3})
                        .I("k", {2})
                        .Node("TopK", {"x", "k"}, "y", {{"axis", axis}})
                        .Done());
    for (const char* op : {"ArgMax", "ArgMin"}) {
      cases.push_back(OpCaseBuilder(op + suffix)
                          .X({4, 3})
                          .Node(op, {"x"}, "i", {{"axis", axis}})
                          .Node("Cast", {"i"}, "f", {{"to", int64_t{1}}})
                          .Node("Mul", {"f", "x"}, "y")
                          .Done());
    }
    for (const int64_t form : {0, 1, 2, 3}) {
      cases.push_back(OpCaseBuilder("CumSum" + suffix + "Form" + std::to_string(form))
                          .X({4, 3})
                          .I("a", {axis})
                          .Node("CumSum", {"x", "a"}, "y", {{"exclusive", form % 2}, {"reverse", form / 2}})
                          .Done());
    }
  }
  cases.push_back(OpCaseBuilder("TopKSmallestWithIndices")
                      .X({5})
                      .I("k", {3})
                      .Node("TopK", {"x", "k"}, std::vector<std::string>{"v", "i"}, {{"largest", int64_t{0}}})
                      .Node("CastLike", {"i", "v"}, "f")
                      .Node("Mul", {"v", "f"}, "y")
                      .Done());
  cases.push_back(OpCaseBuilder("TopKByAttribute")
                      .Opset(9)
                      .X({5})
                      .Node("TopK", {"x"}, std::vector<std::string>{"y", ""}, {{"k", int64_t{1}}})
                      .Done());
  cases.push_back(OpCaseBuilder("ArgMaxLastWithoutAxis")
                      .X({2, 4})
                      .Node("Sign", {"x"}, "s")
                      .Node("ArgMax", {"s"}, "i",
                            {{"axis", int64_t{2}}, {"keepdims", int64_t{0}}, {"select_last_index", int64_t{1}}})
                      .Node("Cast", {"i"}, "f", {{"to", int64_t{1}}})
                      .I("a", {2})
                      .Node("Unsqueeze", {"f", "a"}, "u")
                      .Node("Mul", {"u", "x"}, "y")
                      .Done());
}

}  // namespace

void AddReductionCases(std::vector<OpCase>& cases) {
  AddReductions(cases);
  AddPicks(cases);
}

}  // namespace jacserve::worker
