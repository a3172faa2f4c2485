#pragma once
// AdamW with averages of 8 bits: two bytes of state for each parameter instead of eight.

#include <torch/torch.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "adamw.h"
#include "chunks.h"
#include "eight_bit_codes.h"

namespace tenfold::inline lesson_33 {

/// Tensors with fewer values keep averages of 32 bits: biases and norms are few bytes and sensitive ones.
inline constexpr int64_t kFewestValues = 4096;

/// Both averages of one tensor.
struct EightBitAverages {
  explicit EightBitAverages(const torch::Tensor& parameter) {
    const int64_t count = parameter.numel(), blocks = (count + kBlock - 1) / kBlock;
    codes = torch::zeros({count}, parameter.options().dtype(torch::kChar).requires_grad(false));
    square_codes = torch::zeros({count}, parameter.options().dtype(torch::kByte).requires_grad(false));
    maxima = torch::zeros({blocks, 1}, parameter.options().requires_grad(false));
    square_maxima = torch::zeros_like(maxima);
  }

  /// A chunk's averages and squares, in 32 bits.
  std::pair<torch::Tensor, torch::Tensor> decoded(const Chunk& chunk) const {
    return {decode_averages(chunk.of(codes), chunk.maxima_of(maxima)),
            decode_squares(chunk.of(square_codes), chunk.maxima_of(square_maxima))};
  }
  void encode(const Chunk& chunk, const torch::Tensor& average, const torch::Tensor& square) const {
    encode_averages(average, chunk.of(codes), chunk.maxima_of(maxima));
    encode_squares(square, chunk.of(square_codes), chunk.maxima_of(square_maxima));
  }

  torch::Tensor codes, square_codes;    // (count)
  torch::Tensor maxima, square_maxima;  // (blocks, 1)
};

class EightBitAdamW {
 public:
  /// `chunk`: most values that are there in 32 bits at a time.
  EightBitAdamW(const std::vector<torch::Tensor>& parameters, const AdamWSettings& settings, int64_t chunk)
      : small_(with_fewer(parameters, true), settings),
        large_(with_fewer(parameters, false)),
        settings_(settings),
        chunk_(chunk) {
    for (const torch::Tensor& parameter : large_) averages_.emplace_back(parameter);
  }

  void step() {
    const torch::NoGradGuard no_grad;
    ++step_;
    small_.step();
    for (size_t i = 0; i < large_.size(); ++i) {
      const torch::Tensor gradient = gradient_in_order(large_[i]);
      for_each_chunk(large_[i].numel(), chunk_, [&](const Chunk& chunk) {
        const auto [average, square] = averages_[i].decoded(chunk);
        adamw_update(chunk.of(large_[i]), chunk.of(gradient), average, square, step_, settings_);
        averages_[i].encode(chunk, average, square);
      });
    }
  }

  static std::vector<torch::Tensor> with_fewer(const std::vector<torch::Tensor>& parameters, bool fewer) {
    std::vector<torch::Tensor> chosen;
    for (const torch::Tensor& parameter : parameters) {
      if ((parameter.numel() < kFewestValues) == fewer) chosen.push_back(parameter);
    }
    return chosen;
  }

 private:
  AdamW small_;
  std::vector<torch::Tensor> large_;
  std::vector<EightBitAverages> averages_;
  AdamWSettings settings_;
  int64_t chunk_;
  int64_t step_ = 0;
};

}  // namespace tenfold::inline lesson_33
