// Lesson 34 - Offload
// What does a step cost if activations, optimizer state or parameters wait in the host's memory, and when is it free?
// Read activation_offload.h first; it works through saved_tensor_hooks.h. optimizer_offload.h and weight_stream.h do
// the same for model states. Copies run on lesson 12's streams. Lesson 31's checkpoint() is there to compare.
#include "common/harness/lesson.h"
#include <ATen/record_function.h>
#include "host_survey.h"
#include "lessons/21_mixed_precision/autocast.h"
#include "offload_training.h"
#include "prediction.h"
#include "settings.h"

namespace {
using namespace tenfold;
using torch::Tensor;

/// One training step of the GPT: `blocks` runs its blocks, `update` is the optimizer.
template <class Blocks, class Update>
Step train(const Trial& trial, const std::shared_ptr<GptTraining>& gpt, const Blocks& blocks, const Update& update) {
  return {.items = gpt->tokens_per_step(),
          .parameters = gpt->parameters(),
          .update = [gpt, blocks, update = update, sixteen_bits = in_16_bits(trial),
                     device = trial.device.type()]() mutable {
            const auto [ids, targets] = gpt->next_batch();  // (B, T) each
            for (const auto& parameter : gpt->parameters()) parameter.value().mutable_grad() = Tensor();
            Tensor loss;
            {
              RECORD_USER_SCOPE("loss");
              {
                const Autocast scope(device, torch::kBFloat16, sixteen_bits);
                loss = gpt->model->loss(blocks(*gpt->model, gpt->model->embed(ids)), targets);
              }
              loss.backward();
            }
            update();
            return loss.detach();
          }};
}

/// The baseline: everything on the device.
Step on_device(const Trial& trial) {
  auto gpt = std::make_shared<GptTraining>(trial);
  return train(
      trial, gpt, [](GptImpl& model, const Tensor& h) { return model.blocks_forward(h); }, adamw_of(trial, *gpt));
}

/// Lesson 31's technique: of each block only the input is kept.
Step checkpointing(const Trial& trial) {
  auto gpt = std::make_shared<GptTraining>(trial);
  return train(trial, gpt, checkpointed_blocks, adamw_of(trial, *gpt));
}

/// Each block's activations leave while the next block computes, and come back while it computes backwards.
template <class Copies>
Step activations_away(const Trial& trial, const Away& how = {}) {
  auto gpt = std::make_shared<GptTraining>(trial);
  auto away = std::make_shared<ActivationsAway<Copies>>(trial, *gpt, how);
  return train(
      trial, gpt, [away](GptImpl& model, const Tensor& h) { return away->blocks_forward(model, h); },
      [away, trial, adamw = adamw_of(trial, *gpt), note = NoteMoved(trial)]() mutable {
        adamw();
        note(away->offload);
        trial.note("on the host", static_cast<double>(away->pool->bytes()), "bytes");
        if (away->away.drop_pool) away->drop_pool();
      });
}

/// The optimizer works on the host, and more of the model states may be there.
template <class Copies>
Step optimizer_away(const Trial& trial, StatesAway states) {
  auto gpt = std::make_shared<GptTraining>(trial);
  auto away = std::make_shared<OptimizerAway<Copies>>(trial, *gpt, states);
  Step step = train(
      trial, gpt, [away](GptImpl& model, const Tensor& h) { return away->blocks_forward(model, h); },
      [away, note = NoteMoved(trial)]() mutable {
        away->step();
        note(*away);
      });
  if (states != StatesAway::averages) step.gather = [away] { return away->gather(); };
  return step;
}

/// Copies on a stream, or on a thread without a GPU: there "the host" is the same memory once more.
template <bool only_input>
Step activations(const Trial& trial) {
#ifdef TENFOLD_WITH_CUDA
  if (trial.device.is_cuda()) return activations_away<CopyStream>(trial, {.only_input = only_input});
#endif
  return activations_away<CopyThread>(trial, {.only_input = only_input});
}

template <StatesAway states>
Step model_states(const Trial& trial) {
#ifdef TENFOLD_WITH_CUDA
  if (trial.device.is_cuda()) return optimizer_away<CopyStream>(trial, states);
#endif
  return optimizer_away<CopyThread>(trial, states);
}

[[noreturn]] void need_cuda(const Trial& trial) { trial.skip("needs a CUDA device: a CPU has no streams"); }

/// The mistake: the copies are on the stream of the compute, in pinned memory and asynchronous, and overlap nothing.
Step one_stream(const Trial& trial) {
#ifdef TENFOLD_WITH_CUDA
  if (trial.device.is_cuda()) return activations_away<ComputeStream>(trial);
#endif
  need_cuda(trial);
}

/// The trap: backward() waits for what is on its way back when it has done with it.
Step no_wait(const Trial& trial) {
#ifdef TENFOLD_WITH_CUDA
  if (trial.device.is_cuda()) return activations_away<CopyStream>(trial, {.waits = false});
#endif
  need_cuda(trial);
}

/// Of the survey: every step page-locks its buffers again.
Step fresh_pinning(const Trial& trial) {
#ifdef TENFOLD_WITH_CUDA
  if (trial.device.is_cuda()) return activations_away<CopyStream>(trial, {.drop_pool = true});
#endif
  need_cuda(trial);
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  enable_saved_tensor_hooks();  // before the first backward(): all variants on one engine
  return run(
      argc, argv,
      {.title = "Offload",
       .question = "What does a step cost if activations, optimizer state or parameters wait in the host's memory, and "
                   "when is it free?",
       .workload = gpt_workload,
       .version = 4,
       .settings = {kAdamWLearningRate, kLeastBytes, kStay, kPrecision},
       .baseline = {"on the device", on_device},
       .most_bytes = most_bytes,
       .techniques = {{"activations", activations<false>, predict_activations},
                      {"checkpointing", checkpointing, predict_checkpointing},
                      {"blocks' inputs", activations<true>, predict_inputs},
                      {"optimizer state", model_states<StatesAway::averages>, predict_optimizer_away},
                      {"and gradients", model_states<StatesAway::gradients>, predict_gradients_away},
                      {"and parameters", model_states<StatesAway::parameters>, predict_parameters_away},
                      {"one stream", one_stream, predict_one_stream},
                      {"no wait", no_wait}},
       .cases = {{"gpt",
                  {},
                  {{"activations", LARGER, on_cuda({SLOWER, SMALLER})},
                   {"checkpointing", {SLOWER, SMALLER}},
                   {"blocks' inputs", SMALLER, on_cuda({SLOWER, SMALLER})}}},
                 {"activations",
                  activations_fill(),
                  {{"activations", LARGER, on_cuda(SMALLER)},
                   {"checkpointing", {SLOWER, SMALLER}},
                   {"blocks' inputs", SMALLER, on_cuda({SLOWER, SMALLER})},
                   {"one stream", {}, on_cuda(mistake(SLOWER))},
                   {"no wait", TRAP}}},
                 {"16 bits",
                  activations_in_16_bits(),
                  {{"activations", LARGER, on_cuda(SMALLER)}, {"checkpointing", SMALLER}, {"blocks' inputs", SMALLER}}},
                 {"model states",
                  states_fill(),
                  {{"activations", SAME_MEMORY},
                   {"optimizer state", {SLOWER, LARGER}, on_cuda({SLOWER, SMALLER})},
                   {"and gradients", {SLOWER, LARGER}, on_cuda({SLOWER, SMALLER})},
                   {"and parameters", {SLOWER, LARGER}, on_cuda({SLOWER, SMALLER})}}}},
       .surveys = {{"page-locking",
                    {host_look("on the device", on_device), host_look("pool", activations<false>),
                     host_look("fresh", fresh_pinning)},
                    activations_fill(),
                    /*of_memory=*/true}},
       .headline = Headline{"activations", "activations"}});
}
