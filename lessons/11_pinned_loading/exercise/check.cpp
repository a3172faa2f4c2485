#include <gtest/gtest.h>

#include EXERCISE

#include <stdexcept>

namespace {

/// Notes that somebody waited for the reader of buffer i. Twenty waits are more than any check has readers for: an
/// answer that asks again and again is cut off.
void note_wait(std::vector<int>& waited, int i) {
  waited.push_back(i);
  if (waited.size() < 20) return;
  ADD_FAILURE() << "hint: wait(i) comes back when the reader has finished; who says then that buffer i has none?";
  throw std::runtime_error("waits for ever");
}

TEST(Exercise11, HandsOutBuffersInTurn) {
  Ring ring(3, [](int) {});
  std::vector<int> order;
  for (int i = 0; i < 6; ++i) order.push_back(ring.next());
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 0, 1, 2}));
}

TEST(Exercise11, DoesNotWaitForABufferThatNobodyReads) {
  std::vector<int> waited;
  Ring ring(2, [&](int i) { note_wait(waited, i); });
  for (int i = 0; i < 8; ++i) ring.next();
  EXPECT_EQ(waited.size(), 0U);
}

TEST(Exercise11, WaitsForTheReaderOfTheSameBuffer) {
  std::vector<int> waited;
  Ring ring(2, [&](int i) { note_wait(waited, i); });
  for (int i = 0; i < 5; ++i) ring.reading(ring.next());
  EXPECT_EQ(waited, (std::vector<int>{0, 1, 0}))
      << "hint: the third buffer handed out is the first again, and its reader may not be done";
}

TEST(Exercise11, WaitsOnlyOnceForEachReader) {
  std::vector<int> waited;
  Ring ring(1, [&](int i) { note_wait(waited, i); });
  ring.reading(ring.next());
  ring.next();
  ring.next();
  EXPECT_EQ(waited.size(), 1U) << "hint: after the wait the buffer has no reader any more";
}

}  // namespace
