#include <gtest/gtest.h>

#include EXERCISE

#include <algorithm>
#include <random>

namespace {

constexpr bool kUsed = true, kFree = false;

// 20 free, 30 of 50 in use, 10 in use between 40 and 50.
const std::vector<Segment> kSnapshot = {
    {{20, kFree}}, {{30, kUsed}, {20, kFree}}, {{40, kFree}, {10, kUsed}, {50, kFree}}};

TEST(Exercise32, OnlyWholeSegmentsAreGivenBack) {
  EXPECT_EQ(returnable_bytes({}), 0);
  EXPECT_EQ(returnable_bytes({{{8, kUsed}}}), 0);
  EXPECT_EQ(returnable_bytes({{{8, kFree}, {4, kFree}}}), 12);
  EXPECT_EQ(returnable_bytes(kSnapshot), 20)
      << "hint: cudaFree takes a whole segment: one block in use keeps all of it";
}

TEST(Exercise32, FreeBlocksBesideUsedOnesAreStranded) {
  EXPECT_EQ(stranded_bytes({}), 0);
  EXPECT_EQ(stranded_bytes({{{8, kFree}}}), 0) << "hint: a segment that nobody uses can be given back";
  EXPECT_EQ(stranded_bytes(kSnapshot), 20 + 40 + 50) << "hint: all free blocks of the segments that are in use";
}

TEST(Exercise32, ATensorLiesInOnePiece) {
  EXPECT_TRUE(can_allocate(kSnapshot, 50, 0));
  EXPECT_FALSE(can_allocate(kSnapshot, 51, 0)) << "hint: 130 bytes are free, but the largest gap has 50";
  EXPECT_TRUE(can_allocate({{{10, kUsed}, {30, kFree}, {30, kFree}}}, 60, 0))
      << "hint: free blocks that lie next to each other are merged";
  EXPECT_FALSE(can_allocate({{{30, kFree}, {1, kUsed}}, {{30, kFree}, {1, kUsed}}}, 60, 0))
      << "hint: neighbours in a list of segments are no neighbours on the card";
}

TEST(Exercise32, UnusedSegmentsAreGivenBackFirst) {
  EXPECT_TRUE(can_allocate({{{30, kFree}}, {{30, kFree}}}, 60, 0))
      << "hint: both segments are given back, and the driver makes one of them";
  EXPECT_TRUE(can_allocate(kSnapshot, 60, 40)) << "hint: what the card has free, and what is given back to it";
  EXPECT_FALSE(can_allocate(kSnapshot, 61, 40)) << "hint: a stranded block does not help the driver";
}

TEST(Exercise32, EveryFreeByteIsOneOrTheOther) {
  std::mt19937 bits(1);
  for (int snapshot = 0; snapshot < 100; ++snapshot) {
    std::vector<Segment> segments;
    int64_t free = 0, largest = 0;
    for (unsigned i = 0, count = bits() % 6; i < count; ++i) {
      Segment segment;
      for (unsigned k = 0, blocks = 1 + bits() % 4; k < blocks; ++k) {
        segment.push_back({1 + static_cast<int64_t>(bits() % 100), bits() % 3 == 0});
        if (segment.back().in_use) continue;
        free += segment.back().bytes;
        largest = std::max(largest, segment.back().bytes);
      }
      segments.push_back(segment);
    }
    EXPECT_EQ(returnable_bytes(segments) + stranded_bytes(segments), free)
        << "hint: a free block is returnable or stranded, never both";
    EXPECT_TRUE(can_allocate(segments, largest, 0)) << "hint: there is a block of just this size";
    EXPECT_FALSE(can_allocate(segments, free + 1, 0)) << "hint: not so many bytes are free";
  }
}

}  // namespace
