// Lesson 45 - A fused AdamW
// What does the optimizer's step cost when a model has many small tensors, and how much of it is the arithmetic?
// Read adamw_steps.h first: the step as foreach operators and as one; then kernels/adamw, our kernel.
#include "common/harness/lesson.h"
#include "adamw_steps.h"
#include "adamw_survey.h"
#include "kernels/adamw/adamw_torch.h"
#include "most_bytes.h"
#include "prediction.h"

namespace {
using namespace tenfold;
using torch::Tensor;

constexpr Setting<double> kAdamWLearningRate{"adamw_learning_rate", 1e-3, "of AdamW"};
constexpr Setting<double> kWeightDecay{"weight_decay", 1e-2, "of AdamW, taken from the parameter itself"};

kernels::AdamWSettings settings_of(const Trial& trial) {
  return {.learning_rate = trial.get(kAdamWLearningRate), .weight_decay = trial.get(kWeightDecay)};
}

/// One training step; how the parameters are updated is all that differs between the variants.
Step train(const Trial& trial, const MakeUpdate& make_update) {
  const Work work = trial.workload.make(trial);
  const std::function<void()> update = make_update(work.parameters.values());
  return {.items = work.items, .parameters = work.parameters, .update = [work, update] {
            for (const auto& parameter : work.parameters) parameter.value().mutable_grad() = Tensor();
            Tensor loss;
            {
              RECORD_USER_SCOPE("loss");
              loss = work.next_loss();
              loss.backward();
            }
            RECORD_USER_SCOPE("optimizer");
            update();
            return loss;
          }};
}

/// The update of an optimizer class; the defaults that are not set are those of kernels::AdamWSettings.
template <class Optimizer>
MakeUpdate update_of(const Trial& trial) {
  const kernels::AdamWSettings settings = settings_of(trial);
  const auto options = torch::optim::AdamWOptions(settings.learning_rate).weight_decay(settings.weight_decay);
  return [options](std::vector<Tensor> parameters) {
    return [optimizer = std::make_shared<Optimizer>(std::move(parameters), options)] { optimizer->step(); };
  };
}

/// The update by a function of all tensors.
MakeUpdate update_of(const Trial& trial, void (*update)(AdamWState&, const kernels::AdamWSettings&)) {
  return [update, settings = settings_of(trial)](std::vector<Tensor> parameters) {
    return
        [state = std::make_shared<AdamWState>(std::move(parameters)), update, settings] { update(*state, settings); };
  };
}

/// LibTorch's AdamW: nine operators for each tensor.
Step loop(const Trial& trial) { return train(trial, update_of<torch::optim::AdamW>(trial)); }

/// The same operators, each for all tensors at once.
Step foreach_operators(const Trial& trial) { return train(trial, update_of(trial, foreach_adamw)); }

/// ATen's fused operator.
Step fused_operator(const Trial& trial) { return train(trial, update_of(trial, fused_adamw)); }

/// The kernel of kernels/adamw.
Step our_kernel(const Trial& trial) {
  if (!trial.device.is_cuda()) {
    trial.skip(
        "needs a CUDA device; on a CPU the same kernel runs under the microscope: in the tests and in survey counted");
  }
  return train(trial, update_of<fused::FusedAdamW>(trial));
}

void count_loop(const Trial& trial) { note_operators(trial, /*writes=*/0, update_of<torch::optim::AdamW>(trial)); }
void count_foreach(const Trial& trial) { note_operators(trial, kForeachWrites, update_of(trial, foreach_adamw)); }
void count_fused(const Trial& trial) { note_operators(trial, kFusedWrites, update_of(trial, fused_adamw)); }
void count_kernel(const Trial& trial) { note_adamw_kernel(trial, settings_of(trial)); }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const Agreement rounding = Agreement::within(1e-4, "the same formula, rounded in other places");
  // On a CPU the foreach operators are loops over the tensors themselves.
  const std::vector<Expectation> many_tensors = {
      {"foreach", SAME_SPEED, on_cuda(FASTER)}, {"fused", FASTER}, {"our kernel", FASTER}};
  const std::vector<Expectation> few_tensors = {
      {"foreach", SAME_SPEED, on_cuda(FASTER)}, {"fused", FASTER}, {"our kernel", FASTER}};
  // A GPU spends a hundredth of this step on the update, whose bytes are the same.
  const std::vector<Expectation> long_step = {
      {"foreach", SAME_SPEED, on_cuda()}, {"fused", FASTER, on_cuda()}, {"our kernel", FASTER, on_cuda()}};
  const std::vector<Expectation> no_matter = {
      {"foreach", SAME_SPEED}, {"fused", SAME_SPEED}, {"our kernel", SAME_SPEED}};
  return run(
      argc, argv,
      {.title = "A fused AdamW",
       .question = "What does the optimizer's step cost when a model has many small tensors, and how much of it "
                   "is the arithmetic?",
       .workload = mlp_workload,
       .version = 8,
       .settings = {kAdamWLearningRate, kWeightDecay},
       .baseline = {"loop", loop},
       .most_bytes = adamw_most_bytes,
       .techniques = {{"foreach", foreach_operators, all_denominators},
                      {"fused", fused_operator, in_one_pass, rounding},
                      {"our kernel", our_kernel, in_one_pass, rounding}},
       .cases =
           {{"mlp", {}, many_tensors},
            {"gpt", {}, long_step, gpt_workload},
            {"few large tensors", {mlp::kLayers(3), mlp::kWidth(1024)}, few_tensors},
            // On a GPU with layers that are wide enough: else the host's gathering of the images would be the step.
            {"large batch",
             {mlp::kLayers(2, 4, 4), mlp::kWidth(64, 2048, 4096), mlp::kBatch(4096, 16384, 16384)},
             no_matter}},
       .surveys =
           {{"counted",
             {{"loop", count_loop}, {"foreach", count_foreach}, {"fused", count_fused}, {"our kernel", count_kernel}}}},
       .headline = Headline{"mlp", "fused"}});
}
