// Lesson 21 - Mixed precision
//
// Question  What do 16-bit activations and matrix products save, and what has to be done so that the training stays right?
// Expect    Less memory for activations; faster where the hardware multiplies 16-bit numbers. Parameters stay in 32 bits.
// Not for   Tiny layers: the casts are operators too (case "tiny layers").
// Run       ./tenfold run 21_mixed_precision
// Read      autocast.h and grad_scaler.h are the technique; bf16_autocast() and fp16_scaled() use them.
#include <tenfold/autocast.h>
#include <tenfold/gpt.h>
#include <tenfold/grad_scaler.h>
#include <tenfold/image_workloads.h>
#include <tenfold/lesson.h>

namespace {
using tenfold::Counted;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;

/// What is trained: R2's GPT, or R3's MLP where the case says so.
struct Work {
  int64_t items;
  tenfold::Parameters parameters;
  torch::optim::Optimizer* optimizer;
  std::function<Tensor()> loss;  // of the next batch; keeps model and optimizer alive
};

Work make_work(const Trial& trial) {
  if (trial.get("tiny_layers", 0) != 0) {
    auto mlp = std::make_shared<tenfold::MlpTraining>(trial);
    return {mlp->batches.batch(), mlp->parameters(), mlp->optimizer.get(), [mlp] {
              auto [images, labels] = mlp->next_batch();
              return torch::cross_entropy_loss(mlp->model->forward(images), labels);
            }};
  }
  auto gpt = std::make_shared<tenfold::GptTraining>(trial);
  return {gpt->tokens_per_step(), gpt->parameters(), gpt->optimizer.get(), [gpt] {
            auto [ids, targets] = gpt->next_batch();
            Tensor h = gpt->model->embed(ids);
            for (auto& block : gpt->model->blocks) h = block->forward(h);
            return gpt->model->loss(h, targets);
          }};
}

/// Without the technique: everything in 32 bits.
Step fp32(const Trial& trial) {
  const Work work = make_work(trial);
  return {work.items, work.parameters, [work] {
            work.optimizer->zero_grad();
            Tensor loss = work.loss();
            loss.backward();
            work.optimizer->step();
            return loss;
          }};
}

/// bf16 has the exponent of fp32, so nothing under- or overflows: autocast around the forward pass is all it takes.
Step bf16_autocast(const Trial& trial) {
  const Work work = make_work(trial);
  return {work.items, work.parameters, [work, device = trial.device.type()] {
            work.optimizer->zero_grad();
            Tensor loss;
            {
              const tenfold::Autocast scope(device, torch::kBFloat16);
              loss = work.loss();
            }
            loss.backward();
            work.optimizer->step();
            return loss;
          }};
}

/// fp16 has three more bits of precision and a far smaller range: its gradients need the scaler.
Step fp16_step(const Work& work, const Trial& trial) {
  auto scaler = std::make_shared<tenfold::GradScaler>(tenfold::GradScalerOptions{.initial_scale = trial.get("scale", 65536.0)});
  return {work.items, work.parameters, [work, scaler, trial] {
            work.optimizer->zero_grad();
            Tensor loss;
            {
              const tenfold::Autocast scope(trial.device.type(), torch::kHalf);
              loss = work.loss();
            }
            scaler->scale(loss).backward();
            scaler->step(*work.optimizer);  // divides the gradients; skips the update if one is infinite
            scaler->update();
            trial.note("skipped steps", static_cast<double>(scaler->skipped_steps()), "steps");
            return loss;
          }};
}

/// Of the gradient entries that are not zero in fp32: the part that is zero when backward() runs in fp16 from
/// `scale` times the loss. From a model and a batch like those of the first update.
double lost_gradients(const Trial& trial, double scale) {
  int64_t there = 0, lost = 0;
  std::vector<Tensor> reference;
  for (const bool half : {false, true}) {
    torch::manual_seed(trial.seed);
    const Work work = make_work(trial);
    Tensor loss;
    {
      const tenfold::Autocast scope(trial.device.type(), torch::kHalf, half);
      loss = work.loss();
    }
    (half ? loss * scale : loss).backward();
    for (size_t i = 0; i < work.parameters.size(); ++i) {
      const Tensor gradient = work.parameters[i].value().grad();
      if (!half) {
        reference.push_back(gradient);
        continue;
      }
      const Tensor some = reference[i] != 0;
      there += some.sum().item<int64_t>();
      lost += (some & (gradient == 0)).sum().item<int64_t>();
    }
  }
  return static_cast<double>(lost) / static_cast<double>(there);
}

Step fp16_scaled(const Trial& trial) {
  const Step step = fp16_step(make_work(trial), trial);
  trial.note("gradients lost to zero, loss not scaled", 100 * lost_gradients(trial, 1), "%");
  trial.note("gradients lost to zero, loss scaled", 100 * lost_gradients(trial, trial.get("scale", 65536.0)), "%");
  return step;
}

/// TF32: 32-bit storage, products of 10-bit significands on tensor cores. One switch; no memory is saved.
Step tf32(const Trial& trial) {
  if (!trial.device.is_cuda()) trial.cannot("TF32 is a mode of NVIDIA's tensor cores");
  at::globalContext().setAllowTF32CuBLAS(true);  // the harness puts the flags back around every block
  at::globalContext().setAllowTF32CuDNN(true);
  return fp32(trial);
}

/// The trap: the loss is scaled, and the optimizer gets the gradients as they are, 65536 times too large.
Step never_unscaled(const Trial& trial) {
  const Work work = make_work(trial);
  auto scaler = std::make_shared<tenfold::GradScaler>();
  return {work.items, work.parameters, [work, scaler] {
            work.optimizer->zero_grad();
            Tensor loss = work.loss();
            scaler->scale(loss).backward();
            work.optimizer->step();  // wrong: scaler->step(*work.optimizer)
            return loss;
          }};
}

/// Peak bytes of a GPT step in 16 bits: of what a block keeps, two tensors stay in 32 bits (the residual stream after the
/// attention and after the MLP), the rest halves, and a 16-bit copy of the weights joins them until backward() has used
/// it. Parameters, gradients and momenta do not change. The peak is at the head or in the last block's backward.
tenfold::Prediction half_activations(const Counted& baseline) {
  if (!baseline.regions.contains("block.forward")) return {};
  const auto& block = baseline.region("block.forward");
  const double width = baseline.setting("width"), weights = 12 * width * width;  // of a block
  const double stream = baseline.setting("batch") * baseline.setting("length") * width * 4;
  const double kept = static_cast<double>(block.retained_bytes) / static_cast<double>(block.calls);
  const double logits = static_cast<double>(baseline.region("head.forward").retained_bytes) - stream;  // besides the norm's output
  const double embeddings_and_head =
      static_cast<double>(baseline.gradient_bytes) - static_cast<double>(block.calls) * (weights + 13 * width) * 4;
  // The loss is computed in 32 bits: the logarithms of the probabilities, and two gradients of that size in backward().
  const double at_head = stream / 2 + 3 * logits;
  // Gradients of the output in both types and of the MLP's inner layer (4 D) in 16 bits, and of one of its weights in both.
  const double at_last_block = embeddings_and_head + 1.5 * stream + 4 * stream / 2 + 4 * width * width * 6;
  const double states = static_cast<double>(baseline.resting_bytes - baseline.gradient_bytes);
  const double blocks = static_cast<double>(block.calls) * ((kept - 2 * stream) / 2 + 2 * stream + 2 * weights);
  const double peak = states + stream + blocks + std::max(at_head, at_last_block);
  return {.peak_bytes = std::max(baseline.resting_bytes, static_cast<int64_t>(peak))};
}

tenfold::Prediction same_memory(const Counted& baseline) { return {.peak_bytes = baseline.peak_bytes}; }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const auto fewer_bits = tenfold::Agreement::within(8e-3, "products of numbers with 8 (bf16) or 11 bits (fp16, TF32)");
  return tenfold::run(
      argc, argv,
      {.title = "Mixed precision",
       .question = "What do 16-bit activations and matrix products save, and what has to be done so that the training stays right?",
       .workload = "R2",
       .baseline = {"fp32", fp32},
       .techniques = {{"bf16 autocast", bf16_autocast, half_activations, fewer_bits},
                      {"fp16 + scaler", fp16_scaled, half_activations, fewer_bits},
                      {"TF32", tf32, same_memory, fewer_bits},
                      {"never unscaled", never_unscaled}},
       .cases = {{"R2",
                  {},
                  {{"bf16 autocast", {ANY, SMALLER, VALID}, {{FASTER, SMALLER, VALID}}},
                   {"fp16 + scaler", {SLOWER, SMALLER, VALID}, {{FASTER, SMALLER, VALID}}},
                   {"TF32", {ANY, ANY, VALID}, {{FASTER, SAME, VALID}}},
                   {"never unscaled", {ANY, ANY, TRAP}}}},
                 {"tiny layers", {{"tiny_layers", 1}}, {{"fp16 + scaler", {SLOWER, LARGER, VALID}}}, "R3"}},
       .agreement = tenfold::Agreement::exact_on_cpu()});
}
