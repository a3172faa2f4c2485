#include <gtest/gtest.h>

#include "host_stream.h"

#include <atomic>
#include <future>
#include <stdexcept>
#include <vector>

namespace {

using tenfold::HostEvent;
using tenfold::HostStream;

TEST(HostStream, WorksInTheOrderItWasTold) {
  HostStream stream;
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) stream.run([&order, i] { order.push_back(i); });
  stream.record().synchronize();
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(HostStream, TheCallerGoesOnAtOnce) {
  std::promise<void> gate;
  HostStream stream;
  stream.run([open = gate.get_future().share()] { open.wait(); });
  const HostEvent after = stream.record();
  EXPECT_FALSE(after.reached()) << "the work before it is still waiting";
  gate.set_value();
  after.synchronize();
  EXPECT_TRUE(after.reached());
}

TEST(HostStream, AnEventMarksOnlyWhatWasQueuedBefore) {
  std::promise<void> gate;
  HostStream stream;
  const HostEvent before = stream.record();
  stream.run([open = gate.get_future().share()] { open.wait(); });
  before.synchronize();  // would hang if it meant the gate, too
  EXPECT_TRUE(before.reached());
  gate.set_value();
}

TEST(HostStream, OneStreamWaitsForAnother) {
  std::promise<void> gate;
  std::atomic<bool> first_done = false, seen = false;
  HostStream first, second;
  first.run([&first_done, open = gate.get_future().share()] {
    open.wait();
    first_done = true;
  });
  second.wait(first.record());
  second.run([&] { seen = first_done.load(); });
  const HostEvent done = second.record();
  EXPECT_FALSE(done.reached());
  gate.set_value();
  done.synchronize();
  EXPECT_TRUE(seen);
}

TEST(HostStream, DoesWhatIsQueuedBeforeItEnds) {
  int done = 0;
  {
    HostStream stream;
    for (int i = 0; i < 10; ++i) stream.run([&done] { ++done; });
  }
  EXPECT_EQ(done, 10);
}

TEST(HostStream, AnErrorComesOutAtTheEvent) {
  HostStream stream;
  bool later = false;
  stream.run([] { throw std::runtime_error("the disk is gone"); });
  stream.run([&later] { later = true; });
  EXPECT_THROW(stream.record().synchronize(), std::runtime_error);
  EXPECT_FALSE(later) << "what comes after a failure must not work with half a batch";
}

TEST(HostEvent, CountsAsReachedWhenNeverRecorded) {
  const HostEvent never;
  EXPECT_TRUE(never.reached());
  never.synchronize();
}

TEST(HostEvent, KnowsWhenItWasReached) {
  HostStream stream;
  const HostEvent begin = stream.record();
  stream.run([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  const HostEvent end = stream.record();
  EXPECT_GE(end.seconds_since(begin), 0.02);
  EXPECT_LE(end.seconds_since(HostEvent::now()), 0.02);
  EXPECT_TRUE(HostEvent::now().reached());
}

}  // namespace
