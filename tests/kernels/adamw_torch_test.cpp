// AdamW for LibTorch against torch::optim::AdamW and ATen's fused kernel, on the CPU under the microscope and on CUDA
// when there is one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/adamw/adamw_torch.h"

#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/places.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

using fused::FusedAdamW;
using test::devices;
using test::message_of;
using torch::Tensor;
using torch::optim::AdamW;
using torch::optim::AdamWOptions;
using torch::optim::AdamWParamState;

/// Parameters of awkward shapes, the same for each seed: more than one launch can do, one of them channels-last, one of
/// 0 values.
std::vector<Tensor> some_parameters(torch::Device device) {
  torch::manual_seed(45);
  std::vector<Tensor> all{torch::randn({1}), torch::randn({5, 123}), torch::randn({0, 3}), torch::randn({1000}),
                          torch::randn({2, 3, 5, 7}).contiguous(at::MemoryFormat::ChannelsLast)};
  for (int64_t i = 1; i <= kernels::kAdamWTensors; ++i) all.push_back(torch::randn({i % 7 + 1}));
  for (Tensor& one : all) one = one.to(device).requires_grad_();
  return all;
}

/// Gradients of one step, contiguous whatever the parameters are.
void set_gradients(const std::vector<Tensor>& parameters, uint64_t seed) {
  torch::manual_seed(seed);
  for (const Tensor& one : parameters) one.mutable_grad() = torch::randn(one.sizes()).to(one.device());
}

/// Largest difference of two sets of parameters.
double distance(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].numel() > 0) worst = std::max(worst, (a[i] - b[i]).abs().max().item<double>());
  }
  return worst;
}

template <class Optimizer>
Optimizer optimizer_of(const std::vector<Tensor>& parameters, const AdamWOptions& options) {
  return Optimizer(parameters, options);
}

const AdamWOptions kOptions = AdamWOptions(1e-2).betas({0.8, 0.95}).eps(1e-6).weight_decay(0.1);
// A step changes a parameter by up to the learning rate; twenty of them round a few times each.
constexpr double kTolerance = 2e-6;

TEST(FusedAdamW, TrainsAsLibTorchsAdamWDoes) {
  for (const torch::Device device : devices()) {
    const auto ours = some_parameters(device), theirs = some_parameters(device);
    auto fused = optimizer_of<FusedAdamW>(ours, kOptions);
    auto reference = optimizer_of<AdamW>(theirs, kOptions);
    for (uint64_t step = 1; step <= 20; ++step) {
      set_gradients(ours, step);
      set_gradients(theirs, step);
      fused.step();
      reference.step();
    }
    EXPECT_LE(distance(ours, theirs), kTolerance) << device;
    EXPECT_GT(distance(ours, some_parameters(device)), 0.1) << "nothing was trained";
  }
}

TEST(FusedAdamW, OneStepIsThatOfTheFormulaInFloat64) {
  for (const torch::Device device : devices()) {
    const auto parameters = some_parameters(device);
    set_gradients(parameters, 7);
    std::vector<Tensor> expected;
    for (const Tensor& one : parameters) {
      const Tensor p = one.detach().to(torch::kDouble), g = one.grad().to(torch::kDouble);
      expected.push_back(
          p - 1e-2 * (g / (g.abs() + 1e-6) + 0.1 * p));  // in the first step both averages are the gradient's
    }
    optimizer_of<FusedAdamW>(parameters, kOptions).step();
    EXPECT_LE(distance(parameters, expected), 1e-6) << device;
  }
}

TEST(FusedAdamW,
     EachParameterCountsItsOwnSteps) {  // one without a gradient is passed over, and late ones begin at step 1
  const auto ours = some_parameters(torch::kCPU), theirs = some_parameters(torch::kCPU);
  auto fused = optimizer_of<FusedAdamW>(ours, kOptions);
  auto reference = optimizer_of<AdamW>(theirs, kOptions);
  for (uint64_t step = 1; step <= 6; ++step) {
    set_gradients(ours, step);
    set_gradients(theirs, step);
    for (size_t i = 0; i < ours.size(); ++i) {
      if (i % 3 == step % 3) ours[i].mutable_grad() = theirs[i].mutable_grad() = Tensor();
    }
    fused.step();
    reference.step();
    ASSERT_LE(distance(ours, theirs), kTolerance) << "step " << step;
  }
}

