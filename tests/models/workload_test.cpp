// The workloads behind one face: the same training as by their own structs.
#include "common/measure/workload.h"

#include <gtest/gtest.h>

#include "common/models/convnet.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"

namespace {

using tenfold::Setting;
using tenfold::Work;
using tenfold::Workload;

class Workloads : public testing::TestWithParam<Workload> {
 protected:
  static tenfold::Trial trial() {
    auto record = std::make_shared<tenfold::TrialRecord>();
    record->given = {{"layers", int64_t{2}}, {"batch", int64_t{4}}};
    record->declared = GetParam().settings;
    torch::manual_seed(7);
    return tenfold::Trial(record);
  }
  static Work work() { return GetParam().make(trial()); }
};

TEST_P(Workloads, TheLossIsThatOfTheLogits) {
  const Work first = work(), second = work();
  for (int batch = 0; batch < 2; ++batch) {
    const auto [logits, targets] = second.next_logits();
    EXPECT_EQ(logits.dim(), 2);
    EXPECT_EQ(logits.size(0), first.items);
    EXPECT_EQ(targets.sizes(), logits.sizes().slice(0, 1));
    EXPECT_TRUE(torch::allclose(first.next_loss(), torch::cross_entropy_loss(logits, targets)));
  }
}

TEST_P(Workloads, ItsOptimizerUpdatesItsParameters) {
  const Work trained = work();
  const torch::Tensor before = trained.parameters.front().value().detach().clone();
  trained.next_loss().backward();
  trained.optimizer->step();
  EXPECT_FALSE(before.equal(trained.parameters.front().value()));
}

// Its own settings are all that it and its formula read: trial() refuses others.
TEST_P(Workloads, TakesSizesFromItsSettings) {
  EXPECT_EQ(work().items, GetParam().name == "gpt" ? 4 * tenfold::gpt::kLength.value.cpu : 4);
  EXPECT_EQ(GetParam().most_bytes(trial()), GetParam().name == "convnet" ? tenfold::convnet_most_bytes(trial())
                                            : GetParam().name == "gpt"
                                                ? tenfold::gpt_most_bytes(trial())
                                                : step_peak_bytes(tenfold::mlp_options(trial()), 4));
}

INSTANTIATE_TEST_SUITE_P(All, Workloads,
                         testing::Values(tenfold::convnet_workload, tenfold::gpt_workload, tenfold::mlp_workload),
                         [](const auto& workload) { return workload.param.name; });

TEST(Workload, WithAnotherSettingOfTheSameNameHasOne) {
  constexpr Setting<int64_t> kBatch{"batch", 5, "of pictures"}, kSide{"side", 7, "of a picture"};
  const Workload pictures = tenfold::convnet_workload.with({kBatch, kSide});
  std::vector<std::string> names;
  for (const auto& setting : pictures.settings) names.push_back(setting.name);
  EXPECT_EQ(names, (std::vector<std::string>{"channels", "learning_rate", "batch", "side"}));
  EXPECT_EQ(pictures.settings[2].meaning, "of pictures");
  EXPECT_EQ(pictures.name, "convnet");
}

}  // namespace
