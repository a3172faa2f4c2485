// Each cure where the numbers support it, and nowhere else.
#include "common/snapshot/cures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/snapshot/report.h"
#include "story.h"

namespace tenfold {
namespace {

using test::Json;
using test::Story;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Advice advice_of(const Story& story) {
  const MemorySnapshot snapshot = story.read();
  const auto trace = replay(snapshot, 0);
  return advise(snapshot, memory_now(snapshot, 0), trace ? &*trace : nullptr);
}

std::vector<std::string> cures_of(const Story& story) {
  std::vector<std::string> ids;
  for (const Cure& cure : advice_of(story).cures) ids.push_back(cure.id);
  return ids;
}

/// The same batch again and again, whose blocks lie free at the end: nothing is wrong.
Story equal_lengths() {
  Story story;
  story.take(1000, 300, 7);
  for (int step = 0; step < 20; ++step) story.alloc(1000, 300, 7).free(1000, 300);
  return story.segment(1000, {{300, 0}});
}

TEST(Cures, NothingIsToCureWhereTheCacheIsUsedAgain) {
  const Advice advice = advice_of(equal_lengths());
  EXPECT_THAT(advice.cures, IsEmpty());
  EXPECT_THAT(advice.otherwise, HasSubstr("nothing to cure"));
  EXPECT_EQ(advice.excess, 0);
}

TEST(Cures, RisingLengths) {
  const Story story = test::rising_lengths();
  EXPECT_THAT(cures_of(story), ElementsAre("expandable_segments", "longest_first", "rounded_sizes"));
  EXPECT_THAT(advice_of(story).cures[0].reason, HasSubstr("reserved rose to 3.81 GiB, tensors requested 290 MiB"));
  EXPECT_THAT(advice_of(story).cures[1].reason, HasSubstr("3.60 GiB in 18 driver calls"));
}

TEST(Cures, ThoseThatAreInUseAreNotNamedAgain) {
  Story story = test::rising_lengths();
  story.json["allocator_settings"] = {{"expandable_segments", true}};
  EXPECT_THAT(cures_of(story), IsEmpty());
  story.json["allocator_settings"] = {{"roundup_power2_divisions", {{"1", 4}}}};
  EXPECT_THAT(cures_of(story), ElementsAre("expandable_segments", "longest_first"));
}

TEST(Cures, FallingLengthsNeedNone) {
  Story story;
  story.take(1000, 290, 7);
  for (int step = 20; step-- > 0;) story.alloc(1000, 100 + 10 * step, 7).free(1000, 100 + 10 * step);
  story.segment(1000, {{290, 0}});
  EXPECT_THAT(cures_of(story), IsEmpty());
}

TEST(Cures, AFewMegabytesAreNone) {
  Story story;
  story.take(0, 20, 7).alloc(0, 2, 7).segment(0, {{2, 2}, {18, 0}});
  EXPECT_THAT(cures_of(story), IsEmpty()) << "nine tenths, but 18 MiB";
}

TEST(Cures, EmptyCacheInTheLoop) {
  const Story story = test::cache_given_back(test::emptying_line(9));
  EXPECT_THAT(cures_of(story), ElementsAre("less_empty_cache"));
  EXPECT_THAT(advice_of(story).cures[0].what, HasSubstr("empty_cache() in work/train.py:9 step"));
  EXPECT_THAT(advice_of(story).cures[0].reason, HasSubstr("6 times"));
}

TEST(Cures, EmptyCacheOnceIsNone) {
  Story story;
  story.take(1000, 300, 7).alloc(1000, 300, 7).free(1000, 300).give_back(1000, 300, test::emptying_line(9));
  story.take(1000, 300, 7).alloc(1000, 300, 7).segment(1000, {{300, 300}});
  EXPECT_THAT(cures_of(story), IsEmpty());
}

TEST(Cures, TheAllocatorGivesBackItself) {
  Story story = test::cache_given_back(test::line_of(7));
  EXPECT_THAT(cures_of(story), ElementsAre("garbage_collection_threshold"));
  story.json["allocator_settings"] = {{"garbage_collection_threshold", 0.8}};
  EXPECT_THAT(cures_of(story), IsEmpty());
}

TEST(Cures, WhoGaveBackIsNotGuessed) {
  EXPECT_THAT(cures_of(test::cache_given_back(Json::array())), IsEmpty()) << "recorded without stacks";
}

TEST(Cures, OutOfMemoryInPieces) {
  Story story;
  story.take(0, 1000, 7).alloc(0, 300, 7).alloc(300, 400, 8).alloc(700, 300, 7).free(300, 400);
  story.out_of_memory(405, 10, 11).segment(0, {{300, 300}, {400, 0}, {300, 300}});
  EXPECT_THAT(cures_of(story), ElementsAre("expandable_segments")) << "400 and 10 MiB would do";
  EXPECT_THAT(advice_of(story).cures[0].reason, HasSubstr("out of memory with 400 MiB free in pieces"));
}

TEST(Cures, TensorsThatFillTheCardHaveNone) {
  Story story;
  story.take(0, 1000, 7).alloc(0, 990, 7).out_of_memory(50, 8, 11).segment(0, {{990, 990}, {10, 0}});
  EXPECT_THAT(cures_of(story), IsEmpty());
  EXPECT_THAT(advice_of(story).otherwise,
              HasSubstr("in the cache, 10.0 MiB, and on the card, 8.00 MiB, is less than the request"));
}

TEST(Cures, ALimitIsNoFullCard) {
  Story story;
  story.take(0, 1000, 7).alloc(0, 990, 7).out_of_memory(50, 8000, 11).segment(0, {{990, 990}, {10, 0}});
  EXPECT_THAT(advice_of(story).otherwise, HasSubstr("a limit stopped it"));
}

TEST(Cures, WithoutATraceNoneIsNamed) {
  Story story;
  story.segment(0, {{1, 1}, {900, 0}});
  EXPECT_THAT(cures_of(story), IsEmpty());
  EXPECT_THAT(advice_of(story).otherwise, HasSubstr("_record_memory_history"));
}

TEST(Cures, OrWhereTheTraceIsOfAnotherTime) {
  Story story;
  story.take(0, 900, 7).alloc(0, 900, 7);
  EXPECT_THAT(advice_of(story).otherwise, HasSubstr("does not lead to the segments"));
}

TEST(Report, SaysAllOfIt) {
  Story story;
  story.take(0, 1000, 7).alloc(0, 300, 7).alloc(300, 400, 8).alloc(700, 300, 7).free(300, 400);
  story.out_of_memory(405, 10, 11).segment(0, {{300, 300}, {400, 0}, {300, 300}});
  const std::string text = snapshot_text(story.read(), "mine.pickle");
  for (const char* part :
       {"mine.pickle, GPU 0: 6 events in 6.00 ms", "reserved             1000 MiB", "stranded              400 MiB",
        "tensors requested 1000 MiB, 3.00 ms after its start", "work/train.py:7 step     600 MiB",
        "Out of memory: work/train.py:11 step asked for 405 MiB", "400 MiB lay free in the cache, 10.0 MiB on the card",
        "1 took 1000 MiB, 0 gave back 0 B", "PYTORCH_ALLOC_CONF=expandable_segments:True: out of memory with 400 MiB"})
    EXPECT_THAT(text, HasSubstr(part));
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    EXPECT_LE(end - begin, 120u) << text.substr(begin, end - begin);
    begin = end + 1;
  }
  const Json json = Json::parse(snapshot_json(story.read(), "mine.pickle"));
  const Json& device = json.at("devices").at(0);
  EXPECT_EQ(device.at("memory").at("stranded"), 400 * test::kMega);
  EXPECT_EQ(device.at("trace").at("holders").at(0).at("place"), "work/train.py:7 step");
  EXPECT_EQ(device.at("trace").at("out_of_memory").at(0).at("bytes"), 405 * test::kMega);
  EXPECT_EQ(device.at("advice").at("cures").at(0).at("id"), "expandable_segments");
}

TEST(Report, OfNothing) { EXPECT_THAT(snapshot_text(Story().read(), "x"), HasSubstr("the allocator held nothing")); }

}  // namespace
}  // namespace tenfold