TEST(FusedAdamW, GroupsHaveTheirOwnOptions) {
  const auto train = [](auto make) {
    auto parameters = some_parameters(torch::kCPU);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(std::vector<Tensor>(parameters.begin(), parameters.begin() + 3));
    groups.emplace_back(std::vector<Tensor>(parameters.begin() + 3, parameters.end()),
                        std::make_unique<AdamWOptions>(AdamWOptions(3e-2).weight_decay(0)));
    auto optimizer = make(groups);
    for (uint64_t step = 1; step <= 3; ++step) {
      if (step == 3) optimizer.param_groups()[0].options().set_lr(5e-2);  // as a schedule does
      set_gradients(parameters, step);
      optimizer.step();
    }
    return parameters;
  };
  const auto ours = train([](auto& groups) { return FusedAdamW(groups, kOptions); });
  EXPECT_LE(distance(ours, train([](auto& groups) { return AdamW(groups, kOptions); })), kTolerance);
  EXPECT_GT(
      distance(ours, train([](auto& groups) { return AdamW(std::vector<Tensor>(groups[0].params()), kOptions); })),
      1e-3);
}

TEST(FusedAdamW, GoesOnFromAStateThatWasSavedAndFromLibTorchs) {
  const auto trained = [](torch::optim::Optimizer& optimizer, const std::vector<Tensor>& parameters, uint64_t from,
                          uint64_t to) {
    for (uint64_t step = from; step <= to; ++step) {
      set_gradients(parameters, step);
      optimizer.step();
    }
  };
  const auto whole = some_parameters(torch::kCPU);
  auto without_pause = optimizer_of<FusedAdamW>(whole, kOptions);
  trained(without_pause, whole, 1, 6);
  const auto resumed = [&](torch::optim::Optimizer&& first, const std::vector<Tensor>& parameters) {
    trained(first, parameters, 1, 3);
    std::stringstream file;
    torch::save(first, file);
    auto second = optimizer_of<FusedAdamW>(parameters, kOptions);
    torch::load(second, file);
    trained(second, parameters, 4, 6);
    return distance(parameters, whole);
  };
  const auto a = some_parameters(torch::kCPU), b = some_parameters(torch::kCPU);
  EXPECT_EQ(resumed(FusedAdamW(a, kOptions), a), 0) << "not the same bits as without a pause";
  EXPECT_LE(resumed(AdamW(b, kOptions), b), kTolerance);
}

TEST(FusedAdamW, TheFunctionIsAtensFusedKernel) {
  for (const torch::Device device : devices()) {
    const auto run = [&](auto function) {
      std::vector<Tensor> lists[4];  // parameters, averages, squares, gradients
      torch::manual_seed(46);
      for (const int64_t count : {1, 31, 1000, 4099}) {
        for (auto& list : lists) list.push_back(torch::randn({count}).to(device));
        lists[2].back().abs_();
      }
      function(lists[0], lists[1], lists[2], lists[3], kernels::AdamWSettings{}, 5);
      lists[0].insert(lists[0].end(), lists[1].begin(), lists[1].end());
      lists[0].insert(lists[0].end(), lists[2].begin(), lists[2].end());
      return lists[0];
    };
    EXPECT_LE(distance(run(fused::adamw_), run(fused::reference::adamw_)), 1e-6) << device;
  }
}

TEST(FusedAdamW, AGraphThatKeptTheOldValueNotices) {
  const Tensor weight = torch::randn({3}).requires_grad_();
  const Tensor loss = weight.square().sum();
  weight.mutable_grad() = torch::ones({3});
  FusedAdamW({weight}, kOptions).step();
  EXPECT_NE(message_of<c10::Error>([&] { loss.backward(); }).find("modified by an inplace operation"),
            std::string::npos);
}

