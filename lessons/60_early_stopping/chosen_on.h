#pragma once
// What a loss is worth on the images that chose the stop: one training, and the loss of each image at each check. Which
// images choose is then drawn many times over, at no further training.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "images.h"
#include "stopped_training.h"

namespace tenfold::inline lesson_60 {

/// Means over many draws, in percent of the loss on the images that were not drawn.
struct ChosenOn {
  double optimism = 0;        ///< how much lower the loss looks on the images that chose
  double optimism_fixed = 0;  ///< the same where a check is taken that nothing chose: the last
  double lost = 0;            ///< how much higher it is than at the best check
};

/// `losses` (checks, N) of each image at each check. In each of `draws` draws `count` of the N images choose the check
/// at which their mean loss is lowest; the others say what it is worth. Needs 1 <= count < N.
inline ChosenOn chosen_on(const torch::Tensor& losses, int64_t count, int64_t draws, uint64_t seed) {
  const int64_t checks = losses.size(0), all = losses.size(1);
  TORCH_CHECK_VALUE(count >= 1 && count < all, "chosen_on: ", count, " of ", all, " images leave none to judge by");
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  const torch::Tensor exact = losses.to(torch::kDouble), sums = exact.sum(1);  // (checks)
  double seen_chosen = 0, unseen_chosen = 0, seen_last = 0, unseen_last = 0, unseen_best = 0;
  for (int64_t draw = 0; draw < draws; ++draw) {
    const torch::Tensor drawn = torch::randperm(all, generator, torch::kLong).narrow(0, 0, count);
    const torch::Tensor drawn_sums = exact.index_select(1, drawn).sum(1);
    const torch::Tensor seen = drawn_sums / count, unseen = (sums - drawn_sums) / (all - count);  // (checks) each
    const auto chosen = seen.argmin().item<int64_t>();
    seen_chosen += seen[chosen].item<double>();
    unseen_chosen += unseen[chosen].item<double>();
    seen_last += seen[checks - 1].item<double>();
    unseen_last += unseen[checks - 1].item<double>();
    unseen_best += unseen.min().item<double>();
  }
  // Quotients of sums: a mean of quotients would be biased by the noise below the line.
  return {.optimism = 100 * (1 - seen_chosen / unseen_chosen),
          .optimism_fixed = 100 * (1 - seen_last / unseen_last),
          .lost = 100 * (unseen_chosen / unseen_best - 1)};
}

/// Notes it for one training to the end and three sizes of what chooses.
inline void note_chosen_on(const Trial& trial) {
  constexpr int64_t kPool = 1024, kDraws = 2000;
  const int64_t updates = checked(trial, kUpdates, int64_t{1} << 30);
  const int64_t every = checked(trial, kEvery, updates);
  ImagesTraining work(trial);
  const ImageSet pool = unseen_images(kPool);
  std::vector<torch::Tensor> losses;
  for (int64_t update = 1; update <= updates; ++update) {
    work.update();
    if (update % every == 0) losses.push_back(losses_of(work.model, pool, trial.device));
  }
  for (const int64_t count : {32, 128, 512}) {
    const ChosenOn found = chosen_on(torch::stack(losses), count, kDraws, trial.seed);
    const std::string images = std::to_string(count) + " images: ";
    trial.note(images + "look better by", found.optimism, "%");
    trial.note(images + "the same at the last check", found.optimism_fixed, "%");
    trial.note(images + "worse than the best check by", found.lost, "%");
  }
}

}  // namespace tenfold::inline lesson_60
