#pragma once
// What lesson 33 counts without training to an end: the bytes that optimizers keep, and what codes do to real averages.

#include <torch/torch.h>

#include <cstdint>
#include <string>

#include "adamw.h"
#include "common/harness/lesson.h"
#include "common/measure/counted.h"
#include "common/models/gpt.h"
#include "eight_bit_adamw.h"
#include "settings.h"
#include "state_bytes.h"

namespace tenfold::inline lesson_33 {

using BuildStep = Step (*)(const Trial&);

/// A line of survey "state": the bytes that are alive between two steps more than without any state, by the allocator,
/// and what the formula says, for each parameter.
inline Look state_look(const std::string& name, BuildStep build, BuildStep stateless,
                       int64_t (*by_formula)(const Shapes&)) {
  return {name, [=](const Trial& trial) {
            const Shapes shapes = gpt_shapes(gpt_options(trial));
            const auto resting = [&](BuildStep step) {
              return count_step(trial.device, [&] { return step(trial); }).resting_bytes;
            };
            trial.workload.make(trial);  // what the workload keeps for all, such as its text, is there from now on
            const int64_t without = resting(stateless);
            const auto parameters = static_cast<double>(values_of(shapes));
            trial.note("counted", static_cast<double>(resting(build) - without) / parameters, "bytes/parameter");
            trial.note("by formula", static_cast<double>(by_formula(shapes)) / parameters, "bytes/parameter");
          }};
}

/// Averages of squares as 255 equal steps of their block's maximum, a block each row: what looks simplest.
inline torch::Tensor in_equal_steps(const torch::Tensor& squares) {
  const torch::Tensor maxima = divisors(squares.amax(1, /*keepdim=*/true));
  return (squares / maxima * 255).round_().div_(255).mul_(maxima);
}

/// The same by the lesson's codes.
inline torch::Tensor in_equal_factors(const torch::Tensor& squares) {
  const torch::Tensor codes = torch::empty_like(squares, torch::kByte),
                      maxima = squares.new_empty({squares.size(0), 1});
  encode_squares(squares, codes, maxima);
  return decode_squares(codes, maxima);
}

/// A line of survey "squares in 8 bits": of the averages of squares that AdamW has after some updates, how many that
/// are not zero become zero, and the mean error of the others' roots. Only large tensors' whole blocks count.
inline Look stored_look(const std::string& name, torch::Tensor (*stored)(const torch::Tensor&)) {
  return {name, [stored](const Trial& trial) {
            constexpr int kUpdatesBefore = 20;
            const Work work = trial.workload.make(trial);
            AdamW optimizer(work.parameters.values(), adamw_settings(trial));
            for (int update = 0; update < kUpdatesBefore; ++update) {
              for (const auto& parameter : work.parameters) parameter.value().mutable_grad() = torch::Tensor();
              work.next_loss().backward();
              optimizer.step();
            }
            double lost = 0, error = 0, count = 0, left = 0;
            for (const torch::Tensor& all : optimizer.squares()) {
              if (all.numel() < kFewestValues) continue;
              const torch::Tensor blocks =
                  all.view({-1}).narrow(0, 0, all.numel() / kBlock * kBlock).view({-1, kBlock});
              const torch::Tensor after = stored(blocks);
              const torch::Tensor is_zero = after == 0, was_positive = blocks > 0;
              const torch::Tensor errors =
                  ((after / blocks).sqrt_() - 1).abs_().masked_select(was_positive.logical_and(is_zero.logical_not()));
              lost += was_positive.logical_and(is_zero).sum().item<double>();
              count += was_positive.sum().item<double>();
              error += errors.sum().item<double>();
              left += static_cast<double>(errors.numel());
            }
            trial.note("become zero", 100 * lost / count, "% of the squares");
            trial.note("mean error", 100 * error / left, "% of the others' roots");
          }};
}

}  // namespace tenfold::inline lesson_33
