// The workloads behind one face: the same training as by their own structs.
#include "common/models/workload.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/models/convnet.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"
#include "tests/support/support.h"

namespace {

using tenfold::DeclaredSetting;

class Workloads : public testing::TestWithParam<const char*> {
 protected:
  static tenfold::Trial trial() {
    auto record = std::make_shared<tenfold::TrialRecord>();
    record->given = {{"layers", int64_t{2}}, {"batch", int64_t{4}}};
    torch::manual_seed(7);
    return tenfold::Trial(record);
  }
};

TEST_P(Workloads, TheLossIsThatOfTheLogits) {
  const tenfold::Workload one = make_workload(trial(), GetParam()), other = make_workload(trial(), GetParam());
  for (int batch = 0; batch < 2; ++batch) {
    const auto [logits, targets] = other.next_logits();
    EXPECT_EQ(logits.dim(), 2);
    EXPECT_EQ(logits.size(0), one.items);
    EXPECT_EQ(targets.sizes(), logits.sizes().slice(0, 1));
    EXPECT_TRUE(torch::allclose(one.next_loss(), torch::cross_entropy_loss(logits, targets)));
  }
}

TEST_P(Workloads, ItsOptimizerUpdatesItsParameters) {
  const tenfold::Workload work = make_workload(trial(), GetParam());
  const torch::Tensor before = work.parameters.front().value().detach().clone();
  work.next_loss().backward();
  work.optimizer->step();
  EXPECT_FALSE(before.equal(work.parameters.front().value()));
}

TEST_P(Workloads, TakesSizesFromTheSettings) {
  const int64_t bytes = tenfold::workload_bytes(trial(), GetParam());
  const std::string name = GetParam();
  EXPECT_EQ(bytes, name == "convnet" ? tenfold::convnet_most_bytes(trial())
                   : name == "gpt"   ? tenfold::gpt_most_bytes(trial())
                                     : step_peak_bytes(tenfold::mlp_options(trial()), 4));
}

INSTANTIATE_TEST_SUITE_P(All, Workloads, testing::Values("convnet", "gpt", "mlp"),
                         [](const auto& workload) { return workload.param; });

TEST(Workload, OfAnotherNameIsRefused) {
  EXPECT_NE(tenfold::test::message_of<c10::ValueError>([] {
              make_workload(tenfold::Trial(std::make_shared<tenfold::TrialRecord>()), "resnet");
            }).find("no workload 'resnet': convnet, gpt or mlp"),
            std::string::npos);
}

TEST(SettingsOfBoth, ASharedNameHasEachWorkloadsDefault) {
  const std::vector<DeclaredSetting> first = tenfold::mlp_settings(), second = tenfold::gpt_settings();
  const std::vector<DeclaredSetting> both = settings_of_both(first, second);
  const auto named = [&](const std::string& name) {
    std::vector<std::string> meanings;
    for (const DeclaredSetting& setting : both)
      if (setting.name == name) meanings.push_back(setting.meaning);
    return meanings;
  };
  EXPECT_EQ(named("batch"), std::vector<std::string>{std::string(tenfold::mlp::kBatch.meaning)});
  const auto batch = std::ranges::find(both, std::string("batch"), &DeclaredSetting::name);
  EXPECT_EQ(batch->workload, "mlp");
  EXPECT_EQ(batch->value.gpu8, DeclaredSetting(tenfold::mlp::kBatch).value.gpu8);
  ASSERT_EQ(batch->in_others.size(), 1U);
  EXPECT_EQ(batch->in_others[0].workload, "gpt");
  EXPECT_EQ(batch->in_others[0].value.gpu8, DeclaredSetting(tenfold::gpt::kBatch).value.gpu8);
  EXPECT_EQ(batch->in_others[0].meaning, tenfold::gpt::kBatch.meaning);
  EXPECT_EQ(named("heads"), std::vector<std::string>{std::string(tenfold::gpt::kHeads.meaning)});
}

}  // namespace
