// Sets of rows against a plain set of numbers.
#include "common/row_range.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace jacserve {
namespace {

TEST(RowSetTest, RowsAddedTwiceCountOnce) {
  RowSet rows;
  rows.Add({10, 5});
  rows.Add({12, 5});
  rows.Add({10, 5});
  rows.Add({100, 0});
  rows.Add({100, -3});
  EXPECT_EQ(rows.count(), 7);
  EXPECT_EQ(rows.Ranges(), (std::vector<RowRange>{{10, 7}}));
}

TEST(RowSetTest, NeighboursJoin) {
  RowSet rows;
  rows.Add({0, 4});
  rows.Add({8, 4});
  rows.Add({4, 4});
  EXPECT_EQ(rows.Ranges(), (std::vector<RowRange>{{0, 12}}));
}

TEST(RowSetTest, EmptyRangeIsAlwaysContained) {
  RowSet rows;
  EXPECT_TRUE(rows.Contains({5, 0}));
  EXPECT_TRUE(rows.MissingFrom({5, 0}).empty());
  EXPECT_FALSE(rows.Contains({5, 1}));
}

TEST(RowSetTest, BehavesAsASetOfNumbers) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    RowSet rows;
    std::set<int64_t> model;
    for (int step = 0; step < 30; ++step) {
      const RowRange added{static_cast<int64_t>(random() % 60), static_cast<int64_t>(random() % 9)};
      rows.Add(added);
      for (int64_t row = added.begin; row < added.end(); ++row) model.insert(row);
      ASSERT_EQ(rows.count(), static_cast<int64_t>(model.size()));

      const RowRange asked{static_cast<int64_t>(random() % 60), static_cast<int64_t>(random() % 20)};
      std::set<int64_t> missing;
      for (const RowRange& range : rows.MissingFrom(asked)) {
        ASSERT_GT(range.count, 0);
        for (int64_t row = range.begin; row < range.end(); ++row) ASSERT_TRUE(missing.insert(row).second);
      }
      for (int64_t row = asked.begin; row < asked.end(); ++row) {
        ASSERT_NE(missing.contains(row), model.contains(row)) << row;
      }
      ASSERT_EQ(rows.Contains(asked), missing.empty());

      int64_t previous_end = -1;  // ranges are ordered and neither touch nor overlap
      for (const RowRange& range : rows.Ranges()) {
        ASSERT_GT(range.begin, previous_end);
        previous_end = range.end();
      }
    }
  }
}

}  // namespace
}  // namespace jacserve
