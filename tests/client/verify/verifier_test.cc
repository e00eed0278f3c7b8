// Verification: the right Jacobian passes however it arrives; one wrong figure, a NaN or a missing block does not.
#include "client/cpp/verify/verifier.h"

#include <limits>

#include "client/cpp/verify/running_figures.h"
#include "gmock/gmock.h"
#include "tests/client/test_jacobian.h"

namespace jacserve::client {
namespace {

using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> TrueNumbers(int block, int64_t begin, int64_t count) {
  std::vector<double> numbers;
  for (int64_t k = begin; k < begin + count; ++k) numbers.push_back(TestNumber(block, k));
  return numbers;
}

// value, kernel and bias in full.
NamedArrays WholeExpected() {
  return {{"value", MakeArray<double>({2, 3}, TrueNumbers(-1, 0, 6))},
          {"kernel", MakeArray<double>({2, 3, 700, 3}, TrueNumbers(0, 0, 6 * 2100))},
          {"bias", MakeArray<double>({2, 3, 3}, TrueNumbers(1, 0, 6 * 3))}};
}

// The same as figures of rows, computed as cases/README.md defines them.
NamedArrays FiguresExpected(const Layout& layout) {
  NamedArrays arrays = {{"value", MakeArray<double>({2, 3}, TrueNumbers(-1, 0, 6))}};
  for (int block : {0, 1}) {
    const int64_t columns = Elements(layout.blocks[block].shape);
    std::vector<double> norms, dots, sums;
    for (int64_t row = 0; row < 6; ++row) {
      double square = 0, dot = 0, sum = 0;
      for (int64_t k = 0; k < columns; ++k) {
        const double x = TestNumber(block, row * columns + k);
        square += x * x;
        dot += x * std::sin(0.7 * static_cast<double>(k) + 1);
        sum += x;
      }
      norms.push_back(std::sqrt(square));
      dots.push_back(dot);
      sums.push_back(sum);
    }
    const std::string& name = layout.blocks[block].name;
    arrays.emplace_back("norm/" + name, MakeArray<double>({6}, norms));
    arrays.emplace_back("dot/" + name, MakeArray<double>({6}, dots));
    arrays.emplace_back("sum/" + name, MakeArray<double>({6}, sums));
    arrays.emplace_back("row/4/" + name,
                        MakeArray<double>(layout.blocks[block].shape, TrueNumbers(block, 4 * columns, columns)));
  }
  return arrays;
}

std::unique_ptr<Verifier> MakeVerifier(
    const NamedArrays& arrays, std::vector<std::string> inputs = {},
    std::function<bool(const std::string&)> asked = [](const auto&) { return true; }) {
  const std::string path = TestFolder() + "/expected.npz";
  WriteNpz(path, arrays);
  absl::StatusOr<ExpectedFile> file = ExpectedFile::Open(path, inputs);
  EXPECT_TRUE(file.ok()) << file.status();
  return std::make_unique<Verifier>(*std::move(file), std::move(asked));
}

std::vector<Verdict> VerdictsOf(const NamedArrays& arrays, const Layout& layout) {
  const auto verifier = MakeVerifier(arrays);
  EXPECT_TRUE(verifier->OnLayout(layout).ok());
  EXPECT_TRUE(SendValue(*verifier, layout).ok());
  EXPECT_TRUE(SendRows(*verifier, layout, layout.rows).ok());
  return verifier->Verdicts();
}

std::string Problems(const std::vector<Verdict>& verdicts) {
  std::string text;
  for (const Verdict& verdict : verdicts) {
    if (verdict.outcome == Verdict::Outcome::kOff) text += verdict.block + " " + verdict.problem + "\n";
  }
  return text;
}

TEST(RunningFigures, AgreeWithTheirDefinitionInAnyCut) {
  constexpr int64_t kColumns = 5000;
  const std::vector<double> row = TrueNumbers(0, 0, kColumns);
  double square = 0, dot = 0, sum = 0;
  for (int64_t k = 0; k < kColumns; ++k) {
    square += row[k] * row[k];
    dot += row[k] * std::sin(0.7 * static_cast<double>(k) + 1);
    sum += row[k];
  }
  for (int64_t run : {int64_t{1}, int64_t{7}, int64_t{64}, int64_t{1000}, kLongestRun}) {
    RunningFigures figures(1);
    for (int64_t at = 0; at < kColumns; at += run) {
      figures.Add(0, at, std::span<const double>(row).subspan(at, std::min(run, kColumns - at)));
    }
    EXPECT_NEAR(figures.norm(0), std::sqrt(square), 1e-10);
    EXPECT_NEAR(figures.dot(0), dot, 1e-10);
    EXPECT_NEAR(figures.sum(0), sum, 1e-10);
  }
}

class VerifierTest : public testing::TestWithParam<std::tuple<bool, DType>> {
 protected:
  Layout layout_ = TestLayout(std::get<1>(GetParam()));
  NamedArrays expected_ = std::get<0>(GetParam()) ? WholeExpected() : FiguresExpected(layout_);
};

TEST_P(VerifierTest, TheRightJacobianPasses) {
  const std::vector<Verdict> verdicts = VerdictsOf(expected_, layout_);
  EXPECT_TRUE(AllRight(verdicts)) << Problems(verdicts);
  EXPECT_EQ(verdicts.size(), 3u);
}

TEST_P(VerifierTest, ChunksMayComeInAnyOrderAndTwice) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    const auto verifier = MakeVerifier(expected_);
    ASSERT_TRUE(verifier->OnLayout(layout_).ok());
    ASSERT_TRUE(SendValue(*verifier, layout_).ok());
    ASSERT_TRUE(SendRows(*verifier, layout_, {2, 3}, 2048, seed).ok());
    // A part of a slab, then all of it once more in other cuts, as after a broken stream.
    ASSERT_TRUE(SendChunk(*verifier, 0, BlockText(layout_, 0), 400, 8000).ok());
    ASSERT_TRUE(SendRows(*verifier, layout_, {0, 6}, 1024, seed + 100).ok());
    ASSERT_TRUE(SendValue(*verifier, layout_).ok());
    const std::vector<Verdict> verdicts = verifier->Verdicts();
    EXPECT_TRUE(AllRight(verdicts)) << Problems(verdicts);
  }
}

