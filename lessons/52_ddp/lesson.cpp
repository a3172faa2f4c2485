// Lesson 52 - Distributed data parallel
// How much of the ideal speed-up of two ranks is left after their gradients are synchronised?
// Read ddp.h first: it is the technique. train_with_ddp() is how a training loop uses it.
#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "ddp.h"
#include "prediction.h"
#include "pytorch_reducer.h"
#include "settings.h"

namespace {
using tenfold::DistributedDataParallel;
using tenfold::GptTraining;
using tenfold::local_batch;
using tenfold::NoSync;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;
using Training = std::shared_ptr<GptTraining>;

/// Forward and backward of one of `micro_batches` parts of a batch, (B, T) each. Returns its share of the loss.
Tensor forward_backward(GptTraining& training, const Tensor& ids, const Tensor& targets, int64_t micro_batches = 1) {
  Tensor loss = training.model->loss(training.model->hidden(ids), targets) / micro_batches;
  loss.backward();
  return loss.detach();
}

void optimizer_step(GptTraining& training) {
  RECORD_USER_SCOPE("optimizer");
  training.optimizer->step();
}

/// This rank's share of the next global batch, which every rank draws alike; (B / ranks, T) each.
std::pair<Tensor, Tensor> next_local_batch(const Trial& trial, GptTraining& training) {
  auto [ids, targets] = training.next_batch();
  return {local_batch(ids, trial.rank, trial.world_size), local_batch(targets, trial.rank, trial.world_size)};
}

/// Without the technique: rank 0 trains on the global batch, the others have nothing to do.
Step one_process(const Trial& trial) {
  auto training = std::make_shared<GptTraining>(trial);
  auto update = [training, idle = trial.rank != 0] {
    if (idle) return Tensor();
    auto [ids, targets] = training->next_batch();
    training->optimizer->zero_grad();
    Tensor loss = forward_backward(*training, ids, targets);
    optimizer_step(*training);
    return loss;
  };
  return {training->tokens_per_step(), training->parameters(), update};
}

/// With it: all-reduces overlap with backward(). A local batch may be processed in micro-batches; under no_sync only
/// the last one's backward() sends gradients, those of all of them.
Step train_with_ddp(const Trial& trial, bool no_sync) {
  auto training = std::make_shared<GptTraining>(trial);
  auto ddp = std::make_shared<DistributedDataParallel>(*training->model, trial.group, bucket_sizes(trial));
  const int64_t micro_batches = tenfold::micro_batches_of(trial);
  auto update = [trial, training, ddp, micro_batches, no_sync] {
    auto [ids, targets] = next_local_batch(trial, *training);
    const auto micro_ids = ids.chunk(micro_batches);
    const auto micro_targets = targets.chunk(micro_batches);
    Tensor total = torch::zeros({}, torch::dtype(torch::kFloat).device(trial.device));
    training->optimizer->zero_grad();
    for (int64_t i = 0; i < micro_batches; ++i) {
      std::optional<NoSync> quiet;
      if (no_sync && i + 1 < micro_batches) quiet.emplace(*ddp);
      total += forward_backward(*training, micro_ids[i], micro_targets[i], micro_batches);
      ddp->finish();  // waits for the all-reduces that backward() has started
    }
    optimizer_step(*training);
    return total;
  };
  return {training->tokens_per_step(), training->parameters(), update};
}

Step overlapped(const Trial& trial) { return train_with_ddp(trial, /*no_sync=*/false); }
Step overlapped_no_sync(const Trial& trial) { return train_with_ddp(trial, /*no_sync=*/true); }

/// A model that equals rank 0's, and its optimizer.
Training replica(const Trial& trial) {
  auto training = std::make_shared<GptTraining>(trial);
  tenfold::broadcast_from_rank_0(training->model->parameters(), *trial.group);
  return training;
}

using Average = std::function<void()>;
using Prepare = std::function<void()>;

/// One rank's step. After backward(), `average` turns its gradients into those of the global batch.
Step average_afterwards(
    const Trial& trial, const Training& training, const Average& average, const Prepare& prepare = [] {}) {
  auto update = [trial, training, average, prepare] {
    auto [ids, targets] = next_local_batch(trial, *training);
    training->optimizer->zero_grad();
    prepare();
    Tensor loss = forward_backward(*training, ids, targets);
    average();
    optimizer_step(*training);
    return loss;
  };
  return {training->tokens_per_step(), training->parameters(), update};
}

Step naive(const Trial& trial) {
  const Training training = replica(trial);
  return average_afterwards(trial, training, [parameters = training->model->parameters(), group = trial.group] {
    tenfold::average_each(parameters, *group);
  });
}

Step bucketed(const Trial& trial) {
  const Training training = replica(trial);
  const std::vector<Tensor> parameters = training->model->parameters();
  const auto buckets = tenfold::assign_buckets(parameters, bucket_sizes(trial));
  return average_afterwards(trial, training, [parameters, buckets, group = trial.group] {
    tenfold::average_in_buckets(parameters, buckets, *group);
  });
}

/// The trap: every rank goes its own way. Losses look fine; there are now two different models.
Step no_all_reduce(const Trial& trial) {
  return average_afterwards(trial, replica(trial), [] {});
}

/// PyTorch's own engine, for comparison: its all-reduces overlap with backward().
Step reducer_of_pytorch(const Trial& trial) {
  const Training training = replica(trial);
  auto reducer = tenfold::pytorch_reducer(training->model->parameters(), trial.group, bucket_sizes(trial));
  return average_afterwards(
      trial, training, [] {}, [reducer] { tenfold::prepare_step(*reducer); });  // backward() has averaged
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold;
  using namespace tenfold::expect;
  return run(
      argc, argv,
      {.title = "Distributed data parallel",
       .question = "How much of the ideal speed-up of two ranks is left after their gradients are synchronised?",
       .workload = "gpt",
       .version = 2,
       .core = true,
       .settings = gpt_settings({kMicroBatches, kBucketKib}),
       .baseline = {"one process", one_process},
       .most_bytes = gpt_most_bytes,
       .techniques = {{"naive", naive, predict_naive},
                      {"bucketed", bucketed, predict_bucketed},
                      {"overlapped", overlapped, predict_overlapped},
                      {"overlapped, no_sync", overlapped_no_sync, predict_no_sync},
                      {"c10d Reducer", reducer_of_pytorch, predict_reducer},
                      {"no all-reduce", no_all_reduce}},
       .cases = {{.name = "gpt",
                  .expected = {{"naive", SMALLER},
                               {"bucketed", SMALLER},
                               {"overlapped", SMALLER},
                               {"c10d Reducer", SMALLER},
                               {"no all-reduce", TRAP}},
                  .mesh = {{"dp", 2}}},
                 {.name = "large batch",
                  .settings = {gpt::kBatch(64, 12, 32)},
                  .expected = {{"bucketed", {FASTER, SMALLER}},
                               {"overlapped", {FASTER, SMALLER}},
                               {"c10d Reducer", {FASTER, SMALLER}}},
                  .mesh = {{"dp", 2}}},
                 {.name = "accumulate",
                  .settings = {gpt::kBatch(16, 8, 16), kMicroBatches(4)},
                  .expected = {{"overlapped", SMALLER}, {"overlapped, no_sync", SMALLER}},
                  .mesh = {{"dp", 2}}},
                 {.name = "tiny",
                  .settings = {gpt::kBatch(2), gpt::kLength(8), gpt::kLayers(1), gpt::kWidth(16), gpt::kHeads(2)},
                  .expected = {{"naive", SLOWER}, {"bucketed", SLOWER}, {"overlapped", SLOWER}},
                  .mesh = {{"dp", 2}}}},
       .headline = Headline{"large batch", "overlapped"},
       .agreement = Agreement::within(1e-4, "sums are taken in another order")});
}
