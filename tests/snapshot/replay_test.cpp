// The memory when a snapshot was written, and its trace, against what a person counts.
#include "common/snapshot/replay.h"

#include <gtest/gtest.h>

#include "story.h"

namespace tenfold {
namespace {

using test::Json;
using test::kMega;
using test::Story;

TEST(MemoryNow, TellsStrandedFromReturnable) {
  Story story;
  story.segment(0, {{40, 38}, {20, 0}, {40, 40}});  // 20 MiB stranded, 2 MiB rounded up
  story.segment(1000, {{60, 0}});
  story.segment(2000, {{1, 0}, {9, 9}, {200, 0}});
  const MemoryNow now = memory_now(story.read(), 0);
  EXPECT_EQ(now.reserved, 370 * kMega);
  EXPECT_EQ(now.allocated, 89 * kMega);
  EXPECT_EQ(now.requested, 87 * kMega);
  EXPECT_EQ(now.returnable, 60 * kMega);
  EXPECT_EQ(now.stranded, 221 * kMega);
  EXPECT_EQ(now.segments, 3);
  EXPECT_EQ(now.segments_in_use, 2);
  EXPECT_EQ(now.stranded_by_class[0].bytes, 1 * kMega) << "a class ends with its last byte";
  EXPECT_EQ(now.stranded_by_class[1].count, 0);
  EXPECT_EQ(now.stranded_by_class[2].bytes, 20 * kMega);
  EXPECT_EQ(now.stranded_by_class[3].bytes, 200 * kMega);
  EXPECT_EQ(now.largest_stranded, 200 * kMega);
}

TEST(MemoryNow, OfAnExpandableSegmentWholePagesGoBack) {
  Story story;
  story.segment(0, {{10, 10}, {70, 0}, {20, 20}}, {{"is_expandable", true}});
  const MemoryNow now = memory_now(story.read(), 0);
  EXPECT_EQ(now.returnable, 60 * kMega) << "pages of 20 MiB from 20 to 80";
  EXPECT_EQ(now.stranded, 10 * kMega);
}

TEST(MemoryNow, CountsPoolsOfGraphsApart) {
  Story story;
  story.segment(0, {{10, 10}}).segment(1000, {{30, 0}}, {{"segment_pool_id", {0, 1}}});
  EXPECT_EQ(memory_now(story.read(), 0).of_graphs, 30 * kMega);
}

TEST(Replay, FindsThePeakAndWhoHeldIt) {
  Story story;
  story.take(0, 100, 7).alloc(0, 30, 7).alloc(30, 20, 8).alloc(50, 40, 7).free(50, 40).free(30, 20).alloc(30, 5, 9);
  story.segment(0, {{30, 30}, {5, 5}, {65, 0}});
  const MemorySnapshot snapshot = story.read();
  const Replay trace = *replay(snapshot, 0);
  EXPECT_EQ(trace.events, 7) << "free_requested frees nothing yet";
  EXPECT_TRUE(trace.fits);
  EXPECT_EQ(trace.requested_at_start, 0);
  EXPECT_EQ(trace.requested_peak, 90 * kMega);
  EXPECT_EQ(trace.reserved_peak, 100 * kMega);
  EXPECT_NEAR(trace.peak_s, 0.003, 1e-9);
  ASSERT_EQ(trace.holders.size(), 2u);
  EXPECT_EQ(snapshot.places[trace.holders[0].place].name, "work/train.py:7 step");
  EXPECT_EQ(trace.holders[0].held.bytes, 70 * kMega);
  EXPECT_EQ(trace.holders[0].held.count, 2);
  EXPECT_EQ(snapshot.places[trace.holders[1].place].name, "work/train.py:8 step");
}

// A ring of so many events: what it has forgotten is known from its end.
TEST(Replay, KnowsWhatWasThereBeforeTheTrace) {
  Story story;
  story.free(500, 25).alloc(0, 50, 7);
  story.segment(0, {{50, 50}}).segment(400, {{10, 10}}).segment(500, {{25, 0}});
  const MemorySnapshot snapshot = story.read();
  const Replay trace = *replay(snapshot, 0);
  EXPECT_EQ(trace.requested_at_start, 35 * kMega);
  EXPECT_EQ(trace.reserved_at_start, 85 * kMega);
  EXPECT_EQ(trace.requested_peak, 60 * kMega);
  ASSERT_EQ(trace.holders.size(), 2u) << "25 MiB were gone at the peak";
  EXPECT_EQ(snapshot.places[trace.holders[1].place].name, "work/train.py:3 step") << "of the block in the segment";
}

TEST(Replay, ThePeakMayBeItsStart) {
  Story story;
  story.free(500, 25).segment(500, {{25, 0}});
  const MemorySnapshot snapshot = story.read();
  const Replay trace = *replay(snapshot, 0);
  EXPECT_EQ(trace.requested_peak, 25 * kMega);
  ASSERT_EQ(trace.holders.size(), 1u);
  EXPECT_EQ(trace.holders[0].place, kBeforeTrace);
}

TEST(Replay, SaysThatATraceDoesNotLeadToTheSegments) {
  Story story;
  story.take(0, 100, 7).alloc(0, 100, 7);
  EXPECT_FALSE(replay(story.read(), 0)->fits) << "allocated, never freed, and not there";
}

TEST(Replay, NotesWhoRanOutOfMemory) {
  Story story;
  story.take(0, 100, 7).alloc(0, 60, 7).out_of_memory(50, 8, 11).segment(0, {{60, 60}, {40, 0}});
  const MemorySnapshot snapshot = story.read();
  const Replay trace = *replay(snapshot, 0);
  ASSERT_EQ(trace.out_of_memory.size(), 1u);
  const OutOfMemory& event = trace.out_of_memory[0];
  EXPECT_EQ(snapshot.places[event.place].name, "work/train.py:11 step");
  EXPECT_EQ(event.bytes, 50 * kMega);
  EXPECT_EQ(event.free_on_card, 8 * kMega);
  EXPECT_EQ(event.requested, 60 * kMega);
  EXPECT_EQ(event.reserved, 100 * kMega);
}

TEST(Replay, CountsDriverCallsOverTime) {
  const Replay trace = *replay(test::cache_given_back(test::emptying_line(9)).read(), 0);
  EXPECT_EQ(trace.taken.count, 6);
  EXPECT_EQ(trace.taken.bytes, 600 * kMega);
  EXPECT_EQ(trace.given_back.bytes, 600 * kMega);
  EXPECT_EQ(trace.taken_late.count, 2) << "after the 4th of 6 allocations";
  EXPECT_EQ(trace.by_empty_cache.calls.count, 6);
  EXPECT_EQ(trace.by_empty_cache.asked_again, 500 * kMega);
  EXPECT_EQ(trace.by_allocator.calls.count, 0);
  int64_t taken = 0, given_back = 0;
  for (const Window& window : trace.windows) {
    taken += window.taken.count;
    given_back += window.given_back.count;
  }
  EXPECT_EQ(trace.windows.size(), 10u);
  EXPECT_EQ(taken, 6);
  EXPECT_EQ(given_back, 6);
}

TEST(Replay, SeesLengthsGrow) {
  const Replay trace = *replay(test::rising_lengths().read(), 0);
  EXPECT_EQ(trace.reserved_peak, 3900 * kMega);
  EXPECT_EQ(trace.requested_peak, 290 * kMega);
  EXPECT_EQ(trace.new_sizes_late, 10);
  EXPECT_EQ(trace.grown.count, 18) << "all but the first tenth";
  EXPECT_EQ(trace.grown.bytes, 3690 * kMega);
  EXPECT_EQ(trace.rounded_peak, 320 * kMega) << "290 MiB to a multiple of 64";
}

TEST(Replay, EachDeviceHasItsOwn) {
  Story story = test::rising_lengths();
  story.json["device_traces"].push_back(Json::array());
  story.segment(90000, {{5, 5}}, {{"device", 1}});
  const MemorySnapshot snapshot = story.read();
  EXPECT_EQ(devices_of(snapshot), (std::vector<int>{0, 1}));
  EXPECT_EQ(memory_now(snapshot, 1).reserved, 5 * kMega);
  EXPECT_FALSE(replay(snapshot, 1)) << "no history";
}

}  // namespace
}  // namespace tenfold
