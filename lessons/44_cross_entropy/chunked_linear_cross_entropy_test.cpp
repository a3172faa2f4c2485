// chunked_linear_cross_entropy() against linear and cross_entropy.
#include <gtest/gtest.h>

#include "chunked_linear_cross_entropy.h"
#include "common/measure/memory.h"
#include "lessons/21_mixed_precision/grad_scaler.h"

#include "tests/support/support.h"

namespace tenfold {
namespace {

using test::message_of;
using torch::Tensor;
namespace F = torch::nn::functional;

constexpr int64_t kRows = 37, kWidth = 12, kClasses = 101;  // 37 is prime: no chunk but 1 and itself divides it
constexpr int64_t kIgnored = -100;

struct Data {
  Tensor hidden, weight, targets;
};

/// Normal hidden and weight, every fifth target ignored.
Data data(at::ScalarType type, int64_t rows = kRows) {
  torch::manual_seed(44);
  Data d{torch::randn({rows, kWidth}, type).requires_grad_(), torch::randn({kClasses, kWidth}, type).requires_grad_(),
         torch::randint(kClasses, {rows}, torch::kLong)};
  d.targets.slice(0, 2, rows, 5).fill_(kIgnored);
  return d;
}

struct Result {
  Tensor loss, hidden, weight;
};

Result plain(const Data& d, double factor = 1) {
  const Tensor loss =
      F::cross_entropy(at::linear(d.hidden, d.weight), d.targets, F::CrossEntropyFuncOptions().ignore_index(kIgnored));
  const auto gradients = torch::autograd::grad({loss * factor}, {d.hidden, d.weight});
  return {loss.detach(), gradients[0], gradients[1]};
}

Result chunked(const Data& d, int64_t chunk_rows, double factor = 1) {
  const Tensor loss = chunked_linear_cross_entropy(d.hidden, d.weight, d.targets, {.chunk_rows = chunk_rows});
  const auto gradients = torch::autograd::grad({loss * factor}, {d.hidden, d.weight});
  return {loss.detach(), gradients[0], gradients[1]};
}

/// norm(a - b) / norm(b) in float64.
double distance(const Tensor& a, const Tensor& b) {
  return ((a.to(torch::kDouble) - b.to(torch::kDouble)).norm() / b.to(torch::kDouble).norm()).item<double>();
}

void expect_near(const Result& ours, const Result& reference, double tolerance, int64_t chunk_rows) {
  // Written so that a NaN fails.
  EXPECT_TRUE(distance(ours.loss, reference.loss) <= tolerance) << ours.loss.item() << ", chunks of " << chunk_rows;
  EXPECT_TRUE(distance(ours.hidden, reference.hidden) <= tolerance) << "gradient of hidden, chunks of " << chunk_rows;
  EXPECT_TRUE(distance(ours.weight, reference.weight) <= tolerance) << "gradient of weight, chunks of " << chunk_rows;
}

class ChunkedCrossEntropy : public testing::Test {
 protected:
  void SetUp() override { torch::set_num_threads(1); }
};

const std::vector<int64_t> kChunks = {1, 5, 36, kRows, 1000, 0};  // 0: the default

TEST_F(ChunkedCrossEntropy, LossAndGradientsAreThePlainOnes) {
  for (const auto& [type, tolerance] : {std::pair{torch::kDouble, 1e-14}, {torch::kFloat, 1e-6}}) {
    const Data d = data(type);
    for (const int64_t chunk : kChunks) expect_near(chunked(d, chunk), plain(d), tolerance, chunk);
  }
}

TEST_F(ChunkedCrossEntropy, SixteenBitsStayAsCloseAsTheirRoundingAllows) {
  const Data exact = data(torch::kDouble),
             half = {exact.hidden.detach().to(torch::kBFloat16).requires_grad_(),
                     exact.weight.detach().to(torch::kBFloat16).requires_grad_(), exact.targets};
  const Data widened = {half.hidden.detach().to(torch::kDouble).requires_grad_(),
                        half.weight.detach().to(torch::kDouble).requires_grad_(), half.targets};
  for (const int64_t chunk : kChunks) {
    const Result ours = chunked(half, chunk);
    EXPECT_EQ(ours.loss.scalar_type(), torch::kFloat);
    EXPECT_EQ(ours.hidden.scalar_type(), torch::kBFloat16);
    EXPECT_EQ(ours.weight.scalar_type(), torch::kBFloat16);
    expect_near(ours, plain(widened), 2e-2, chunk);
  }
}

TEST_F(ChunkedCrossEntropy, ManySmallChunksLoseNothingInSixteenBits) {
  // Summed in bf16, a thousand chunks' gradients would stop growing once the sum is 256 times a chunk's part.
  torch::manual_seed(45);
  const Tensor targets = torch::zeros({1024}, torch::kLong);
  const auto gradient = [&](at::ScalarType type) {
    const Tensor hidden = torch::ones({1024, 4}, type), weight = torch::zeros({8, 4}, type).requires_grad_();
    return torch::autograd::grad({chunked_linear_cross_entropy(hidden, weight, targets, {.chunk_rows = 1})},
                                 {weight})[0];
  };
  EXPECT_LE(distance(gradient(torch::kBFloat16), gradient(torch::kDouble)), 1e-2);
}

TEST_F(ChunkedCrossEntropy, ChunksThatCancelAreNotRoundedBeforeTheyAreAdded) {
  const auto gradient = [](at::ScalarType type) {
    const Tensor targets = torch::zeros({2}, torch::kLong),
                 hidden = torch::tensor({1.0, -127.0 / 128}).unsqueeze(1).to(type),
                 weight = torch::zeros({kClasses, 1}, type).requires_grad_();
    chunked_linear_cross_entropy(hidden, weight, targets, {.chunk_rows = 1}).backward();
    return weight.grad();
  };
  EXPECT_LE(distance(gradient(torch::kBFloat16), gradient(torch::kDouble)), 4e-3) << "a 128th of either is left";
}

TEST_F(ChunkedCrossEntropy, OnAGpuSixteenBitsAreAsCloseAsOnTheCpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "needs a CUDA device";
  const Data exact = data(torch::kDouble);
  for (const at::ScalarType type : {torch::kBFloat16, torch::kHalf}) {
    const auto rounded = [&](const Tensor& t, at::ScalarType to, c10::DeviceType device) {
      return t.detach().to(type).to(device, to).requires_grad_();
    };
    const Data ours = {rounded(exact.hidden, type, torch::kCUDA), rounded(exact.weight, type, torch::kCUDA),
                       exact.targets.to(torch::kCUDA)};
    const Data widened = {rounded(exact.hidden, torch::kDouble, torch::kCPU),
                          rounded(exact.weight, torch::kDouble, torch::kCPU), exact.targets};
    for (const int64_t chunk : kChunks) {
      const Result on_gpu = chunked(ours, chunk);
      expect_near({on_gpu.loss.cpu(), on_gpu.hidden.cpu(), on_gpu.weight.cpu()}, plain(widened), 2e-2, chunk);
    }
  }
}

TEST_F(ChunkedCrossEntropy, TheGradientThatArrivesIsMultipliedIn) {
  const Data d = data(torch::kDouble);
  expect_near(chunked(d, 5, -3.5), plain(d, -3.5), 1e-14, 5);
}

/// Of the gradients in 16 bits under a loss scale, divided by it afterwards, from those in float64.
struct Errors {
  double hidden, weight;
};

/// The scales under which fp16 gradients of so many rows neither vanish nor overflow are about those from 1 / the
/// smallest normal number times rows and classes to 65504 times rows.
struct ScaledLoss {
  ScaledLoss(int64_t rows, int64_t classes, double spread) {
    torch::manual_seed(47);
    hidden = (torch::randn({rows, 32}) * spread).requires_grad_();
    weight = torch::randn({classes, 32}).requires_grad_();
    targets = torch::randint(classes, {rows}, torch::kLong);
    targets.slice(0, 0, rows, 7).fill_(kIgnored);
    // From the numbers that 16 bits hold, so that only what is done with them counts.
    exact = {as_half(hidden), as_half(weight), targets};
    reference = plain(exact);
  }
  static Tensor as_half(const Tensor& t) { return t.detach().to(torch::kHalf).to(torch::kDouble).requires_grad_(); }

