#include <gtest/gtest.h>

#include EXERCISE

namespace {

TEST(Exercise11, HandsOutBuffersInTurn) {
  Ring ring(3, [](int) {});
  std::vector<int> order;
  for (int i = 0; i < 6; ++i) order.push_back(ring.next());
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 0, 1, 2}));
}

TEST(Exercise11, DoesNotWaitForABufferThatNobodyReads) {
  int waits = 0;
  Ring ring(2, [&](int) { ++waits; });
  for (int i = 0; i < 8; ++i) ring.next();
  EXPECT_EQ(waits, 0);
}

TEST(Exercise11, WaitsForTheReaderOfTheSameBuffer) {
  std::vector<int> waited;
  Ring ring(2, [&](int i) { waited.push_back(i); });
  for (int i = 0; i < 5; ++i) ring.reading(ring.next());
  EXPECT_EQ(waited, (std::vector<int>{0, 1, 0})) << "hint: the third buffer handed out is the first again, and its reader may not be done";
}

TEST(Exercise11, WaitsOnlyOnceForEachReader) {
  std::vector<int> waited;
  Ring ring(1, [&](int i) { waited.push_back(i); });
  ring.reading(ring.next());
  ring.next();
  ring.next();
  EXPECT_EQ(waited.size(), 1U) << "hint: after the wait the buffer has no reader any more";
}

}  // namespace
