// Lesson 23 - In place
// What does an in-place operator save in a training step, and what does autograd refuse?
// Read overwrite() first, then updates.h. networks.h has what is trained; kept.h and attempts.h are the surveys, which
// count what autograd keeps and try what it refuses.
#include "common/harness/lesson.h"
#include "attempts.h"
#include "kept.h"
#include "networks.h"
#include "prediction.h"
#include "updates.h"

namespace {
using tenfold::MakeUpdate;
using tenfold::Parts;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;
namespace F = torch::nn::functional;

/// Without the technique: the activation is a new tensor, next to the convolution's output.
Tensor new_tensor(const Tensor& h, bool leaky) {
  return leaky ? torch::leaky_relu(h, tenfold::kSlope) : torch::relu(h);
}

/// With it: the activation overwrites the convolution's output. It may, because backward() of a convolution needs the
/// input and the weight, not the output.
Tensor overwrite(Tensor h, bool leaky) { return leaky ? torch::leaky_relu_(h, tenfold::kSlope) : torch::relu_(h); }

/// A trap, often advised when autograd complains: through data() it does not see the change. The values are right, and
/// backward() passes the gradient on as if there were no activation.
Tensor overwrite_data(const Tensor& h, bool leaky) {
  overwrite(h.data(), leaky);
  return h;
}

/// The residual sum goes into the branch, which nobody keeps; never into x, which the norm in front of the branch
/// keeps.
Tensor add_to_branch(const Tensor& x, const Tensor& branch) { return branch.add_(x); }

/// ATen has it, torch.nn.functional does not: backward() needs the input, so autograd copies that before it is lost.
Tensor gelu_in_place(Tensor h) { return torch::gelu_(h, "tanh"); }

/// torch::nn::functional: the same operators, called with the parameters instead of by a module that holds them.
Tensor conv_function(torch::nn::Conv2dImpl& layer, const Tensor& x) {
  const auto options = F::Conv2dFuncOptions().bias(layer.bias).stride(layer.options.stride()).padding(1);
  return F::conv2d(x, layer.weight, options);
}
Tensor linear_function(torch::nn::LinearImpl& layer, const Tensor& x) { return F::linear(x, layer.weight, layer.bias); }

/// One training step; the parts and the update are all that differs between the variants.
Step train(const Trial& trial, const Parts& parts, const MakeUpdate& make_update = tenfold::by_optimizer) {
  const tenfold::Trained work = tenfold::trained(trial, parts);
  return {work.items, work.parameters, [work, update = make_update(work)] {
            work.optimizer->zero_grad();
            Tensor loss = work.next_loss();
            loss.backward();
            update();
            return loss;
          }};
}

Step out_of_place(const Trial& trial) { return train(trial, {.activation = new_tensor}); }
Step in_place_activation(const Trial& trial) { return train(trial, {.activation = overwrite}); }
Step on_data(const Trial& trial) { return train(trial, {.activation = overwrite_data}); }
Step in_place_residual(const Trial& trial) { return train(trial, {.add = add_to_branch}); }
Step in_place_gelu(const Trial& trial) { return train(trial, {.gelu = gelu_in_place}); }
Step functional(const Trial& trial) {
  return train(trial, {.activation = new_tensor, .convolution = conv_function, .linear = linear_function});
}
Step in_place_update(const Trial& trial) { return train(trial, {.activation = new_tensor}, tenfold::update_in_place); }
Step new_parameters(const Trial& trial) { return train(trial, {.activation = new_tensor}, tenfold::update_into_new); }
Step name_rebound(const Trial& trial) { return train(trial, {.activation = new_tensor}, tenfold::rebind_names); }
Step member_rebound(const Trial& trial) { return train(trial, {.activation = new_tensor}, tenfold::rebind_members); }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold;
  using namespace tenfold::expect;
  return run(
      argc, argv,
      {.title = "In place",
       .question = "What does an in-place operator save in a training step, and what does autograd refuse?",
       .workload = convnet_workload,
       .version = 3,
       .settings = {kActivation, kInnerLayers},
       .baseline = {"out of place", out_of_place},
       .most_bytes = in_place_most_bytes,
       .techniques = {{"in-place activation", in_place_activation, predict_activation},
                      {"functional", functional, predict_same},
                      {"in-place residual", in_place_residual, predict_residual},
                      {"in-place GELU", in_place_gelu, predict_gelu},
                      {"in-place update", in_place_update, predict_same},
                      {"new parameters", new_parameters, predict_new_parameters},
                      {"on data()", on_data},
                      {"name rebound", name_rebound},
                      {"member rebound", member_rebound}},
       .cases = {{"convnet",
                  {},
                  {{"in-place activation", SAME_MEMORY},
                   {"functional", {SAME_SPEED, SAME_MEMORY}},
                   {"on data()", TRAP},
                   {"name rebound", TRAP},
                   {"member rebound", TRAP}}},
                 // Its backward needs the input or, in place, the result: the one case with something to save.
                 {"leaky ReLU",
                  {kActivation("leaky_relu"), kInnerLayers(6), convnet::kBatch(16, 512, 4096)},
                  {{"in-place activation", SMALLER}}},
                 {.name = "gpt",
                  .expected = {{"in-place residual", SAME_MEMORY}, {"in-place GELU", SAME_MEMORY}},
                  .workload = gpt_workload},
                 // Model states fill the memory; the baseline's optimizer works in place.
                 {.name = "update",
                  .settings = {gpt::kLayers(2), gpt::kBatch(1), gpt::kLength(8), gpt::kWidth(256), gpt::kHeads(4)},
                  .expected = {{"in-place update", SAME_MEMORY}, {"new parameters", mistake(LARGER)}},
                  .workload = gpt_workload}},
       .surveys = {{"kept by autograd", kept_looks()}, {"tried", attempt_looks()}},
       .headline = Headline{"leaky ReLU", "in-place activation"}});
}
