// The GPT on packed texts trains as on padded ones; what one text says changes nothing for the others.
#include <gtest/gtest.h>

#include "packed_gpt.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/gpt_training.h"

namespace tenfold {
namespace {

using torch::Tensor;

// As they begin, all scores are near 0 and every weight of attention is the same; who sees whom must show.
const test::TinyTraining kTraining{
    .options = {.layers = 2, .width = 32, .heads = 4, .length = 20, .learning_rate = 0.01}, .seed = 15, .spread = 0.2};
const std::vector<int64_t> kLengths{3, 20, 1, 11, 6};

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

class PackedGptTest : public testing::TestWithParam<size_t> {};

struct Way {
  std::string name;
  PackedAttention attention;
};
const std::vector<Way> kWays{{"Each", attention_of_each}, {"Padded", attention_padded}, {"Masked", attention_masked}};

PackedBatch packed_with_mask(const std::vector<TextIds>& texts, torch::Device device) {
  PackedBatch batch = pack_batch(texts, device);
  batch.packing.mask = block_diagonal_mask(batch.packing);
  return batch;
}

TEST_P(PackedGptTest, LossesAndGradientsAreThoseOfPaddedTexts) {
  for (const torch::Device device : test::devices()) {
    Gpt padded = test::tiny_gpt(kTraining, device);
    const test::Trained expected = test::train(padded, kTraining, [&](unsigned step) {
      const auto texts = random_texts(step);
      const PaddedBatch batch = pad_batch(views(texts), kTraining.options.length, device);
      return padded->loss(padded->hidden(batch.ids), batch.targets);
    });
    const auto packing = std::make_shared<Packing>();
    Gpt packed = test::tiny_gpt(kTraining, device, with_packed_attention(packing, kWays[GetParam()].attention));
    const test::Trained found = test::train(packed, kTraining, [&](unsigned step) {
      const auto texts = random_texts(step);
      return packed_loss(*packed, packing, packed_with_mask(views(texts), device));
    });
    test::expect_same_training(found, expected, device);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, PackedGptTest, testing::Range(size_t{0}, kWays.size()),
                         [](const auto& info) { return kWays[info.param].name; });

TEST(PackedGpt, WhatOneTextSaysChangesNothingForTheOthers) {
  const torch::NoGradGuard no_grad;
  const auto packing = std::make_shared<Packing>();
  Gpt model = test::tiny_gpt(kTraining, torch::kCPU, with_packed_attention(packing, attention_of_each));
  const auto output = [&](const std::vector<std::vector<int32_t>>& texts) {
    const PackedBatch batch = pack_batch(views(texts), torch::kCPU);
    *packing = batch.packing;
    return model->blocks_forward(model->embed(batch.ids, packing->positions)).split_with_sizes(packing->lengths);
  };
  auto texts = random_texts(1);
  const auto before = output(texts);
  for (int32_t& id : texts[1]) id = (id + 1) % 64;
  const auto after = output(texts);
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(torch::allclose(after[i], before[i], 1e-6, 1e-6), i != 1) << "text " << i;

  // Nor does it matter where a text lies.
  std::swap(texts[0], texts[3]);
  const auto swapped = output(texts);
  EXPECT_TRUE(torch::allclose(swapped[3], after[0], 1e-5, 1e-5));
  EXPECT_TRUE(torch::allclose(swapped[0], after[3], 1e-5, 1e-5));
}

TEST(PackedGpt, DropoutIsRefused) {
  GptOptions options = kTraining.options;
  options.dropout = 0.1;
  const auto packing = std::make_shared<Packing>();
  Gpt model(options, with_packed_attention(packing, attention_of_each));
  const auto texts = random_texts(1);
  EXPECT_THROW(packed_loss(*model, packing, pack_batch(views(texts), torch::kCPU)), c10::Error);
}

}  // namespace
}  // namespace tenfold