// Each expected number in turn, off by little or NaN.
TEST_P(VerifierTest, OneWrongFigureFails) {
  for (size_t i = 0; i < expected_.size(); ++i) {
    for (double change : {0.01, kNan}) {
      NamedArrays changed = expected_;
      std::vector<double> values = Values<double>(changed[i].second);
      values[values.size() / 2] += change;
      changed[i].second = MakeArray<double>(changed[i].second.shape, values);
      // A sum's allowance follows from its block's norm: make the change stand out of any.
      if (changed[i].first.starts_with("sum/") && !std::isnan(change)) {
        values[values.size() / 2] += 1;
        changed[i].second = MakeArray<double>(changed[i].second.shape, values);
      }
      const std::vector<Verdict> verdicts = VerdictsOf(changed, layout_);
      EXPECT_FALSE(AllRight(verdicts)) << changed[i].first << " " << change;
    }
  }
}

TEST_P(VerifierTest, ANanInTheAnswerFails) {
  for (double bad : {kNan, std::numeric_limits<double>::infinity()}) {
    const auto verifier = MakeVerifier(expected_);
    ASSERT_TRUE(verifier->OnLayout(layout_).ok());
    ASSERT_TRUE(SendValue(*verifier, layout_).ok());
    std::string kernel = BlockText(layout_, 0);
    const auto single = static_cast<float>(bad);
    const size_t at = kernel.size() / 3 / 8 * 8;
    if (layout_.value_dtype == DType::kFloat64) std::memcpy(kernel.data() + at, &bad, sizeof bad);
    if (layout_.value_dtype == DType::kFloat32) std::memcpy(kernel.data() + at, &single, sizeof single);
    ASSERT_TRUE(SendChunk(*verifier, 0, kernel, 0, static_cast<int64_t>(kernel.size())).ok());
    ASSERT_TRUE(SendRows(*verifier, layout_, {0, 6}).ok());
    const std::vector<Verdict> verdicts = verifier->Verdicts();
    EXPECT_FALSE(AllRight(verdicts));
    EXPECT_THAT(Problems(verdicts), HasSubstr("kernel"));
  }
}

TEST_P(VerifierTest, OnlyRowsAskedForAreCompared) {
  NamedArrays changed = expected_;
  for (auto& [name, array] : changed) {
    if (name == "value") continue;
    if (!name.starts_with("row/")) {
      std::vector<double> values = Values<double>(array);
      values[0] += 5;  // row 0
      array = MakeArray<double>(array.shape, values);
    }
  }
  layout_.rows = {3, 2};
  const std::vector<Verdict> verdicts = VerdictsOf(changed, layout_);
  EXPECT_TRUE(AllRight(verdicts)) << Problems(verdicts);
  layout_.rows = {0, 2};
  EXPECT_FALSE(AllRight(VerdictsOf(changed, layout_)));
}