TEST(FusedAdamW, TheClosureRunsWithGradientsAndItsLossIsReturned) {
  const Tensor weight = torch::ones({3}).requires_grad_();
  FusedAdamW optimizer({weight}, kOptions);
  const torch::NoGradGuard no_grad;
  const Tensor loss = optimizer.step([&] {
    const Tensor sum = weight.sum();
    sum.backward();
    return sum;
  });
  EXPECT_EQ(loss.item<float>(), 3);
  EXPECT_LT(weight.max().item<float>(), 1);
}

/// A first group that is as it should be, and a second with one parameter, which may be refused.
struct TwoGroups {
  Tensor good = torch::randn({5}).requires_grad_(), other;
  std::unique_ptr<FusedAdamW> optimizer;

  explicit TwoGroups(Tensor second, const AdamWOptions& options = kOptions) : other(second.requires_grad_()) {
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(std::vector<Tensor>{good});
    groups.emplace_back(std::vector<Tensor>{other}, std::make_unique<AdamWOptions>(options));
    optimizer = std::make_unique<FusedAdamW>(groups, kOptions);
    good.mutable_grad() = torch::ones({5});
  }
  AdamWParamState& state_of(const Tensor& parameter) {
    return static_cast<AdamWParamState&>(*optimizer->state().at(parameter.unsafeGetTensorImpl()));
  }
};

/// What step() says, and that it has changed nothing; `seen`: both groups have made that many steps before.
template <class Error = c10::Error>
std::string refused(TwoGroups& groups, int64_t seen = 0) {
  const Tensor before = groups.good.detach().clone(), other_before = groups.other.detach().clone();
  const auto average = [&] { return groups.state_of(groups.good).exp_avg(); };
  const Tensor average_before = seen > 0 ? average().clone() : Tensor();
  const std::string line = message_of<Error>([&] { groups.optimizer->step(); });
  EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  EXPECT_TRUE(torch::equal(groups.good.detach(), before)) << line;
  EXPECT_TRUE(torch::equal(groups.other.detach(), other_before)) << line;
  EXPECT_EQ(groups.optimizer->state().size(), seen > 0 ? 2U : 0U) << line;
  if (seen > 0) {
    EXPECT_EQ(groups.state_of(groups.good).step(), seen) << line;
    EXPECT_TRUE(torch::equal(average(), average_before)) << line;
  }
  return line;
}

TEST(FusedAdamW, ARefusedGroupLeavesTheOthersAsTheyWere) {
  using testing::HasSubstr;
  const auto with = [](Tensor parameter, const Tensor& gradient, const AdamWOptions& options = kOptions) {
    TwoGroups groups(std::move(parameter), options);
    groups.other.mutable_grad() = gradient;
    return refused(groups);
  };
  const Tensor ones = torch::ones({3});
  for (const auto type : {torch::kDouble, torch::kBFloat16, torch::kHalf}) {
    EXPECT_THAT(with(torch::ones({3}, type), torch::ones({3}, type)),
                HasSubstr("FusedAdamW: group 1: takes float parameters; 0 is "));
  }
  EXPECT_THAT(with(torch::randn({6}).slice(0, 0, 6, 2), ones), HasSubstr("group 1: parameter 0 has gaps"));
  EXPECT_THAT(with(torch::randn({3}), ones.to_sparse()), HasSubstr("group 1: takes no sparse gradient; 0 "));
  EXPECT_THAT(with(torch::randn({3}), ones, AdamWOptions(1e-3).amsgrad(true)), HasSubstr("group 1 asks for amsgrad"));
  EXPECT_THAT(with(torch::randn({3, 2}), torch::ones({1, 2})), HasSubstr("gradient 0 has shape [1, 2]"));
  EXPECT_THAT(with(torch::randn({3, 2}), torch::ones({2, 3}, torch::kDouble).t()), HasSubstr("gradient 0 is Double"));
  TwoGroups diverged(torch::randn({3}));
  diverged.other.mutable_grad() = ones;
  diverged.optimizer->param_groups()[1].options().set_lr(std::numeric_limits<double>::infinity());
  EXPECT_THAT(refused<std::invalid_argument>(diverged), HasSubstr("learning rate"));
}

