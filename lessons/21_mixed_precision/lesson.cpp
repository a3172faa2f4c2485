// Lesson 21 - Mixed precision
// What do 16-bit activations and matmuls save, and what keeps the training right?
// Read autocast.h and grad_scaler.h first: they are the technique. bf16_autocast() and fp16_with_scaler() use them;
// wrong_loops.h has the loops that go wrong.
#include "common/harness/lesson.h"
#include "autocast.h"
#include "common/models/mlp.h"
#include "grad_scaler.h"
#include "lost_gradients.h"
#include "never_cleared.h"
#include "prediction.h"
#include "quality.h"
#include "wrong_loops.h"

namespace {
using tenfold::Autocast;
using tenfold::GradScaler;
using tenfold::Setting;
using tenfold::Step;
using tenfold::Trial;
using tenfold::Work;
using torch::Tensor;

constexpr Setting<double> kScale{"scale", 65536.0, "of the loss in fp16, until an update changes it"};

/// Without the technique: everything in 32 bits.
Step fp32(const Trial& trial) {
  const Work work = trial.workload.make(trial);
  auto update = [work] {
    work.optimizer->zero_grad();
    Tensor loss = work.next_loss();
    loss.backward();
    work.optimizer->step();
    return loss;
  };
  return {work.items, work.parameters, update};
}

/// bf16 has the exponent of fp32, so nothing under- or overflows: autocast around the forward pass is all it takes.
Step bf16_autocast(const Trial& trial) {
  const Work work = trial.workload.make(trial);
  auto update = [work, device = trial.device.type()] {
    work.optimizer->zero_grad();
    Tensor loss;
    {
      const Autocast scope(device, torch::kBFloat16);
      loss = work.next_loss();
    }
    loss.backward();
    work.optimizer->step();
    return loss;
  };
  return {work.items, work.parameters, update};
}

/// fp16 has three more bits of precision and a far smaller range: its gradients need the scaler.
Step fp16_with_scaler(const Trial& trial) {
  const Work work = trial.workload.make(trial);
  auto scaler = std::make_shared<GradScaler>(tenfold::GradScalerOptions{.initial_scale = trial.get(kScale)});
  auto update = [work, scaler, trial] {
    work.optimizer->zero_grad();
    Tensor loss;
    {
      const Autocast scope(trial.device.type(), torch::kHalf);
      loss = work.next_loss();
    }
    scaler->scale(loss).backward();
    scaler->step(*work.optimizer);  // divides the gradients; skips the update if one is infinite
    scaler->update();
    trial.note("skipped steps", static_cast<double>(scaler->skipped_steps()), "steps");
    return loss;
  };
  return {work.items, work.parameters, update};
}

/// In fp32 a scaler alone changes nothing: bit for bit. (A GPU adds in any order; a smaller scale leaves more to see.)
Step scaler_alone(const Trial& trial) { return scaled_fp32(trial, trial.get(kScale), /*clear=*/true); }

/// The trap, as a widely read loop has it: no zero_grad(). The scaler divides what is left of the last update once
/// more: nearly hidden.
Step never_cleared_scaler(const Trial& trial) { return scaled_fp32(trial, trial.get(kScale), /*clear=*/false); }

/// 50 updates with gradients that are never cleared. The last begins with a scale that overflows.
void without_scaler(const Trial& trial) { tenfold::note_never_cleared(trial, {.scaler = false}, 50); }
void with_scaler(const Trial& trial) { tenfold::note_never_cleared(trial, {}, 50); }
void with_overflow(const Trial& trial) { tenfold::note_never_cleared(trial, {.scale = 0x1p30}, 50); }

/// Real gradients that fp16 is too coarse for.
void lost_without_scale(const Trial& trial) { tenfold::note_lost_gradients(trial, /*scale=*/1); }
void lost_with_scale(const Trial& trial) { tenfold::note_lost_gradients(trial, trial.get(kScale)); }

/// TF32: 32-bit storage, products of 11 significant bits on tensor cores. One switch; no memory is saved.
Step tf32(const Trial& trial) {
  if (!trial.device.is_cuda()) trial.skip("TF32 is a mode of NVIDIA's tensor cores");
  at::globalContext().setAllowTF32CuBLAS(true);  // the harness puts the flags back around every block
  at::globalContext().setAllowTF32CuDNN(true);
  return fp32(trial);
}

/// Weights without a copy in 32 bits: what an update adds is lost where it is smaller than a weight's last bit.
Step bf16_weights(const Trial& trial) {
  Step step = bf16_autocast(trial);
  step.update = [update = step.update, parameters = step.parameters] {
    Tensor loss = update();
    const torch::NoGradGuard no_gradients;
    for (const auto& parameter : parameters) parameter.value().copy_(parameter.value().to(torch::kBFloat16));
    return loss;
  };
  return step;
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold;
  using namespace tenfold::expect;
  const auto fewer_bits = Agreement::within(8e-3, "products of numbers with 8 (bf16) or 11 bits (fp16, TF32)");
  const std::vector<Look> lost = {{"loss not scaled", lost_without_scale}, {"loss scaled", lost_with_scale}};
  const auto to_the_end = [](Step (*build)(const Trial&)) {
    return [build](const Trial& trial) {
      return train_to_the_end(trial, build(trial), {.updates = trial.get(kUpdates), .evaluations = 16});
    };
  };
  return run(
      argc, argv,
      {.title = "Mixed precision",
       .question = "What do 16-bit activations and matmuls save, and what keeps the training right?",
       .workload = gpt_workload,
       .version = 9,
       .core = true,
       .settings = {kScale, kUpdates},
       .baseline = {"fp32", fp32},
       .techniques = {{"bf16 autocast", bf16_autocast, predict_16_bits, fewer_bits},
                      {"fp16 + scaler", fp16_with_scaler, predict_16_bits, fewer_bits},
                      {"TF32", tf32, predict_tf32, fewer_bits},
                      {"never unscaled", never_unscaled},
                      {"fp32 + scaler", scaler_alone},
                      {"never cleared", never_cleared},
                      {"never cleared, scaler", never_cleared_scaler}},
       .cases = {{"gpt",
                  {},
                  {{"bf16 autocast", SMALLER, on_cuda({FASTER, SMALLER})},
                   {"fp16 + scaler", {SLOWER, SMALLER}, on_cuda({FASTER, SMALLER})},
                   {"TF32", {}, on_cuda({FASTER, SAME_MEMORY})},
                   {"never unscaled", TRAP}}},
                 {"scaler alone",
                  {kScale(1024)},
                  {{"fp32 + scaler", SAME_MEMORY}, {"never cleared", TRAP}, {"never cleared, scaler", TRAP}}},
                 {.name = "mlp",
                  .expected = {{"fp16 + scaler", {SLOWER, LARGER}, on_cuda(SLOWER)}},
                  .workload = mlp_workload}},
       .trainings = {{.name = "quality",
                      .metric = {.name = "validation loss", .margin = 0.01, .relative = true},
                      .runs = {{"fp32", to_the_end(fp32)},
                               {"bf16 autocast", to_the_end(bf16_autocast), NOT_WORSE, on_cuda({NOT_WORSE, FASTER})},
                               {"fp16 + scaler",
                                to_the_end(fp16_with_scaler),
                                {NOT_WORSE, SLOWER},
                                on_cuda({NOT_WORSE, FASTER})},
                               {"bf16 weights", to_the_end(bf16_weights), WORSE}},
                      .settings = small_model_and_updates()}},
       .surveys = {{"gpt's gradients in fp16", lost},
                   {.name = "mlp's gradients in fp16", .looks = lost, .workload = mlp_workload},
                   {"never cleared, 50 updates",
                    {{"bf16, no scaler", without_scaler},
                     {"fp16, scaler", with_scaler},
                     {"fp16, scaler, one overflow", with_overflow}},
                    small_model_and_updates()}},
       .headline = Headline{"gpt", "bf16 autocast"},
       .agreement = Agreement::exact_on_cpu()});
}
