// The program's switches: none changes a number, and each shows in its own count and in no other.
#include "program.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "step_census.h"

namespace tenfold {
namespace {

constexpr int64_t kOfUpdates = 5;

Trial small_trial() {
  auto record = std::make_shared<TrialRecord>();
  record->given = {{"batch", int64_t{8}},
                   {"channels", int64_t{8}},
                   {"images", int64_t{64}},
                   {"updates", kOfUpdates},
                   {"validated", int64_t{5}}};
  Trial trial(record);
  trial.seed = 5;
  torch::manual_seed(5);  // the model's weights
  return trial;
}

/// The switches by their letters.
const std::map<std::string, Planted>& switches() {
  static const std::map<std::string, Planted> all = {{"a", {.a = true}}, {"b", {.b = true}}, {"c", {.c = true}},
                                                     {"d", {.d = true}}, {"e", {.e = true}}, {"f", {.f = true}}};
  return all;
}

/// The letters that an epoch's counts show.
std::string shown(const Planted& planted) {
  const CountCpuMemory count;
  Program program(small_trial());
  CensusTaker taker;
  epoch(program, kOfUpdates, planted);
  const Census& census = taker.census();
  constexpr int64_t kPixels = 8 * 28 * 28, kSmallBytes = 1024;
  std::string letters;
  if (census.of("normalise").elements > kPixels) letters += "a";
  if (census.of("count").forwards > 0) letters += "b";
  if (census.of("count").reads > 2 * kOfUpdates) letters += "c";
  if (census.image_gradients > 0) letters += "d";
  if (Census::growth(census.of("data").live) > kSmallBytes) letters += "e";
  if (Census::growth(census.of("validation").live_at_forward) > kSmallBytes) letters += "f";
  return letters;
}

TEST(SlowProgram, EachShowsInItsOwnCount) {
  EXPECT_EQ(shown({}), "");
  for (const auto& [letter, planted] : switches()) EXPECT_EQ(shown(planted), letter);
  EXPECT_EQ(shown(kAllSix), "abcdef");
}

struct Numbers {
  std::vector<torch::Tensor> losses, parameters;
  int64_t right = 0;
};

Numbers trained(const Planted& planted) {
  Program program(small_trial());
  Numbers numbers;
  for (int i = 0; i < 3; ++i) {
    numbers.losses.push_back(epoch(program, kOfUpdates, planted));
    numbers.losses.push_back(program.held_out_loss);
    numbers.right += program.right;
  }
  for (const torch::Tensor& parameter : program.model->parameters()) numbers.parameters.push_back(parameter.detach());
  return numbers;
}

TEST(SlowProgram, NoNumberChanges) {
  const Numbers repaired = trained({});
  EXPECT_GT(repaired.right, 0);
  const auto expect_same = [&](const std::string& name, const Planted& planted) {
    const Numbers slow = trained(planted);
    EXPECT_EQ(slow.right, repaired.right) << name;
    for (size_t i = 0; i < repaired.losses.size(); ++i)
      EXPECT_TRUE(torch::equal(slow.losses[i], repaired.losses[i])) << name << ", loss " << i;
    for (size_t i = 0; i < repaired.parameters.size(); ++i)
      EXPECT_TRUE(torch::equal(slow.parameters[i], repaired.parameters[i])) << name << ", parameter " << i;
  };
  for (const auto& [letter, planted] : switches()) expect_same(letter, planted);
  expect_same("all six", kAllSix);
}

}  // namespace
}  // namespace tenfold
