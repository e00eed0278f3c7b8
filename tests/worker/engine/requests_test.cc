// What the engine says to requests: bad names and shapes, empty batches, NaN, cancellation, rows outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/worker/engine/golden_case.h"

namespace jacserve::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

JacobianProblem Pairwise() { return LoadGoldenCase("pairwise_keras_cosine", false).problem; }

HostTensor Zeros(Shape shape) {
  return {DType::kFloat32, shape, std::make_shared<std::vector<std::byte>>(Elements(shape) * sizeof(float))};
}

absl::Status CreateStatus(const JacobianProblem& problem) { return Engine::Create(problem, {}).status(); }

struct BadRequest {
  const char* name;
  void (*spoil)(JacobianProblem&);
  absl::StatusCode code;
  const char* says;
};

constexpr BadRequest kBadRequests[] = {
    {"UnknownParameter", [](JacobianProblem& p) { p.wrt_parameters = {"nonsense*"}; },
     absl::StatusCode::kInvalidArgument, "no parameter matches nonsense*; the model has: c0.weight"},
    {"UnknownWrtInput", [](JacobianProblem& p) { p.wrt_inputs = {"q"}; }, absl::StatusCode::kInvalidArgument,
     "no input named q"},
    {"UnknownOutput", [](JacobianProblem& p) { p.output = "logits"; }, absl::StatusCode::kInvalidArgument,
     "no output logits; it has: relu_2"},
    {"MissingWeight", [](JacobianProblem& p) { p.weights.erase(p.weights.begin()); },
     absl::StatusCode::kInvalidArgument, "nothing was given for graph input(s): c0.weight"},
    {"NoWeights", [](JacobianProblem& p) { p.weights.clear(); }, absl::StatusCode::kInvalidArgument,
     "e.bias; parameters among them are given as weights"},
    {"MissingWeightGivenUnderAnotherName", [](JacobianProblem& p) { p.weights[0].first = "C0/weight"; },
     absl::StatusCode::kInvalidArgument,
     "input(s): c0.weight; the graph has no weight(s): C0/weight (did you mean c0.weight?)"},
    {"UnknownInput",
     [](JacobianProblem& p) {
       p.shared_inputs = {{"mask", Zeros({3})}};
     },
     absl::StatusCode::kInvalidArgument, "no input(s): mask"},
    {"SecondBatchOfAnUnknownInput", [](JacobianProblem& p) { p.wrt_inputs = {"second.y"}; },
     absl::StatusCode::kInvalidArgument,
     "no input named second.y to differentiate with respect to; there is: x, second.x"},
    {"SecondBatchOfAParameter", [](JacobianProblem& p) { p.wrt_inputs = {"second.c0.weight"}; },
     absl::StatusCode::kInvalidArgument, "no input named second.c0.weight"},
    {"WeightShape",
     [](JacobianProblem& p) {
       p.weights[0].second = Zeros({4, 2, 4, 5});
     },
     absl::StatusCode::kInvalidArgument, "input c0.weight has shape [4, 2, 4, 5], the graph expects [4, 2, 4, 4]"},
    {"InputShape",
     [](JacobianProblem& p) {
       p.inputs[0].second = Zeros({5, 2, 8, 9});
       p.second_inputs[0].second = Zeros({4, 2, 8, 9});
     },
     absl::StatusCode::kInvalidArgument, "the graph expects [N, 2, 8, 8]"},
    {"SecondBatchShape",
     [](JacobianProblem& p) {
       p.second_inputs[0].second = Zeros({4, 2, 8, 9});
     },
     absl::StatusCode::kInvalidArgument, "the second batch of input x has shape [4, 2, 8, 9]"},
    {"SecondBatchMissing", [](JacobianProblem& p) { p.second_inputs.clear(); }, absl::StatusCode::kInvalidArgument,
     "needs a second batch of input x"},
    {"SecondBatchWithoutPairs", [](JacobianProblem& p) { p.pairwise.reset(); }, absl::StatusCode::kInvalidArgument,
     "without a pairwise target"},
    {"NoInput",
     [](JacobianProblem& p) {
       p.inputs.clear();
       p.second_inputs.clear();
     },
     absl::StatusCode::kInvalidArgument, "no batched input"},
    {"NameTwice", [](JacobianProblem& p) { p.weights.push_back(p.weights[0]); }, absl::StatusCode::kInvalidArgument,
     "was given twice"},
    {"BytesTooFew", [](JacobianProblem& p) { p.inputs[0].second.shape[0] = 6; }, absl::StatusCode::kInvalidArgument,
     "needs 3072 bytes"},
    {"HugeShape",
     [](JacobianProblem& p) {
       p.inputs[0].second.shape = {int64_t{1} << 40, int64_t{1} << 40, 8, 8};
     },
     absl::StatusCode::kInvalidArgument, "2^62"},
    {"EpsilonNegative", [](JacobianProblem& p) { p.pairwise->epsilon = -1; }, absl::StatusCode::kInvalidArgument,
     "epsilon"},
    {"EpsilonNaN", [](JacobianProblem& p) { p.pairwise->epsilon = std::nan(""); }, absl::StatusCode::kInvalidArgument,
     "epsilon"},
};

