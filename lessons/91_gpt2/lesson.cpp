// Lesson 91 - GPT-2
// GPT-2 trained from C++, its weights in the format that everybody reads: what does each technique bring, and what does
// Python take for the same step?
// Read gpt2.h first: the model. Then training.h, the step with all techniques in it; safetensors.h and gpt2_layout.h
// are the file; wrong_gpt2.h has the models that only look like GPT-2. serve.py is the step in Python.
#include "common/harness/lesson.h"
#include "common/measure/device.h"

#include "prediction.h"
#include "survey.h"
#include "to_the_end.h"
#include "training.h"
#include "wrong_gpt2.h"

namespace {
using namespace tenfold;

/// The baseline: 32 bits, every operator by itself.
Step plain(const Trial& trial) {
  if (trial.get(gpt2::kTokens) == "gpt2") token_file();  // for the programs in Python
  return step_with(trial, {});
}

/// The first `count` techniques.
Variant stack(size_t count, const Agreement& agreement) {
  const Techniques techniques = stack_of(count);
  const Technique& last = kTechniques.at(count - 1);
  const auto build = [techniques, &last](const Trial& trial) {
    if (last.cuda_only && !trial.device.is_cuda()) trial.skip("a mode of NVIDIA's tensor cores");
    if (last.on == &Techniques::bf16 && trial.device.is_cpu() && trial.get(gpt2::kTokens) == "gpt2" &&
        !multiplies_bfloat16(trial.device))
      trial.skip("this processor has no matmuls of 16 bits, see lesson 21; the small model is trained with them");
    return step_with(trial, techniques);
  };
  return {stack_name(count), build, by_formula(techniques), agreement};
}

Variant with(const char* name, const Techniques& techniques) {
  return {name, [techniques](const Trial& trial) { return step_with(trial, techniques); }, by_formula(techniques)};
}

/// The weights that the baseline begins with, from their file, into a model whose own are all ones.
Step loaded(const Trial& trial) {
  return step_with(trial, {}, {.prepare = [file = start_file(trial)](Gpt2& model) {
                     for (const Tensor& parameter : model->parameters()) parameter.detach().fill_(1);
                     load_gpt2(model, read_safetensors(file).tensors);
                   }});
}

Step other_gelu(const Trial& trial) { return step_with(trial, {}, gelu_by_erf()); }
Step sees_all(const Trial& trial) { return step_with(trial, {}, not_causal()); }
Step unshifted(const Trial& trial) { return step_with(trial, {}, not_shifted()); }
Step untied(const Trial& trial) { return step_with(trial, {}, untied_head(trial)); }
Step padding_counts(const Trial& trial) { return step_with(trial, stack_of(2), padding_in_the_softmax()); }
Step untransposed(const Trial& trial) { return step_with(trial, {}, not_transposed(trial)); }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  // No more: a GELU by erf deviates by 8e-5 in a model that has hardly learned.
  const Agreement order = Agreement::within(2e-5, "the same sums in another order");
  const Agreement bits = Agreement::within(3e-2, "products of numbers with 8 (bf16) or 11 bits (TF32)");
  const OtherProcess python{.command = {"python", "lessons/91_gpt2/serve.py"}};
  return run(
      argc, argv,
      {.title = "GPT-2",
       .question = "GPT-2 trained from C++, step for step: what does each technique bring, and what does Python "
                   "take for the same?",
       .workload = gpt2_workload,
       .version = 5,
       .settings = {kPadTo, kAdamWLearningRate, kMicroBatches, kUpdates, kKeepStart},
       .baseline = {"plain", plain},
       .most_bytes = plain_most_bytes,
       .techniques = {stack(1, order),
                      stack(2, order),
                      stack(3, order),
                      stack(4, bits),
                      stack(5, bits),
                      with("accumulation", {.accumulation = true}),
                      with("checkpointing", {.checkpointing = true}),
                      with("accumulation and all", all_in_32_bits()),
                      {.name = "Python eager", .process = python},
                      {.name = "torch.compile", .process = python},
                      {"loaded", loaded},
                      {"not transposed", untransposed},
                      {"head untied", untied},
                      {"GELU by erf", other_gelu},
                      {"not causal", sees_all},
                      {"targets not shifted", unshifted},
                      {"padding in the softmax", padding_counts}},
       .cases = {{"gpt",
                  {},
                  {{"+ fused attention", {}, on_cuda({FASTER, SMALLER})},
                   {"+ padded vocabulary", {}},
                   {"+ fused AdamW", FASTER},
                   {"+ TF32", {}, on_cuda(FASTER)},
                   {"+ bf16 autocast", {}, on_cuda({FASTER, SMALLER})},
                   {"Python eager", {}},
                   {"torch.compile", {}}}},
                 {"large batch",
                  large_batch(),
                  {{"accumulation", SMALLER}, {"checkpointing", {SLOWER, SMALLER}}, {"accumulation and all", SMALLER}}},
                 {"from a file",
                  small_model_and_file(),
                  {{"loaded", {}},
                   {"+ padded vocabulary", {}},
                   {"+ fused AdamW", {}},
                   {"+ bf16 autocast", SLOWER, on_cuda()},
                   {"not transposed", TRAP},
                   {"head untied", TRAP},
                   {"GELU by erf", TRAP},
                   {"not causal", TRAP},
                   {"targets not shifted", TRAP},
                   {"padding in the softmax", TRAP}}}},
       // Stated beforehand. The techniques change rounding alone, which leads to another course of the same quality: a
       // hundredth of the loss is what a mistake in one of them would have to exceed to matter.
       .trainings = {{.name = "quality",
                      .metric = {.name = "held-out loss", .margin = 0.01, .relative = true},
                      .runs = {{"plain", to_the_end({})},
                               {"+ fused AdamW", to_the_end(stack_of(3)), NOT_WORSE},
                               {"+ bf16 autocast", to_the_end(stack_of(5)), NOT_WORSE}},
                      .settings = small_model_to_the_end()}},
       .surveys = {{.name = "MFU", .looks = utilisations()}},
       .headline = Headline{"gpt", "+ fused AdamW"},
       .agreement = order});
}
