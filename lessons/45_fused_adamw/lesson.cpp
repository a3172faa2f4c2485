// Lesson 45 - A fused AdamW
//
// Question  What does the optimizer's step cost when a model has many small tensors, and how much of it is the arithmetic?
// Expect    LibTorch's AdamW calls ten operators for each tensor; one kernel for all of them takes most of its time away.
// Not for   Steps whose matrix products take nearly all the time (case "large batch"). And few large tensors: there is
//           nothing to save by calling less often, only by passing over memory once (case "few large tensors").
// Run       ./tenfold run 45_fused_adamw
// Read      adamw_steps.h: the step by lists and fused; kernels/adamw: the kernel; case "counted" counts bytes and calls.
#include <tenfold/adamw_counts.h>
#include <tenfold/adamw_steps.h>
#include <tenfold/adamw_torch.h>
#include <tenfold/counted.h>
#include <tenfold/gpt.h>
#include <tenfold/image_workloads.h>
#include <tenfold/lesson.h>

namespace {
using tenfold::AdamWLists;
using tenfold::Counted;
using tenfold::Parameters;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;
namespace kernels = tenfold::kernels;

/// What is trained: R3's MLP, or R2's GPT where the case says so. Of the workload everything is kept but its optimizer.
struct Work {
  int64_t items;
  Parameters parameters;
  std::function<Tensor()> loss;  // of the next batch
};

Work make_work(const Trial& trial) {
  if (trial.get("gpt", 0) != 0) {
    auto gpt = std::make_shared<tenfold::GptTraining>(trial);
    return {gpt->tokens_per_step(), gpt->parameters(), [gpt] {
              auto [ids, targets] = gpt->next_batch();
              Tensor h = gpt->model->embed(ids);
              for (auto& block : gpt->model->blocks) h = block->forward(h);
              return gpt->model->loss(h, targets);
            }};
  }
  auto mlp = std::make_shared<tenfold::MlpTraining>(trial);
  return {mlp->batches.batch(), mlp->parameters(), [mlp] {
            auto [images, labels] = mlp->next_batch();
            return torch::cross_entropy_loss(mlp->model->forward(images), labels);
          }};
}

kernels::AdamWSettings settings_of(const Trial& trial) {
  return {.learning_rate = trial.get("adamw_learning_rate", 1e-3), .weight_decay = trial.get("weight_decay", 1e-2)};
}

/// The same for LibTorch's classes; the other defaults are alike.
torch::optim::AdamWOptions options_of(const Trial& trial) {
  const auto s = settings_of(trial);
  return torch::optim::AdamWOptions(s.learning_rate).weight_decay(s.weight_decay);
}

/// One training step; how the parameters are updated is all that differs between the variants.
Step train(const Work& work, const std::function<void()>& update) {
  return {work.items, work.parameters, [work, update] {
            for (const auto& parameter : work.parameters) parameter.value().mutable_grad() = Tensor();
            Tensor loss;
            {
              RECORD_USER_SCOPE("loss");
              loss = work.loss();
              loss.backward();
            }
            RECORD_USER_SCOPE("optimizer");
            update();
            return loss;
          }};
}

/// A step whose update `make_update` makes; in case "counted" one update is counted instead (adamw_counts.h).
Step measured(const Trial& trial, int writes, const tenfold::MakeUpdate& make_update) {
  if (trial.get("counted", 0) != 0) return tenfold::note_operators(trial, writes, make_update);
  const Work work = make_work(trial);
  return train(work, make_update(work.parameters.values()));
}

/// The update of a class of LibTorch's kind.
template <class Optimizer>
tenfold::MakeUpdate update_by(const Trial& trial) {
  return [options = options_of(trial)](std::vector<Tensor> parameters) {
    return [optimizer = std::make_shared<Optimizer>(std::move(parameters), options)] { optimizer->step(); };
  };
}

/// The update by a function of lists.
tenfold::MakeUpdate update_by(const Trial& trial, void (*update)(AdamWLists&, const kernels::AdamWSettings&)) {
  return [update, settings = settings_of(trial)](std::vector<Tensor> parameters) {
    return [lists = std::make_shared<AdamWLists>(std::move(parameters)), update, settings] { update(*lists, settings); };
  };
}

/// LibTorch's AdamW: ten operators for each tensor.
Step loop(const Trial& trial) { return measured(trial, /*writes=*/0, update_by<torch::optim::AdamW>(trial)); }

/// The same operators, each for all tensors at once.
Step by_lists(const Trial& trial) { return measured(trial, tenfold::kForeachWrites, update_by(trial, tenfold::foreach_adamw)); }

/// ATen's fused operator.
Step fused(const Trial& trial) { return measured(trial, tenfold::kFusedWrites, update_by(trial, tenfold::fused_adamw)); }

/// The kernel of kernels/adamw.
Step our_kernel(const Trial& trial) {
  if (trial.get("counted", 0) != 0) return tenfold::note_adamw_kernel(trial, settings_of(trial));
  if (!trial.device.is_cuda()) {
    trial.cannot("needs a CUDA device; on a CPU the same kernel runs under the microscope: in the tests and in case counted");
  }
  return measured(trial, 0, update_by<tenfold::fused::FusedAdamW>(trial));
}

/// Peak bytes with so many bytes of the update's own: while the loss and its gradients are computed, or in the update.
int64_t peak_of(const Counted& baseline, int64_t temporary) {
  const int64_t states = baseline.resting_bytes - baseline.gradient_bytes;
  return std::max(states + baseline.region("loss").largest_peak_bytes, baseline.resting_bytes + temporary);
}

/// The denominators of all parameters are there at once.
tenfold::Prediction all_denominators(const Counted& baseline) { return {.peak_bytes = peak_of(baseline, baseline.parameter_bytes)}; }

/// Nothing but the states. On a CPU an update costs one pass over memory at least: of each parameter four values are read and
/// three written.
tenfold::Prediction in_one_pass(const Counted& baseline) {
  tenfold::Prediction prediction{.peak_bytes = peak_of(baseline, 0)};
  if (const auto copy = baseline.ceilings.find("cpu_copy_bytes_per_s"); copy != baseline.ceilings.end()) {
    const double pass = 7 * static_cast<double>(baseline.parameter_bytes) / copy->second;
    prediction.speed_ratio = 1 / (1 - baseline.share("optimizer") + pass / baseline.step_seconds);
  }
  return prediction;
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const tenfold::Agreement rounding = tenfold::Agreement::within(1e-4, "the same formula, rounded in other places");
  const tenfold::Expect same{SAME, ANY, VALID}, faster{FASTER, ANY, VALID};
  return tenfold::run(
      argc, argv,
      {.title = "A fused AdamW",
       .question = "What does the optimizer's step cost when a model has many small tensors, and how much of it is the arithmetic?",
       .workload = "R3",
       .baseline = {"loop", loop},
       .techniques = {{"foreach", by_lists, all_denominators},
                      {"fused", fused, in_one_pass, rounding},
                      {"our kernel", our_kernel, in_one_pass, rounding}},
       // On a CPU the list operators are loops over the tensors themselves.
       .cases = {{"R3", {}, {{"foreach", same, faster}, {"fused", faster}, {"our kernel", faster}}},
                 {"R2", {{"gpt", 1}}, {{"foreach", same, faster}, {"fused", faster}, {"our kernel", faster}}, "R2"},
                 {"few large tensors", {{"layers", 3}, {"width", 1024}}, {{"foreach", same}, {"fused", faster}, {"our kernel", faster}}},
                 {"large batch", {{"layers", 2}, {"batch", 4096}}, {{"foreach", same}, {"fused", same}, {"our kernel", same}}},
                 {"counted", {{"counted", 1}}, {{"foreach", {}}, {"fused", {}}, {"our kernel", {}}}, "foundation"}}});
}
