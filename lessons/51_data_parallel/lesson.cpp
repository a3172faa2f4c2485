// Lesson 51 - DataParallel
// One process with a replica on each device, or one process for each device: what does each send in a step, and what
// does the first device hold?
// Read data_parallel.h first: scatter, replicate, apply, gather. replicas() trains with it. processes.h has DDP, with a
// process for each device, and what DataParallel sends between such processes.
#include "data_parallel.h"

#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "link_time.h"
#include "prediction.h"
#include "processes.h"
#include "settings.h"
#include "surveys.h"

namespace {
using namespace tenfold;
using torch::Tensor;

/// Without the technique: the first device, or rank 0, trains on the whole batch, and the others have nothing to do.
Step one_device(const Trial& trial) {
  auto training = std::make_shared<GptTraining>(trial);
  auto update = [training, idle = trial.rank != 0] {
    if (idle) return Tensor();
    const auto [ids, targets] = training->next_batch();  // (B, T) each
    training->optimizer->zero_grad();
    Tensor loss = training->model->loss(training->model->hidden(ids), targets);
    loss.backward();
    optimizer_step(*training->optimizer);
    return loss.detach();
  };
  return {training->tokens_per_step(), training->parameters(), update};
}

using Parallel = DataParallel<GptImpl>;

/// As torch.nn.DataParallel: outputs are gathered, and the loss is computed on the first device. ids: each replica's.
Tensor loss_on_first(Parallel& parallel, const std::vector<Tensor>& ids, const Tensor& targets) {
  const auto forward = [&](GptImpl& replica, size_t i) { return replica.forward(ids[i]); };
  const Tensor logits = parallel.gather(parallel.apply(ids.size(), forward));  // (B, T, V)
  return cross_entropy(logits, targets);
}

/// Each replica computes the loss of its rows, and a number is gathered in place of logits.
Tensor loss_on_each(Parallel& parallel, const std::vector<Tensor>& ids, const Tensor& targets, bool weighed = true) {
  const std::vector<Tensor> own_targets = parallel.scatter(targets);
  const auto forward = [&](GptImpl& replica, size_t i) {
    return replica.loss(replica.hidden(ids[i]), own_targets[i]).unsqueeze(0);
  };
  const Tensor losses = parallel.gather(parallel.apply(ids.size(), forward));  // (N)
  return weighed ? mean_over_rows(losses, ids) : losses.mean();                // wrong: not weighed
}

enum class Mistake { none, mean_of_means, replicated_once, optimizer_of_a_replica };

/// With it: one process, a replica and a thread for each device.
Step replicas(const Trial& trial, LossOn loss_on, Mistake mistake = Mistake::none) {
  auto training = std::make_shared<GptTraining>(trial);
  const auto make = [options = training->model->options] { return std::make_shared<GptImpl>(options); };
  auto parallel = std::make_shared<Parallel>(training->model.ptr(), trial.devices, make);
  if (mistake == Mistake::optimizer_of_a_replica)  // wrong: backward() fills the gradients of the module
    training->optimizer = std::make_unique<torch::optim::SGD>(parallel->replica(1).parameters(), 0.1);
  auto update = [=, first_step = true]() mutable {
    const auto [whole_ids, targets] = training->next_batch();  // (B, T) each, on the first device
    training->optimizer->zero_grad();
    const std::vector<Tensor> ids = parallel->scatter(whole_ids);
    if (mistake != Mistake::replicated_once || first_step) parallel->replicate();  // once is wrong
    first_step = false;
    Tensor loss = loss_on == LossOn::first ? loss_on_first(*parallel, ids, targets)
                                           : loss_on_each(*parallel, ids, targets, mistake != Mistake::mean_of_means);
    loss.backward();
    if (mistake != Mistake::replicated_once) parallel->release();
    optimizer_step(*training->optimizer);  // the first device's parameters alone
    return loss.detach();
  };
  return {training->tokens_per_step(), training->parameters(), update};
}

Step data_parallel(const Trial& trial) { return replicas(trial, LossOn::first); }
Step losses_gathered(const Trial& trial) { return replicas(trial, LossOn::each); }
Step mean_of_means(const Trial& trial) { return replicas(trial, LossOn::each, Mistake::mean_of_means); }
Step replicated_once(const Trial& trial) { return replicas(trial, LossOn::first, Mistake::replicated_once); }
Step optimizer_of_a_replica(const Trial& trial) {
  return replicas(trial, LossOn::first, Mistake::optimizer_of_a_replica);
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const Place devices = {.devices = kDevices}, any_ranks = {.mesh = {{kDataParallel, kAllRanks}}};
  return run(
      argc, argv,
      {.title = "DataParallel",
       .question = "One process with a replica on each device, or one process for each device: what does each send in "
                   "a step, and what does the first device hold?",
       .workload = gpt_workload,
       .version = 5,
       .settings = {kBucketKib},
       .baseline = {"one device", one_device},
       .most_bytes = devices_most_bytes,
       .techniques = {{"DataParallel", data_parallel, predict_outputs_gathered},
                      {"losses gathered", losses_gathered, predict_losses_gathered},
                      {"DDP", ddp, predict_ddp},
                      {"DataParallel exchanges", from_rank_0, predict_rank_exchange},
                      {"mean of means", mean_of_means},
                      {"replicated once", replicated_once},
                      {"optimizer of a replica", optimizer_of_a_replica}},
       // A CPU stands for both devices: its memory is that of both together.
       .cases = {{.name = "gpt",
                  .expected = {{"DataParallel", LARGER, on_cuda(SMALLER)},
                               {"losses gathered", LARGER, on_cuda(SMALLER)}},
                  .place = devices},
                 {.name = "uneven batch",
                  .settings = uneven_batch(),
                  .expected = {{"DataParallel", LARGER, on_cuda(SMALLER)},
                               {"losses gathered", LARGER, on_cuda(SMALLER)},
                               {"mean of means", TRAP},
                               {"replicated once", TRAP},
                               {"optimizer of a replica", TRAP}},
                  .place = devices},
                 {.name = "process per device",
                  .expected = {{"DDP", SMALLER}, {"DataParallel exchanges", SMALLER}},
                  .place = any_ranks},
                 {.name = "many parameters",
                  .settings = many_parameters(),
                  .expected = {{"DDP", {SLOWER, LARGER}}, {"DataParallel exchanges", SLOWER}},
                  .place = any_ranks}},
       .surveys = {{"bytes per step", passed_looks(), small_model()},
                   {"published rows", published_looks()},
                   {"the same link", same_link_looks()}},
       .headline = Headline{"gpt", "DataParallel"},
       .agreement = Agreement::within(1e-4, "sums are taken in another order")});
}
