#include <gtest/gtest.h>

#include EXERCISE

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/gate.h"

namespace {

using tenfold::HostEvent;
using tenfold::HostStream;
using tenfold::test::Gate;
using tenfold::test::soon;
using namespace std::chrono_literals;

/// Waits for all streams, whatever an answer has returned.
void finish(std::deque<HostStream>& streams) {
  for (HostStream& stream : streams) stream.record().synchronize();
}

TEST(Exercise26, ATaskWaitsForWhatItNeeds) {
  Gate gate;
  std::atomic<bool> made = false, found = false, ran = false;
  std::deque<HostStream> streams(2);
  run_tasks(streams, {{[&] {
                         gate.wait();
                         made = true;
                       },
                       0},
                      {[&] {
                         found = made.load();
                         ran = true;
                       },
                       1,
                       {0}}});
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(ran) << "hint: task 1 needs task 0, which runs on another stream and has not finished: let its stream "
                       "wait for an event behind task 0";
  gate.open();
  finish(streams);
  EXPECT_TRUE(ran && found) << "hint: every task runs once, after what it needs";
}

TEST(Exercise26, ATaskWaitsForAllThatItNeeds) {
  Gate first, second;
  std::atomic<bool> ran = false;
  std::deque<HostStream> streams(3);
  run_tasks(streams, {{[&] { first.wait(); }, 0}, {[&] { second.wait(); }, 1}, {[&] { ran = true; }, 2, {0, 1}}});
  second.open();
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(ran) << "hint: task 2 needs two tasks, and one of them is not done";
  first.open();
  finish(streams);
  EXPECT_TRUE(ran);
}

TEST(Exercise26, WhatIsNotNeededHoldsNobodyUp) {
  Gate gate;
  std::atomic<int> others = 0;
  std::deque<HostStream> streams(3);
  run_tasks(streams, {{[] {}, 0},
                      {[&] { gate.wait(); }, 0},
                      {[&] { ++others; }, 1},
                      {[&] { ++others; }, 2, {0}},
                      {[&] { ++others; }, 2, {2}}});
  EXPECT_TRUE(soon([&] { return others == 3; }))
      << "hint: " << 3 - others << " of 3 tasks wait for a task that they do not need: record each task's event right "
      << "behind it, and wait for that one alone";
  gate.open();
  finish(streams);
}

TEST(Exercise26, TheHostNeverWaits) {
  Gate gate;
  std::deque<HostStream> streams(2);
  const auto begin = std::chrono::steady_clock::now();
  run_tasks(streams, {{[&] { gate.wait(); }, 0}, {[] {}, 1, {0}}, {[] {}, 0, {1}}});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 4s) << "hint: let a stream wait for an event, not the caller";
  gate.open();
  finish(streams);
}

TEST(Exercise26, TheEventsStandBehindTheLastTasks) {
  Gate gate;
  std::atomic<int> done = 0;
  std::deque<HostStream> streams(3);
  const std::vector<HostEvent> ends = run_tasks(streams, {{[&] { ++done; }, 0},
                                                          {[&] {
                                                             gate.wait();
                                                             ++done;
                                                           },
                                                           1},
                                                          {[&] { ++done; }, 0, {1}}});
  ASSERT_EQ(ends.size(), 3U) << "hint: an event for each stream, also for one without a task";
  EXPECT_FALSE(ends[0].reached()) << "hint: the last task of stream 0 has not run, and its event says it has";
  EXPECT_FALSE(ends[1].reached()) << "hint: the last task of stream 1 has not run, and its event says it has";
  gate.open();
  for (const HostEvent& end : ends) end.synchronize();
  EXPECT_EQ(done, 3);
  finish(streams);
}

}  // namespace
