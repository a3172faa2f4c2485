// The time pass by itself: how many rounds it measures, and which case gets the time that is left.
#include "common/harness/time_pass.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "common/result/judge.h"

#include "toy.h"

namespace {

/// A case ready to be timed.
class Timed {
 public:
  /// `peak_bytes` is what each variant's step is said to take.
  explicit Timed(tenfold::Lesson lesson, const std::string& preset = "quick", int64_t peak_bytes = 0)
      : lesson_(std::move(lesson)), progress_(false) {
    options_.preset = tenfold::preset_named(preset);
    run_ = std::make_unique<tenfold::PartRun>(
        tenfold::PartRun{.lesson = lesson_,
                         .chosen = {.part = tenfold::parts_of(lesson_).front(), .name = "toy"},
                         .options = options_,
                         .world = world_,
                         .device = torch::kCPU,
                         .machine = machine_,
                         .size = tenfold::Size::cpu,
                         .clean = tenfold::GlobalState::capture(torch::kCPU),
                         .progress = progress_,
                         .groups = groups_,
                         .mesh = {}});
    add(lesson_.baseline);
    for (const auto& technique : lesson_.techniques) add(technique);
    for (tenfold::Candidate& candidate : run_->candidates) {
      candidate.result.peak_bytes["allocated"] = candidate.resting_bytes = peak_bytes;
    }
    pass = std::make_unique<tenfold::TimePass>(*run_);
  }

  size_t rounds() const { return run_->candidates[0].result.blocks.at(0).size(); }
  const std::vector<int64_t>& builds() const { return run_->candidates[0].result.blocks.at(0).build; }
  const tenfold::World& world() const { return world_; }
  std::unique_ptr<tenfold::TimePass> pass;

 private:
  void add(const tenfold::Variant& variant) {
    run_->candidates.push_back({.name = variant.name, .body = &variant});
    run_->candidates.back().result.name = variant.name;
  }

  tenfold::Lesson lesson_;
  tenfold::Options options_;
  tenfold::World world_;
  tenfold::CountedGroups groups_{world_};
  tenfold::Machine machine_;
  tenfold::Progress progress_;
  std::unique_ptr<tenfold::PartRun> run_;
};

/// A twin that takes four times as long for a while, and then does not: a block tells little about the next.
tenfold::Lesson unsteady() {
  auto lesson = toy::lesson();
  lesson.techniques = {{"unsteady", [](const tenfold::Trial& trial) {
                          tenfold::Step step = toy::plain(trial);
                          step.update = [fn = step.update, calls = std::make_shared<int>(0)] {
                            std::this_thread::sleep_for(std::chrono::milliseconds(++*calls / 17 % 3 == 0 ? 4 : 1));
                            return fn();
                          };
                          return step;
                        }}};
  return lesson;
}

TEST(TimePass, MeasuresTwelveRoundsHoweverLittleTimeThereIs) {
  Timed timed(toy::lesson());
  timed.pass->first_slice(0);
  EXPECT_EQ(timed.rounds(), static_cast<size_t>(tenfold::kFullRounds));
}

TEST(TimePass, ASliceAddsWholeBuilds) {
  Timed timed(toy::lesson());
  timed.pass->first_slice(0);
  const int64_t last = timed.builds().back();
  timed.pass->next_slice(0);
  EXPECT_EQ(timed.rounds(), tenfold::kFullRounds + 2U);
  EXPECT_EQ(timed.builds().back(), last + 1);
  timed.pass->next_slice(2);
  EXPECT_GE(timed.rounds(), tenfold::kFullRounds + 6U);
  EXPECT_EQ(timed.builds().back(), last + 2);
}

TEST(TimePass, TimeThatIsLeftGoesWhereTheIntervalIsWide) {
  Timed steady(toy::lesson()), wide(unsteady());
  steady.pass->first_slice(0.5);
  wide.pass->first_slice(0.5);
  // Which of them is the wide one depends on what else the machine does: a second is worth most where it is.
  const auto worth = [](const Timed& timed) { return timed.pass->width() / timed.pass->seconds_spent(); };
  const Timed& first = worth(wide) > worth(steady) ? wide : steady;
  const size_t rounds = first.rounds();
  const double seconds = 2 * std::max(wide.pass->shortest_slice(), steady.pass->shortest_slice());
  std::vector<const tenfold::TimePass*> told;
  tenfold::share_time({steady.pass.get(), wide.pass.get()}, steady.world(), seconds,
                      [&](const tenfold::TimePass& pass, double part) {
                        EXPECT_GE(part, 0);
                        EXPECT_LE(part, 1);
                        told.push_back(&pass);
                      });
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.front(), first.pass.get());
  EXPECT_GT(first.rounds(), rounds);
}

TEST(TimePass, OnlyTheLargestStepCountsBesidesWhatRests) {
  EXPECT_EQ(tenfold::bytes_together({{2, 20}, {2, 20}, {3, 24}}), 2 + 2 + 3 + 21);
  EXPECT_EQ(tenfold::bytes_together({}), 0);
}

TEST(TimePass, WhatDoesNotFitTogetherIsBuiltForEachBlockAndWarmedUpByTime) {
  int built = 0, stepped = 0;
  auto lesson = toy::lesson();
  lesson.techniques = {{"counted", [&](const tenfold::Trial& trial) {
                          ++built;
                          tenfold::Step step = toy::plain(trial);
                          step.update = [&stepped, fn = step.update] {
                            ++stepped;
                            std::this_thread::sleep_for(std::chrono::milliseconds(5));
                            return fn();
                          };
                          return step;
                        }}};
  Timed timed(std::move(lesson), "smoke", int64_t{1} << 60);
  timed.pass->first_slice(0);
  EXPECT_EQ(timed.rounds(), 2U);
  EXPECT_EQ(built, 3) << "for its costs, and for each of its two blocks";
  // A warm-up of 0.2 s has twenty pairs of these steps; a machine that stretches them to four times as long keeps the
  // rest.
  EXPECT_GT(stepped, 5 * built) << "more than two steps to warm up and some that are timed";
}

TEST(TimePass, WithoutAClaimAStepOfEachVariantIsEnough) {
  int stepped = 0;
  auto lesson = toy::lesson();
  lesson.techniques = {{"counted", [&](const tenfold::Trial& trial) {
                          tenfold::Step step = toy::plain(trial);
                          step.update = [&stepped, fn = step.update] {
                            ++stepped;
                            return fn();
                          };
                          return step;
                        }}};
  Timed timed(std::move(lesson), "smoke");
  timed.pass->first_slice(0);
  EXPECT_EQ(stepped, 2 + 1 + 2) << "to warm up, for its cost, and one in each of two rounds";
  EXPECT_EQ(tenfold::split_steps(tenfold::preset_named("smoke")).seen, 1);
  EXPECT_EQ(tenfold::split_steps(tenfold::preset_named("quick")).seen, 5);
}

TEST(TimePass, NothingToCompareIsNothingToDo) {
  auto lesson = toy::lesson();
  lesson.techniques.clear();
  Timed timed(std::move(lesson));
  EXPECT_TRUE(timed.pass->done());
  timed.pass->first_slice(0.1);
  tenfold::share_time({timed.pass.get()}, timed.world(), 1,
                      [](const tenfold::TimePass&, double) { FAIL() << "there is nothing to time"; });
}

}  // namespace
