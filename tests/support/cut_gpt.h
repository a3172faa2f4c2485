#pragma once
// A GPT small enough to be divided over ranks that are threads, for tests of lesson 54.

#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <utility>

#include "common/models/gpt.h"
#include "lessons/54_model_parallel/parallel_gpt.h"

#include "tests/support/rank_threads.h"

namespace tenfold::test {

inline GptOptions cut_gpt_options() { return {.layers = 2, .width = 16, .heads = 4, .length = 8, .batch = 4}; }

/// The same in each call: the ranks are threads, which share LibTorch's own generator, so that none of it is drawn.
inline Gpt cut_gpt(int64_t classes) {
  Gpt whole(cut_gpt_options());
  cut_vocabulary(*whole, classes);
  const torch::NoGradGuard no_grad;
  uint64_t seed = 1;
  for (const torch::Tensor& parameter : whole->parameters()) parameter.copy_(0.1 * random(parameter.sizes(), seed++));
  return whole;
}

/// Its tokens and their targets, (4, 8) each.
inline std::pair<torch::Tensor, torch::Tensor> cut_gpt_batch(int64_t classes) {
  const torch::Tensor text = torch::randint(0, classes, {4, 9}, at::detail::createCPUGenerator(9), torch::kLong);
  return {text.narrow(1, 0, 8).contiguous(), text.narrow(1, 1, 8).contiguous()};
}

}  // namespace tenfold::test
