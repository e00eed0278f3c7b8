// Sizes of shapes: products, overflow, strides.
#include "common/shape.h"

#include <gtest/gtest.h>

#include <limits>

namespace jacserve {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

TEST(ShapeTest, CountsElementsAndBytes) {
  struct Case {
    Shape shape;
    int64_t elements;
  };
  for (const Case& c : {Case{{}, 1}, Case{{7}, 7}, Case{{56, 56}, 3136}, Case{{3, 0, 5}, 0}}) {
    EXPECT_EQ(*ElementCount(c.shape), c.elements) << ShapeText(c.shape);
    EXPECT_EQ(*ByteCount(c.shape, DType::kFloat64), 8 * c.elements);
    EXPECT_EQ(*ByteCount(c.shape, DType::kBool), c.elements);
  }
}

TEST(ShapeTest, RefusesNegativeAxesAndOverflow) {
  for (const Shape& shape : {Shape{-1}, Shape{3, -2}, Shape{0, -1}, Shape{0, kHuge, 2}, Shape{kHuge, kHuge},
                             Shape{int64_t{1} << 62, 2}, Shape{int64_t{1} << 32, int64_t{1} << 32}}) {
    EXPECT_EQ(ElementCount(shape).status().code(), absl::StatusCode::kInvalidArgument) << ShapeText(shape);
  }
  EXPECT_EQ(*ElementCount(Shape{int64_t{1} << 62}), int64_t{1} << 62);
  EXPECT_EQ(ByteCount(Shape{int64_t{1} << 62}, DType::kFloat32).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ShapeTest, StridesAreRowMajor) {
  EXPECT_EQ(RowMajorStrides(Shape{}), Shape{});
  EXPECT_EQ(RowMajorStrides(Shape{5}), Shape{1});
  EXPECT_EQ(RowMajorStrides(Shape{2, 3, 4}), (Shape{12, 4, 1}));
}

TEST(ShapeTest, TextIsForPeople) {
  EXPECT_EQ(ShapeText(Shape{}), "[]");
  EXPECT_EQ(ShapeText(Shape{56, -1}), "[56, -1]");
}

}  // namespace
}  // namespace jacserve