TEST(FusedAdamW, ARefusedGroupLeavesTheStateThatThereWas) {
  TwoGroups groups(torch::randn({3}));
  groups.other.mutable_grad() = torch::ones({3});
  groups.optimizer->step();
  groups.optimizer->step();
  const Tensor average = groups.state_of(groups.other).exp_avg();
  for (const Tensor& bad : {torch::zeros({4}), torch::zeros({3}, torch::kDouble), Tensor()}) {
    groups.state_of(groups.other).exp_avg(bad);
    EXPECT_THAT(refused(groups, 2), testing::HasSubstr("group 1: average 0 "));
  }
  groups.state_of(groups.other).exp_avg(average);
  groups.optimizer->step();
  EXPECT_EQ(groups.state_of(groups.good).step(), 3) << "trains on once it is mended";
}

TEST(FusedAdamW, AParameterThatIsListedTwiceMovesTwiceAsInLibTorch) {
  const auto twice = [](auto make) {
    Tensor parameter = torch::linspace(-1, 1, 5).requires_grad_();
    auto optimizer = make(std::vector<Tensor>{parameter, parameter});
    for (int i = 0; i < 3; ++i) {
      parameter.mutable_grad() = torch::full({5}, 1.0 + i);
      optimizer.step();
    }
    return std::vector<Tensor>{parameter};
  };
  EXPECT_LE(distance(twice([](const auto& list) { return FusedAdamW(list, kOptions); }),
                     twice([](const auto& list) { return AdamW(list, kOptions); })),
            kTolerance);
}

TEST(FusedAdamW, MisuseIsNamed) {
  const auto has = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  };
  const auto step_of = [&](Tensor parameter, const Tensor& gradient, const AdamWOptions& options = kOptions) {
    parameter.requires_grad_().mutable_grad() = gradient;
    return message_of<c10::Error>([&] { FusedAdamW({parameter}, options).step(); });
  };
  const auto halves = torch::ones({3}, torch::kHalf);
  has(step_of(halves.clone(), halves), "takes float parameters; 0 is Half");
  has(step_of(torch::randn({3}), torch::ones({3}).to_sparse()), "takes no sparse gradient");
  has(step_of(torch::randn({3}), torch::ones({3}), AdamWOptions(1e-3).amsgrad(true)), "asks for amsgrad");
  has(step_of(torch::randn({6}).slice(0, 0, 6, 2), torch::ones({3})), "gaps or overlaps");
  const std::vector<Tensor> one{torch::randn({3})}, none, other{torch::randn({4})},
      wide{torch::randn({3}, torch::kDouble)};
  const auto call = [&](const std::vector<Tensor>& averages, const std::vector<Tensor>& gradients, int64_t step) {
    return message_of<c10::Error>([&] { fused::adamw_(one, averages, one, gradients, {}, step); });
  };
  has(call(none, one, 1), "1 parameters, 0 averages");
  has(call(one, other, 1), "gradient 0 has shape [4]");
  has(call(wide, one, 1), "average 0 is Double on cpu; it must be Float");
  const std::vector<Tensor> zeros{torch::zeros({3})}, squares{torch::zeros({3})}, gradients{torch::ones({3})};
  EXPECT_EQ(message_of<std::invalid_argument>([&] { fused::adamw_(one, zeros, squares, gradients, {}, 0); }),
            "adamw: step 0; the first is 1");
  fused::adamw_(none, none, none, none, {}, 1);  // an empty list is no error
}

}  // namespace
}  // namespace tenfold
