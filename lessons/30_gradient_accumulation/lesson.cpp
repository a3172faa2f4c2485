// Lesson 30 - Gradient accumulation
//
// Question  How much memory does a large batch need if it is worked off in small pieces, and what does that cost?
// Expect    Activations shrink to one micro-batch's; parameters, gradients and momenta stay. The update is the same.
// Not for   Models whose states, not activations, fill the memory (case "states").
// Run       ./tenfold run 30_gradient_accumulation
// Read      accumulate() is the technique; zero_every_micro_batch() is the same loop with one line in the wrong place.
#include <tenfold/gpt.h>
#include <tenfold/lesson.h>

namespace {
using tenfold::GptTraining;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;

/// Mean loss of one batch; ids and targets are (B, T).
Tensor batch_loss(GptTraining& work, const Tensor& ids, const Tensor& targets) {
  Tensor h = work.model->embed(ids);  // (B, T, D)
  for (auto& block : work.model->blocks) h = block->forward(h);
  return work.model->loss(h, targets);
}

/// Without the technique: the whole batch at once.
Step joint_batch(const Trial& trial) {
  auto work = std::make_shared<GptTraining>(trial);
  return {work->tokens_per_step(), work->parameters(), [work] {
            auto [ids, targets] = work->next_batch();
            work->optimizer->zero_grad();
            Tensor loss = batch_loss(*work, ids, targets);
            loss.backward();
            work->optimizer->step();
            return loss;
          }};
}

/// With it: backward() adds to the gradients, so a batch may come in pieces. Each piece's loss is a mean over its own
/// tokens; divided by the number of pieces, their sum is the mean over all.
Step accumulate(const Trial& trial) {
  auto work = std::make_shared<GptTraining>(trial);
  const int64_t micro_batches = trial.get("micro_batches", 4);
  TORCH_CHECK_VALUE(work->batch % micro_batches == 0, "micro_batches=", micro_batches, " does not divide batch=", work->batch);
  return {work->tokens_per_step(), work->parameters(), [work, micro_batches] {
            auto [ids, targets] = work->next_batch();
            auto ids_of = ids.chunk(micro_batches), targets_of = targets.chunk(micro_batches);
            work->optimizer->zero_grad();  // once per update
            Tensor total = torch::zeros({}, ids.options().dtype(torch::kFloat));
            for (int64_t i = 0; i < micro_batches; ++i) {
              Tensor loss = batch_loss(*work, ids_of[i], targets_of[i]) / micro_batches;
              loss.backward();  // frees this piece's activations before the next piece makes its own
              total += loss.detach();
            }
            work->optimizer->step();
            return total;
          }};
}

/// The trap, as a widely read article prints it: gradients are cleared for each piece, so the update sees only the last.
Step zero_every_micro_batch(const Trial& trial) {
  auto work = std::make_shared<GptTraining>(trial);
  const int64_t micro_batches = trial.get("micro_batches", 4);
  return {work->tokens_per_step(), work->parameters(), [work, micro_batches] {
            auto [ids, targets] = work->next_batch();
            auto ids_of = ids.chunk(micro_batches), targets_of = targets.chunk(micro_batches);
            Tensor total = torch::zeros({}, ids.options().dtype(torch::kFloat));
            for (int64_t i = 0; i < micro_batches; ++i) {
              work->optimizer->zero_grad();  // wrong: throws away what the pieces before have added
              Tensor loss = batch_loss(*work, ids_of[i], targets_of[i]) / micro_batches;
              loss.backward();
              total += loss.detach();
            }
            work->optimizer->step();
            return total;
          }};
}

/// Gradients now live through every forward but the first; of what forward and backward hold beside the states, one
/// micro-batch's part remains. Each further piece dispatches every operator again, reads the parameters twice (forward
/// and backward), writes gradients of its own and adds them to those that are there.
tenfold::Prediction pieces(const tenfold::Counted& baseline) {
  const double n = baseline.setting("micro_batches");
  const int64_t states = baseline.resting_bytes - baseline.gradient_bytes;  // parameters and momenta
  const double working = static_cast<double>(baseline.peak_bytes - states);
  tenfold::Prediction prediction;
  prediction.peak_bytes = baseline.resting_bytes + static_cast<int64_t>(working / n);
  const auto op = baseline.ceilings.find("cpu_new_tensor_op_seconds"), copy = baseline.ceilings.find("cpu_copy_bytes_per_s");
  if (op != baseline.ceilings.end() && copy != baseline.ceilings.end()) {
    const double dispatch = static_cast<double>(baseline.whole.operators) * op->second;
    const double bytes = 2.0 * static_cast<double>(baseline.parameter_bytes) + 4.0 * static_cast<double>(baseline.gradient_bytes);
    prediction.speed_ratio = baseline.step_seconds / (baseline.step_seconds + (n - 1) * (dispatch + bytes / copy->second));
  }
  return prediction;
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const auto reordered = tenfold::Agreement::within(1e-4, "the same sums in another order");
  return tenfold::run(
      argc, argv,
      {.title = "Gradient accumulation",
       .question = "How much memory does a large batch need if it is worked off in small pieces, and what does that cost?",
       .workload = "R2",
       .baseline = {"joint batch", joint_batch},
       .techniques = {{"accumulate", accumulate, pieces}, {"zero every micro-batch", zero_every_micro_batch}},
       .cases = {{"R2", {{"batch", 16}}, {{"accumulate", {ANY, SMALLER, VALID}}, {"zero every micro-batch", {ANY, ANY, TRAP}}}},
                 {"states", {{"batch", 4}, {"length", 16}, {"layers", 2}, {"width", 256}}, {{"accumulate", {SLOWER, LARGER, VALID}}}}},
       .agreement = reordered});
}