  Errors errors(bool in_chunks, double scale, at::ScalarType type = torch::kHalf) const {
    Tensor loss;
    {
      const Autocast scope(at::kCPU, type);
      loss = in_chunks ? chunked_linear_cross_entropy(hidden, weight, targets, {.chunk_rows = 48})
                       : F::cross_entropy(at::linear(hidden, weight), targets,
                                          F::CrossEntropyFuncOptions().ignore_index(kIgnored));
    }
    const auto gradients = torch::autograd::grad({loss * scale}, {hidden, weight});
    return {distance(gradients[0].to(torch::kDouble) / scale, reference.hidden),
            distance(gradients[1].to(torch::kDouble) / scale, reference.weight)};
  }

  Tensor hidden, weight, targets;
  Data exact;
  Result reference;
};

TEST_F(ChunkedCrossEntropy, UnderALossScaleFp16IsAsPreciseAsThePlainLoss) {
  for (const int64_t rows : {64, 1024, 4096}) {
    for (const double spread : {0.1, 1.0}) {  // close to equal probabilities, and a few large ones
      const ScaledLoss setting(rows, /*classes=*/512, spread);
      for (const double scale : {1.0, 128.0, 32768.0, 65536.0}) {
        const Errors ours = setting.errors(true, scale), plain_loss = setting.errors(false, scale);
        // Written so that a NaN fails.
        EXPECT_TRUE(ours.hidden <= 1.1 * plain_loss.hidden + 1e-4)
            << ours.hidden << ", plain " << plain_loss.hidden << "; " << rows << " rows, scale " << scale;
        EXPECT_TRUE(ours.weight <= 1.1 * plain_loss.weight + 1e-4)
            << ours.weight << ", plain " << plain_loss.weight << "; " << rows << " rows, scale " << scale;
        if (scale >= 128) EXPECT_TRUE(ours.hidden <= 2e-3 && ours.weight <= 2e-3) << rows << " rows, scale " << scale;
      }
    }
  }
}

TEST_F(ChunkedCrossEntropy, UnderALossScaleBf16IsAsPreciseAsThePlainLoss) {
  const ScaledLoss setting(1024, /*classes=*/512, 1.0);
  for (const double scale : {1.0, 3.7, 65536.0}) {
    const Errors ours = setting.errors(true, scale, torch::kBFloat16),
                 plain_loss = setting.errors(false, scale, torch::kBFloat16);
    EXPECT_TRUE(ours.hidden <= 1.5 * plain_loss.hidden) << ours.hidden << ", plain " << plain_loss.hidden;
    EXPECT_TRUE(ours.weight <= 1.05 * plain_loss.weight) << ours.weight << ", plain " << plain_loss.weight;
  }
}

TEST_F(ChunkedCrossEntropy, UnderGradScalerNoStepIsSkippedThatThePlainLossMakes) {
  // Grows after every second step: from 2^16 it passes all scales up to the first that is too large for both.
  const auto scales_of = [](bool in_chunks) {
    const ScaledLoss setting(64, /*classes=*/128, 0.5);
    torch::optim::SGD optimizer({setting.hidden, setting.weight}, torch::optim::SGDOptions(1e-3));
    GradScaler scaler({.growth_interval = 2});
    std::vector<std::pair<double, bool>> made;
    for (int step = 0; step < 8; ++step) {
      optimizer.zero_grad();
      Tensor loss;
      {
        const Autocast scope(at::kCPU, torch::kHalf);
        loss = in_chunks ? chunked_linear_cross_entropy(setting.hidden, setting.weight, setting.targets)
                         : F::cross_entropy(at::linear(setting.hidden, setting.weight), setting.targets,
                                            F::CrossEntropyFuncOptions().ignore_index(kIgnored));
      }
      scaler.scale(loss).backward();
      const double scale = scaler.current_scale();
      made.emplace_back(scale, scaler.step(optimizer));
      scaler.update();
    }
    return made;
  };
  const auto ours = scales_of(true), plain_loss = scales_of(false);
  EXPECT_EQ(ours.front(), std::pair(65536.0, true)) << "the default scale's first update";
  for (size_t i = 0; i < ours.size(); ++i) {
    if (!plain_loss[i].second) break;  // from here on their scales differ
    EXPECT_EQ(ours[i], plain_loss[i]) << "step " << i;
  }
}

TEST_F(ChunkedCrossEntropy, UnderALossScaleThePeakStaysUnderAThirdOfThePlainLosss) {
  constexpr int64_t kTokens = 2048, kVocabulary = 4096;
  torch::manual_seed(48);
  const Tensor hidden = torch::randn({kTokens, 16}).requires_grad_(),
               weight = torch::randn({kVocabulary, 16}).requires_grad_();
  const Tensor targets = torch::randint(kVocabulary, {kTokens}, torch::kLong);
  for (const at::ScalarType type : {torch::kHalf, torch::kBFloat16}) {
    const auto peak_of = [&](bool in_chunks) {
      hidden.mutable_grad() = weight.mutable_grad() = Tensor();
      const CountCpuMemory counting;
      const int64_t before = live_bytes(torch::kCPU);
      reset_peak(torch::kCPU);
      Tensor loss;
      {
        const Autocast scope(at::kCPU, type);
        loss = in_chunks ? chunked_linear_cross_entropy(hidden, weight, targets)
                         : F::cross_entropy(at::linear(hidden, weight), targets);
      }
      (loss * 65536).backward();
      return peak_bytes(torch::kCPU) - before;
    };
    EXPECT_LE(3 * peak_of(true), peak_of(false)) << type;
    const int64_t chunk = 64 * kVocabulary * (4 + 2), parameters = hidden.nbytes() + weight.nbytes();
    EXPECT_LE(peak_of(true), chunk + 4 * parameters + (int64_t{1} << 18)) << type;
  }
}

TEST_F(ChunkedCrossEntropy, LeadingDimensionsAreRows) {
  const Data d = data(torch::kDouble, 36);
  const Tensor loss =
      chunked_linear_cross_entropy(d.hidden.view({4, 9, kWidth}), d.weight, d.targets.view({4, 9}), {.chunk_rows = 7});
  EXPECT_EQ(loss.dim(), 0);
  EXPECT_LE(distance(loss.detach(), plain(d).loss), 1e-14);
  // Not contiguous: (T, B, D) seen as (B, T, D).
  const Tensor turned = d.hidden.view({9, 4, kWidth}).transpose(0, 1), turned_targets = d.targets.view({9, 4}).t();
  const Tensor same = chunked_linear_cross_entropy(turned, d.weight, turned_targets, {.chunk_rows = 7});
  EXPECT_LE(distance(torch::autograd::grad({same}, {d.hidden})[0], plain(d).hidden), 1e-14);
}

TEST_F(ChunkedCrossEntropy, OnlyTheGradientsThatAreAskedFor) {
  const Data d = data(torch::kDouble);
  const Result reference = plain(d);
  const Tensor hidden = d.hidden.detach(), weight = d.weight.detach();
  const Tensor of_weight = chunked_linear_cross_entropy(hidden, d.weight, d.targets, {.chunk_rows = 5});
  EXPECT_LE(distance(torch::autograd::grad({of_weight}, {d.weight})[0], reference.weight), 1e-14);
  const Tensor of_hidden = chunked_linear_cross_entropy(d.hidden, weight, d.targets, {.chunk_rows = 5});
  EXPECT_LE(distance(torch::autograd::grad({of_hidden}, {d.hidden})[0], reference.hidden), 1e-14);
  EXPECT_FALSE(chunked_linear_cross_entropy(hidden, weight, d.targets).requires_grad());
  const torch::NoGradGuard no_grad;
  const Tensor loss = chunked_linear_cross_entropy(d.hidden, d.weight, d.targets);
  EXPECT_FALSE(loss.requires_grad());
  EXPECT_LE(distance(loss, reference.loss), 1e-14);
}

TEST_F(ChunkedCrossEntropy, WithoutGradientsNoneIsComputed) {
  const Data d = data(torch::kFloat);
  const CountCpuMemory counting;
  const auto peak_of = [&] {
    const int64_t before = live_bytes(torch::kCPU);
    reset_peak(torch::kCPU);
    chunked_linear_cross_entropy(d.hidden, d.weight, d.targets, {.chunk_rows = 1});
    return peak_bytes(torch::kCPU) - before;
  };
  const int64_t with = peak_of();
  const torch::NoGradGuard no_grad;
  EXPECT_LE(peak_of(), with - d.weight.nbytes()) << "the weight's gradient was there";
}

TEST_F(ChunkedCrossEntropy, NothingThatCountsIsNanAndMovesNothing) {
  Data d = data(torch::kFloat);
  d.targets.fill_(kIgnored);
  const Result ours = chunked(d, 5), reference = plain(d);
  EXPECT_TRUE(std::isnan(reference.loss.item<double>()));
  EXPECT_TRUE(std::isnan(ours.loss.item<double>()));
  EXPECT_EQ(ours.hidden.count_nonzero().item<int64_t>(), 0);
  EXPECT_EQ(ours.weight.count_nonzero().item<int64_t>(), 0);
}

TEST_F(ChunkedCrossEntropy, LargeLogitsDoNotOverflow) {
  const Data d = data(torch::kFloat);
  const Data large = {(d.hidden.detach() * 1000).requires_grad_(), d.weight, d.targets};
  expect_near(chunked(large, 5), plain(large), 1e-5, 5);
}

TEST_F(ChunkedCrossEntropy, UnderAutocastItIsLinearUnderAutocast) {
  const Data d = data(torch::kFloat);
  const auto gradient = [&](bool in_chunks) {
    Tensor loss;
    {
      const Autocast scope(at::kCPU, torch::kBFloat16);
      loss = in_chunks ? chunked_linear_cross_entropy(d.hidden, d.weight, d.targets, {.chunk_rows = 5})
                       : F::cross_entropy(at::linear(d.hidden, d.weight), d.targets);
      EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
    }
    EXPECT_EQ(loss.scalar_type(), torch::kFloat);
    return torch::autograd::grad({loss}, {d.weight})[0];
  };
  const Tensor ours = gradient(true);
  EXPECT_EQ(ours.scalar_type(), torch::kFloat);
  EXPECT_LE(distance(ours, gradient(false)), 2e-2);
  EXPECT_GT(distance(ours, plain(d).weight), 1e-4) << "computed in 32 bits";
}

TEST_F(ChunkedCrossEntropy, ThePeakIsAChunksLogitsInsteadOfThreeTimesAll) {
  constexpr int64_t kTokens = 1024, kVocabulary = 4096, kChunk = 64;
  torch::manual_seed(46);
  const Tensor hidden = torch::randn({kTokens, 16}).requires_grad_(),
               weight = torch::randn({kVocabulary, 16}).requires_grad_();
  const Tensor targets = torch::randint(kVocabulary, {kTokens}, torch::kLong);
  const auto peak_of = [&](bool in_chunks) {
    hidden.mutable_grad() = weight.mutable_grad() = Tensor();
    const CountCpuMemory counting;
    const int64_t before = live_bytes(torch::kCPU);
    reset_peak(torch::kCPU);
    (in_chunks ? chunked_linear_cross_entropy(hidden, weight, targets, {.chunk_rows = kChunk})
               : F::cross_entropy(at::linear(hidden, weight), targets))
        .backward();
    return peak_bytes(torch::kCPU) - before;
  };
  const int64_t logits = kTokens * kVocabulary * 4, gradients = static_cast<int64_t>(hidden.nbytes() + weight.nbytes());
  EXPECT_GE(peak_of(false), 3 * logits);
  // The gradients twice: as forward left them, and multiplied.
  EXPECT_LE(peak_of(true), logits * kChunk / kTokens + 2 * gradients + (int64_t{1} << 16));
  EXPECT_LE(5 * peak_of(true), peak_of(false));
}

TEST_F(ChunkedCrossEntropy, MisuseIsNamed) {
  const Data d = data(torch::kFloat);
  const auto loss_of = [&](const Tensor& hidden, const Tensor& weight, const Tensor& targets, int64_t chunk_rows = 0) {
    return chunked_linear_cross_entropy(hidden, weight, targets, {.chunk_rows = chunk_rows});
  };
  const auto value_error = [&](auto... arguments) {
    return message_of<c10::ValueError>([&] { loss_of(arguments...); });
  };
  const Tensor narrow = d.hidden.slice(1, 0, 5), few = d.targets.slice(0, 0, 5), wide = d.weight.to(torch::kDouble);
  EXPECT_NE(value_error(narrow, d.weight, d.targets).find("expected (..., D) and (V, D)"), std::string::npos);
  EXPECT_NE(value_error(d.hidden, d.weight, few).find("do not fit"), std::string::npos);
  EXPECT_NE(value_error(d.hidden, d.weight, d.targets.to(torch::kInt)).find("int64"), std::string::npos);
  EXPECT_NE(value_error(d.hidden, wide, d.targets).find("one floating type"), std::string::npos);
  EXPECT_NE(value_error(d.hidden, d.weight, d.targets, int64_t{-1}).find("chunk_rows=-1"), std::string::npos);
  for (const int64_t wrong : {kClasses, int64_t{-1}}) {
    Tensor targets = d.targets.clone();
    targets[7] = wrong;
    EXPECT_NE(message_of<c10::IndexError>([&] {
                loss_of(d.hidden, d.weight, targets);
              }).find("target " + std::to_string(wrong) + " is no"),
              std::string::npos);
  }
  const Tensor higher = loss_of(d.hidden, d.weight, d.targets);
  EXPECT_NE(message_of<c10::Error>([&] {
              higher.backward({}, /*retain_graph=*/true, /*create_graph=*/true);
            }).find("create_graph"),
            std::string::npos);
  const Tensor twice = loss_of(d.hidden, d.weight, d.targets);
  twice.backward({}, /*retain_graph=*/true);
  twice.backward();
  EXPECT_NE(message_of<c10::Error>([&] { twice.backward(); }).find("second time"), std::string::npos);
}

TEST_F(ChunkedCrossEntropy, TheDefaultChunkIsAsLargeAsHidden) {
  EXPECT_EQ(default_chunk_rows(16384, 768, 50304), 250);
  EXPECT_EQ(default_chunk_rows(1024, 64, 50304), 64);
  EXPECT_EQ(default_chunk_rows(1024, 64, 128), 512);
}

}  // namespace
}  // namespace tenfold
