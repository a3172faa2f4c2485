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

enum class Mistake { none, mean_of_means, replicated_once, optimizer_of_a_replica };

/// With it: one process, a replica and a thread for each device.
Step replicas(const Trial& trial, LossOn loss_on, Mistake mistake = Mistake::none) {
  auto training = std::make_shared<GptTraining>(trial);
  const auto make = [options = training->model->options] { return std::make_shared<GptImpl>(options); };
  auto parallel = std::make_shared<DataParallel<GptImpl>>(training->model.ptr(), trial.devices, make);
  if (mistake == Mistake::optimizer_of_a_replica)  // wrong: what backward() fills are the module's gradients
    training->optimizer = std::make_unique<torch::optim::SGD>(parallel->replica(1).parameters(), 0.1);

  const auto loss_of = [=](const std::vector<Tensor>& ids, const Tensor& whole_targets) {
    if (loss_on == LossOn::first) {  // as torch.nn.DataParallel does
      const Tensor logits = parallel->gather(
          parallel->apply(ids.size(), [&](GptImpl& replica, size_t i) { return replica.forward(ids[i]); }));
      return cross_entropy(logits, whole_targets);
    }
    const std::vector<Tensor> targets = parallel->scatter(whole_targets);
    const Tensor losses = parallel->gather(parallel->apply(ids.size(), [&](GptImpl& replica, size_t i) {
      return replica.loss(replica.hidden(ids[i]), targets[i]).unsqueeze(0);
    }));  // (N)
    return mistake == Mistake::mean_of_means ? losses.mean() : mean_over_rows(losses, ids);  // wrong: the first
  };
  auto replicated = std::make_shared<bool>(false);
  auto update = [=] {
    const auto [whole_ids, targets] = training->next_batch();  // (B, T) each, on the first device
    training->optimizer->zero_grad();
    const std::vector<Tensor> ids = parallel->scatter(whole_ids);
    if (!*replicated) parallel->replicate();
    Tensor loss = loss_of(ids, targets);
    loss.backward();
    if (mistake == Mistake::replicated_once) *replicated = true;  // wrong: the module is updated, its replicas are not
    if (!*replicated) parallel->release();
    optimizer_step(*training->optimizer);
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
       .settings = {kBucketKib},
       .baseline = {"one device", one_device},
       .most_bytes = most_bytes,
       .techniques = {{"DataParallel", data_parallel, predict_outputs_gathered},
                      {"losses gathered", losses_gathered, predict_losses_gathered},
                      {"DDP", ddp, predict_ddp},
                      {"DataParallel's exchanges", from_rank_0, predict_rank_exchange},
                      {"mean of means", mean_of_means},
                      {"replicated once", replicated_once},
                      {"optimizer of a replica", optimizer_of_a_replica}},
       // A CPU stands for both devices: its memory is that of both together.
       .cases = {{.name = "gpt",
                  .expected = {{"DataParallel", LARGER, on_cuda(SMALLER)},
                               {"losses gathered", LARGER, on_cuda(SMALLER)},
                               {"replicated once", TRAP},
                               {"optimizer of a replica", TRAP}},
                  .place = devices},
                 {.name = "uneven batch",
                  .settings = uneven_batch(),
                  .expected = {{"DataParallel", {}}, {"losses gathered", {}}, {"mean of means", TRAP}},
                  .place = devices},
                 {.name = "a process each",
                  .expected = {{"DDP", SMALLER}, {"DataParallel's exchanges", SMALLER}},
                  .place = any_ranks},
                 {.name = "many parameters",
                  .settings = many_parameters(),
                  .expected = {{"DDP", LARGER}, {"DataParallel's exchanges", SLOWER}},
                  .place = any_ranks}},
       .surveys = {{"passed", passed_looks(), small_model()},
                   {"published rows", published_looks()},
                   {"the same link", same_link_looks()}},
       .headline = Headline{"gpt", "DataParallel"},
       .agreement = Agreement::within(1e-4, "sums are taken in another order")});
}
