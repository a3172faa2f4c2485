// The time pass by itself: how many rounds it measures, and which case gets the time that is left.
#include <tenfold/time_pass.h>

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include <tenfold/judge.h>

#include "toy.h"

namespace {

/// A case ready to be timed.
class Timed {
 public:
  explicit Timed(tenfold::Lesson lesson) : lesson_(std::move(lesson)), progress_(false) {
    options_.preset = tenfold::preset_named("quick");
    run_ = std::make_unique<tenfold::CaseRun>(tenfold::CaseRun{lesson_,
                                                               lesson_.cases[0],
                                                               options_,
                                                               world_,
                                                               torch::kCPU,
                                                               machine_,
                                                               tenfold::Size::cpu,
                                                               tenfold::GlobalState::capture(torch::kCPU),
                                                               progress_,
                                                               {},
                                                               1});
    add(lesson_.baseline);
    for (const auto& technique : lesson_.techniques) add(technique);
    pass = std::make_unique<tenfold::TimePass>(*run_);
  }

  size_t rounds() const { return run_->candidates[0].result.blocks.at(0).size(); }
  const std::vector<int64_t>& builds() const { return run_->candidates[0].result.blocks.at(0).build; }
  const tenfold::World& world() const { return world_; }
  std::unique_ptr<tenfold::TimePass> pass;

 private:
  void add(const tenfold::Variant& variant) {
    run_->candidates.push_back({&variant, {}, std::make_shared<tenfold::TrialRecord>(), std::nullopt});
    run_->candidates.back().result.name = variant.name;
  }

  tenfold::Lesson lesson_;
  tenfold::Options options_;
  tenfold::World world_;
  tenfold::Machine machine_;
  tenfold::Progress progress_;
  std::unique_ptr<tenfold::CaseRun> run_;
};

/// A twin that takes four times as long for a while, and then does not: a block tells little about the next.
tenfold::Lesson unsteady() {
  auto lesson = toy::lesson();
  lesson.techniques = {{"unsteady", [](const tenfold::Trial& trial) {
                          tenfold::Step step = toy::plain(trial);
                          step.fn = [fn = step.fn, calls = std::make_shared<int>(0)] {
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
  ASSERT_GT(wide.pass->width(), steady.pass->width());
  const size_t steady_rounds = steady.rounds(), wide_rounds = wide.rounds();
  int told = 0;
  tenfold::share_time({steady.pass.get(), wide.pass.get()}, steady.world(), 3, [&](const tenfold::TimePass&, double part) {
    EXPECT_GE(part, 0);
    EXPECT_LE(part, 1);
    ++told;
  });
  EXPECT_GT(told, 0);
  EXPECT_GT(wide.rounds() - wide_rounds, 0U);
  EXPECT_GT(wide.pass->seconds_spent(), steady.pass->seconds_spent())
      << steady.rounds() - steady_rounds << " more rounds of the steady one";
}

TEST(TimePass, NothingToCompareIsNothingToDo) {
  auto lesson = toy::lesson();
  lesson.techniques.clear();
  Timed timed(std::move(lesson));
  EXPECT_TRUE(timed.pass->done());
  timed.pass->first_slice(0.1);
  tenfold::share_time({timed.pass.get()}, timed.world(), 1, [](const tenfold::TimePass&, double) { FAIL() << "there is nothing to time"; });
}

}  // namespace
