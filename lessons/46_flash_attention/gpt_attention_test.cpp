// R2's step with its attention exchanged against R2's own; on the CPU our kernel runs under the microscope.
#include <gtest/gtest.h>

#include <tenfold/counted.h>
#include <tenfold/gpt_attention.h>

#include <string>
#include <vector>

namespace tenfold {
namespace {

using torch::Tensor;

const GptConfig kTiny{.layers = 1, .width = 64, .heads = 2, .length = 20, .vocabulary = 128};

Gpt tiny_model(torch::Device device) {
  torch::manual_seed(46);
  Gpt model(kTiny);
  const torch::NoGradGuard no_grad;
  // As they begin, all scores are near 0 and every weight is the same; the mask and the scale must show.
  for (Tensor& parameter : model->parameters()) parameter.add_(0.2 * torch::randn_like(parameter));
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
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  Trained result;
  for (int step = 0; step < 4; ++step) {
    const Tensor text = torch::randint(kTiny.vocabulary, {2, kTiny.length + 1}).to(device);
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

class GptAttentionTest : public testing::TestWithParam<Attention> {};

TEST_P(GptAttentionTest, LossesAndGradientsAreThoseOfR2) {
  std::vector<torch::Device> devices{torch::kCPU};
  if (torch::cuda::is_available()) devices.emplace_back(torch::kCUDA);
  for (const torch::Device device : devices) {
    const Trained plain = train(device, [](GptImpl& model, const Tensor& ids, const Tensor& targets) {
      Tensor h = model.embed(ids);
      for (auto& block : model.blocks) h = block->forward(h);
      return model.loss(h, targets);
    });
    const Trained exchanged =
        train(device, [](GptImpl& model, const Tensor& ids, const Tensor& targets) { return loss_with(model, ids, targets, GetParam()); });
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

const std::vector<std::string> kNames{"Formula", "Aten", "Kernel"};
INSTANTIATE_TEST_SUITE_P(All, GptAttentionTest, testing::Values(attention_by_formula, attention_by_aten, attention_by_kernel),
                         [](const auto& info) { return kNames[info.index]; });

/// Bytes that one attention keeps for backward(), its result among them.
int64_t kept_bytes(Attention attention, int64_t length) {
  return count_step(torch::kCPU,
                    [&] {
                      const Tensor q = torch::randn({1, 2, length, 32}).requires_grad_();
                      const Tensor k = torch::randn_like(q).requires_grad_(), v = torch::randn_like(q).requires_grad_();
                      return Step{1, Parameters(), [=] {
                                    Tensor out;
                                    {
                                      RECORD_USER_SCOPE("attention");
                                      out = attention(q, k, v);
                                    }
                                    const Tensor loss = out.sum();
                                    loss.backward();
                                    return loss;
                                  }};
                    })
      .region("attention")
      .retained_bytes;
}

// What the lesson predicts: weights and mask of every pair with the formula, a number for each query without.
TEST(GptAttention, OnlyTheFormulaKeepsANumberForEachPair) {
  constexpr int64_t kHeads = 2, kWidth = 32, kSlack = 128;  // a block is rounded up
  for (const int64_t length : {64, 128, 256}) {
    const int64_t result = kHeads * length * kWidth * 4;
    EXPECT_NEAR(kept_bytes(attention_by_formula, length), result + kHeads * length * length * 4 + length * length, kSlack) << length;
    EXPECT_NEAR(kept_bytes(attention_by_aten, length), result + kHeads * length * 4, kSlack) << length;
    EXPECT_NEAR(kept_bytes(attention_by_kernel, length), result + kHeads * length * 4, kSlack) << length;
  }
}

TEST(GptAttention, DropoutIsRefused) {
  GptConfig config = kTiny;
  config.dropout = 0.1;
  GptBlock block(config);
  EXPECT_THROW(block_with(*block, torch::randn({1, 4, 64}), attention_by_aten), c10::Error);
}

}  // namespace
}  // namespace tenfold
