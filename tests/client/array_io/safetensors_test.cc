// .safetensors files: every type that is read, and headers that lie.
#include "client/cpp/array_io/safetensors.h"

#include "gmock/gmock.h"
#include "tests/client/test_arrays.h"

namespace jacserve::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string File(const std::string& header, const std::string& data) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(header.size() >> (8 * i));
  return text + header + data;
}

absl::StatusOr<NamedArrays> Parse(const std::string& text) {
  return ParseSafetensors(OwnedBytes(text), "w.safetensors");
}

const std::string& Whole() {
  static const std::string whole =
      File(R"({"__metadata__":{"format":"pt"},)"
           R"("b":{"dtype":"F64","shape":[1],"data_offsets":[8,16]},)"
           R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
           R"("c":{"dtype":"BOOL","shape":[],"data_offsets":[16,17]}})",
           BytesOf(MakeArray<float>({2}, {1.5f, -2})) + BytesOf(MakeArray<double>({1}, {0.25})) + "\1");
  return whole;
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirData) {
  const absl::StatusOr<NamedArrays> arrays = Parse(Whole());
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  ASSERT_EQ(arrays->size(), 3u);
  EXPECT_EQ((*arrays)[0].first, "a");
  EXPECT_THAT(Values<float>((*arrays)[0].second), ElementsAre(1.5f, -2));
  EXPECT_THAT((*arrays)[0].second.shape, ElementsAre(2, 1));
  EXPECT_THAT(Values<double>((*arrays)[1].second), ElementsAre(0.25));
  EXPECT_EQ((*arrays)[2].second.dtype, DType::kBool);
}

TEST(Safetensors, ReadsIntegersAndEmptyTensors) {
  const auto arrays = Parse(File(R"({"i":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},)"
                                 R"("e":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]},)"
                                 R"("j":{"dtype":"I64","shape":[1],"data_offsets":[4,12]}})",
                                 std::string(12, 0)));
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  EXPECT_EQ(arrays->size(), 3u);
}

TEST(Safetensors, RefusesHeadersThatLie) {
  const std::string data(8, 0);
  const struct {
    std::string text;
    const char* message;
  } cases[] = {
      {"", "not a .safetensors file"},
      {std::string(8, '\xff'), "more than the file holds"},
      {File("[]", data), "JSON object"},
      {File("{", data), "JSON object"},
      {File(std::string(100'000, '['), data), "JSON object"},
      {File(
           R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
           data),
       "every name once"},
      {File(R"({"a":{"dtype":"F16","shape":[4],"data_offsets":[0,8]}})", data), "F16"},
      {File(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", data), "match the shape"},
      {File(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", data), "no sizes"},
      {File(R"({"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", data), "no sizes"},
      {File(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})", data), "any memory"},
      {File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", data), "match the shape"},
      {File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", data), "beyond the end"},
      {File(R"({"a":{"dtype":"F32","shape":[2]}})", data), "no dtype, shape and data_offsets"},
      {File(R"({"a":1})", data), "no dtype, shape and data_offsets"},
      {File(
           R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
           data),
       "overlaps"},
      {File(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", data), "overlaps another or leaves a gap"},
      {File(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", data), "its header says 4"},
  };
  for (const auto& c : cases) {
    const absl::Status status = Parse(c.text).status();
    EXPECT_FALSE(status.ok()) << c.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
    EXPECT_THAT(std::string(status.message()), HasSubstr("w.safetensors"));
  }
}

TEST(Safetensors, RefusesEveryTruncation) {
  for (size_t size = 0; size < Whole().size(); ++size) EXPECT_FALSE(Parse(Whole().substr(0, size)).ok()) << size;
}

TEST(Safetensors, SurvivesEveryBitFlip) {
  for (size_t bit = 0; bit < Whole().size() * 8; ++bit) {
    std::string flipped = Whole();
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const absl::StatusOr<NamedArrays> arrays = Parse(flipped);
    if (!arrays.ok()) continue;
    for (const auto& [name, array] : *arrays) {
      EXPECT_EQ(static_cast<int64_t>(array.bytes.size()), *ByteCount(array.shape, array.dtype));
    }
  }
}

}  // namespace
}  // namespace jacserve::client
