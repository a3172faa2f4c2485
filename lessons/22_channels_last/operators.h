#pragma once
// Survey "what keeps it" of lesson 22: operators that get a tensor in channels_last, one by one. What of theirs is in
// channels_last again, output and gradient? The others are fallbacks: behind them the next convolution reorders.

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "channels_last.h"
#include "common/harness/lesson.h"
#include "reorders.h"

namespace tenfold::inline lesson_22 {

/// From (N, C, H, W) to 4 dimensions.
struct Operator {
  std::string name;
  std::function<torch::Tensor(const torch::Tensor&)> run;
};

struct Kept {
  bool output = false, gradient = false;  ///< is in channels_last
};

/// Runs it on (2, 8, 6, 6) numbers in channels_last, forwards, and backwards with a gradient in its output's layout.
inline Kept kept_by(const Operator& op, torch::Device device) {
  const torch::Tensor leaf = in_channels_last(torch::randn({2, 8, 6, 6}, device)).requires_grad_();
  const torch::Tensor output = op.run(leaf);
  const torch::Tensor gradient = torch::autograd::grad({output}, {leaf}, {torch::ones_like(output)})[0];
  return {layout_of(output) == Layout::channels_last, layout_of(gradient) == Layout::channels_last};
}

/// A shuffle of channels as it is often written by hand.
inline torch::Tensor shuffled_by_hand(const torch::Tensor& h, int64_t groups) {
  return h.unflatten(1, {groups, -1}).transpose(1, 2).reshape(h.sizes());
}

inline std::vector<Operator> layout_operators() {
  using torch::Tensor;
  const auto map = [](const Tensor& h) { return torch::zeros(h.sizes().slice(1), h.options()); };  // (C, H, W), NCHW
  const auto pixels = [](const Tensor& h) { return h.flatten(2); };                                // (N, C, H W)
  return {
      {"relu", [](const Tensor& h) { return torch::relu(h); }},
      {"h + map", [map](const Tensor& h) { return h + map(h); }},
      {"map + h", [map](const Tensor& h) { return map(h) + h; }},
      {"max_pool2d", [](const Tensor& h) { return torch::max_pool2d(h, 2); }},
      {"batch_norm", [](const Tensor& h) { return torch::batch_norm(h, {}, {}, {}, {}, true, 0.1, 1e-5, true); }},
      {"group_norm", [](const Tensor& h) { return torch::group_norm(h, 4); }},
      {"instance_norm", [](const Tensor& h) { return torch::instance_norm(h, {}, {}, {}, {}, true, 0.1, 1e-5, true); }},
      {"softmax over channels", [](const Tensor& h) { return torch::softmax(h, 1); }},
      {"channel_shuffle", [](const Tensor& h) { return torch::channel_shuffle(h, 4); }},
      {"shuffle by hand", [](const Tensor& h) { return shuffled_by_hand(h, 4); }},
      {"pixels, and back", [pixels](const Tensor& h) { return pixels(h).reshape(h.sizes()); }},
      {"flatten, and back", [](const Tensor& h) { return h.flatten(1).reshape(h.sizes()); }},
      {"cat of two", [](const Tensor& h) { return torch::cat({h, h}, 1); }},
      {"channels by index", [](const Tensor& h) { return h.index_select(1, torch::arange(h.size(1), h.device())); }},
      {"half of the channels", [](const Tensor& h) { return h.slice(1, 0, h.size(1) / 2); }}};
}

inline std::vector<Look> layout_looks() {
  std::vector<Look> looks;
  for (const Operator& op : layout_operators()) {
    looks.push_back({op.name, [op](const Trial& trial) {
                       const Kept kept = kept_by(op, trial.device);
                       trial.note("output in channels_last", kept.output ? 1 : 0, "of 1");
                       trial.note("gradient in channels_last", kept.gradient ? 1 : 0, "of 1");
                     }});
  }
  return looks;
}

}  // namespace tenfold::inline lesson_22
