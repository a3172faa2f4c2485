// An AdamW step of all tensors of a GPT: our rungs beside ATen's fused operator.
#include "ladder.h"

#include "kernels/adamw/adamw.h"
#include "kernels/adamw/adamw_torch.h"

namespace {
using namespace tenfold::bench;

constexpr kernels::AdamWSettings kSettings;
constexpr int64_t kStep = 3;

struct State {
  std::vector<Tensor> parameters, averages, square_averages, gradients;

  void add(const Place& place, int64_t count) {
    for (std::vector<Tensor>* list : {&parameters, &averages, &square_averages, &gradients})
      list->push_back(place.normal({count}));
    square_averages.back().square_();
  }
  State to(torch::ScalarType type) const {
    const auto copied = [type](const std::vector<Tensor>& list) {
      std::vector<Tensor> copies;
      for (const Tensor& tensor : list) copies.push_back(tensor.to(type, /*non_blocking=*/false, /*copy=*/true));
      return copies;
    };
    return {copied(parameters), copied(averages), copied(square_averages), copied(gradients)};
  }
  /// The values of another state, in this one's memory.
  void copy_from(const State& other) const {
    torch::_foreach_copy_(parameters, other.parameters);
    torch::_foreach_copy_(averages, other.averages);
    torch::_foreach_copy_(square_averages, other.square_averages);
  }
  std::vector<Tensor> by_aten() const {
    reference::adamw_(parameters, averages, square_averages, gradients, kSettings, kStep);
    return parameters;
  }
};

Ladder step(const Place& place) {
  const int64_t layers = place.pick(12, 2), width = place.pick(768, 12), vocabulary = place.pick(50304, 11),
                length = place.pick(1024, 5);
  State given;
  int64_t count = 0;
  const auto add = [&](int64_t size) {
    given.add(place, size);
    count += size;
  };
  add(vocabulary * width);
  add(length * width);
  for (int64_t layer = 0; layer < layers; ++layer) {
    // Weights and biases of a block's four products, and of its two norms.
    for (const int64_t size : {3 * width * width, 3 * width, width * width, width, 4 * width * width, 4 * width,
                               4 * width * width, width, width, width, width, width})
      add(size);
  }
  for (int i = 0; i < 2; ++i) add(width);  // the last norm's weight and bias
  const State state = given.to(torch::kFloat);
  Ladder ladder{.name = ladder_name("AdamW", torch::kFloat, {static_cast<int64_t>(given.parameters.size()), count}),
                .bytes = 7.0 * 4.0 * static_cast<double>(count),  // four values are read and three written
                .expected = given.to(torch::kDouble).by_aten(),
                .tolerance = 1e-5,
                .contestants = {{"ATen", [state] { return state.by_aten(); }}}};
  add_rungs(ladder, kernels::kAdamWRungs, [state](int rung) {
    std::vector<kernels::AdamWTensor> list;
    NamedTensors used;
    for (size_t i = 0; i < state.parameters.size(); ++i) {
      const Tensor &p = state.parameters[i], &m = state.averages[i], &v = state.square_averages[i],
                   &g = state.gradients[i];
      list.push_back({data_of<float>(p), data_of<float>(m), data_of<float>(v), data_of<float>(g), p.numel()});
      used.insert(used.end(), {{"parameter", p}, {"average", m}, {"square_average", v}, {"gradient", g}});
    }
    launch_where_they_are(used, [&](auto stream, auto) {
      kernels::adamw(stream, std::span<const kernels::AdamWTensor>(list), kSettings, kStep, rung);
    });
    return state.parameters;
  });
  for (Contestant& contestant : ladder.contestants)
    contestant.prepare = [=] { state.copy_from(given); };  // updated in place
  return ladder;
}
}  // namespace

int main(int argc, char** argv) { return run(argc, argv, {step}); }
