#include <gtest/gtest.h>

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bytes_by_formula.h"
#include "generated_text.h"
#include "gpt2_layout.h"
#include "tests/support/support.h"

namespace {

using namespace tenfold;
using tenfold::test::message_of;
using torch::Tensor;

constexpr Gpt2Options kTiny{.layers = 2, .heads = 2, .width = 4, .length = 4, .vocabulary = 5};

/// GPT-2's tensors as its file has them, each the numbers ((37 i) mod 101 - 50) / 60, i counted through all of them in
/// the order of their names.
NamedTensors counted_tensors() {
  std::map<std::string, std::vector<int64_t>> shapes = {
      {"wte.weight", {5, 4}}, {"wpe.weight", {4, 4}}, {"ln_f.weight", {4}}, {"ln_f.bias", {4}}};
  for (const std::string block : {"h.0.", "h.1."}) {
    for (const std::string norm : {"ln_1", "ln_2"})
      shapes[block + norm + ".weight"] = shapes[block + norm + ".bias"] = {4};
    const std::vector<std::tuple<std::string, int64_t, int64_t>> layers = {
        {"attn.c_attn", 4, 12}, {"attn.c_proj", 4, 4}, {"mlp.c_fc", 4, 16}, {"mlp.c_proj", 16, 4}};
    for (const auto& [name, in, out] : layers) {
      shapes[block + name + ".weight"] = {in, out};
      shapes[block + name + ".bias"] = {out};
    }
  }
  NamedTensors tensors;
  int64_t begin = 0;
  for (const auto& [name, shape] : shapes) {
    const int64_t end = begin + c10::multiply_integers(shape);
    const Tensor numbers = (torch::arange(begin, end) * 37).remainder(101) - 50;
    tensors[name] = (numbers.to(torch::kDouble) / 60).to(torch::kFloat).view(shape);
    begin = end;
  }
  return tensors;
}

/// The logits of GPT2LMHeadModel of transformers 5.24.0 (torch 2.11) with counted_tensors(), for the ids 0, 3, 1, 4.
Tensor logits_of_transformers() {
  return torch::tensor({{-0.004403, -0.603921, 0.152952, -0.624800, 0.310306},
                        {-0.173520, -0.371277, -0.163698, -0.741779, -0.153876},
                        {0.016833, -0.740475, 0.172502, -0.340235, 0.328172},
                        {0.192622, -0.918240, 0.342881, -0.485349, 0.493140}},
                       torch::kFloat);
}

/// The largest difference of a model's logits to those, as they would be after `change`.
double difference(const NamedTensors& file, Gpt2Parts parts = {}, Gpt2Options options = kTiny) {
  const torch::NoGradGuard no_grad;
  Gpt2 model(options, std::move(parts));
  load_gpt2(model, file);
  const Tensor ids = torch::tensor({{0, 3, 1, 4}}, torch::kLong);
  return (model->forward(ids)[0] - logits_of_transformers()).abs().max().item<double>();
}

TEST(Gpt2, LogitsAreThoseOfTransformers) {
  EXPECT_LT(difference(counted_tensors()), 2e-6);
  EXPECT_LT(difference(counted_tensors(), {.attention = eager_causal_attention}), 2e-6);
  Gpt2Options padded = kTiny;
  padded.pad_vocabulary_to = 8;
  EXPECT_LT(difference(counted_tensors(), {}, padded), 2e-6);
}

TEST(Gpt2, OtherModelsHaveOtherLogits) {
  EXPECT_GT(difference(counted_tensors(), {.gelu = [](const Tensor& x) { return torch::gelu(x); }}), 2e-5);
  const auto sees_all = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    return at::scaled_dot_product_attention(q, k, v);
  };
  EXPECT_GT(difference(counted_tensors(), {.attention = sees_all}), 1e-2);
  NamedTensors turned = counted_tensors();
  turned["h.0.attn.c_proj.weight"] = turned["h.0.attn.c_proj.weight"].t();
  EXPECT_GT(difference(turned), 1e-2);
}

TEST(Gpt2, MoreTokensThanPositionsAreRefused) {
  Gpt2 model(kTiny);
  EXPECT_THROW(model->forward(torch::zeros({1, kTiny.length + 1}, torch::kLong)), c10::ValueError);
  model->forward(torch::zeros({1, kTiny.length}, torch::kLong));
}

