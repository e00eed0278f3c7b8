// Tensors and ranges from the wire: what is accepted, and what is refused in whose words.
#include "common/proto_convert.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "common/digest.h"

namespace jacserve {
namespace {

v1::NamedTensor ValidTensor() {
  v1::NamedTensor tensor;
  tensor.set_name("dense/kernel");
  tensor.mutable_tensor()->set_dtype(v1::DATA_TYPE_FLOAT32);
  tensor.mutable_tensor()->add_shape(256);
  tensor.mutable_tensor()->add_shape(64);
  tensor.mutable_tensor()->set_sha256(std::string(kDigestBytes, 'd'));
  return tensor;
}

TEST(ProtoConvertTest, ReadsATensor) {
  absl::StatusOr<TensorRef> ref = FromProto(ValidTensor());
  ASSERT_TRUE(ref.ok()) << ref.status();
  EXPECT_EQ(ref->name, "dense/kernel");
  EXPECT_EQ(ref->dtype, DType::kFloat32);
  EXPECT_EQ(ref->shape, (Shape{256, 64}));
  EXPECT_EQ(ref->size_bytes, 65536);
  EXPECT_EQ(ref->sha256, std::string(kDigestBytes, 'd'));
}

TEST(ProtoConvertTest, RefusesWhatIsNoTensor) {
  struct Case {
    const char* what;
    std::function<void(v1::NamedTensor&)> damage;
  };
  const Case cases[] = {
      {"no name", [](v1::NamedTensor& t) { t.clear_name(); }},
      {"long name", [](v1::NamedTensor& t) { t.set_name(std::string(kMaxNameBytes + 1, 'n')); }},
      {"no dtype", [](v1::NamedTensor& t) { t.mutable_tensor()->clear_dtype(); }},
      {"unknown dtype", [](v1::NamedTensor& t) { t.mutable_tensor()->set_dtype(static_cast<v1::DataType>(77)); }},
      {"negative axis", [](v1::NamedTensor& t) { t.mutable_tensor()->set_shape(0, -1); }},
      {"overflow", [](v1::NamedTensor& t) { t.mutable_tensor()->set_shape(0, std::numeric_limits<int64_t>::max()); }},
      {"rank", [](v1::NamedTensor& t) { t.mutable_tensor()->mutable_shape()->Resize(kMaxRank + 1, 1); }},
      {"no digest", [](v1::NamedTensor& t) { t.mutable_tensor()->clear_sha256(); }},
      {"short digest", [](v1::NamedTensor& t) { t.mutable_tensor()->set_sha256("abc"); }},
      {"no tensor", [](v1::NamedTensor& t) { t.clear_tensor(); }},
  };
  for (const Case& c : cases) {
    v1::NamedTensor tensor = ValidTensor();
    c.damage(tensor);
    const absl::Status status = FromProto(tensor).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.what;
    EXPECT_LT(status.message().size(), 300u) << c.what;
  }
}

TEST(ProtoConvertTest, RowRangesAreCheckedForOverflow) {
  v1::RowRange range;
  range.set_begin(5);
  range.set_count(7);
  EXPECT_EQ(*FromProto(range), (RowRange{5, 7}));
  EXPECT_EQ(FromProto(ToProto(RowRange{5, 7}))->end(), 12);
  range.set_count(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(FromProto(range).status().code(), absl::StatusCode::kOutOfRange);
  range.set_count(-1);
  EXPECT_EQ(FromProto(range).status().code(), absl::StatusCode::kOutOfRange);
  range.set_count(1);
  range.set_begin(-1);
  EXPECT_EQ(FromProto(range).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(ProtoConvertTest, ElementTypesAreTheSameNumbers) {
  EXPECT_EQ(ToProto(DType::kFloat32), v1::DATA_TYPE_FLOAT32);
  EXPECT_EQ(ToProto(DType::kFloat64), v1::DATA_TYPE_FLOAT64);
  EXPECT_EQ(ToProto(DType::kInt32), v1::DATA_TYPE_INT32);
  EXPECT_EQ(ToProto(DType::kInt64), v1::DATA_TYPE_INT64);
  EXPECT_EQ(ToProto(DType::kBool), v1::DATA_TYPE_BOOL);
}

}  // namespace
}  // namespace jacserve
