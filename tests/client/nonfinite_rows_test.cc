// Rows with NaN or infinity: all are found, wherever they lie and however the stream cuts them.
#include "client/cpp/nonfinite_rows.h"

#include <limits>

#include "client/cpp/finite.h"
#include "gmock/gmock.h"
#include "tests/client/test_jacobian.h"

namespace jacserve::client {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T>
void Put(std::string& text, int64_t element, double number) {
  const auto value = static_cast<T>(number);
  std::memcpy(text.data() + element * static_cast<int64_t>(sizeof value), &value, sizeof value);
}

// A chunk of `whole`, the block's text, cut into odd pieces as a network would.
void LookAt(NonFiniteRows& rows, const BlockLayout& block, const std::string& whole, int64_t begin, int64_t size) {
  std::span<const std::byte> rest = std::as_bytes(std::span<const char>(whole)).subspan(begin, size);
  rows.StartChunk(block, begin);
  for (size_t step = 1; !rest.empty(); step = step * 3 % 1009) {
    rows.Look(rest.first(std::min(step, rest.size())));
    rest = rest.subspan(std::min(step, rest.size()));
  }
  rows.KeepChunk();
}

// The test Jacobian's kernel with one number replaced, in chunks of `chunk_bytes`.
NonFiniteRows KernelWith(DType dtype, int64_t element, double number, int64_t chunk_bytes) {
  const Layout layout = TestLayout(dtype);
  std::string kernel = BlockText(layout, 0);
  dtype == DType::kFloat64 ? Put<double>(kernel, element, number) : Put<float>(kernel, element, number);
  NonFiniteRows rows;
  const auto size = static_cast<int64_t>(kernel.size());
  for (int64_t at = 0; at < size; at += chunk_bytes) {
    LookAt(rows, layout.blocks[0], kernel, at, std::min(chunk_bytes, size - at));
  }
  return rows;
}

TEST(NonFiniteRows, FindsOneNumberAmongMany) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (double number : {kNaN, -kNaN, kInfinity, -kInfinity}) {
      for (int64_t element : {0, 1, 2099, 2100, 2101, 6 * 2100 - 1}) {
        for (int64_t chunk_bytes : {int64_t{8}, int64_t{4096}, int64_t{1} << 20}) {
          const NonFiniteRows rows = KernelWith(dtype, element, number, chunk_bytes);
          ASSERT_EQ(rows.count(), 1) << element << " " << chunk_bytes;
          EXPECT_EQ(rows.first()->row, element / 2100);
          EXPECT_EQ(rows.first()->block, "kernel");
        }
      }
    }
  }
}

TEST(NonFiniteRows, TheLargestNumbersAreFinite) {
  for (double sign : {1.0, -1.0}) {
    EXPECT_EQ(KernelWith(DType::kFloat32, 7, sign * std::numeric_limits<float>::max(), 4096).count(), 0);
    EXPECT_EQ(KernelWith(DType::kFloat64, 7, sign * std::numeric_limits<double>::max(), 4096).count(), 0);
  }
}

TEST(NonFiniteRows, CountsARowOnceAndNamesTheLowest) {
  const Layout layout = TestLayout();
  std::string kernel = BlockText(layout, 0), bias = BlockText(layout, 1);
  for (int64_t element : {4 * 2100, 4 * 2100 + 9, 5 * 2100}) Put<float>(kernel, element, kNaN);
  Put<float>(bias, 4 * 3 + 1, kInfinity);
  Put<float>(bias, 2 * 3, kInfinity);
  NonFiniteRows rows;
  for (int repeat : {1, 2}) {
    SCOPED_TRACE(repeat);
    LookAt(rows, layout.blocks[0], kernel, 0, static_cast<int64_t>(kernel.size()));
    LookAt(rows, layout.blocks[1], bias, 0, static_cast<int64_t>(bias.size()));
  }
  EXPECT_EQ(rows.count(), 3);
  EXPECT_EQ(rows.first()->row, 2);
  EXPECT_EQ(rows.first()->block, "bias");
}

TEST(NonFiniteRows, WhatADamagedChunkSeemedToHoldDoesNotCount) {
  const Layout layout = TestLayout();
  std::string bias = BlockText(layout, 1);
  Put<float>(bias, 4, kNaN);
  NonFiniteRows rows;
  rows.StartChunk(layout.blocks[1], 0);
  rows.Look(std::as_bytes(std::span<const char>(bias)));  // its checksum was wrong, so it is not kept
  LookAt(rows, layout.blocks[1], BlockText(layout, 1), 0, static_cast<int64_t>(bias.size()));
  EXPECT_EQ(rows.count(), 0);
}

TEST(AllFinite, LooksAtEveryElementOfEveryLength) {
  for (size_t count = 1; count < 200; ++count) {
    std::string text(count * sizeof(float) + 1, '\0');
    const std::span<const std::byte> bytes = std::as_bytes(std::span<const char>(text)).subspan(1);  // not aligned
    EXPECT_TRUE(AllFinite(bytes, DType::kFloat32));
    for (size_t i = 0; i < count; ++i) {
      const float number = -std::numeric_limits<float>::infinity(), zero = 0;
      std::memcpy(text.data() + 1 + i * sizeof number, &number, sizeof number);
      EXPECT_FALSE(AllFinite(bytes, DType::kFloat32)) << i << " of " << count;
      std::memcpy(text.data() + 1 + i * sizeof number, &zero, sizeof zero);
    }
  }
}

}  // namespace
}  // namespace jacserve::client