TEST(Gpt2, TheSmallestHas124MillionParameters) {
  EXPECT_EQ(parameters_of(Gpt2Options{}), 124'439'808);  // as it was published
  int64_t counted = 0;
  for (const Tensor& parameter : Gpt2(kTiny)->parameters()) counted += parameter.numel();
  EXPECT_EQ(counted, parameters_of(kTiny));
  EXPECT_EQ(counted, 532);
  EXPECT_NEAR(flops_per_token(Gpt2Options{}), 6 * 123.5e6 + 12.0 * 12 * 768 * 1024, 2e6);
}

TEST(Gpt2, PaddingChangesNeitherLossNorGradients) {
  Gpt2Options padded = kTiny;
  padded.pad_vocabulary_to = 16;
  std::vector<Tensor> losses, gradients;
  for (const Gpt2Options& options : {kTiny, padded}) {
    torch::manual_seed(3);
    Gpt2 model(options);
    const Tensor loss = model->loss(torch::tensor({{0, 3, 1, 4}}), torch::tensor({{3, 1, 4, 2}}));
    loss.backward();
    losses.push_back(loss.detach());
    gradients.push_back(model->wte->weight.grad());
  }
  EXPECT_TRUE(torch::allclose(losses[0], losses[1], 1e-6));
  EXPECT_TRUE(torch::allclose(gradients[0], gradients[1].narrow(0, 0, 5), 1e-5, 1e-7));
  EXPECT_EQ(gradients[1].narrow(0, 5, 11).abs().max().item<float>(), 0);
}

TEST(Gpt2, GeneratesFromTheVocabularyAlone) {
  torch::manual_seed(3);
  Gpt2Options padded = kTiny;
  padded.pad_vocabulary_to = 64;
  Gpt2 model(padded);
  const auto drawn = [&] {
    return generate(model, torch::tensor({0, 3}, torch::kLong), 30, {}, at::detail::createCPUGenerator(5));
  };
  const Tensor ids = drawn();
  ASSERT_EQ(ids.size(0), 32);
  EXPECT_LT(ids.max().item<int64_t>(), 5);
  EXPECT_TRUE(torch::equal(ids, drawn()));
}

/// The tokens of a row of logits, the likeliest first.
std::vector<int64_t> by_likelihood(Gpt2& model, const std::vector<int64_t>& ids) {
  const Tensor order = model->forward(torch::tensor(ids).unsqueeze(0))[0][-1].argsort(0, /*descending=*/true);
  return {order.const_data_ptr<int64_t>(), order.const_data_ptr<int64_t>() + order.numel()};
}

TEST(Gpt2, TemperatureZeroIsTheLikeliestToken) {
  const torch::NoGradGuard no_grad;
  Gpt2 model(kTiny);
  load_gpt2(model, counted_tensors());
  const at::Generator generator = at::detail::createCPUGenerator(5);
  const Tensor greedy = generate(model, torch::tensor({0, 3}, torch::kLong), 2, {.temperature = 0}, generator);
  std::vector<int64_t> expected = {0, 3};
  for (int i = 0; i < 2; ++i) expected.push_back(by_likelihood(model, expected).front());
  EXPECT_TRUE(torch::equal(greedy, torch::tensor(expected)));
  EXPECT_TRUE(torch::equal(
      greedy, generate(model, torch::tensor({0, 3}, torch::kLong), 2, {.temperature = 3, .top_k = 1}, generator)));
}

TEST(Gpt2, TopKDrawsFromTheLikeliestAlone) {
  const torch::NoGradGuard no_grad;
  Gpt2 model(kTiny);
  load_gpt2(model, counted_tensors());
  const std::vector<int64_t> order = by_likelihood(model, {0, 3});
  const at::Generator generator = at::detail::createCPUGenerator(5);
  std::set<int64_t> drawn;
  for (int i = 0; i < 60; ++i) {
    const Tensor ids =
        generate(model, torch::tensor({0, 3}, torch::kLong), 1, {.temperature = 2, .top_k = 2}, generator);
    drawn.insert(ids[2].item<int64_t>());
  }
  EXPECT_EQ(drawn, (std::set<int64_t>{order[0], order[1]}));
  EXPECT_THROW(generate(model, torch::empty({0}, torch::kLong), 1, {}, generator), c10::ValueError);
  EXPECT_THROW(generate(model, torch::tensor({0}), 1, {.temperature = -1}, generator), c10::ValueError);
}

