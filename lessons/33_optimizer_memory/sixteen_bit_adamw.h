#pragma once
// AdamW with averages in bf16, rounded by chance: four bytes of state for each parameter instead of eight.

#include <torch/torch.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "adamw.h"
#include "chunks.h"

namespace tenfold::inline lesson_33 {

/// Rounds floats, in place, to what bf16 can hold: up or down by chance, the nearer neighbour the likelier, so that the
/// mean is right. What is less than half a step is lost by rounding to nearest; by chance it is there on average. bf16
/// is the upper half of a float's bits: a random number is added to the lower half, and what it carries rounds up.
/// Allocates 32 bits a value.
inline void round_by_chance(const torch::Tensor& values, const at::Generator& generator) {
  torch::Tensor bits = values.view(torch::kInt);  // the same memory
  bits.add_(at::randint(1 << 16, values.sizes(), generator, bits.options())).bitwise_and_(-(1 << 16));
}

/// A generator of the device's own kind, which nothing else draws from.
inline at::Generator own_generator(torch::Device device, uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(device).clone();
  generator.set_current_seed(seed);
  return generator;
}

class SixteenBitAdamW {
 public:
  /// `chunk`: most values that are there in 32 bits at a time.
  SixteenBitAdamW(std::vector<torch::Tensor> parameters, const AdamWSettings& settings, int64_t chunk, uint64_t seed)
      : parameters_(std::move(parameters)),
        settings_(settings),
        chunk_(chunk),
        generator_(own_generator(parameters_.front().device(), seed)) {
    for (const torch::Tensor& parameter : parameters_) {
      averages_.push_back(torch::zeros_like(parameter, torch::kBFloat16));
      squares_.push_back(torch::zeros_like(parameter, torch::kBFloat16));
    }
  }

  void step() {
    const torch::NoGradGuard no_grad;
    ++step_;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const torch::Tensor gradient = gradient_in_order(parameters_[i]);
      for_each_chunk(parameters_[i].numel(), chunk_, [&](const Chunk& chunk) {
        const torch::Tensor average = chunk.of(averages_[i]).to(torch::kFloat);
        const torch::Tensor square = chunk.of(squares_[i]).to(torch::kFloat);
        adamw_update(chunk.of(parameters_[i]), chunk.of(gradient), average, square, step_, settings_);
        round_by_chance(average, generator_);
        round_by_chance(square, generator_);
        chunk.of(averages_[i]).copy_(average);
        chunk.of(squares_[i]).copy_(square);
      });
    }
  }

 private:
  std::vector<torch::Tensor> parameters_, averages_, squares_;
  AdamWSettings settings_;
  int64_t chunk_;
  at::Generator generator_;
  int64_t step_ = 0;
};

}  // namespace tenfold::inline lesson_33
