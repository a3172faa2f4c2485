// R2's step with its operators exchanged against R2's own; on the CPU the fused kernels run under the microscope.
#include <gtest/gtest.h>

#include <tenfold/gpt_operators.h>

#include <vector>

namespace tenfold {
namespace {

using torch::Tensor;

const GptConfig kTiny{.layers = 1, .width = 32, .heads = 4, .length = 16, .vocabulary = 128};

Gpt tiny_model(torch::Device device) {
  torch::manual_seed(43);
  Gpt model(kTiny);
  const torch::NoGradGuard no_grad;
  // Norms and biases begin as ones and zeros; a lost one must show.
  for (Tensor& parameter : model->parameters()) parameter.add_(0.1 * torch::randn_like(parameter));
  model->to(device);
  return model;
}

struct Trained {
  std::vector<double> losses;
  std::vector<Tensor> first_gradients;
};

/// A few updates on random ids; `loss_of` is the step's forward pass.
template <class LossOf>
Trained train(torch::Device device, LossOf loss_of) {
  Gpt model = tiny_model(device);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  Trained result;
  for (int step = 0; step < 4; ++step) {
    const Tensor text = torch::randint(kTiny.vocabulary, {1, kTiny.length + 1}).to(device);
    optimizer.zero_grad();
    const Tensor loss = loss_of(*model, text.slice(1, 0, kTiny.length), text.slice(1, 1));
    loss.backward();
    if (step == 0) {
      for (const Tensor& parameter : model->parameters()) result.first_gradients.push_back(parameter.grad().clone());
    }
    optimizer.step();
    result.losses.push_back(loss.item<double>());
  }
  return result;
}

Trained train_plain(torch::Device device) {
  return train(device, [](GptImpl& model, const Tensor& ids, const Tensor& targets) {
    Tensor h = model.embed(ids);
    for (auto& block : model.blocks) h = block->forward(h);
    return model.loss(h, targets);
  });
}

class GptOperatorsTest : public testing::TestWithParam<const GptOperators*> {};

TEST_P(GptOperatorsTest, LossesAndGradientsAreThoseOfR2) {
  std::vector<torch::Device> devices{torch::kCPU};
  if (torch::cuda::is_available()) devices.emplace_back(torch::kCUDA);
  for (const torch::Device device : devices) {
    const Trained plain = train_plain(device);
    const Trained exchanged =
        train(device, [](GptImpl& model, const Tensor& ids, const Tensor& targets) { return loss_with(model, ids, targets, *GetParam()); });
    for (size_t i = 0; i < plain.losses.size(); ++i) {
      EXPECT_NEAR(exchanged.losses[i], plain.losses[i], 1e-4) << device << ", update " << i;
    }
    EXPECT_NE(plain.losses.front(), plain.losses.back());
    for (size_t i = 0; i < plain.first_gradients.size(); ++i) {
      const double norm = plain.first_gradients[i].norm().item<double>();
      EXPECT_GT(norm, 0);
      EXPECT_LE((exchanged.first_gradients[i] - plain.first_gradients[i]).norm().item<double>(), 1e-4 * norm)
          << device << ", parameter " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GptOperatorsTest, testing::Values(&kByFormula, &kFused),
                         [](const auto& info) { return std::string(info.param == &kFused ? "Fused" : "ByFormula"); });

TEST(GptOperators, DropoutIsRefused) {
  GptConfig config = kTiny;
  config.dropout = 0.1;
  GptBlock block(config);
  EXPECT_THROW(block_forward(*block, torch::randn({1, 4, 32}), kByFormula), c10::Error);
}

}  // namespace
}  // namespace tenfold