class BadRequests : public testing::TestWithParam<BadRequest> {};

TEST_P(BadRequests, AreRefusedInTheUsersNames) {
  JacobianProblem problem = Pairwise();
  GetParam().spoil(problem);
  const absl::Status status = CreateStatus(problem);
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(Table, BadRequests, testing::ValuesIn(kBadRequests),
                         [](const auto& info) { return info.param.name; });

TEST(Requests, Tf32IsRefusedByBackendsThatHaveNone) {
  JacobianProblem problem = Pairwise();
  problem.tf32 = true;
  for (const auto& [backend, name] : {std::pair(BackendKind::kCpu, "cpu"), {BackendKind::kReference, "reference"}}) {
    const absl::Status status = Engine::Create(problem, {.backend = backend}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string("the backend here is ") + name));
    EXPECT_THAT(std::string(status.message()), HasSubstr("ask for fp32"));
  }
}

TEST(Requests, EmptyBatchesGiveEmptyResults) {
  for (const auto& [first, second] : {std::pair{0, 4}, {5, 0}, {0, 0}}) {
    JacobianProblem problem = Pairwise();
    problem.inputs[0].second = Zeros({first, 2, 8, 8});
    problem.second_inputs[0].second = Zeros({second, 2, 8, 8});
    auto engine = Engine::Create(problem, {});
    ASSERT_TRUE(engine.ok()) << engine.status();
    EXPECT_EQ((*engine)->layout().target_shape, (Shape{first, second}));
    EXPECT_EQ((*engine)->Value()->size(), 0u);
    Gather gather((*engine)->layout(), {0, 0});
    EXPECT_TRUE((*engine)->ComputeRows({0, 0}, gather, [] { return false; }).ok());
  }
}

TEST(Requests, RowsOutsideTheTargetAreOutOfRange) {
  auto engine = Engine::Create(Pairwise(), {});
  ASSERT_TRUE(engine.ok());
  Gather gather((*engine)->layout(), {0, 20});
  for (const RowRange& rows : {RowRange{0, 21}, RowRange{-1, 2}, RowRange{21, 0}, RowRange{1, INT64_MAX}}) {
    const absl::Status status = (*engine)->ComputeRows(rows, gather, [] { return false; });
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << rows.begin << " " << rows.count;
  }
}

TEST(Requests, DiscardedRowsAreDoneWithoutSlabs) {
  class Listener : public RowConsumer {
   public:
    absl::Status OnSlab(const Slab&) override { return absl::InternalError("a slab"); }
    absl::Status OnRowsDone(RowRange rows) override {
      done.Add(rows);
      return absl::OkStatus();
    }
    RowSet done;
  };
  const auto engine = *Engine::Create(Pairwise(), {.threads = 2, .discard_rows = true});
  Listener listener;
  const absl::Status status = engine->ComputeRows({0, engine->layout().rows}, listener, [] { return false; });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(listener.done.count(), engine->layout().rows);
}

TEST(Requests, CancellingEndsTheComputation) {
  auto engine = Engine::Create(Pairwise(), {});
  ASSERT_TRUE(engine.ok());
  Gather gather((*engine)->layout(), {0, 20});
  EXPECT_EQ((*engine)->ComputeRows({0, 20}, gather, [] { return true; }).code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE((*engine)->ComputeRows({0, 20}, gather, [] { return false; }).ok()) << "the engine is good for more";
}

TEST(Requests, ConsumersErrorComesBack) {
  class Refuse : public RowConsumer {
   public:
    absl::Status OnSlab(const Slab&) override { return absl::UnavailableError("the reader is gone"); }
    absl::Status OnRowsDone(RowRange) override { return absl::OkStatus(); }
  } refuse;
  auto engine = Engine::Create(Pairwise(), {});
  ASSERT_TRUE(engine.ok());
  EXPECT_EQ((*engine)->ComputeRows({0, 20}, refuse, [] { return false; }).message(), "the reader is gone");
}

TEST(Requests, NaNStaysInTheRowsOfItsSample) {
  JacobianProblem problem = Pairwise();
  auto bytes = std::make_shared<std::vector<std::byte>>(*problem.inputs[0].second.bytes);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int64_t p = 0; p < 128; ++p) std::memcpy(bytes->data() + (2 * 128 + p) * sizeof nan, &nan, sizeof nan);
  problem.inputs[0].second.bytes = bytes;  // all of sample 2
  auto engine = Engine::Create(problem, {});
  ASSERT_TRUE(engine.ok());
  Gather gather((*engine)->layout(), {0, 20});
  ASSERT_TRUE((*engine)->ComputeRows({0, 20}, gather, [] { return false; }).ok());
  const std::vector<double> kernel = ToDoubles(gather.block(0), DType::kFloat32);
  const size_t row = kernel.size() / 20;
  for (size_t r = 0; r < 20; ++r) {
    bool finite = true;
    for (size_t p = 0; p < row; ++p) finite = finite && std::isfinite(kernel[r * row + p]);
    EXPECT_TRUE(finite || r / 4 == 2) << "row " << r;
  }
}

