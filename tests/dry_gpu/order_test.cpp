// The clocks behind a dry GPU's races, held against a model that knows nothing of clocks: a graph of what comes before
// what, and a search in it.

#include "common/dry_gpu/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tenfold::dry {
namespace {

Access reads(uintptr_t begin, uintptr_t end) { return {{.begin = begin, .end = end}, false}; }
Access writes(uintptr_t begin, uintptr_t end) { return {{.begin = begin, .end = end}, true}; }

std::shared_ptr<const User> user(const std::string& name) { return std::make_shared<User>(name); }

/// Races as "earlier later", of the program as it is.
struct Orders {
  std::vector<std::string> races;
  std::vector<Race> all;
  Ordering ordering{[this](const Race& race) {
    all.push_back(race);
    if ((race.without & 1) != 0) races.push_back(race.earlier_user->name + " " + race.later_user->name);
  }};
};

TEST(Bytes, ColumnsOfAMatrixDoNotOverlap) {
  const Bytes whole{.begin = 1000, .end = 1640};
  const Bytes left{.begin = 1000, .end = 1620, .period = 40, .width = 20};
  const Bytes right{.begin = 1020, .end = 1640, .period = 40, .width = 20};
  const Bytes middle{.begin = 1010, .end = 1630, .period = 40, .width = 20};
  EXPECT_FALSE(overlap(left, right));
  EXPECT_TRUE(overlap(left, middle));
  EXPECT_TRUE(overlap(middle, right));
  EXPECT_TRUE(overlap(whole, right));
  EXPECT_FALSE(overlap(left, {.begin = 1020, .end = 1040})) << "between two of its rows";
  EXPECT_TRUE(overlap(left, {.begin = 1020, .end = 1041}));
  EXPECT_FALSE(overlap(whole, {.begin = 1640, .end = 1700}));
}

// Every pattern against every other one, byte by byte.
TEST(Bytes, AsCountedByteByByte) {
  std::mt19937 random(1);
  const auto drawn = [&random](uint64_t most) { return 1 + random() % most; };
  for (int i = 0; i < 2000; ++i) {
    const uint64_t period = drawn(6);
    const auto pattern = [&] {
      Bytes bytes{.begin = 100 + drawn(20), .period = random() % 3 == 0 ? 0 : random() % 2 == 0 ? period : drawn(6)};
      if (bytes.period == 0) {
        bytes.end = bytes.begin + drawn(12);
        return bytes;
      }
      bytes.width = drawn(bytes.period);
      bytes.end = bytes.begin + bytes.period * (drawn(4) - 1) + bytes.width;
      return bytes;
    };
    const auto counted = [](const Bytes& of) {
      std::set<uintptr_t> all;
      for (uintptr_t at = of.begin; at < of.end; ++at) {
        if (of.period == 0 || (at - of.begin) % of.period < of.width) all.insert(at);
      }
      return all;
    };
    const Bytes a = pattern(), b = pattern();
    std::vector<uintptr_t> both;
    std::ranges::set_intersection(counted(a), counted(b), std::back_inserter(both));
    // Patterns of two different periods may be said to overlap where they do not.
    if (!both.empty() || a.period == 0 || b.period == 0 || a.period == b.period)
      EXPECT_EQ(overlap(a, b), !both.empty()) << a.begin << " " << a.end << " " << a.period << " " << a.width << ", "
                                              << b.begin << " " << b.end << " " << b.period << " " << b.width;
  }
}

TEST(Ordering, AnEventOrders) {
  Orders of;
  of.ordering.uses(0, {writes(0, 100)}, user("write"));
  of.ordering.waits(1, of.ordering.known_by(0));
  of.ordering.uses(1, {reads(0, 100)}, user("read"));
  EXPECT_THAT(of.races, testing::IsEmpty());
  of.ordering.uses(0, {writes(40, 60)}, user("again"));
  EXPECT_THAT(of.races, testing::ElementsAre("read again"));
  EXPECT_EQ(of.all.back().bytes, 20);
  of.ordering.uses(0, {writes(0, 40)}, user("third"));
  EXPECT_THAT(of.races, testing::ElementsAre("read again", "read third")) << "what else was read";
}

TEST(Ordering, WhatWasHandedOverBehindTheRecordIsNotOrdered) {
  Orders of;
  const Clocks recorded = of.ordering.known_by(0);
  of.ordering.uses(0, {writes(0, 100)}, user("write"));
  of.ordering.waits(1, recorded);
  of.ordering.uses(1, {reads(0, 100)}, user("read"));
  EXPECT_THAT(of.races, testing::ElementsAre("write read"));
}

TEST(Ordering, TheHostHandsOnWhatItHasWaitedFor) {
  Orders of;
  of.ordering.uses(0, {writes(0, 100)}, user("write"));
  of.ordering.host_waits(of.ordering.known_by(0));
  of.ordering.uses(1, {reads(0, 100)}, user("read"));
  of.ordering.uses(2, {writes(0, 100)}, user("other"));
  EXPECT_THAT(of.races, testing::ElementsAre("read other"));
}

TEST(Ordering, MemoryThatIsHandedOutAgain) {
  const auto with = [](bool waits, bool learns, size_t next) {
    Orders of;
    of.ordering.hand_out(0, {.begin = 0, .end = 100}, user("empty"));
    of.ordering.uses(0, {writes(0, 100)}, user("write"));
    of.ordering.waits(1, of.ordering.known_by(0));
    of.ordering.uses(1, {reads(0, 100)}, user("read"));
    if (waits) of.ordering.waits(0, of.ordering.known_by(1));
    if (learns) of.ordering.allocator_learns(of.ordering.known_by(1));
    of.ordering.hand_out(0, {.begin = 0, .end = 50}, user("empty"));
    of.ordering.uses(next, {writes(0, 50)}, user("next"));
    std::vector<std::string> kinds;
    for (const Race& race : of.all)
      kinds.push_back((race.kind == Race::Kind::freed ? "freed " : "handed out ") + race.earlier_user->name);
    return kinds;
  };
  EXPECT_THAT(with(false, false, 0), testing::ElementsAre("freed read"));
  EXPECT_THAT(with(true, false, 0), testing::IsEmpty());
  EXPECT_THAT(with(false, true, 0), testing::IsEmpty()) << "record_stream";
  EXPECT_THAT(with(true, false, 2), testing::ElementsAre("handed out empty")) << "it must wait for stream 0";
}

// The wait may come behind the allocation: what counts is the first use.
TEST(Ordering, AWaitBehindTheAllocationIsEarlyEnough) {
  Orders of;
  of.ordering.uses(1, {reads(0, 100)}, user("read"));
  of.ordering.hand_out(0, {.begin = 0, .end = 100}, user("empty"));
  of.ordering.waits(0, of.ordering.known_by(1));
  of.ordering.uses(0, {writes(0, 100)}, user("next"));
  EXPECT_THAT(of.races, testing::IsEmpty());
}

TEST(Ordering, ThePagesThatAreGoneAreNoOnesAnyMore) {
  Orders of;
  of.ordering.uses(0, {writes(0, 100)}, user("write"));
  of.ordering.gone({.begin = 0, .end = 50});
  of.ordering.uses(1, {reads(0, 50)}, user("read"));
  EXPECT_THAT(of.races, testing::IsEmpty());
  of.ordering.uses(1, {reads(0, 51)}, user("more"));
  EXPECT_THAT(of.races, testing::ElementsAre("write more"));
}

TEST(Ordering, TheHostsOwnUses) {
  Orders of;
  of.ordering.uses(0, {reads(0, 100)}, user("copy"));
  EXPECT_THAT(of.ordering.host_uses(reads(0, 100)), testing::IsEmpty());
  EXPECT_EQ(of.ordering.host_uses(writes(50, 60)).size(), 1);
  of.ordering.host_waits(of.ordering.known_by(0));
  EXPECT_THAT(of.ordering.host_uses(writes(50, 60)), testing::IsEmpty());
}

// --- programs drawn by chance ---------------------------------------------------------------------------------------

struct Step {
  enum Kind { kUse, kRecord, kWait, kHostWait } kind = kUse;
  size_t stream = 0, event = 0;
  std::vector<Access> accesses;
};

std::vector<Step> drawn_program(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Step> program;
  const int steps = 6 + static_cast<int>(seed % 30);
  for (int i = 0; i < steps; ++i) {
    Step step{.stream = random() % 3, .event = random() % 4};
    switch (random() % 8) {
      case 0:
      case 1:
        step.kind = Step::kRecord;
        break;
      case 2:
      case 3:
        step.kind = Step::kWait;
        break;
      case 4:
        step.kind = random() % 4 == 0 ? Step::kHostWait : Step::kWait;
        break;
      default:
        for (size_t k = 0; k < 1 + random() % 2; ++k) {
          const uintptr_t begin = 10 * (random() % 12);
          step.accesses.push_back({{.begin = begin, .end = begin + 10 * (1 + random() % 3)}, random() % 3 == 0});
        }
    }
    program.push_back(step);
  }
  return program;
}

/// What comes right before each step: the one before in its stream, what the host has waited for, the record it waits
/// for. Without one of the synchronisations.
std::vector<std::vector<size_t>> before(const std::vector<Step>& program, size_t without) {
  std::vector<std::vector<size_t>> edges(program.size());
  std::map<size_t, size_t> last, recorded;
  std::vector<size_t> host;
  for (size_t i = 0; i < program.size(); ++i) {
    const Step& step = program[i];
    if (i == without) continue;
    if (step.kind == Step::kHostWait) {
      if (recorded.contains(step.event)) host.push_back(recorded[step.event]);
      continue;
    }
    edges[i] = host;
    if (last.contains(step.stream)) edges[i].push_back(last[step.stream]);
    if (step.kind == Step::kWait && recorded.contains(step.event)) edges[i].push_back(recorded[step.event]);
    if (step.kind == Step::kRecord) recorded[step.event] = i;
    last[step.stream] = i;
  }
  return edges;
}

/// Every pair of uses, with a byte in common that one writes, between which there is no path.
std::set<std::pair<size_t, size_t>> races_by_search(const std::vector<Step>& program, size_t without) {
  const auto edges = before(program, without);
  std::set<std::pair<size_t, size_t>> races;
  for (size_t later = 0; later < program.size(); ++later) {
    std::vector<bool> reached(program.size());
    std::vector<size_t> open{later};
    while (!open.empty()) {
      const size_t at = open.back();
      open.pop_back();
      if (reached[at]) continue;
      reached[at] = true;
      open.insert(open.end(), edges[at].begin(), edges[at].end());
    }
    for (size_t earlier = 0; earlier < later; ++earlier) {
      for (const Access& a : program[earlier].accesses) {
        for (const Access& b : program[later].accesses) {
          if (!reached[earlier] && (a.writes || b.writes) && a.bytes.begin < b.bytes.end && b.bytes.begin < a.bytes.end)
            races.insert({earlier, later});
        }
      }
    }
  }
  return races;
}

TEST(DrawnPrograms, HaveTheRacesThatASearchFinds) {
  int with_races = 0, without_races = 0, only_without_a_wait = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    const std::vector<Step> program = drawn_program(seed);
    std::map<size_t, Clocks> recorded;
    std::vector<size_t> synchronisations;
    std::vector<Race> all;
    Ordering ordering([&](const Race& race) {
      all.push_back(race);
      // A race of the program as it is, is one without a synchronisation that comes later, too.
      if ((race.without & 1) != 0) all.back().without |= ~uint64_t{0} << (synchronisations.size() + 1);
    });
    for (size_t i = 0; i < program.size(); ++i) {
      const Step& step = program[i];
      Without without = 0;
      if (step.kind != Step::kUse && synchronisations.size() < kMostWithout) {
        synchronisations.push_back(i);
        without = synchronisations.size();
        ordering.add_without(without);
      }
      const auto event = recorded.find(step.event);
      switch (step.kind) {
        case Step::kUse:
          ordering.uses(step.stream, step.accesses, user(std::to_string(i)));
          break;
        case Step::kRecord:
          recorded[step.event] = Ordering::without_record(ordering.known_by(step.stream),
                                                          event == recorded.end() ? nullptr : &event->second, without);
          break;
        case Step::kWait:
          if (event != recorded.end()) ordering.waits(step.stream, event->second, without);
          break;
        case Step::kHostWait:
          if (event != recorded.end()) ordering.host_waits(event->second, without);
          break;
      }
    }
    const auto told = [&all](Without without) {
      std::set<std::pair<size_t, size_t>> pairs;
      for (const Race& race : all) {
        if ((race.without >> without & 1) != 0)
          pairs.insert({std::stoul(race.earlier_user->name), std::stoul(race.later_user->name)});
      }
      return pairs;
    };
    for (Without without = 0; without <= synchronisations.size(); ++without) {
      const auto expected = races_by_search(program, without == 0 ? SIZE_MAX : synchronisations[without - 1]);
      const auto found = told(without);
      ASSERT_EQ(found.empty(), expected.empty()) << "seed " << seed << " without " << without;
      for (const auto& pair : found)
        ASSERT_TRUE(expected.contains(pair)) << "seed " << seed << ": " << pair.first << " " << pair.second;
      const auto first_of = [](const auto& pairs) {
        size_t first = SIZE_MAX;
        for (const auto& [earlier, later] : pairs) first = std::min(first, later);
        return first;
      };
      ASSERT_EQ(first_of(found), first_of(expected)) << "seed " << seed << " without " << without;
      ++(expected.empty() ? without_races : with_races);
      only_without_a_wait += !expected.empty() && told(0).empty() ? 1 : 0;
    }
  }
  EXPECT_GT(with_races, 100);
  EXPECT_GT(without_races, 100);
  EXPECT_GT(only_without_a_wait, 20);
}

}  // namespace
}  // namespace tenfold::dry