TEST_P(VerifierTest, RowsThatNeverCameFail) {
  const auto verifier = MakeVerifier(expected_);
  ASSERT_TRUE(verifier->OnLayout(layout_).ok());
  ASSERT_TRUE(SendValue(*verifier, layout_).ok());
  ASSERT_TRUE(SendRows(*verifier, layout_, {0, 5}).ok());
  EXPECT_THAT(Problems(verifier->Verdicts()), HasSubstr("never came"));
}

INSTANTIATE_TEST_SUITE_P(WholeAndFigures, VerifierTest,
                         testing::Combine(testing::Bool(), testing::Values(DType::kFloat32, DType::kFloat64)));

TEST(Verifier, AllowsWhatFloat32RoundsButNotMore) {
  const Layout layout = TestLayout();
  for (const auto& [relative, right] : {std::pair{0.5e-4, true}, std::pair{2e-4, false}}) {
    NamedArrays expected = WholeExpected();
    std::vector<double> values = Values<double>(expected[2].second);
    const double largest = std::abs(
        *std::max_element(values.begin(), values.end(), [](double a, double b) { return std::abs(a) < std::abs(b); }));
    values[5] += relative * largest;
    expected[2].second = MakeArray<double>({2, 3, 3}, values);
    EXPECT_EQ(AllRight(VerdictsOf(expected, layout)), right) << relative;
  }
}

TEST(Verifier, ABlockThatIsMissingFailsUnlessItWasNotAskedFor) {
  const Layout layout = TestLayout();
  NamedArrays expected = WholeExpected();
  expected.emplace_back("other", MakeArray<double>({2, 3, 1}, std::vector<double>(6)));
  EXPECT_THAT(Problems(VerdictsOf(expected, layout)), HasSubstr("other is missing"));

  const auto verifier = MakeVerifier(expected, {}, [](const std::string& name) { return name != "other"; });
  ASSERT_TRUE(verifier->OnLayout(layout).ok());
  ASSERT_TRUE(SendValue(*verifier, layout).ok());
  ASSERT_TRUE(SendRows(*verifier, layout, layout.rows).ok());
  EXPECT_TRUE(AllRight(verifier->Verdicts()));
}

TEST(Verifier, AnUnconnectedBlockMayBeExpectedToBeZeroOnly) {
  const Layout layout = TestLayout();
  for (double number : {0.0, 1.0}) {
    NamedArrays expected = WholeExpected();
    expected.emplace_back("unused", MakeArray<double>({2, 3, 2}, std::vector<double>(12, number)));
    EXPECT_EQ(AllRight(VerdictsOf(expected, layout)), number == 0.0);
  }
}

TEST(Verifier, AnotherShapeIsOffInWords) {
  const Layout layout = TestLayout();
  NamedArrays expected = WholeExpected();
  expected[2].second.shape = {6, 3};
  EXPECT_THAT(Problems(VerdictsOf(expected, layout)), HasSubstr("bias has shape [2, 3, 3], expected [6, 3]"));
}

TEST(Verifier, InputsAreCountedInOrder) {
  Layout layout = TestLayout();
  layout.blocks[0].name = "x";
  layout.blocks[1].name = "second.x";
  NamedArrays expected = WholeExpected();
  expected[1].first = "input:0";
  expected[2].first = "input:1";
  const auto verifier = MakeVerifier(expected, {"x", "second.x"});
  ASSERT_TRUE(verifier->OnLayout(layout).ok());
  ASSERT_TRUE(SendValue(*verifier, layout).ok());
  ASSERT_TRUE(SendRows(*verifier, layout, layout.rows).ok());
  EXPECT_TRUE(AllRight(verifier->Verdicts()));

  const std::string path = TestFolder() + "/expected.npz";
  WriteNpz(path, expected);
  const absl::Status status = ExpectedFile::Open(path, {"x"}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("input:1"));
}

TEST(Verifier, AParameterMayBeCalledLikeAFigure) {
  const std::string path = TestFolder() + "/expected.npz";
  WriteNpz(path, {{"norm/scale", MakeArray<double>({1}, {1})}, {"bias", MakeArray<double>({1}, {1})}});
  const absl::StatusOr<ExpectedFile> file = ExpectedFile::Open(path, {});
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->blocks().at("norm/scale").whole, "norm/scale");
}

TEST(Verifier, ReadsTheFullSizeCase) {
  const absl::StatusOr<ExpectedFile> file = ExpectedFile::Open(Golden("seed_full/expected.npz"), {"x", "second.x"});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->blocks().size(), 10u);
  EXPECT_EQ(file->blocks().at("dense0.kernel").norm, "norm/dense0.kernel");
  EXPECT_EQ(file->blocks().at("Conv.bias").rows.size(), 3u);
}

}  // namespace
}  // namespace jacserve::client
