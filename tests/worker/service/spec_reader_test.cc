// Requests from the wire: what becomes of their fields, and which ones are refused.
#include "worker/service/spec_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "tests/worker/service/tiny_engine.h"

namespace jacserve::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SpecReaderTest : public testing::Test {
 protected:
  SpecReaderTest() {
    blobs_[request_.spec.graph_sha256()] = request_.graph;
    blobs_[request_.spec.inputs(0).tensor().sha256()] = request_.x;
  }

  FetchBlob Fetch() {
    return [this](const std::string& sha256, int64_t) -> absl::StatusOr<std::vector<std::byte>> {
      ++fetched_;
      if (!blobs_.contains(sha256)) return absl::NotFoundError("not uploaded");
      return BytesOf(blobs_[sha256]);
    };
  }

  TinyRequest request_;
  std::map<std::string, std::string> blobs_;
  int fetched_ = 0;
  BlobCache cache_{Fetch(), 1 << 20};
  SpecReader reader_{cache_, 1 << 20};
};

TEST_F(SpecReaderTest, ReadsEveryField) {
  v1::JacobianSpec& spec = request_.spec;
  *spec.add_second_inputs() = spec.inputs(0);
  *spec.add_shared_inputs() = spec.inputs(0);
  *spec.add_weights() = spec.inputs(0);
  spec.mutable_weights(0)->set_name("W");
  spec.mutable_target()->set_output("y");
  v1::Pairwise& pairwise = *spec.mutable_target()->mutable_pairwise();
  pairwise.set_similarity(v1::SIMILARITY_COSINE);
  pairwise.set_sign(-1);
  pairwise.set_cosine_form(v1::COSINE_FORM_MAX_NORM);
  pairwise.set_epsilon(1e-7);
  spec.mutable_wrt()->add_parameters("W*");
  spec.mutable_wrt()->add_inputs("x");
  spec.set_precision(v1::PRECISION_FP64);
  absl::StatusOr<LoadedProblem> loaded = reader_.Load(spec);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const JacobianProblem& problem = loaded->problem;
  EXPECT_EQ(problem.graph->nodes.size(), 2u);
  EXPECT_EQ(problem.weights[0].first, "W");
  EXPECT_EQ(problem.inputs[0].first, "x");
  EXPECT_THAT(problem.inputs[0].second.shape, ElementsAre(2, 2));
  EXPECT_EQ(problem.second_inputs.size(), 1u);
  EXPECT_EQ(problem.shared_inputs.size(), 1u);
  EXPECT_EQ(problem.output, "y");
  ASSERT_TRUE(problem.pairwise.has_value());
  EXPECT_EQ(problem.pairwise->similarity, Similarity::kCosine);
  EXPECT_EQ(problem.pairwise->form, CosineForm::kMaxNorm);
  EXPECT_EQ(problem.pairwise->sign, -1);
  EXPECT_EQ(problem.pairwise->epsilon, 1e-7);
  EXPECT_THAT(problem.wrt_parameters, ElementsAre("W*"));
  EXPECT_THAT(problem.wrt_inputs, ElementsAre("x"));
  EXPECT_EQ(problem.precision, DType::kFloat64);
  EXPECT_EQ(loaded->host_bytes, static_cast<int64_t>(request_.graph.size() + 4 * request_.x.size()));
  EXPECT_EQ(fetched_, 2);  // each blob once
}

TEST_F(SpecReaderTest, ReadsEveryPrecision) {
  struct Case {
    v1::Precision precision;
    DType dtype;
    std::optional<HalfFormat> values;
    bool tf32;
  };
  for (const Case& c : {Case{v1::PRECISION_FP32, DType::kFloat32, std::nullopt, false},
                        Case{v1::PRECISION_FP64, DType::kFloat64, std::nullopt, false},
                        Case{v1::PRECISION_TF32, DType::kFloat32, std::nullopt, true},
                        Case{v1::PRECISION_FP16, DType::kFloat32, HalfFormat::kFloat16, false},
                        Case{v1::PRECISION_BF16, DType::kFloat32, HalfFormat::kBfloat16, false}}) {
    request_.spec.set_precision(c.precision);
    const absl::StatusOr<LoadedProblem> loaded = reader_.Load(request_.spec);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->problem.precision, c.dtype) << c.precision;
    EXPECT_EQ(loaded->problem.values, c.values) << c.precision;
    EXPECT_EQ(loaded->problem.tf32, c.tf32) << c.precision;
  }
}

