#pragma once
// Survey "kept by autograd" of lesson 23: how many tensors of its input's size an operator leaves alive, in place and
// not.

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/harness/lesson.h"
#include "common/measure/memory.h"

namespace tenfold::inline lesson_23 {

using Operation = std::function<torch::Tensor(torch::Tensor)>;

/// In tensors of the operator's input.
struct Alive {
  double kept = 0;     ///< after it, when backward() will come: its result and what autograd keeps
  double at_most = 0;  ///< during it, without autograd: as in evaluation
};

/// Runs it on a tensor that is no leaf and that nobody else holds, as a layer's output is. A multiplication by a number
/// makes that tensor: it keeps nothing.
inline Alive alive(torch::Device device, const Operation& operation) {
  const CountCpuMemory counting;
  const torch::Tensor leaf = torch::randn({1 << 20}, torch::dtype(torch::kFloat).device(device)).requires_grad_();
  const int64_t before = live_bytes(device);
  const auto tensors = [&](int64_t bytes) {
    return std::round(100 * static_cast<double>(bytes - before) / static_cast<double>(leaf.nbytes())) / 100;
  };
  Alive counted;
  {
    const torch::Tensor result = operation(leaf * 2);
    counted.kept = tensors(live_bytes(device));
  }
  const torch::NoGradGuard no_grad;
  const torch::Tensor output = leaf * 2;
  reset_peak(device);
  {
    torch::Tensor handed_over = output;
    const torch::Tensor result = operation(std::move(handed_over));
    counted.at_most = tensors(peak_bytes(device));
  }
  return counted;
}

/// An operator in both forms.
struct BothForms {
  std::string name;
  Operation new_tensor, in_place;
};

inline std::vector<BothForms> operators_in_both_forms() {
  using torch::Tensor;
  return {{"relu", [](const Tensor& h) { return torch::relu(h); }, [](Tensor h) { return torch::relu_(h); }},
          {"sigmoid", [](const Tensor& h) { return torch::sigmoid(h); }, [](Tensor h) { return torch::sigmoid_(h); }},
          {"exp", [](const Tensor& h) { return torch::exp(h); }, [](Tensor h) { return torch::exp_(h); }},
          {"leaky_relu", [](const Tensor& h) { return torch::leaky_relu(h, 0.1); },
           [](Tensor h) { return torch::leaky_relu_(h, 0.1); }},
          {"elu", [](const Tensor& h) { return torch::elu(h); }, [](Tensor h) { return torch::elu_(h); }},
          {"silu", [](const Tensor& h) { return torch::silu(h); }, [](Tensor h) { return torch::silu_(h); }},
          {"gelu", [](const Tensor& h) { return torch::gelu(h); }, [](Tensor h) { return torch::gelu_(h); }},
          {"add", [](const Tensor& h) { return h + 1; }, [](const Tensor& h) { return h.add_(1); }}};
}

inline std::vector<Look> kept_looks() {
  std::vector<Look> looks;
  for (const BothForms& forms : operators_in_both_forms()) {
    looks.push_back({forms.name, [forms](const Trial& trial) {
                       const Alive apart = alive(trial.device, forms.new_tensor);
                       const Alive in_place = alive(trial.device, forms.in_place);
                       trial.note("kept, new tensor", apart.kept, "tensors");
                       trial.note("kept, in place", in_place.kept, "tensors");
                       trial.note("peak without autograd, new tensor", apart.at_most, "tensors");
                       trial.note("peak without autograd, in place", in_place.at_most, "tensors");
                     }});
  }
  return looks;
}

}  // namespace tenfold::inline lesson_23
