// Lesson 30 - Gradient accumulation
// How much memory does a large batch need if it is processed in small micro-batches, and what does that cost?
// Read accumulate() first: it is the technique. The two variants behind it are how it goes wrong. epoch.h has the
// loader, and what a step of the harness is: an epoch, which in most cases has one update.
#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "epoch.h"
#include "lessons/21_mixed_precision/autocast.h"
#include "prediction.h"

namespace {
using tenfold::Autocast;
using tenfold::GptEpochs;
using tenfold::one_epoch;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;

/// Mean loss over the tokens of a batch; ids and targets are (B, T). In 16 bits autocast is a scope of this one forward
/// pass: backward() stays outside of it, and the copies of the weights are gone before the optimizer changes them.
Tensor batch_loss(GptEpochs& training, const Tensor& ids, const Tensor& targets) {
  const Autocast scope(ids.device().type(), torch::kBFloat16, training.sixteen_bits);
  return training.model->loss(training.model->hidden(ids), targets);
}

/// Without the technique: the full batch at once.
Step full_batch(const Trial& trial) {
  auto training = std::make_shared<GptEpochs>(trial);
  auto update = [training] {
    auto [ids, targets] = training->next_batch();  // (B, T) each; fewer rows at the end of an epoch
    training->optimizer->zero_grad();
    Tensor loss = batch_loss(*training, ids, targets);
    loss.backward();
    training->optimizer->step();
    return loss;
  };
  return one_epoch(training, update);
}

/// With it: backward() adds to the gradients, so a batch may be processed in micro-batches. The loss of each is a mean
/// over its own tokens; divided by the number of micro-batches, their sum is the mean over all tokens. An epoch's last
/// batch may have fewer of them: it is an update of its own, divided by its own number.
Step accumulate(const Trial& trial) {
  auto training = std::make_shared<GptEpochs>(trial);
  auto update = [training] {
    auto [ids, targets] = training->next_batch();  // (B, T) each; fewer rows at the end of an epoch
    const auto micro_ids = ids.split(training->micro_rows);
    const auto micro_targets = targets.split(training->micro_rows);
    const auto micro_batches = static_cast<int64_t>(micro_ids.size());  // of this update: what is left, at the end
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
  return one_epoch(training, update);
}

/// A trap, as a widely read article prints it: gradients are cleared for every micro-batch, so the update sees only
/// those of the last, and nothing is divided.
Step zero_every_micro_batch(const Trial& trial) {
  auto training = std::make_shared<GptEpochs>(trial);
  auto update = [training] {
    auto [ids, targets] = training->next_batch();
    const auto micro_ids = ids.split(training->micro_rows);
    const auto micro_targets = targets.split(training->micro_rows);
    const auto micro_batches = static_cast<int64_t>(micro_ids.size());
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
  return one_epoch(training, update);
}

/// The trap that most loops have: every n-th micro-batch makes an update, and nothing else does. Those left over at the
/// end of an epoch are neither applied nor cleared. They join the next epoch's first update, which is then too large.
Step left_over_carried(const Trial& trial) {
  auto training = std::make_shared<GptEpochs>(trial);
  auto update = [training, micro_batches = training->micro_batches] {
    auto [ids, targets] = training->next_batch();
    const auto micro_ids = ids.split(training->micro_rows);
    const auto micro_targets = targets.split(training->micro_rows);
    Tensor total = torch::zeros({}, ids.options().dtype(torch::kFloat));
    for (size_t i = 0; i < micro_ids.size(); ++i) {
      Tensor loss = batch_loss(*training, micro_ids[i], micro_targets[i]);
      (loss / micro_batches).backward();  // wrong at the end of an epoch: fewer are left
      total += loss.detach() / static_cast<double>(micro_ids.size());
      if ((static_cast<int64_t>(i) + 1) % micro_batches != 0) continue;  // wrong: those left over never get further
      training->optimizer->step();
      training->optimizer->zero_grad();
    }
    return total;
  };
  return one_epoch(training, update);
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold;
  using namespace tenfold::expect;
  return run(
      argc, argv,
      {.title = "Gradient accumulation",
       .question = "How much memory does a large batch need if it is processed in small micro-batches, and what "
                   "does that cost?",
       .workload = gpt_workload,
       .version = 7,
       .core = true,
       .settings = {kMicroBatches, kEpoch, kPrecision},
       .baseline = {"full batch", full_batch},
       .techniques = {{"accumulate", accumulate, predict_accumulate},
                      {"zero every micro-batch", zero_every_micro_batch},
                      {"left-over carried", left_over_carried},
                      {"accumulate, 16 bits", accumulate, predict_accumulate, of_16_bits()}},
       .cases = {{"gpt", {gpt::kBatch(16, 8, 16)}, {{"accumulate", SMALLER}, {"zero every micro-batch", TRAP}}},
                 // As a GPU trains today; the traps are the same in any precision.
                 {"gpt, 16 bits", {gpt::kBatch(16, 8, 16), kPrecision("bfloat16")}, {{"accumulate, 16 bits", SMALLER}}},
                 // An epoch of six micro-batches: an update of four, and one of the two that are left.
                 {"end of epoch",
                  {gpt::kBatch(16, 8, 16), kEpoch(6)},
                  {{"accumulate", SMALLER}, {"left-over carried", TRAP}}},
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
