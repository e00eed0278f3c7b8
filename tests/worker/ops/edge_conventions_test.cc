// What values and derivatives are at the edges of an operator's definition, as docs/conventions.md states it: empty
// axes, bounds that cross, indices out of range, sequences that have ended, integers beyond float32. On every backend,
// in both directions.
#include "tests/worker/ops/conventions.h"

namespace jacserve::worker {
namespace {

using testing::Each;

TEST(Conventions, ReductionsOfNothing) {
  const std::pair<const char*, double> of_nothing[] = {
      {"ReduceMean", std::nan("")}, {"ReduceSum", 0},           {"ReduceProd", 1},       {"ReduceMax", -kInf},
      {"ReduceMin", kInf},          {"ReduceLogSumExp", -kInf}, {"ReduceLogSum", -kInf}, {"ReduceL2", 0}};
  for (const auto& [name, y] : of_nothing) {
    const OpCase op = OpCaseBuilder(name).X({0, 2}).I("a", {1}).Node(name, {"x", "a"}, "y").Done();
    Everywhere(op.problem, [&, n = name, e = y](const Jacobian& jacobian) {
      EXPECT_THAT(jacobian.value, Same(Numbers(6, e))) << n;
      EXPECT_TRUE(jacobian.blocks[0].empty()) << n;
    });
  }
}

TEST(Conventions, RunTimeBoundsOfClipMayCross) {
  const OpCase op =
      OpCaseBuilder("clip").X({1}).W("low", {1}).W("high", {1}).Node("Clip", {"x", "low", "high"}, "y").Done();
  Everywhere(With(op, {{"x", {-3, 0, 3}}, {"low", {1}}, {"high", {-1}}}), [](const Jacobian& jacobian) {
    EXPECT_THAT(jacobian.value, Each(-1));
    for (size_t b = 0; b < jacobian.blocks.size(); ++b) {
      EXPECT_THAT(jacobian.blocks[b], Each(jacobian.layout.blocks[b].name == "high" ? 1 : 0));
    }
  });
}

TEST(Conventions, AlignedCornersMeetWhenEnlargedByAScale) {
  const Numbers ramp = {0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4};
  const std::pair<const char*, Numbers> expected[] = {{"nearest", {0, 1, 1, 2, 3, 3, 4}},
                                                      {"linear", {0, 2. / 3, 4. / 3, 2, 8. / 3, 10. / 3, 4}}};
  for (const auto& [mode, y] : expected) {
    const OpCase op =
        OpCaseBuilder(mode)
            .X({5})
            .F("s", {1, 1.5})
            .Node("Resize", {"x", "", "s"}, "y",
                  {{"mode", std::string(mode)}, {"coordinate_transformation_mode", std::string("align_corners")}})
            .Done();
    Numbers all;
    for (int n = 0; n < 3; ++n) all.insert(all.end(), y.begin(), y.end());
    Everywhere(With(op, {{"x", ramp}}), [&](const Jacobian& jacobian) { EXPECT_THAT(jacobian.value, Same(all)); });
  }
}

// Sample 1 names a place that is not there.
TEST(Conventions, IndicesOutOfRangeMakeTheDerivativesOfTheirSampleNan) {
  const Attributes axis = {{"axis", int64_t{1}}};
  const OpCase cases[] = {
      OpCaseBuilder("Gather")
          .X({1})
          .W("w", {2})
          .IntInput("i", {1}, {0, 2, -1})
          .Node("Gather", {"w", "i"}, "g")
          .Node("Mul", {"g", "x"}, "y")
          .Done(),
      OpCaseBuilder("GatherElements")
          .X({2})
          .IntInput("i", {1}, {0, 2, -1})
          .Node("GatherElements", {"x", "i"}, "y", axis)
          .Done(),
      OpCaseBuilder("GatherND")
          .X({2})
          .IntInput("i", {1, 1}, {0, 2, -1})
          .Node("GatherND", {"x", "i"}, "y", {{"batch_dims", int64_t{1}}})
          .Done(),
      OpCaseBuilder("ScatterElements")
          .X({2})
          .Input("u", {1})
          .IntInput("i", {1}, {0, 2, -1})
          .Node("ScatterElements", {"x", "i", "u"}, "y", axis)
          .Done(),
      OpCaseBuilder("ScatterElementsAdd")
          .X({2})
          .Input("u", {1})
          .IntInput("i", {1}, {0, 2, -1})
          .Node("ScatterElements", {"x", "i", "u"}, "y", {{"axis", int64_t{1}}, {"reduction", std::string("add")}})
          .Done()};
  for (const OpCase& op : cases) {
    Everywhere(op.problem, [&](const Jacobian& jacobian) {
      const auto rows = static_cast<size_t>(jacobian.layout.rows), per_sample = rows / 3;
      for (size_t b = 0; b < jacobian.blocks.size(); ++b) {
        const BlockInfo& block = jacobian.layout.blocks[b];
        const size_t columns = jacobian.blocks[b].size() / rows, own = block.name == "w" ? columns : columns / 3;
        for (size_t r = 0; r < rows; ++r) {
          for (size_t c = 0; c < columns; ++c) {
            const bool bad = r / per_sample == 1 && (block.name == "w" || c / own == 1);
            EXPECT_EQ(std::isnan(jacobian.blocks[b][r * columns + c]), bad) << op.name << " " << block.name << r << c;
          }
        }
      }
      for (size_t r = 0; r < rows; ++r) {
        if (r / per_sample != 1) {
          EXPECT_FALSE(std::isnan(jacobian.value[r])) << op.name;
        }
      }
    });
  }
}

TEST(Conventions, OfUpdatesOfOnePlaceTheLastTakesTheDerivative) {
  const Ints places = {1, 1, 0, 0, 1, 0, 1, 0, 1};  // the last of each place: 1 2, 2 1, 1 2
  const OpCase elements = OpCaseBuilder("ScatterElements")
                              .X({2})
                              .Input("u", {3})
                              .IntInput("i", {3}, places)
                              .Node("ScatterElements", {"x", "i", "u"}, "y", {{"axis", int64_t{1}}})
                              .Done();
  const Numbers u = {10, 11, 12, 20, 21, 22, 30, 31, 32};
  Numbers rows(6 * 9, 0.0);
  for (const auto& [row, column] : {std::pair{0, 2}, {1, 1}, {2, 5}, {3, 4}, {4, 7}, {5, 8}})
    rows[row * 9 + column] = 1;
  Everywhere(With(elements, {{"u", u}}), [&](const Jacobian& jacobian) {
    EXPECT_THAT(jacobian.value, Same({12, 11, 22, 21, 31, 32}));
    EXPECT_THAT(jacobian.blocks[0], Each(0));
    EXPECT_THAT(jacobian.blocks[1], Same(rows));
  });
  // Blocks of two numbers: y[1] = u[2], y[0] = u[1].
  const OpCase nd = OpCaseBuilder("ScatterND")
                        .X({1})
                        .W("w", {2, 2})
                        .W("u", {3, 2})
                        .I("i", {1, 0, 1})
                        .I("column", {3, 1})
                        .Node("Reshape", {"i", "column"}, "j")
                        .Node("ScatterND", {"w", "j", "u"}, "s")
                        .Node("ReduceSum", {"s"}, "t", {{"keepdims", int64_t{0}}})
                        .Node("Mul", {"t", "x"}, "y")
                        .Done();
  Everywhere(With(nd, {{"x", {1, 2, 3}}}), [&](const Jacobian& jacobian) {
    for (size_t b = 0; b < jacobian.blocks.size(); ++b) {
      if (jacobian.layout.blocks[b].name != "u") continue;
      EXPECT_THAT(jacobian.blocks[b], Same({0, 0, 1, 1, 1, 1, 0, 0, 2, 2, 2, 2, 0, 0, 3, 3, 3, 3}));
    }
  });
}

// h_t = x_t + h before, of samples with 1, 3 and 2 steps of 3.
TEST(Conventions, SequencesThatHaveEndedKeepTheirStateAndGiveZeros) {
  const std::pair<const char*, Numbers> directions[] = {{"forward", {1, 0, 0, 1, 3, 6, 1, 3, 0, 1, 6, 3}},
                                                        {"reverse", {1, 0, 0, 6, 5, 3, 3, 2, 0, 1, 6, 3}}};
  for (const auto& [direction, expected] : directions) {
    const OpCase op = OpCaseBuilder(direction)
                          .X({3, 1})
                          .W("w", {1, 1, 1})
                          .W("r", {1, 1, 1})
                          .IntInput("n", {}, {1, 3, 2})
                          .I("dims", {0, 3})
                          .I("one", {0, 1})
                          .Node("RNN", {"x", "w", "r", "", "n"}, std::vector<std::string>{"s", "h"},
                                {{"layout", int64_t{1}},
                                 {"hidden_size", int64_t{1}},
                                 {"direction", std::string(direction)},
                                 {"activations", std::vector<std::string>{"Relu"}}})
                          .Node("Reshape", {"s", "dims"}, "all")
                          .Node("Reshape", {"h", "one"}, "last")
                          .Node("Concat", {"all", "last"}, "y", {{"axis", int64_t{1}}})
                          .Done();
    Numbers y;
    for (int n = 0; n < 3; ++n) {
      y.insert(y.end(), expected.begin() + 3 * n, expected.begin() + 3 * n + 3);
      y.push_back(expected[9 + n]);
    }
    Everywhere(With(op, {{"x", {1, 2, 3, 1, 2, 3, 1, 2, 3}}, {"w", {1}}, {"r", {1}}}),
               [&](const Jacobian& jacobian) { EXPECT_THAT(jacobian.value, Same(y)); });
  }
}

// An embedding by a hash: 12345 * 7919 has 27 bits.
TEST(Conventions, IntegersBeyondFloat32AreExact) {
  const Ints ids = {12345, 16777212, 54321};
  const OpCase op = OpCaseBuilder("hash")
                        .W("w", {17})
                        .IntInput("ids", {1}, ids)
                        .I("p", {7919})
                        .I("q", {17})
                        .Node("Mul", {"ids", "p"}, "product")
                        .Node("Mod", {"product", "q"}, "hash")
                        .Node("Gather", {"w", "hash"}, "y")
                        .Done();
  Numbers rows(3 * 17, 0.0);
  for (int n = 0; n < 3; ++n) rows[n * 17 + ids[n] * 7919 % 17] = 1;
  Everywhere(op.problem, [&](const Jacobian& jacobian) { EXPECT_THAT(jacobian.blocks[0], Same(rows)); });

  JacobianProblem half = op.problem;
  half.values = HalfFormat::kFloat16;
  const absl::Status status = Engine::Create(half, {kBackends[0]}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("node node_product (Mul) counts to"));
}

}  // namespace
}  // namespace jacserve::worker
