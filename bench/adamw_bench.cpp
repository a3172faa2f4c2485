// An AdamW step of all tensors of a GPT: our rungs beside ATen's fused operator.
#include "ladder.h"

#include "kernels/adamw/adamw_case.h"
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
  const simt::Pass pass = kernels::adamw_pass();
  const kernels::GptSizes small{.layers = 2, .width = 12, .vocabulary = 11, .length = 5};
  const simt::Shape shape = place.pick(pass, {{"count", small.count()}});
  State given;
  for (const int64_t count : (place.timed ? kernels::GptSizes{} : small).tensors()) given.add(place, count);
  const State state = given.to(torch::kFloat);
  Ladder ladder{
      .name = ladder_name("AdamW", torch::kFloat, {static_cast<int64_t>(given.parameters.size()), shape.at("count")}),
      .bytes = least_bytes_of(pass, shape, torch::kFloat),
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