TEST_F(SpecReaderTest, DefaultsAreThoseOfTheWire) {
  absl::StatusOr<LoadedProblem> loaded = reader_.Load(request_.spec);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->problem.precision, DType::kFloat32);
  EXPECT_FALSE(loaded->problem.pairwise.has_value());
  v1::Pairwise& pairwise = *request_.spec.mutable_target()->mutable_pairwise();
  pairwise.set_similarity(v1::SIMILARITY_DOT);
  loaded = reader_.Load(request_.spec);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->problem.pairwise->sign, 1);  // 0 is read as 1
}

TEST_F(SpecReaderTest, RefusesWhatItCannotMean) {
  struct Case {
    const char* what;
    std::function<void(v1::JacobianSpec&)> damage;
    absl::StatusCode code;
    const char* words;
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const auto pairwise = [](v1::JacobianSpec& s) -> v1::Pairwise& {
    v1::Pairwise& p = *s.mutable_target()->mutable_pairwise();
    p.set_similarity(v1::SIMILARITY_COSINE);
    p.set_cosine_form(v1::COSINE_FORM_MAX_NORM);
    return p;
  };
  const Case cases[] = {
      {"encoding", [](auto& s) { s.set_encoding(static_cast<v1::Encoding>(9)); }, absl::StatusCode::kUnimplemented,
       "encoding"},
      {"precision", [](auto& s) { s.set_precision(static_cast<v1::Precision>(9)); }, kInvalid, "precision"},
      {"similarity", [&](auto& s) { pairwise(s).clear_similarity(); }, kInvalid, "cosine, dot or sqdist"},
      {"form", [&](auto& s) { pairwise(s).clear_cosine_form(); }, kInvalid, "sqrt_max_sum"},
      {"epsilon", [&](auto& s) { pairwise(s).set_epsilon(-1); }, kInvalid, "epsilon"},
      {"epsilon nan", [&](auto& s) { pairwise(s).set_epsilon(std::nan("")); }, kInvalid, "epsilon"},
      {"sign", [&](auto& s) { pairwise(s).set_sign(INFINITY); }, kInvalid, "sign"},
      {"graph digest", [](auto& s) { s.set_graph_sha256("short"); }, kInvalid, "digest"},
      {"graph missing", [](auto& s) { s.set_graph_sha256(std::string(32, 'g')); }, absl::StatusCode::kNotFound,
       "not uploaded"},
      {"graph is no graph", [](auto& s) { s.set_graph_sha256(s.inputs(0).tensor().sha256()); }, kInvalid, "ONNX"},
      {"twice", [](auto& s) { *s.add_inputs() = s.inputs(0); }, kInvalid, "'x' is given twice"},
      {"no dtype", [](auto& s) { s.mutable_inputs(0)->mutable_tensor()->clear_dtype(); }, kInvalid, "'x'"},
      {"other shape", [](auto& s) { s.mutable_inputs(0)->mutable_tensor()->set_shape(0, 3); }, kInvalid,
       "needs 24 bytes; its data has 16"},
      {"too large", [](auto& s) { s.mutable_inputs(0)->mutable_tensor()->set_shape(0, 1 << 20); },
       absl::StatusCode::kResourceExhausted, "--memory-budget"},
  };
  for (const Case& c : cases) {
    v1::JacobianSpec spec = request_.spec;
    c.damage(spec);
    const absl::Status status = reader_.Load(spec).status();
    EXPECT_EQ(status.code(), c.code) << c.what << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.words)) << c.what;
  }
}

}  // namespace
}  // namespace jacserve::worker
