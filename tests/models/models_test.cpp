#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/measure/counted.h"
#include "common/models/convnet.h"
#include "common/models/gpt.h"
#include "common/models/gpt_memory.h"
#include "common/models/mlp.h"
#include "tests/support/processor.h"

namespace {

using torch::Tensor;
namespace gpt = tenfold::gpt;

tenfold::Trial trial(const std::vector<tenfold::Assignment>& settings = {}, uint64_t seed = 7) {
  auto record = std::make_shared<tenfold::TrialRecord>();
  for (const tenfold::Assignment& setting : settings) record->given[setting.name] = setting.value.cpu;
  tenfold::Trial result(record);
  result.seed = seed;
  torch::manual_seed(seed);
  return result;
}

double gpt_loss(tenfold::GptTraining& work) {
  auto [ids, targets] = work.next_batch();
  work.optimizer->zero_grad();
  const Tensor loss = work.model->loss(work.model->hidden(ids), targets);
  loss.backward();
  work.optimizer->step();
  return loss.item<double>();
}

TEST(Gpt, Shapes) {
  tenfold::GptTraining work(trial({gpt::kLayers(2)}));
  auto [ids, targets] = work.next_batch();
  EXPECT_EQ(ids.sizes(), targets.sizes());
  EXPECT_TRUE(torch::equal(ids.slice(1, 1), targets.slice(1, 0, -1))) << "targets are the next ids";
  EXPECT_EQ(work.model->forward(ids).sizes(), (std::vector<int64_t>{ids.size(0), ids.size(1), 128}));
  EXPECT_EQ(work.tokens_per_step(), ids.numel());
}

TEST(Gpt, SeesOnlyThePast) {
  tenfold::GptTraining work(trial({gpt::kLayers(2)}));
  work.model->eval();
  auto [ids, targets] = work.next_batch();
  Tensor changed = ids.clone();
  changed.index_put_({torch::indexing::Slice(), -1}, (ids.index({torch::indexing::Slice(), -1}) + 1) % 128);
  const Tensor a = work.model->forward(ids), b = work.model->forward(changed);
  EXPECT_TRUE(torch::allclose(a.slice(1, 0, -1), b.slice(1, 0, -1)));
  EXPECT_FALSE(torch::allclose(a.slice(1, -1), b.slice(1, -1)));
}

TEST(Gpt, LearnsText) {
  tenfold::GptTraining work(trial({gpt::kLayers(2)}));
  EXPECT_NEAR(gpt_loss(work), std::log(128), 0.3) << "an untrained model spreads its guess over the vocabulary";
  double last = 0;
  for (int i = 0; i < 150; ++i) last = gpt_loss(work);
  EXPECT_LT(last, 3.3) << "the frequencies of letters alone would give about this";
}

TEST(Gpt, EqualSeedsGiveEqualRuns) {
  tenfold::GptTraining a(trial({gpt::kLayers(1)})), b(trial({gpt::kLayers(1)}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(gpt_loss(a), gpt_loss(b));
  tenfold::GptTraining other(trial({gpt::kLayers(1)}, 8));
  EXPECT_NE(gpt_loss(other), gpt_loss(a));
}

TEST(Gpt, RefusesHeadsThatDoNotDivideTheWidth) {
  EXPECT_THROW(tenfold::GptTraining(trial({gpt::kHeads(5)})), c10::Error);
}

// What a lesson replaces is used in every block, and nothing else changes.
TEST(Gpt, PartsAreReplaced) {
  std::map<std::string, int> calls;
  const tenfold::GptParts usual = tenfold::gpt_parts();
  tenfold::GptParts counting;
  counting.norm = [&](auto& layer, const Tensor& x) {
    ++calls["norm"];
    return usual.norm(layer, x);
  };
  counting.attention = [&](const Tensor& qkv, double dropout) {
    ++calls["attention"];
    EXPECT_EQ(qkv.sizes(), (std::vector<int64_t>{8, 64, 3, 4, 16}));
    return usual.attention(qkv, dropout);
  };
  counting.linear = [&](auto& layer, const Tensor& x) {
    ++calls["linear"];
    return usual.linear(layer, x);
  };
  counting.mlp = [&](auto& block, const Tensor& x) {
    ++calls["mlp"];
    return usual.mlp(block, x);
  };
  counting.loss = [&](auto& model, const Tensor& h, const Tensor& targets) {
    ++calls["loss"];
    return usual.loss(model, h, targets);
  };
  tenfold::GptTraining plain(trial({gpt::kLayers(2)}));
  tenfold::GptTraining replaced(trial({gpt::kLayers(2)}), counting);
  EXPECT_EQ(gpt_loss(plain), gpt_loss(replaced));
  EXPECT_EQ(calls, (std::map<std::string, int>{
                       {"norm", 2 * 2 + 1}, {"attention", 2}, {"linear", 2 * 4}, {"mlp", 2}, {"loss", 1}}));
}

// The bytes that predictions are made of, against a step that is counted.
TEST(GptBytes, AreThoseOfACountedStep) {
  const std::vector<tenfold::Assignment> settings = {gpt::kLayers(2), gpt::kLength(32), gpt::kBatch(4)};
  std::shared_ptr<tenfold::GptTraining> work;
  tenfold::Counted counted = tenfold::count_step(torch::kCPU, [&] {
    work = std::make_shared<tenfold::GptTraining>(trial(settings));
    const auto update = [training = work] { return torch::tensor(gpt_loss(*training)); };
    return tenfold::Step{.items = 1, .parameters = work->parameters(), .update = update};
  });
  for (const tenfold::Assignment& setting : settings) counted.settings[setting.name] = setting.value.cpu;
  counted.settings["width"] = gpt::kWidth.value.cpu;
  counted.settings["dropout"] = gpt::kDropout.value.cpu;
  const tenfold::GptBytes bytes(counted);

  int64_t of_block = 0;
  int64_t others = 0;
  for (const auto& parameter : work->parameters()) {
    const auto size = static_cast<int64_t>(parameter.value().nbytes());
    if (parameter.key().starts_with("block0.")) of_block += size;
    if (!parameter.key().starts_with("block")) others += size;
  }
  constexpr int64_t kRounding = 64 * 30;  // of every tensor, to what the allocator hands out
  EXPECT_EQ(bytes.blocks, 2);
  EXPECT_EQ(bytes.stream, 4 * 32 * 64 * 4);
  EXPECT_EQ(bytes.block_gradients, of_block);
  EXPECT_NEAR(static_cast<double>(bytes.other_gradients), static_cast<double>(others), kRounding);
  EXPECT_NEAR(static_cast<double>(bytes.states), 2.0 * static_cast<double>(2 * of_block + others), 2 * kRounding)
      << "parameters and momentum";
  // Parameters, momentum, the embedded input, two blocks and the head: at least these are live at once.
  EXPECT_GT(counted.peak_bytes, bytes.states + bytes.stream + 2 * bytes.block_kept + bytes.head_kept);
  EXPECT_NEAR(static_cast<double>(bytes.states + bytes.stream + 2 * bytes.block_kept + bytes.head_most()),
              static_cast<double>(counted.peak_bytes), 0.1 * static_cast<double>(counted.peak_bytes));
}

TEST(GptOptionsOfACountedStep, AreThoseOfItsTrial) {
  const std::vector<tenfold::Assignment> settings = {gpt::kLayers(3),     gpt::kWidth(32), gpt::kHeads(2),
                                                     gpt::kLength(16),    gpt::kBatch(5),  gpt::kDropout(0.25),
                                                     gpt::kTokens("gpt2")};
  tenfold::Counted counted;
  for (const tenfold::Assignment& setting : settings) counted.settings[setting.name] = setting.value.cpu;
  const tenfold::GptOptions options = tenfold::gpt_options(counted), own = tenfold::gpt_options(trial(settings));
  EXPECT_EQ(options.layers, own.layers);
  EXPECT_EQ(options.width, own.width);
  EXPECT_EQ(options.heads, own.heads);
  EXPECT_EQ(options.length, own.length);
  EXPECT_EQ(options.batch, own.batch);
  EXPECT_EQ(options.dropout, own.dropout);
  EXPECT_EQ(options.vocabulary(), own.vocabulary());
  counted.settings.erase("heads");
  EXPECT_THROW(tenfold::gpt_options(counted), std::invalid_argument);
}

TEST(StepPeakBytes, OfAGptHaveWhatDropoutKeeps) {
  tenfold::GptOptions options{.layers = 2, .width = 16, .heads = 4, .length = 8, .batch = 3};
  EXPECT_EQ(step_peak_bytes(options, torch::kCPU), step_peak_bytes(options));
  options.dropout = 0.1;
  const int64_t masks = 2 * 10 * 3 * 8 * 16, pairs = 3 * 4 * 8 * 8;
  EXPECT_EQ(step_peak_bytes(options, torch::kCUDA), step_peak_bytes(options) + masks);
  EXPECT_EQ(step_peak_bytes(options, torch::kCPU), step_peak_bytes(options) + masks + (2 * 12 + 8) * pairs);
}

/// The peak of a training step by formula and as it is counted. `less`: by how much of it the count may be below the
/// formula.
void expect_peak(int64_t formula, const std::function<std::function<Tensor()>()>& build, double less = 0.01) {
  const tenfold::Counted counted =
      tenfold::count_step(torch::kCPU, [&] { return tenfold::Step{.items = 1, .update = build()}; });
  const auto measured = static_cast<double>(counted.peak_bytes);
  const double off = static_cast<double>(formula) / measured - 1;
  EXPECT_GT(off, -0.01) << "off by " << 100 * off << " %";
  EXPECT_LT(off, less) << "off by " << 100 * off << " %";
}

template <class Training>
std::function<Tensor()> image_step(const std::shared_ptr<Training>& work) {
  return [work] {
    auto [images, labels] = work->next_batch();
    work->optimizer->zero_grad();
    Tensor loss = torch::cross_entropy_loss(work->model(images), labels);
    loss.backward();
    work->optimizer->step();
    return loss;
  };
}

TEST(StepPeakBytes, OfTheConvNetAreThoseOfACountedStep) {
  namespace convnet = tenfold::convnet;
  for (const auto& [batch, channels] : std::vector<std::pair<int64_t, int64_t>>{{64, 16}, {32, 48}, {16, 8}}) {
    SCOPED_TRACE(batch);
    expect_peak(
        tenfold::step_peak_bytes(tenfold::ConvNetOptions{.channels = channels}, batch, torch::kCPU),
        [&] {
          return image_step(
              std::make_shared<tenfold::FashionConvNet>(trial({convnet::kBatch(batch), convnet::kChannels(channels)})));
        },
        tenfold::test::convolutions_keep_copies() ? 0.01 : 0.35);
  }
}

TEST(StepPeakBytes, OfTheMlpAreThoseOfACountedStep) {
  // Batch, layers, width: another moment of the step is the highest in each.
  for (const auto& [batch, layers, width] :
       std::vector<std::array<int64_t, 3>>{{32, 8, 64}, {32, 4, 512}, {1024, 16, 128}, {512, 3, 256}}) {
    SCOPED_TRACE(width);
    const tenfold::MlpOptions options{.layers = layers, .width = width};
    expect_peak(tenfold::step_peak_bytes(options, batch),
                [&] { return image_step(std::make_shared<tenfold::MlpTraining>(trial(), options, batch)); });
  }
}

TEST(StepPeakBytes, OfTheGptAreThoseOfACountedStep) {
  // Layers, width, length, batch.
  for (const auto& [layers, width, length, batch] : std::vector<std::array<int64_t, 4>>{
           {6, 64, 64, 8}, {2, 256, 32, 2}, {2, 128, 64, 8}, {1, 32, 64, 8}, {4, 256, 16, 1}}) {
    SCOPED_TRACE(std::to_string(layers) + " layers of " + std::to_string(width));
    const tenfold::GptOptions options{.layers = layers, .width = width, .length = length, .batch = batch};
    expect_peak(tenfold::step_peak_bytes(options), [&]() -> std::function<Tensor()> {
      auto work = std::make_shared<tenfold::GptTraining>(trial(), options);
      return [work] {
        auto [ids, targets] = work->next_batch();
        work->optimizer->zero_grad();
        Tensor loss = work->model->loss(work->model->hidden(ids), targets);
        loss.backward();
        work->optimizer->step();
        return loss;
      };
    });
  }
}

template <class Training>
double accuracy_after(Training& work, int steps) {
  for (int i = 0; i < steps; ++i) {
    auto [images, labels] = work.next_batch();
    work.optimizer->zero_grad();
    torch::cross_entropy_loss(work.model(images), labels).backward();
    work.optimizer->step();
  }
  torch::NoGradGuard no_grad;
  double right = 0;
  for (int i = 0; i < 10; ++i) {
    auto [images, labels] = work.next_batch();
    right += work.model(images).argmax(1).eq(labels).to(torch::kDouble).mean().template item<double>() / 10;
  }
  return right;
}

TEST(ConvNet, LearnsImages) {
  tenfold::FashionConvNet work(trial());
  EXPECT_GT(accuracy_after(work, 150), 0.6);
}

TEST(Mlp, LearnsImages) {
  tenfold::MlpTraining work(trial({tenfold::mlp::kLayers(3)}));
  EXPECT_GT(accuracy_after(work, 400), 0.6);
}

TEST(Images, AreNormalisedAndSeeded) {
  tenfold::FashionBatches a(trial(), 512), b(trial(), 512);
  auto [images, labels] = a.next();
  EXPECT_EQ(images.sizes(), (std::vector<int64_t>{512, 1, 28, 28}));
  EXPECT_NEAR(images.mean().item<double>(), 0, 0.1);
  EXPECT_NEAR(images.std().item<double>(), 1, 0.1);
  EXPECT_TRUE(torch::equal(labels, b.next().second));
}

}  // namespace