TEST(Gpt2Layout, WhatIsWrittenIsWhatWasRead) {
  Gpt2 model(kTiny);
  load_gpt2(model, counted_tensors());
  const NamedTensors written = gpt2_tensors(model), expected = counted_tensors();
  ASSERT_EQ(written.size(), expected.size());
  for (const auto& [name, tensor] : expected) EXPECT_TRUE(torch::equal(written.at(name), tensor)) << name;
  EXPECT_FALSE(written.contains("lm_head.weight"));
}

TEST(Gpt2Layout, FilesOfTheModelWithAHeadAreReadToo) {
  NamedTensors file;
  for (const auto& [name, tensor] : counted_tensors()) file["transformer." + name] = tensor;
  file["transformer.h.0.attn.bias"] = torch::ones({1, 1, 4, 4});  // the mask, as files of before 2023 have it
  file["transformer.h.1.attn.masked_bias"] = torch::tensor(-1e4F);
  file["lm_head.weight"] = file["transformer.wte.weight"].clone();
  EXPECT_LT(difference(file), 2e-6);
  const Gpt2Options options = gpt2_options_of(file);
  EXPECT_EQ(std::vector({options.layers, options.width, options.length, options.vocabulary}),
            (std::vector<int64_t>{2, 4, 4, 5}));
}

TEST(Gpt2Layout, WhatDoesNotFitIsRefusedAndChangesNothing) {
  Gpt2 model(kTiny);
  const NamedTensors before = gpt2_tensors(model);
  const auto refusal = [&](const std::function<void(NamedTensors&)>& change) {
    NamedTensors file = counted_tensors();
    change(file);
    return message_of<std::runtime_error>([&] { load_gpt2(model, file); });
  };
  const auto expect_says = [](const std::string& message, const std::string& words) {
    EXPECT_NE(message.find(words), std::string::npos) << message << "\n  lacks: " << words;
  };
  expect_says(refusal([](auto& file) { file.erase("ln_f.bias"); }), "lacks 'ln_f.bias'");
  expect_says(refusal([](auto& file) { file["h.2.ln_1.bias"] = torch::ones({4}); }), "no 'h.2.ln_1.bias'");
  expect_says(refusal([](auto& file) { file["wte.weight"] = torch::ones({6, 4}); }), "does not fit");
  expect_says(refusal([](auto& file) { file["ln_f.bias"] = file["ln_f.bias"].to(torch::kLong); }), "does not fit");
  expect_says(refusal([](auto& file) { file["h.0.mlp.c_fc.weight"] = torch::ones({16, 4}); }), "does not fit");
  expect_says(refusal([](auto& file) { file["lm_head.weight"] = torch::ones({5, 4}); }), "tied");
  expect_says(refusal([](auto& file) { file["transformer.ln_f.bias"] = torch::ones({4}); }), "twice");
  for (const auto& [name, tensor] : gpt2_tensors(model)) EXPECT_TRUE(torch::equal(tensor, before.at(name))) << name;
  expect_says(message_of<std::runtime_error>([] { gpt2_options_of({{"weight", torch::ones({2, 2})}}); }), "no GPT-2");
}

TEST(GeneratedText, WordsAreRunsOfLetters) {
  EXPECT_EQ(words_of("Thou'rt, O king -- thou\nART 2 kings"),
            (std::vector<std::string>{"thou'rt", "o", "king", "thou", "art", "kings"}));
  EXPECT_TRUE(words_of(" ,.\n7").empty());
}

TEST(GeneratedText, ShareOfKnownWords) {
  const std::set<std::string> known = {"the", "king", "is"};
  EXPECT_EQ(known_share("The king is dead", known, 1), 0.75);
  EXPECT_EQ(known_share("The king is dead", known, 3), 2.0 / 3);
  EXPECT_EQ(known_share("... is", known, 3), 0);
}

}  // namespace