TEST(Requests, WeightsThatTheGraphLacksAreUnconnected) {
  JacobianProblem problem = Pairwise();
  problem.weights.emplace_back("head.kernel", Zeros({3, 2}));
  problem.wrt_parameters.clear();
  problem.wrt_inputs.clear();
  auto engine = Engine::Create(problem, {});
  ASSERT_TRUE(engine.ok()) << engine.status();
  const auto& blocks = (*engine)->layout().blocks;
  EXPECT_EQ(blocks.size(), 7u);
  EXPECT_EQ(blocks.back().name, "head.kernel");
  EXPECT_FALSE(blocks.back().connected);
  EXPECT_THAT((*engine)->layout().notices,
              ElementsAre("the graph lacks 1 of the 7 weights, which take no part: head.kernel"));
}

TEST(Requests, WhatTorchCountsOfBatchesIsNotNoticed) {
  JacobianProblem problem = Pairwise();
  problem.weights.emplace_back("bn.num_batches_tracked", Zeros({}));
  auto engine = Engine::Create(problem, {});
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_THAT((*engine)->layout().notices, IsEmpty());
}

// Initializers keep the file's numbers where none are given, so that a misspelt name would go unseen.
TEST(Requests, AMisspeltWeightDoesNotGiveWayToTheFilesOwn) {
  const JacobianProblem plain = LoadGoldenCase("plain_onnx_initializers", false).problem;
  const Shape shape = plain.graph->initializers.at("0.weight").shape;
  for (const char* name : {"0/weight", "model.0.weight", "0.wieght", "0.Weight"}) {
    JacobianProblem problem = plain;
    problem.weights.emplace_back(name, Zeros(shape));
    const absl::Status status = CreateStatus(problem);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(std::string("the graph has no weight ") + name + "; did you mean 0.weight"));
    problem.weights.emplace_back("0.weight", Zeros(shape));
    EXPECT_TRUE(CreateStatus(problem).ok()) << "0.weight itself is given";
  }
  for (const auto& [name, other_shape] : {std::pair("4.weight", shape), {"0/weight", Shape{3, 3}}, {"head", shape}}) {
    JacobianProblem problem = plain;
    problem.weights.emplace_back(name, Zeros(other_shape));
    const auto engine = Engine::Create(problem, {});
    ASSERT_TRUE(engine.ok()) << engine.status();
    EXPECT_THAT((*engine)->layout().notices, ElementsAre(HasSubstr(name)));
  }
}

TEST(Requests, TheSecondBatchAloneGivesItsBlockAlone) {
  JacobianProblem both = Pairwise(), second = Pairwise();
  both.wrt_parameters = second.wrt_parameters = {};
  both.wrt_inputs = {"x"};
  second.wrt_inputs = {"second.x"};
  const auto all = *Engine::Create(both, {}), alone = *Engine::Create(second, {});
  ASSERT_EQ(all->layout().blocks.size(), 2u);
  ASSERT_EQ(alone->layout().blocks.size(), 1u);
  EXPECT_EQ(alone->layout().blocks[0].name, "second.x");
  Gather rows_of_all(all->layout(), {0, 20}), rows_alone(alone->layout(), {0, 20});
  ASSERT_TRUE(all->ComputeRows({0, 20}, rows_of_all, [] { return false; }).ok());
  ASSERT_TRUE(alone->ComputeRows({0, 20}, rows_alone, [] { return false; }).ok());
  EXPECT_EQ(ToDoubles(rows_alone.block(0), DType::kFloat32), ToDoubles(rows_of_all.block(1), DType::kFloat32));
  second.wrt_inputs = {"second.x", "x", "second.x"};
  EXPECT_EQ((*Engine::Create(second, {}))->layout().blocks.size(), 2u);
}

TEST(Requests, GlobsPickParametersInTheGraphsOrder) {
  JacobianProblem problem = Pairwise();
  problem.wrt_parameters = {"*.bias", "d.*"};
  problem.wrt_inputs.clear();
  auto engine = Engine::Create(problem, {});
  ASSERT_TRUE(engine.ok()) << engine.status();
  std::vector<std::string> names;
  for (const BlockInfo& block : (*engine)->layout().blocks) names.push_back(block.name);
  EXPECT_EQ(names, (std::vector<std::string>{"c0.bias", "d.bias", "e.bias", "d.weight"}));
}

}  // namespace
}  // namespace jacserve::worker
