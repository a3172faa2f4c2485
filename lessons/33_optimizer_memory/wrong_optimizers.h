#pragma once
// Two optimizers with a mistake: one saves nothing where it counts, the other stops learning.

#include <torch/torch.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "adafactor.h"
#include "eight_bit_adamw.h"

namespace tenfold::inline lesson_33 {

/// A mistake: the states are 8 bits wide between two updates, and all of them are decoded at once in each. The same
/// numbers to the bit, and at its peak more memory than plain AdamW.
class WholeCopyAdamW {
 public:
  WholeCopyAdamW(const std::vector<torch::Tensor>& parameters, const AdamWSettings& settings)
      : small_(EightBitAdamW::with_fewer(parameters, true), settings),
        large_(EightBitAdamW::with_fewer(parameters, false)),
        settings_(settings) {
    for (const torch::Tensor& parameter : large_) averages_.emplace_back(parameter);
  }

  void step() {
    const torch::NoGradGuard no_grad;
    ++step_;
    small_.step();
    std::vector<std::vector<std::pair<torch::Tensor, torch::Tensor>>> decoded(large_.size());
    for (size_t i = 0; i < large_.size(); ++i)
      chunks(i, [&](const Chunk& chunk) { decoded[i].push_back(averages_[i].decoded(chunk)); });  // wrong: kept
    for (size_t i = 0; i < large_.size(); ++i) {
      auto next = decoded[i].begin();
      const torch::Tensor gradient = gradient_in_order(large_[i]);
      chunks(i, [&](const Chunk& chunk) {
        const auto& [average, square] = *next++;
        adamw_update(chunk.of(large_[i]), chunk.of(gradient), average, square, step_, settings_);
        averages_[i].encode(chunk, average, square);
      });
    }
  }

 private:
  /// A tensor's whole blocks, and the rest.
  template <class Visit>
  void chunks(size_t tensor, const Visit& visit) const {
    for_each_chunk(large_[tensor].numel(), large_[tensor].numel(), visit);
  }

  AdamW small_;
  std::vector<torch::Tensor> large_;
  std::vector<EightBitAverages> averages_;
  AdamWSettings settings_;
  int64_t step_ = 0;
};

/// A trap: the rate of a tensor, which is the common one times the tensor's size, is written back as the common one. A
/// widely used library had it so (transformers, pull request 9751). Each tensor shrinks the rate of all that follow.
class OverwrittenRateAdafactor {
 public:
  OverwrittenRateAdafactor(std::vector<torch::Tensor> parameters, const AdafactorSettings& settings)
      : parameters_(std::move(parameters)), settings_(settings) {
    for (const torch::Tensor& parameter : parameters_) squares_.emplace_back(parameter);
    rate_ = torch::full({}, settings.rate, parameters_.front().options().requires_grad(false));
  }

  void step() {
    const torch::NoGradGuard no_grad;
    ++step_;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      rate_ =
          rate_ * size_of(parameters_[i]).clamp_min_(settings_.smallest_size);  // wrong: a rate of this tensor alone
      adafactor_update(parameters_[i], squares_[i], rate_, step_, settings_);
    }
  }

 private:
  std::vector<torch::Tensor> parameters_;
  std::vector<FactoredSquares> squares_;
  torch::Tensor rate_;  // a scalar
  AdafactorSettings settings_;
  int64_t step_ = 0;
};

}  // namespace tenfold::inline lesson_33
