// Requests are checked before anything is sent.
#include "client/cpp/request.h"

#include "common/digest.h"
#include "gmock/gmock.h"
#include "tests/client/test_arrays.h"

namespace jacserve::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

JacobianRequest PairwiseRequest() {
  JacobianRequest request;
  request.graph = OwnedBytes("graph");
  request.weights = {{"w", MakeArray<double>({2}, {1, 2})}};
  request.inputs = {{"x", MakeArray<float>({3, 2}, std::vector<float>(6))}, {"t", MakeArray<int64_t>({3}, {1, 2, 3})}};
  request.second_inputs = {{"x", MakeArray<float>({5, 2}, std::vector<float>(10))},
                           {"t", MakeArray<int64_t>({5}, {1, 2, 3, 4, 5})}};
  request.shared_inputs = {{"c", MakeArray<float>({}, {1})}};
  request.target.mutable_pairwise()->set_similarity(v1::SIMILARITY_DOT);
  return request;
}

TEST(Prepare, KeepsEachArraysOwnTypeAndDigestsItsBytes) {
  const JacobianRequest request = PairwiseRequest();
  const absl::StatusOr<PreparedRequest> prepared = Prepare(request);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->spec.weights(0).tensor().dtype(), v1::DATA_TYPE_FLOAT64);
  EXPECT_EQ(prepared->spec.inputs(1).tensor().dtype(), v1::DATA_TYPE_INT64);
  EXPECT_THAT(prepared->spec.second_inputs(0).tensor().shape(), ElementsAre(5, 2));
  EXPECT_EQ(prepared->spec.weights(0).tensor().sha256(), Sha256Of(request.weights[0].second.bytes));
  EXPECT_EQ(prepared->spec.graph_sha256(), Sha256Of(request.graph.bytes));
  EXPECT_EQ(prepared->blobs.size(), 7u);
}

TEST(Prepare, SendsEqualBytesOnce) {
  JacobianRequest request = PairwiseRequest();
  request.second_inputs = request.inputs;
  const absl::StatusOr<PreparedRequest> prepared = Prepare(request);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->blobs.size(), 5u);
}

TEST(Prepare, RefusesWhatDoesNotFitByName) {
  const struct {
    std::function<void(JacobianRequest&)> change;
    const char* message;
  } cases[] = {
      {[](auto& r) { r.inputs.clear(); }, "no input"},
      {[](auto& r) { r.inputs.push_back(r.inputs[0]); }, "'x' is given twice"},
      {[](auto& r) {
         r.shared_inputs.push_back({"x", r.shared_inputs[0].second});
       },
       "'x' is given twice"},
      {[](auto& r) {
         r.weights.push_back({"c", r.weights[0].second});
       },
       "'c' is given twice"},
      {[](auto& r) { r.second_inputs.push_back(r.second_inputs[0]); }, "'x' is given twice"},
      {[](auto& r) { r.inputs[0].first = ""; }, "no name"},
      {[](auto& r) { r.inputs[0].first = "\xff"; }, "UTF-8"},
      {[](auto& r) { r.inputs[0].first = std::string(1025, 'n'); }, "longer than 1024"},
      {[](auto& r) {
         r.inputs[1].second = MakeArray<int64_t>({2}, {1, 2});
       },
       "'t' has 2 samples"},
      {[](auto& r) { r.inputs[1].second = MakeArray<int64_t>({}, {1}); }, "'t' is a scalar"},
      {[](auto& r) { r.second_inputs[1].second = MakeArray<int64_t>({1}, {1}); }, "second input 't' has 1 samples"},
      {[](auto& r) {
         r.second_inputs[0].second = MakeArray<float>({5, 3}, std::vector<float>(15));
       },
       "only axis 0"},
      {[](auto& r) {
         r.second_inputs[0].second = MakeArray<double>({5, 2}, std::vector<double>(10));
       },
       "only axis 0"},
      {[](auto& r) { r.second_inputs.pop_back(); }, "'t' is missing from the second batch"},
      {[](auto& r) { r.second_inputs[0].first = "y"; }, "second input 'y'"},
      {[](auto& r) { r.second_inputs.clear(); }, "needs a second batch"},
      {[](auto& r) { r.target.clear_pairwise(); }, "not pairwise"},
      {[](auto& r) { r.wrt.add_inputs("z"); }, "'z'"},
  };
  for (const auto& c : cases) {
    JacobianRequest request = PairwiseRequest();
    c.change(request);
    const absl::Status status = Prepare(request).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << c.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
  }
}

TEST(Fingerprint, DiffersWithAnythingThatChangesTheAnswer) {
  const v1::JacobianSpec spec = Prepare(PairwiseRequest())->spec;
  v1::JacobianSpec other = spec;
  other.set_precision(v1::PRECISION_FP64);
  EXPECT_EQ(Fingerprint(spec, std::nullopt), Fingerprint(spec, std::nullopt));
  EXPECT_NE(Fingerprint(spec, std::nullopt), Fingerprint(other, std::nullopt));
  EXPECT_NE(Fingerprint(spec, std::nullopt), Fingerprint(spec, RowRange{0, 15}));
}

TEST(InputBlockNames, FollowTheOrderOfTheInputs) {
  EXPECT_THAT(InputBlockNames(PairwiseRequest()), ElementsAre("x", "t", "second.x", "second.t"));
}

}  // namespace
}  // namespace jacserve::client
