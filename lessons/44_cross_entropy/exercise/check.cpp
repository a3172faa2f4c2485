#include <gtest/gtest.h>

#include EXERCISE

#include "common/measure/memory.h"

namespace {

using torch::Tensor;

constexpr int64_t kRows = 64, kWidth = 8, kClasses = 1000;

struct Data {
  Tensor hidden, weight, targets, losses;
};

Data data(double scale = 1) {
  torch::set_num_threads(1);
  torch::manual_seed(44);
  Data d{torch::randn({kRows, kWidth}) * scale,
         torch::randn({kClasses, kWidth}),
         torch::randint(kClasses, {kRows}, torch::kLong),
         {}};
  d.targets[0] = 0;
  d.targets[1] = kClasses - 1;
  d.losses = at::cross_entropy_loss(at::mm(d.hidden.to(torch::kDouble), d.weight.t().to(torch::kDouble)), d.targets, {},
                                    at::Reduction::None);
  return d;
}

double error(const Tensor& losses, const Data& d) {
  return ((losses.to(torch::kDouble) - d.losses).abs() / (1 + d.losses.abs())).max().item<double>();
}

TEST(Exercise44, OneChunkIsThePlainLoss) {
  const Data d = data();
  EXPECT_LT(error(losses_by_classes(d.hidden, d.weight, d.targets, kClasses), d), 1e-5) << "hint: of_target is still 0";
}

TEST(Exercise44, AnyChunkGivesTheSame) {
  const Data d = data();
  for (const int64_t chunk : {int64_t{1}, int64_t{7}, int64_t{500}, int64_t{999}, 2 * kClasses}) {
    EXPECT_LT(error(losses_by_classes(d.hidden, d.weight, d.targets, chunk), d), 1e-5)
        << "chunks of " << chunk << "\nhint: the target's column is counted from the chunk's first class";
  }
}

TEST(Exercise44, LargeLogitsDoNotOverflow) {
  const Data d = data(100);
  for (const int64_t chunk : {int64_t{7}, kClasses}) {
    const double worst = error(losses_by_classes(d.hidden, d.weight, d.targets, chunk), d);
    EXPECT_TRUE(worst < 1e-5) << "error " << worst << ", chunks of " << chunk
                              << "\nhint: exp(largest_before - largest_now) brings the old sum up to date";
  }
}

TEST(Exercise44, OnlyAChunkOfLogitsIsThere) {
  const Data d = data();
  const tenfold::CountCpuMemory counting;
  const auto peak_of = [&](int64_t chunk) {
    const int64_t before = tenfold::live_bytes(torch::kCPU);
    tenfold::reset_peak(torch::kCPU);
    losses_by_classes(d.hidden, d.weight, d.targets, chunk);
    return tenfold::peak_bytes(torch::kCPU) - before;
  };
  const int64_t logits = kRows * kClasses * 4;
  EXPECT_LT(peak_of(kClasses / 20), logits / 4) << "hint: let a chunk's logits go before the next chunk";
}

}  // namespace
