// Lesson 35 - Quantization
// What do weights of 8 bits save in size and time when a model only runs forward, and what do they cost in quality?
// Read dynamic_int8_linear.h and eight_bit_rows.h first: the two techniques. inference.h runs a model whose linear
// layers have one of the forms in forms.h; other_linears.h counts the bytes that PyTorch's allocator does not see.
#include "common/harness/lesson.h"
#include "forms.h"
#include "inference.h"
#include "prediction.h"
#include "settings.h"
#include "surveys.h"

namespace {
using namespace tenfold;

/// The baseline: weights of 32 bits, without a graph.
MakeForm as_they_are(const Trial& /*trial*/) { return nullptr; }

/// A forward pass; the form of the linear layers is all that differs between the variants.
Variant variant(const std::string& name, MakeForm (*form)(const Trial&),
                std::function<Prediction(const Counted&)> predict = nullptr) {
  return {name, [form](const Trial& trial) { return infer(trial, form(trial)); }, std::move(predict)};
}

/// The same form, judged by what a trained model is worth with it.
Run run_of(const std::string& name, MakeForm (*form)(const Trial&), expect::Quality quality = expect::Quality::any) {
  return {name, [form](const Trial& trial) { return train_then_replace(trial, form(trial)); }, quality};
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  // Stated before anything was measured: 1 % of the loss, half a point of accuracy.
  const Metric loss{.name = "validation loss", .margin = 0.01, .relative = true};
  const Metric accuracy{.name = "accuracy", .unit = "%", .better = Better::higher, .margin = 0.5};
  return run(
      argc, argv,
      {.title = "Quantization",
       .question = "What do weights of 8 bits save in size and time when a model only runs forward, and what do "
                   "they cost in quality?",
       .workload = gpt_workload,
       .version = 4,
       .settings = {kUpdates, kRowsAtATime},
       .baseline = variant("fp32", as_they_are),
       .most_bytes = inference_most_bytes,
       .techniques = {variant("dynamic int8", dynamic_int8, predict_dynamic_int8),
                      variant("bf16 weights", bf16_weights, predict_bf16_weights),
                      variant("int8 weights", int8_weights, predict_weight_only),
                      variant("int8, one kernel", int8_one_kernel, predict_one_kernel),
                      variant("fp8 weights", fp8_weights, predict_weight_only), variant("no clamp", no_clamp)},
       .cases = {{"gpt",
                  {},
                  {{"dynamic int8", {}},
                   {"bf16 weights", {}},
                   {"int8 weights", {}},
                   {"int8, one kernel", {}},
                   {"fp8 weights", {}},
                   {"no clamp", TRAP}}},
                 {"one token",
                  one_token(),
                  {{"dynamic int8", {FASTER, SMALLER}},
                   {"bf16 weights", SMALLER},
                   {"int8 weights", SMALLER},
                   {"int8, one kernel", SMALLER},
                   {"fp8 weights", {SLOWER, SMALLER}}}},
                 {"200 tokens",
                  many_tokens(),
                  {{"dynamic int8", SMALLER},
                   {"bf16 weights", SMALLER},
                   {"int8 weights", SMALLER},
                   {"int8, one kernel", SMALLER}}},
                 {.name = "convnet",
                  .expected = {{"dynamic int8", {SAME_SPEED, SAME_MEMORY}}, {"int8 weights", SAME_MEMORY}},
                  .workload = convnet_workload}},
       .trainings = {{.name = "quality",
                      .metric = loss,
                      .runs = {run_of("fp32", as_they_are), run_of("dynamic int8", dynamic_int8, NOT_WORSE),
                               run_of("int8 weights", int8_weights, NOT_WORSE),
                               run_of("int8, one kernel", int8_one_kernel, NOT_WORSE),
                               run_of("fp8 weights", fp8_weights, NOT_WORSE), run_of("no clamp", no_clamp, WORSE)},
                      .settings = gpt::affordable()},
                     {.name = "accuracy, convnet",
                      .metric = accuracy,
                      .runs = {run_of("fp32", as_they_are), run_of("dynamic int8", dynamic_int8, NOT_WORSE),
                               run_of("int8 weights", int8_weights, NOT_WORSE)},
                      .settings = trained_convnet(),
                      .workload = convnet_workload}},
       .surveys = {size_survey("size", one_token(), gpt_workload),
                   size_survey("size, gpt", {}, gpt_workload),
                   size_survey("size, convnet", {}, convnet_workload),
                   {"sums of 16 bits",
                    {saturation_look("activations of 8 bits", /*reduce_range=*/false),
                     saturation_look("activations of 7 bits", /*reduce_range=*/true)}},
                   {.name = "on a GPU", .looks = {as_printed_look()}, .of_memory = true}},
       .headline = Headline{"one token", "dynamic int8"},
       .agreement = Agreement::within(0.08, "weights of 8 bits, or weights and activations")});
}
