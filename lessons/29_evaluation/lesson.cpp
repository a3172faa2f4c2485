// Lesson 29 - Evaluation
// What does evaluating a model cost, and what do no_grad, inference_mode, eval() and larger batches save?
// Read with_graph() and no_grad() first: one line is the technique. mean_loss() in evaluation.h is the metric that both
// compute. The last two variants are how an evaluation goes wrong: quickly, and with a number that looks right.
#include "common/harness/lesson.h"
#include "eval_mode.h"
#include "evaluation.h"
#include "prediction.h"
#include "rates.h"

namespace {
using tenfold::EvalMode;
using tenfold::Evaluated;
using tenfold::mean_loss;
using tenfold::Step;
using tenfold::Trial;
using tenfold::Variant;
using torch::Tensor;

/// Without the technique: no backward pass will follow, but forward() records a graph for one, and keeps its
/// activations until the batch's loss is gone.
Tensor with_graph(Evaluated& work) {
  const EvalMode eval(*work.model);
  return mean_loss(work, work.batch_rows);
}

/// With it: nothing is recorded, so each activation is freed as soon as the next operators have read it.
Tensor no_grad(Evaluated& work) {
  const torch::NoGradGuard no_graph;
  const EvalMode eval(*work.model);  // besides: no_grad changes neither dropout nor batch normalisation
  return mean_loss(work, work.batch_rows);
}

/// Stricter: tensors made here have no version counter either, and autograd refuses them for good.
Tensor inference_mode(Evaluated& work) {
  Tensor mean;
  {
    const c10::InferenceMode no_graph;
    const EvalMode eval(*work.model);
    mean = mean_loss(work, work.batch_rows);
  }
  return mean.clone();  // made outside: an ordinary tensor again
}

/// What the freed memory is for: fewer, larger batches.
Tensor no_grad_larger_batch(Evaluated& work) {
  const torch::NoGradGuard no_graph;
  const EvalMode eval(*work.model);
  return mean_loss(work, work.larger_batch_rows);
}

/// A trap: eval() is forgotten. Dropout drops, so another model is evaluated; batch normalisation uses each batch's
/// statistics, and adds those of the held-out set to the running ones.
Tensor train_mode(Evaluated& work) {
  const torch::NoGradGuard no_graph;
  return mean_loss(work, work.batch_rows);
}

/// A trap: the mean of the batches' means. The last batch is smaller, and weighs as much as a full one.
Tensor mean_of_means(Evaluated& work) {
  const torch::NoGradGuard no_graph;
  const EvalMode eval(*work.model);
  const auto batches = work.batches(work.batch_rows);
  Tensor sum = torch::zeros({}, work.targets.options().dtype(torch::kFloat));
  for (const auto& [inputs, targets] : batches) sum += work.loss(inputs, targets);
  return sum / static_cast<int64_t>(batches.size());
}

/// One update, then the evaluation, which is all that differs between the variants.
Variant evaluating(const std::string& name, Tensor (*evaluate)(Evaluated&)) {
  return {name, [evaluate](const Trial& trial) { return tenfold::update_and_evaluate(trial, evaluate); }};
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold;
  using namespace tenfold::expect;
  Variant by_no_grad = evaluating("no_grad", no_grad);
  by_no_grad.predict = predict_no_grad;
  Variant by_inference_mode = evaluating("inference_mode", inference_mode);
  by_inference_mode.predict = predict_no_grad;
  Variant by_larger_batch = evaluating("no_grad, larger batch", no_grad_larger_batch);
  by_larger_batch.predict = predict_larger_batch;
  by_larger_batch.agreement = Agreement::within(
      1e-4, "products of larger matrices, the same sums in another order; on a GPU the training adds in any order");
  return run(argc, argv,
             {.title = "Evaluation",
              .question = "What does evaluating a model cost, and what do no_grad, inference_mode, eval() and larger "
                          "batches save?",
              .workload = gpt_workload,
              .version = 4,
              .settings = {kEvaluationBatch, kLargerBatch, kHeldOut},
              .baseline = evaluating("with a graph", with_graph),
              .most_bytes = evaluation_most_bytes,
              .techniques = {by_no_grad, by_inference_mode, by_larger_batch, evaluating("train mode", train_mode),
                             evaluating("mean of means", mean_of_means)},
              .cases = {{"gpt",
                         {},
                         {{"no_grad", SMALLER},
                          {"inference_mode", SMALLER},
                          {"no_grad, larger batch", SMALLER},
                          {"mean of means", TRAP}}},
                        // Without dropout, as above, the GPT is the same in both modes.
                        {"dropout", {gpt::kDropout(0.1)}, {{"no_grad", {}}, {"train mode", TRAP}}},
                        {.name = "convnet",
                         .settings = {kEvaluationBatch(128, 2048, 8192), kHeldOut(257, 8193, 8193)},
                         .expected = {{"no_grad", SMALLER}, {"train mode", TRAP}},
                         .workload = convnet_workload},
                        // Smaller than the batch that is trained on: backward() needs more than any evaluation.
                        {"small batch",
                         {kEvaluationBatch(4), kHeldOut(17)},
                         {{"no_grad", SAME_MEMORY}, {"inference_mode", SAME_MEMORY}}},
                        // As much memory for each, not the same batch: what fits, and how fast it is. One sequence is
                        // trained on, so that the evaluation decides the peak.
                        {.name = "same memory",
                         .settings = {gpt::kBatch(1), kEvaluationBatch(4), kHeldOut(65)},
                         .expected = {{"no_grad", {}}},
                         .budget = SameBudget{{12 << 20, int64_t{9} << 29, int64_t{24} << 30}, "evaluation_batch"}}},
              .surveys = {{"a larger batch", {{"gpt", note_rates}}, {kHeldOut(64)}},
                          {.name = "a larger batch, convnet",
                           .looks = {{"convnet", note_rates}},
                           .settings = {kEvaluationBatch(128, 2048, 8192), kHeldOut(1024, 8192, 8192)},
                           .workload = convnet_workload}},
              .headline = Headline{"gpt", "no_grad"}});
}
