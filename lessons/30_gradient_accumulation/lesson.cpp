// Lesson 30 - Gradient accumulation
// How much memory does a large batch need if it is processed in small micro-batches, and what does that cost?
// Read accumulate() first: it is the technique. zero_every_micro_batch() is the same with one line in the wrong place.
#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "prediction.h"

namespace {
using tenfold::GptTraining;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;

/// Mean loss over the tokens of a batch; ids and targets are (B, T).
Tensor batch_loss(GptTraining& training, const Tensor& ids, const Tensor& targets) {
  return training.model->loss(training.model->hidden(ids), targets);
}

int64_t micro_batches_of(const Trial& trial) {
  const int64_t micro_batches = trial.get(tenfold::kMicroBatches);
  const int64_t batch = trial.get(tenfold::gpt::kBatch);
  TORCH_CHECK_VALUE(micro_batches > 0 && batch % micro_batches == 0, "micro_batches=", micro_batches,
                    " does not divide batch=", batch);
  return micro_batches;
}

/// Without the technique: the full batch at once.
Step full_batch(const Trial& trial) {
  auto training = std::make_shared<GptTraining>(trial);
  auto update = [training] {
    auto [ids, targets] = training->next_batch();  // (B, T) each
    training->optimizer->zero_grad();
    Tensor loss = batch_loss(*training, ids, targets);
    loss.backward();
    training->optimizer->step();
    return loss;
  };
  return {training->tokens_per_step(), training->parameters(), update};
}

/// With it: backward() adds to the gradients, so a batch may be processed in micro-batches. The loss of each is a mean
/// over its own tokens; divided by the number of micro-batches, their sum is the mean over all tokens.
Step accumulate(const Trial& trial) {
  auto training = std::make_shared<GptTraining>(trial);
  auto update = [training, micro_batches = micro_batches_of(trial)] {
    auto [ids, targets] = training->next_batch();
    const auto micro_ids = ids.chunk(micro_batches);  // (B / micro-batches, T) each
    const auto micro_targets = targets.chunk(micro_batches);
    Tensor total = torch::zeros({}, ids.options().dtype(torch::kFloat));
    training->optimizer->zero_grad();  // once per update
    for (int64_t i = 0; i < micro_batches; ++i) {
      Tensor loss = batch_loss(*training, micro_ids[i], micro_targets[i]) / micro_batches;
      loss.backward();  // frees this micro-batch's activations before the next one computes its own
      total += loss.detach();
    }
    training->optimizer->step();
    return total;
  };
  return {training->tokens_per_step(), training->parameters(), update};
}

/// The trap, as a widely read article prints it: gradients are cleared for every micro-batch, so the update sees only
/// those of the last, and nothing is divided.
Step zero_every_micro_batch(const Trial& trial) {
  auto training = std::make_shared<GptTraining>(trial);
  auto update = [training, micro_batches = micro_batches_of(trial)] {
    auto [ids, targets] = training->next_batch();
    const auto micro_ids = ids.chunk(micro_batches);
    const auto micro_targets = targets.chunk(micro_batches);
    Tensor total = torch::zeros({}, ids.options().dtype(torch::kFloat));
    for (int64_t i = 0; i < micro_batches; ++i) {
      training->optimizer->zero_grad();  // wrong: discards what the earlier micro-batches have added
      Tensor loss = batch_loss(*training, micro_ids[i], micro_targets[i]);  // wrong: without / micro_batches
      loss.backward();
      total += loss.detach() / micro_batches;
    }
    training->optimizer->step();
    return total;
  };
  return {training->tokens_per_step(), training->parameters(), update};
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold;
  using namespace tenfold::expect;
  return run(argc, argv,
             {.title = "Gradient accumulation",
              .question = "How much memory does a large batch need if it is processed in small micro-batches, and what "
                          "does that cost?",
              .workload = "gpt",
              .version = 2,
              .core = true,
              .settings = gpt_settings({kMicroBatches}),
              .baseline = {"full batch", full_batch},
              .most_bytes = gpt_most_bytes,
              .techniques = {{"accumulate", accumulate, predict_accumulate},
                             {"zero every micro-batch", zero_every_micro_batch}},
              .cases = {{"gpt", {gpt::kBatch(16, 8, 16)}, {{"accumulate", SMALLER}, {"zero every micro-batch", TRAP}}},
                        {"model states",
                         {gpt::kBatch(4), gpt::kLength(16), gpt::kLayers(2), gpt::kWidth(256), gpt::kHeads(4)},
                         {{"accumulate", {SLOWER, LARGER}}}},
                        // As much memory for each, not the same batch: what fits, and how fast it is.
                        {.name = "same memory",
                         .settings = {gpt::kBatch(4)},
                         .expected = {{"accumulate", {}}},
                         .budget = SameBudget{{24 << 20, int64_t{3} << 30, int64_t{12} << 30}, "batch"}}},
              .headline = Headline{"gpt", "accumulate"},
              .agreement = Agreement::within(1e-4, "the same sums in another order")});
}
