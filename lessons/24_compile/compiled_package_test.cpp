#include "compiled_package.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "elementwise.h"
#include "served_gpt.h"

namespace {

using namespace tenfold;
using testing::ElementsAre;
using testing::HasSubstr;
using torch::Tensor;

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const c10::ValueError& error) {
    return error.what_without_backtrace();
  }
  return "not refused";
}

TEST(CompiledPackage, SaysTypesAndSizesAsPythonDoes) {
  EXPECT_EQ(type_and_sizes(torch::zeros({8, 64}, torch::kLong)), "int64 8 64");
  EXPECT_EQ(type_and_sizes(torch::zeros({3})), "float32 3");
  EXPECT_EQ(type_and_sizes(torch::zeros({}, torch::kBFloat16)), "bfloat16");
  EXPECT_THAT(stated_inputs("int64 8 64; float32 8 3"), ElementsAre("int64 8 64", "float32 8 3"));
  EXPECT_THAT(stated_inputs(""), ElementsAre());
}

TEST(CompiledPackage, RefusesAFileThatIsNotThere) {
  EXPECT_THAT(refusal([] { const CompiledPackage package("/no/such.pt2"); }),
              HasSubstr("there is no file /no/such.pt2"));
}

TEST(CompiledPackage, NamesBlocksAsPythonDoes) {
  const Tensor one = torch::zeros({1});
  const Parameters named = named_as_in_python({{"block0.up.bias", one}, {"block11.up.bias", one}, {"norm.bias", one}});
  EXPECT_THAT(named.keys(), ElementsAre("blocks.0.up.bias", "blocks.11.up.bias", "norm.bias"));
}

Trial trial_with(const Workload& workload, std::map<std::string, SettingValue> given) {
  const auto record = std::make_shared<TrialRecord>();
  record->given = std::move(given);
  record->declared = with_own(workload.settings, {kForwardOnly});
  Trial trial(record);
  trial.workload = workload;
  trial.seed = 24;
  return trial;
}

// The package is that of the lesson's case, which its smoke run and its planted fault need as well: making it takes
// half a minute, once.
TEST(CompiledPackage, ComputesWhatTheModelDoesAndRefusesTheRest) {
  const Trial trial = trial_with(gpt_workload, {});
  std::filesystem::path file;
  try {
    file = package_of(trial);
  } catch (const Skipped& skipped) {
    GTEST_SKIP() << skipped.what();
  }
  CompiledPackage package(file);
  GptTraining work(trial);
  const Tensor ids = work.next_batch().first;
  EXPECT_THAT(refusal([&] { package({ids}); }), HasSubstr("has no backward pass"));

  const torch::NoGradGuard no_graph;
  const auto deviation = [&] {
    const Tensor wanted = work.model(ids);
    return ((package({ids}).at(0) - wanted).norm() / wanted.norm()).item<double>();
  };
  // Sums in another order: some roundings of 6e-8, over six blocks.
  constexpr double kRounding = 1e-5;
  const auto change_weights = [&] {
    for (const auto& weight : work.model->parameters()) weight.mul_(1.25);
  };
  change_weights();
  EXPECT_GT(deviation(), 0.1) << "its own weights are others";
  const Parameters weights = named_as_in_python(work.model->named_parameters());
  package.share_weights(weights);
  EXPECT_LT(deviation(), kRounding);
  change_weights();
  EXPECT_LT(deviation(), kRounding) << "weights that are changed in place are the package's, too";

  EXPECT_THAT(refusal([&] { package({ids.narrow(0, 0, 2)}); }), HasSubstr("made for int64 8 64"));
  EXPECT_THAT(refusal([&] { package({ids.to(torch::kInt)}); }), HasSubstr("is int32 8 64"));
  EXPECT_THAT(refusal([&] { package({ids, ids}); }), HasSubstr("takes 1 inputs, not 2"));
  const auto with = [&](const std::string& name, const Tensor& tensor) {
    Parameters changed;
    for (const auto& weight : weights) {
      if (weight.key() != name) changed.insert(weight.key(), weight.value());
    }
    if (tensor.defined()) changed.insert(name, tensor);
    return refusal([&] { package.share_weights(changed); });
  };
  EXPECT_THAT(with("norm.bias", Tensor()), HasSubstr("needs a weight norm.bias"));
  EXPECT_THAT(with("norm.bias", torch::zeros({3})), HasSubstr("norm.bias is float32 64, this one is float32 3"));
  EXPECT_THAT(with("more", torch::zeros({3})), HasSubstr("weights, and not"));
  EXPECT_THAT(with("head.weight", torch::zeros({64, 128}).t()), HasSubstr("head.weight is not contiguous"));
  EXPECT_LT(deviation(), kRounding) << "what was refused has changed nothing";
}

TEST(Elementwise, LearnsAndNeedsWhatItSays) {
  const Trial trial = trial_with(elementwise_workload, {{"rows", int64_t{64}}, {"features", int64_t{32}}});
  const Work work = elementwise_work(trial);
  EXPECT_EQ(work.parameters.size(), 12U);
  double first = 0, last = 0;
  for (int step = 0; step < 40; ++step) {
    work.optimizer->zero_grad();
    const Tensor loss = work.next_loss();
    loss.backward();
    work.optimizer->step();
    last = loss.item<double>();
    if (step == 0) first = last;
  }
  EXPECT_LT(last, first / 2);
  EXPECT_EQ(elementwise_most_bytes(trial), 4 * 32 * (14 * 64 + 24));
}

}  // namespace
