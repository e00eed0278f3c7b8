// Every operator's pushforward is the transpose of its pullbacks: <ct, push(tan)> = sum over inputs of <pull(ct), tan>,
// at random numbers, with all inputs moving and with each one alone.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "tests/worker/engine/golden_case.h"
#include "tests/worker/ops/op_cases.h"
#include "worker/ops/attributes.h"
#include "worker/program/sample_program.h"

namespace jacserve::worker {
namespace {

using Numbers = std::vector<double>;

ConstLanes Read(const Numbers& numbers) { return {numbers.data(), static_cast<int64_t>(numbers.size()), nullptr}; }
Lanes Write(Numbers& numbers) { return {numbers.data(), static_cast<int64_t>(numbers.size())}; }
double Dot(const Numbers& a, const Numbers& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

// The first sample (or the whole batch, when coupled) of a problem, run node by node.
class OneSample {
 public:
  explicit OneSample(const OpCase& op) {
    Bindings bindings;
    for (const auto& [name, tensor] : op.problem.weights) bindings.weights[name] = {tensor.dtype, tensor.shape};
    for (const auto& [name, tensor] : op.problem.inputs) bindings.inputs[name] = {tensor.dtype, tensor.shape};
    auto program = CompileSampleProgram(*op.graph, bindings);
    EXPECT_TRUE(program.ok()) << program.status();
    if (!program.ok()) return;
    program_ = *std::move(program);
    for (const ProgramValue& value : program_.values) {
      numbers_.emplace_back(value.elements);
      if (value.constant != nullptr) numbers_.back() = All(*value.constant);
    }
    for (const ProgramSource& source : program_.sources) {
      if (source.value < 0) continue;
      Numbers& to = numbers_[source.value];
      if (source.initial != nullptr) to = All(*source.initial);
      for (const auto* tensors : {&op.problem.weights, &op.problem.inputs}) {
        for (const auto& [name, tensor] : *tensors) {
          if (name == source.name) to = All(tensor);
        }
      }
      to.resize(program_.values[source.value].elements);
    }
    for (const ProgramNode& node : program_.nodes) Check(node);
  }

 private:
  static Numbers All(const HostTensor& tensor) {
    if (IsFloat(tensor.dtype)) return ToDoubles(tensor);
    const std::vector<int64_t> ints = IntsOf(tensor);
    return {ints.begin(), ints.end()};
  }
  Numbers Random(int64_t n) {
    std::normal_distribution<double> normal;
    Numbers numbers(n);
    for (double& number : numbers) number = normal(generator_);
    return numbers;
  }
  Numbers& Of(int value) { return numbers_[program_.values[value].root]; }
  bool IsFloatValue(int value) const { return value >= 0 && IsFloat(program_.values[value].dtype); }

  void Check(const ProgramNode& node) {
    std::vector<ConstLanes> x, y;
    std::vector<Lanes> to;
    for (int input : node.inputs) x.push_back(input < 0 ? ConstLanes{} : Read(Of(input)));
    for (int output : node.outputs) to.push_back(Write(Of(output)));
    Numbers saved(node.op->SavedElements(*backend_) + 1);
    node.op->Forward({1, x, to, Write(saved), *backend_, scratch_});
    for (const Lanes& lanes : to) y.push_back(lanes);
    if (!node.op->HasPushforward()) return;
    std::vector<size_t> moving;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (IsFloatValue(node.inputs[i]) && node.op->DifferentiableIn(static_cast<int>(i))) moving.push_back(i);
    }
    if (moving.size() > 1) {
      for (size_t i : moving) CheckTranspose(node, x, y, saved, {i});
    }
    if (!moving.empty()) CheckTranspose(node, x, y, saved, moving);
  }

  void CheckTranspose(const ProgramNode& node, const std::vector<ConstLanes>& x, const std::vector<ConstLanes>& y,
                      const Numbers& saved, const std::vector<size_t>& moving) {
    std::vector<Numbers> tangents(node.inputs.size()), cotangents, pushed;
    std::vector<ConstLanes> tan_x(node.inputs.size()), ct_y;
    std::vector<Lanes> tan_y;
    for (size_t i : moving) {
      tangents[i] = Random(program_.values[node.inputs[i]].elements);
      tan_x[i] = Read(tangents[i]);
    }
    for (int output : node.outputs) {
      const int64_t n = program_.values[output].elements;
      cotangents.push_back(IsFloatValue(output) ? Random(n) : Numbers(n));
      pushed.emplace_back(n, NAN);
    }
    for (size_t k = 0; k < pushed.size(); ++k) {
      tan_y.push_back(Write(pushed[k]));
      ct_y.push_back(IsFloatValue(node.outputs[k]) ? Read(cotangents[k]) : ConstLanes{});
    }
    const ConstLanes kept{saved.data(), static_cast<int64_t>(saved.size()), nullptr};
    node.op->Pushforward({1, x, y, kept, tan_x, *backend_, scratch_}, tan_y);
    double forward = 0, backward = 0, size = 1;
    for (size_t k = 0; k < pushed.size(); ++k) {
      if (!IsFloatValue(node.outputs[k])) continue;
      forward += Dot(pushed[k], cotangents[k]);
      size += std::sqrt(Dot(pushed[k], pushed[k]) * Dot(cotangents[k], cotangents[k]));
    }
    for (size_t i : moving) {
      Numbers pulled(tangents[i].size(), NAN);
      node.op->Pullback(static_cast<int>(i), {1, x, y, kept, ct_y, *backend_, scratch_}, Write(pulled));
      backward += Dot(pulled, tangents[i]);
    }
    EXPECT_NEAR(forward, backward, 1e-10 * size)
        << node.op_type << " " << node.name << ", " << moving.size() << " move";
  }

  SampleProgram program_;
  std::vector<Numbers> numbers_;  // by root
  std::unique_ptr<Backend> backend_ = MakeReferenceBackend(DType::kFloat64);
  Scratch scratch_ = *Scratch::Make(backend_->memory(), int64_t{1} << 20);
  std::mt19937 generator_{5};
};

class OpPushforward : public testing::TestWithParam<OpCase> {};

TEST_P(OpPushforward, IsTheTransposeOfThePullbacks) { OneSample sample(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Operators, OpPushforward, testing::ValuesIn(AllOpCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace jacserve::worker
