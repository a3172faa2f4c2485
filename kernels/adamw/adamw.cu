#include "adamw.h"

#include <algorithm>
#include <cmath>

#include "adamw.cuh"

namespace tenfold::kernels {
namespace {

void check(std::span<const AdamWTensor> tensors, const AdamWSettings& s, int64_t step, int rung) {
  if (rung < 0 || rung >= kAdamWRungs) throw no_such_rung("adamw", rung, kAdamWRungs);
  if (step < 1) throw std::invalid_argument("adamw: step " + std::to_string(step) + "; the first is 1");
  for (const double beta : {s.beta1, s.beta2}) {
    if (!(beta >= 0 && beta < 1))
      throw std::invalid_argument("adamw: a beta of " + std::to_string(beta) + "; it must be in [0, 1)");
  }
  if (!std::isfinite(s.learning_rate) || !std::isfinite(s.weight_decay) || !(s.epsilon >= 0) || std::isinf(s.epsilon)) {
    throw std::invalid_argument(
        "adamw: learning rate, weight decay and epsilon must be finite, and epsilon not negative");
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const AdamWTensor& t = tensors[i];
    const std::string name = "adamw: tensor " + std::to_string(i);
    if (t.count < 0) throw std::invalid_argument(name + " has " + std::to_string(t.count) + " values");
    if (t.count > int64_t{0x7fffffff} * kAdamWThreads)
      throw std::invalid_argument(name + " has more values than one launch can do");
    const bool null =
        t.parameter == nullptr || t.average == nullptr || t.square_average == nullptr || t.gradient == nullptr;
    if (t.count > 0 && null) throw std::invalid_argument(name + " has values but a null pointer");
  }
}

AdamWFactors factors_of(const AdamWSettings& s, int64_t step) {
  const double correction1 = 1 - std::pow(s.beta1, static_cast<double>(step)),
               correction2 = 1 - std::pow(s.beta2, static_cast<double>(step));
  return {.beta1 = static_cast<float>(s.beta1),
          .rest1 = static_cast<float>(1 - s.beta1),
          .beta2 = static_cast<float>(s.beta2),
          .rest2 = static_cast<float>(1 - s.beta2),
          .step_size = static_cast<float>(s.learning_rate / correction1),
          .root_scale = static_cast<float>(1 / std::sqrt(correction2)),
          .epsilon = static_cast<float>(s.epsilon),
          .decay = static_cast<float>(s.learning_rate * s.weight_decay)};
}

}  // namespace

template <class Stream>
void adamw(Stream stream, std::span<const AdamWTensor> tensors, const AdamWSettings& settings, int64_t step, int rung) {
  check(tensors, settings, step, rung);
  const AdamWFactors factors = factors_of(settings, step);
  if (rung == 0) {
    for (const AdamWTensor& tensor : tensors) {
      if (tensor.count == 0) continue;
      launch(stream, blocks_for(tensor.count, kAdamWThreads), kAdamWThreads, 0, adamw_tensor, tensor, factors);
    }
    return;
  }
  AdamWList list{};
  int64_t blocks = 0;
  const auto launch_list = [&] {
    if (list.count > 0) {
      launch(stream, static_cast<unsigned>(blocks), kAdamWThreads, 0, rung == 1 ? adamw_list : adamw_packets, list,
             factors);
    }
    list.count = 0;
    blocks = 0;
  };
  for (const AdamWTensor& tensor : tensors) {
    if (tensor.count == 0) continue;
    const int64_t chunks = blocks_for(tensor.count, kAdamWChunk);
    if (list.count == kAdamWTensors || blocks + chunks > 0x7fffffff) launch_list();
    list.tensors[list.count] = tensor;
    list.first_block[list.count] = static_cast<int>(blocks);
    ++list.count;
    blocks += chunks;
  }
  launch_list();
}

template void adamw(Stream, std::span<const AdamWTensor>, const AdamWSettings&, int64_t, int);

}  // namespace tenfold::kernels
