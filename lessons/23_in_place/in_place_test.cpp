// The updates, what autograd keeps, and what it refuses: the page quotes its messages.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "attempts.h"
#include "common/measure/memory.h"
#include "kept.h"
#include "networks.h"
#include "tests/support/processor.h"
#include "tests/support/support.h"
#include "updates.h"

namespace {

using namespace tenfold;
using torch::Tensor;

Trial trial_with(const std::map<std::string, SettingValue>& more = {}, const Workload& workload = convnet_workload) {
  auto record = std::make_shared<TrialRecord>();
  record->given = {{"batch", int64_t{4}}, {"channels", int64_t{8}}};
  for (const auto& [name, value] : more) record->given[name] = value;
  Trial trial(record);
  trial.workload = workload;
  trial.seed = 3;
  return trial;
}

const Parts kNewTensors{
    .activation = [](const Tensor& h, bool leaky) { return leaky ? torch::leaky_relu(h, kSlope) : torch::relu(h); }};

Trained fresh(const Trial& trial) {
  torch::manual_seed(3);
  return trained(trial, kNewTensors);
}

/// Losses of some updates, each from the next batch.
std::vector<float> losses_of(const Trained& work, const MakeUpdate& make_update, int updates) {
  const auto update = make_update(work);
  std::vector<float> losses;
  for (int i = 0; i < updates; ++i) {
    work.optimizer->zero_grad();
    const Tensor loss = work.next_loss();
    loss.backward();
    update();
    losses.push_back(loss.item<float>());
  }
  return losses;
}

bool equal_parameters(const Trained& a, const Trained& b) {
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    if (!torch::equal(a.parameters[i].value(), b.parameters[i].value())) return false;
  }
  return true;
}

TEST(Update, InPlaceAndIntoNewTensorsAreTheOptimizers) {
  for (const auto& trial : {trial_with({{"inner_layers", int64_t{1}}, {"activation", std::string("leaky_relu")}}),
                            trial_with({{"layers", int64_t{1}}}, gpt_workload)}) {
    const Trained reference = fresh(trial);
    const std::vector<float> expected = losses_of(reference, by_optimizer, 4);
    for (const auto& make_update : {update_in_place, update_into_new}) {
      const Trained work = fresh(trial);
      EXPECT_EQ(losses_of(work, make_update, 4), expected);
      EXPECT_TRUE(equal_parameters(work, reference));
      for (const auto& parameter : work.parameters) {
        EXPECT_TRUE(parameter.value().is_leaf() && parameter.value().requires_grad()) << parameter.key();
      }
    }
  }
}

/// Bytes that an update needs besides what is there.
int64_t bytes_of_update(const MakeUpdate& make_update) {
  const CountCpuMemory counting;
  const Trained work = fresh(trial_with({{"channels", int64_t{64}}}));
  const auto update = make_update(work);
  work.next_loss().backward();
  update();
  work.optimizer->zero_grad();
  work.next_loss().backward();
  const int64_t before = live_bytes(torch::kCPU);
  reset_peak(torch::kCPU);
  update();
  return peak_bytes(torch::kCPU) - before;
}

TEST(Update, InPlaceAllocatesNothingAndNewTensorsAreAsManyBytesAsThoseTheyReplace) {
  int64_t parameters = 0;
  for (const auto& item : fresh(trial_with({{"channels", int64_t{64}}})).parameters)
    parameters += static_cast<int64_t>(item.value().nbytes());
  EXPECT_LT(bytes_of_update(update_in_place), 1000) << "wrapped numbers";
  const double doubled = 2.0 * static_cast<double>(parameters);
  EXPECT_NEAR(static_cast<double>(bytes_of_update(update_into_new)), doubled, 0.05 * doubled) << "malloc rounds up";
}

TEST(Update, OfANameChangesNothing) {
  const Trained untouched = fresh(trial_with()), work = fresh(trial_with());
  losses_of(work, rebind_names, 3);
  EXPECT_TRUE(equal_parameters(work, untouched));
}

// The first update is right, which the second loss shows. After it the members are no leaves, have no gradients, and
// stay as they are.
TEST(Update, OfAMemberTrainsOnce) {
  const Trained reference = fresh(trial_with()), once = fresh(trial_with()), work = fresh(trial_with());
  const std::vector<float> expected = losses_of(reference, by_optimizer, 2), got = losses_of(work, rebind_members, 3);
  losses_of(once, rebind_members, 1);
  EXPECT_EQ(got[0], expected[0]);
  EXPECT_NEAR(got[1], expected[1], 1e-5);
  for (size_t i = 0; i < work.members.size(); ++i) {
    EXPECT_FALSE(torch::equal(*work.members[i], work.parameters[i].value())) << work.parameters[i].key();
    EXPECT_TRUE(torch::equal(*work.members[i], *once.members[i])) << work.parameters[i].key();
  }
  for (const Tensor* member : work.members) {
    EXPECT_FALSE(member->is_leaf());
    EXPECT_FALSE(member->mutable_grad().defined());
  }
  for (const auto& replaced : work.parameters) EXPECT_TRUE(replaced.value().grad().defined()) << replaced.key();
}

