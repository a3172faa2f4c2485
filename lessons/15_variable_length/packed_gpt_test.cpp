// R2 on packed texts trains as on padded ones; what one text says changes nothing for the others.
#include <gtest/gtest.h>

#include <tenfold/gpt_attention.h>
#include <tenfold/packed_gpt.h>

#include <random>
#include <string>
#include <vector>

namespace tenfold {
namespace {

using torch::Tensor;

const GptConfig kTiny{.layers = 2, .width = 32, .heads = 4, .length = 20, .vocabulary = 64};
const std::vector<int64_t> kLengths{3, 20, 1, 11, 6};

std::vector<torch::Device> devices() {
  std::vector<torch::Device> found{torch::kCPU};
  if (torch::cuda::is_available()) found.emplace_back(torch::kCUDA);
  return found;
}

Gpt tiny_model(torch::Device device) {
  torch::manual_seed(15);
  Gpt model(kTiny);
  const torch::NoGradGuard no_grad;
  // As they begin, all scores are near 0 and every weight of attention is the same; who looks at whom must show.
  for (Tensor& parameter : model->parameters()) parameter.add_(0.2 * torch::randn_like(parameter));
  model->to(device);
  return model;
}

std::vector<std::vector<int32_t>> random_texts(unsigned seed) {
  std::mt19937 bits(seed);
  std::vector<std::vector<int32_t>> texts;
  for (const int64_t length : kLengths) {
    auto& text = texts.emplace_back();
    for (int64_t i = 0; i <= length; ++i) text.push_back(static_cast<int32_t>(bits() % 64));
  }
  return texts;
}

std::vector<TextIds> views(const std::vector<std::vector<int32_t>>& texts) { return {texts.begin(), texts.end()}; }

struct Trained {
  std::vector<double> losses;
  std::vector<Tensor> first_gradients;
};

/// A few updates; `loss_of` is the forward pass of a step's texts.
template <class LossOf>
Trained train(torch::Device device, LossOf loss_of) {
  Gpt model = tiny_model(device);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  Trained result;
  for (unsigned step = 0; step < 4; ++step) {
    const auto texts = random_texts(step);
    optimizer.zero_grad();
    const Tensor loss = loss_of(*model, views(texts));
    loss.backward();
    if (step == 0) {
      for (const Tensor& parameter : model->parameters()) result.first_gradients.push_back(parameter.grad().clone());
    }
    optimizer.step();
    result.losses.push_back(loss.item<double>());
  }
  return result;
}

class PackedGptTest : public testing::TestWithParam<size_t> {};
const std::vector<std::pair<std::string, PackedAttention>> kWays{
    {"Each", attention_of_each}, {"Padded", attention_padded}, {"Masked", [](const Tensor& qkv, const Packing& packing) {
                                                                  return attention_masked(qkv, block_diagonal_mask(packing));
                                                                }}};

TEST_P(PackedGptTest, LossesAndGradientsAreThoseOfPaddedTexts) {
  const PackedAttention& attention = kWays[GetParam()].second;
  for (const torch::Device device : devices()) {
    const Trained padded = train(device, [device](GptImpl& model, const std::vector<TextIds>& texts) {
      const PaddedBatch batch = pad_batch(texts, kTiny.length, device);
      return loss_with(model, batch.ids, batch.targets, attention_by_aten);
    });
    const Trained packed = train(device, [&](GptImpl& model, const std::vector<TextIds>& texts) {
      return packed_loss(model, pack_batch(texts, device), attention);
    });
    for (size_t i = 0; i < padded.losses.size(); ++i) EXPECT_NEAR(packed.losses[i], padded.losses[i], 1e-4) << device << ", update " << i;
    EXPECT_NE(padded.losses.front(), padded.losses.back());
    for (size_t i = 0; i < padded.first_gradients.size(); ++i) {
      const double norm = padded.first_gradients[i].norm().item<double>();
      EXPECT_GT(norm, 0);
      EXPECT_LE((packed.first_gradients[i] - padded.first_gradients[i]).norm().item<double>(), 1e-4 * norm)
          << device << ", parameter " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, PackedGptTest, testing::Range(size_t{0}, kWays.size()),
                         [](const auto& info) { return kWays[info.param].first; });

TEST(PackedGpt, WhatOneTextSaysChangesNothingForTheOthers) {
  const torch::NoGradGuard no_grad;
  Gpt model = tiny_model(torch::kCPU);
  const auto output = [&](const std::vector<std::vector<int32_t>>& texts) {
    const PackedBatch batch = pack_batch(views(texts), torch::kCPU);
    Tensor h = model->tokens(batch.ids) + model->positions(batch.packing.positions);
    for (auto& block : model->blocks) h = packed_block(*block, h, batch.packing, attention_of_each);
    return h.split_with_sizes(batch.packing.lengths);
  };
  auto texts = random_texts(1);
  const auto before = output(texts);
  for (int32_t& id : texts[1]) id = (id + 1) % 64;
  const auto after = output(texts);
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(torch::allclose(after[i], before[i], 1e-6, 1e-6), i != 1) << "text " << i;

  // Nor does it matter where a text lies.
  std::swap(texts[0], texts[3]);
  const auto swapped = output(texts);
  EXPECT_TRUE(torch::allclose(swapped[3], after[0], 1e-5, 1e-5));
  EXPECT_TRUE(torch::allclose(swapped[0], after[3], 1e-5, 1e-5));
}

TEST(PackedGpt, DropoutIsRefused) {
  GptConfig config = kTiny;
  config.dropout = 0.1;
  GptBlock block(config);
  EXPECT_THROW(packed_block(*block, torch::randn({4, 32}), make_packing({4}, torch::kCPU), attention_of_each), c10::Error);
}

}  // namespace
}  // namespace tenfold
