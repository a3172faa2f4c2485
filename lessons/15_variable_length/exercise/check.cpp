#include <gtest/gtest.h>

#include EXERCISE

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace {

/// Lengths like those of speeches: many short, few long, none above `capacity`.
std::vector<int64_t> speech_lengths(size_t count, int64_t capacity, unsigned seed) {
  std::mt19937 bits(seed);
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < count; ++i) {
    const double uniform = (static_cast<double>(bits() % 10000) + 0.5) / 10000;
    lengths.push_back(std::min<int64_t>(capacity, 3 + static_cast<int64_t>(-30 * std::log(uniform))));
  }
  return lengths;
}

/// Looks at the rules, and returns the number of rows.
int64_t rows_for(const std::vector<int64_t>& lengths, int64_t capacity) {
  const auto rows = fill_rows(lengths, capacity);
  std::vector<int> seen(lengths.size(), 0);
  for (const auto& row : rows) {
    EXPECT_FALSE(row.empty()) << "hint: a row without a text";
    int64_t sum = 0;
    for (const int64_t text : row) {
      if (text < 0 || text >= static_cast<int64_t>(lengths.size())) {
        ADD_FAILURE() << "there is no text " << text;
        return -1;
      }
      ++seen[static_cast<size_t>(text)];
      sum += lengths[static_cast<size_t>(text)];
    }
    EXPECT_LE(sum, capacity) << "hint: a row is too full";
  }
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], 1) << "hint: text " << i << " lies in so many rows";
  return static_cast<int64_t>(rows.size());
}

TEST(Exercise15, RulesHold) {
  EXPECT_EQ(rows_for({}, 8), 0);
  EXPECT_EQ(rows_for({8}, 8), 1);
  EXPECT_EQ(rows_for({8, 8, 1}, 8), 3);
  for (unsigned seed = 0; seed < 5; ++seed) rows_for(speech_lengths(100, 64, seed), 64);
}

TEST(Exercise15, FewRows) {
  EXPECT_EQ(rows_for({4, 4, 5, 3, 6, 2}, 8), 3)
      << "hint: 6 + 2, 5 + 3, 4 + 4: does a later text fill the room of an earlier row?";
  EXPECT_EQ(rows_for({3, 3, 5, 5}, 8), 2) << "hint: two threes in one row leave room that nothing fits";
  for (unsigned seed = 0; seed < 5; ++seed) {
    const auto lengths = speech_lengths(1000, 128, seed);
    const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0}), fewest = (tokens + 127) / 128;
    EXPECT_LE(rows_for(lengths, 128), fewest + 1 + fewest / 50)
        << "hint: no order can do with fewer than " << fewest << " rows";
  }
}

TEST(Exercise15, ManyTextsInAMoment) {
  const auto lengths = speech_lengths(200000, 512, 1);
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  EXPECT_LE(rows_for(lengths, 512), tokens / 512 * 102 / 100);
}

TEST(Exercise15, PositionsBeginAnewAndTargetsDoNotCrossABorder) {
  const std::vector<Place> row = lay_out({3, 1, 2}, 8);
  ASSERT_EQ(row.size(), 8U);
  const std::vector<int64_t> texts{0, 0, 0, 1, 2, 2, -1, -1}, positions{0, 1, 2, 0, 0, 1, 0, 0};
  const std::vector<bool> targets{true, true, false, false, true, false, false, false};
  for (size_t i = 0; i < row.size(); ++i) {
    EXPECT_EQ(row[i].text, texts[i]) << "hint: whose is place " << i << "?";
    EXPECT_EQ(row[i].position, positions[i]) << "hint: at place " << i << ", how far into its own text are we?";
    EXPECT_EQ(row[i].has_target, targets[i]) << "hint: what comes after place " << i << "?";
  }
}

TEST(Exercise15, NobodySeesANeighbour) {
  const std::vector<Place> row = lay_out({3, 1, 2}, 8);
  ASSERT_EQ(row.size(), 8U);
  int pairs = 0;
  for (int64_t query = 0; query < 8; ++query) {
    for (int64_t key = 0; key < 8; ++key) pairs += sees(row, query, key) ? 1 : 0;
  }
  EXPECT_EQ(pairs, 6 + 1 + 3) << "hint: T tokens have T (T + 1) / 2 pairs among themselves, and none with anybody else";
  EXPECT_TRUE(sees(row, 2, 0));
  EXPECT_TRUE(sees(row, 3, 3));
  EXPECT_FALSE(sees(row, 0, 1)) << "hint: later";
  EXPECT_FALSE(sees(row, 3, 2)) << "hint: another text";
  EXPECT_FALSE(sees(row, 7, 7)) << "hint: padding";
}

}  // namespace