TEST(Members, AreTheParametersInTheirOrder) {
  const Trained work = fresh(trial_with({{"inner_layers", int64_t{2}}}));
  ASSERT_EQ(work.members.size(), work.parameters.size());
  for (size_t i = 0; i < work.members.size(); ++i)
    EXPECT_TRUE(work.members[i]->is_same(work.parameters[i].value())) << work.parameters[i].key();
}

// Out of place: kept is the result, and the input where backward() needs it. In place: the result, and a copy of the
// input where nothing else will do.
TEST(Kept, IsWhatTheDerivativeNeeds) {
  const std::map<std::string, std::pair<double, double>> expected = {
      {"relu", {1, 1}}, {"sigmoid", {1, 1}}, {"exp", {1, 1}},  {"leaky_relu", {2, 1}},
      {"elu", {2, 1}},  {"silu", {2, 2}},    {"gelu", {2, 2}}, {"add", {1, 1}}};
  const std::vector<BothForms> operators = operators_in_both_forms();
  ASSERT_EQ(operators.size(), expected.size());
  for (const BothForms& forms : operators) {
    const Alive apart = alive(torch::kCPU, forms.new_tensor), in_place = alive(torch::kCPU, forms.in_place);
    EXPECT_DOUBLE_EQ(apart.kept, expected.at(forms.name).first) << forms.name;
    EXPECT_DOUBLE_EQ(in_place.kept, expected.at(forms.name).second) << forms.name;
    EXPECT_DOUBLE_EQ(apart.at_most, 2) << forms.name;
    EXPECT_DOUBLE_EQ(in_place.at_most, 1) << forms.name;
  }
}

/// In one line, with single spaces.
std::string flat(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n';
    if (!space || (!line.empty() && line.back() != ' ')) line += space ? ' ' : c;
  }
  return line;
}

const std::map<std::string, std::string> kRefused = {
    {"param -= lr * grad", "a leaf Variable that requires grad is being used in an in-place operation"},
    {"a slice of param, zero_", "a view of a leaf Variable that requires grad is being used in an in-place operation"},
    {"sigmoid, then mul_", "is at version 1; expected version 0"},
    {"exp_, then add_", "is at version 2; expected version 1"},
    {"x += branch(norm(x))", "is at version 1; expected version 0"}};

TEST(Attempts, AreRefusedOrAllowedAsThePageSays) {
  for (const Attempt& attempt : all_attempts()) {
    const std::string text = refusal(attempt, torch::kCPU);
    const auto refused = kRefused.find(attempt.name);
    if (refused == kRefused.end()) {
      EXPECT_EQ(text, "") << attempt.name;
    } else {
      EXPECT_NE(text.find(refused->second), std::string::npos) << attempt.name << ": " << text;
    }
  }
}

TEST(Attempts, ThePageQuotesWhatPyTorchSays) {
  const std::string page = flat(test::read_text(test::source_folder() / "lessons/23_in_place/README.md"));
  size_t quoted = 0;
  for (const Attempt& attempt : all_attempts()) {
    if (attempt.name != "param -= lr * grad" && attempt.name != "exp_, then add_") continue;
    std::string text = flat(refusal(attempt, torch::kCPU));
    text = text.substr(0, text.find(" Hint: "));
    EXPECT_NE(page.find(text), std::string::npos) << "README.md should quote: " << text;
    ++quoted;
  }
  EXPECT_EQ(quoted, 2U);
}

TEST(Attempts, VersionsAreReadFromTheMessage) {
  const auto versions = versions_in("output 0 of ExpBackward0, is at version 12; expected version 1 instead.");
  ASSERT_TRUE(versions);
  EXPECT_EQ(versions->found, 12);
  EXPECT_EQ(versions->expected, 1);
  EXPECT_FALSE(versions_in("a leaf Variable that requires grad"));
}

TEST(MostBytes, CoverTheBaselineAndAreNotFarAbove) {
  for (const int64_t inner : {0, 3}) {
    for (const std::string activation : {"relu", "leaky_relu"}) {
      const Trial trial = trial_with(
          {{"inner_layers", inner}, {"activation", activation}, {"batch", int64_t{64}}, {"channels", int64_t{16}}});
      const CountCpuMemory counting;
      const int64_t before = live_bytes(torch::kCPU);
      reset_peak(torch::kCPU);
      const Trained work = fresh(trial);
      losses_of(work, by_optimizer, 3);
      const auto peak = static_cast<double>(peak_bytes(torch::kCPU) - before);
      const auto most = static_cast<double>(in_place_most_bytes(trial));
      EXPECT_LE(peak, 1.01 * most) << inner << " inner layers, " << activation;
      EXPECT_GE(peak, (test::convolutions_keep_copies() ? 0.95 : 0.75) * most)
          << inner << " inner layers, " << activation;
    }
  }
}

}  // namespace
