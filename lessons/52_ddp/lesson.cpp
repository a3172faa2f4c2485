// Lesson 52 - Distributed data parallel
//
// Question  Two processes share a batch: how much of the second one's help is left after they have exchanged gradients?
// Expect    Compute is halved, activations are halved, every gradient is sent once; the update is the joint batch's.
// Not for   Steps shorter than the exchange: few tokens, small layers (case "tiny").
// Run       ./tenfold run 52_ddp
// Read      ddp.h is the technique, gradient_buckets.h its parts; overlapped() is how a training loop uses it.
#include <tenfold/ddp.h>
#include <tenfold/gpt.h>
#include <tenfold/lesson.h>

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <optional>

namespace {
using tenfold::GptTraining;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;
using Tensors = std::vector<Tensor>;
using Work = std::shared_ptr<GptTraining>;

/// Forward and backward of one of `pieces` equal parts of a batch; ids and targets are (B, T). Returns its share of the
/// mean loss.
Tensor forward_backward(GptTraining& work, const Tensor& ids, const Tensor& targets, int64_t pieces = 1) {
  Tensor h = work.model->embed(ids);  // (B, T, D)
  for (auto& block : work.model->blocks) h = block->forward(h);
  Tensor loss = work.model->loss(h, targets) / pieces;
  loss.backward();
  return loss.detach();
}

void update(GptTraining& work) {
  RECORD_USER_SCOPE("optimizer");
  work.optimizer->step();
}

/// What crossed the wire in one step, from the bytes that were handed to all-reduce.
void note_traffic(const Trial& trial, int64_t payload_bytes, int64_t all_reduces) {
  trial.note("bytes sent", static_cast<double>(tenfold::ring_bytes(payload_bytes, trial.world_size)), "B");
  trial.note("all-reduces", static_cast<double>(all_reduces), "per step");
}

tenfold::DdpOptions bucket_sizes(const Trial& trial) {
  const int64_t kib = trial.get("bucket_kib", trial.by_size(256, 25 << 10, 25 << 10));  // small models: small buckets
  return {.first_bucket_bytes = std::min<int64_t>(kib, 1 << 10) << 10, .bucket_bytes = kib << 10};
}

Work work_of_rank(const Trial& trial) {
  if (!trial.group) trial.cannot("needs at least two ranks");
  auto work = std::make_shared<GptTraining>(trial);
  tenfold::broadcast_from_rank_0(work->model->parameters(), *trial.group);
  return work;
}

/// Without the technique: rank 0 trains on the joint batch, the others have nothing to do.
Step one_process(const Trial& trial) {
  auto work = std::make_shared<GptTraining>(trial);
  if (trial.rank != 0) return {work->tokens_per_step(), work->parameters(), [] { return Tensor(); }};
  return {work->tokens_per_step(), work->parameters(), [work] {
            auto [ids, targets] = work->next_batch();
            work->optimizer->zero_grad();
            Tensor loss = forward_backward(*work, ids, targets);
            update(*work);
            return loss;
          }};
}

/// One rank's step: its part of the same joint batch, then `average` makes the gradients those of the whole.
/// `average` returns {bytes handed to all-reduce, all-reduces}.
Step data_parallel(const Trial& trial, const Work& work, std::function<std::pair<int64_t, int64_t>()> average) {
  return {work->tokens_per_step(), work->parameters(), [trial, work, average = std::move(average)] {
            auto [ids, targets] = work->next_batch();
            work->optimizer->zero_grad();
            Tensor loss = forward_backward(*work, tenfold::part_of_rank(ids, trial.rank, trial.world_size),
                                           tenfold::part_of_rank(targets, trial.rank, trial.world_size));
            const auto [bytes, calls] = average();
            update(*work);
            note_traffic(trial, bytes, calls);
            return loss;
          }};
}

Step naive(const Trial& trial) {
  const Work work = work_of_rank(trial);
  const Tensors parameters = work->model->parameters();
  return data_parallel(trial, work, [parameters, group = trial.group] {
    return std::pair(tenfold::average_each(parameters, *group), static_cast<int64_t>(parameters.size()));
  });
}

Step bucketed(const Trial& trial) {
  const Work work = work_of_rank(trial);
  const Tensors parameters = work->model->parameters();
  const auto buckets = tenfold::assign_buckets(parameters, bucket_sizes(trial));
  return data_parallel(trial, work, [parameters, buckets, group = trial.group] {
    return std::pair(tenfold::average_in_buckets(parameters, buckets, *group), static_cast<int64_t>(buckets.size()));
  });
}

/// The trap: every rank goes its own way. Losses look fine; there are now two different models.
Step no_all_reduce(const Trial& trial) {
  return data_parallel(trial, work_of_rank(trial), [] { return std::pair<int64_t, int64_t>(0, 0); });
}

/// All-reduces run beside backward(). A batch may also come in micro-batches; `quiet` then sends only once, at the last.
Step overlapped(const Trial& trial, bool quiet) {
  const Work work = work_of_rank(trial);
  auto ddp = std::make_shared<tenfold::DistributedDataParallel>(*work->model, trial.group, bucket_sizes(trial));
  const int64_t micro_batches = trial.get("micro_batches", 1);
  TORCH_CHECK_VALUE(work->batch % (trial.world_size * micro_batches) == 0, "batch=", work->batch, " cannot be divided among ",
                    trial.world_size, " ranks and micro_batches=", micro_batches);
  return {work->tokens_per_step(), work->parameters(), [trial, work, ddp, micro_batches, quiet] {
            auto [ids, targets] = work->next_batch();
            const auto my_ids = tenfold::part_of_rank(ids, trial.rank, trial.world_size).chunk(micro_batches);
            const auto my_targets = tenfold::part_of_rank(targets, trial.rank, trial.world_size).chunk(micro_batches);
            const int64_t bytes = ddp->payload_bytes(), calls = ddp->all_reduces();
            work->optimizer->zero_grad();
            Tensor total = torch::zeros({}, torch::dtype(torch::kFloat).device(trial.device));
            for (int64_t i = 0; i < micro_batches; ++i) {
              std::optional<tenfold::NoSync> no_sync;
              if (quiet && i + 1 < micro_batches) no_sync.emplace(*ddp);
              total += forward_backward(*work, my_ids[i], my_targets[i], micro_batches);
              ddp->finish();
            }
            update(*work);
            note_traffic(trial, ddp->payload_bytes() - bytes, ddp->all_reduces() - calls);
            return total;
          }};
}

/// PyTorch's own engine, which Python's DistributedDataParallel drives, for comparison.
Step pytorch_reducer(const Trial& trial) {
  const Work work = work_of_rank(trial);
  const Tensors parameters = work->model->parameters();
  const auto sizes = bucket_sizes(trial);
  auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(
      {parameters.rbegin(), parameters.rend()}, {static_cast<size_t>(sizes.first_bucket_bytes), static_cast<size_t>(sizes.bucket_bytes)}));
  for (auto& bucket : buckets) {
    for (size_t& index : bucket) index = parameters.size() - 1 - index;
  }
  const std::vector<bool> dense(parameters.size(), false);
  auto reducer =
      std::make_shared<c10d::Reducer>(parameters, buckets, trial.group, dense, sizes.bucket_bytes, /*find_unused_parameters=*/false,
                                      /*gradient_as_bucket_view=*/false, std::unordered_map<size_t, std::string>{},
                                      sizes.first_bucket_bytes, false, false, std::vector<int64_t>{});
  return {work->tokens_per_step(), work->parameters(), [trial, work, reducer] {
            auto [ids, targets] = work->next_batch();
            work->optimizer->zero_grad();
            reducer->rebuild_buckets();  // once: into the order in which the first backward() made gradients
            reducer->prepare_for_forward();
            reducer->prepare_for_backward({});
            Tensor loss = forward_backward(*work, tenfold::part_of_rank(ids, trial.rank, trial.world_size),
                                           tenfold::part_of_rank(targets, trial.rank, trial.world_size));
            update(*work);
            return loss;
          }};
}

/// Drawing the joint batch, dispatching every operator and updating every parameter stay whole on each rank; the rest
/// is divided. Gradients pass through memory some `passes` times: into a bucket and out of it, into and out of the
/// kernel's socket buffers, and through the sum. What a rank waits for a message to begin is not in this.
tenfold::Prediction divided(const tenfold::Counted& baseline, int64_t pieces, int64_t sends, int64_t bucket_copies) {
  const double n = baseline.setting("world_size");
  const int64_t states = baseline.resting_bytes - baseline.gradient_bytes;  // parameters and momenta
  const double working = static_cast<double>(baseline.peak_bytes - states);
  const auto gradients = static_cast<double>(baseline.gradient_bytes);
  tenfold::Prediction prediction;
  // Gradients are alive during every forward but the first; buckets, where kept, always.
  const double alive = pieces > 1 ? gradients + working / (n * static_cast<double>(pieces)) : std::max(gradients, working / n);
  prediction.peak_bytes = states + static_cast<int64_t>(alive) + bucket_copies * baseline.gradient_bytes;
  const auto op = baseline.ceilings.find("cpu_op_seconds"), copy = baseline.ceilings.find("cpu_copy_bytes_per_s");
  if (op != baseline.ceilings.end() && copy != baseline.ceilings.end()) {
    const double dispatch = static_cast<double>(baseline.whole.operators) * op->second;
    const double whole = (baseline.share("data") + baseline.share("optimizer")) * baseline.step_seconds;
    const double compute = std::max(0.0, baseline.step_seconds - whole - dispatch) / n + dispatch * static_cast<double>(pieces);
    const double wire = 2 * (n - 1) / n * gradients * static_cast<double>(sends);
    const double traffic = 3 * wire + 2 * gradients * static_cast<double>(sends * bucket_copies);
    prediction.speed_ratio = baseline.step_seconds / (whole + compute + traffic / copy->second);
  }
  return prediction;
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  using tenfold::Counted;
  const auto pieces = [](const Counted& c) { return static_cast<int64_t>(c.setting("micro_batches")); };
  const auto sent_after = [](const Counted& c) { return divided(c, 1, 1, 0); };
  const auto sent_once = [=](const Counted& c) { return divided(c, pieces(c), 1, 1); };
  const auto sent_each = [=](const Counted& c) { return divided(c, pieces(c), pieces(c), 1); };
  return tenfold::run(
      argc, argv,
      {.title = "Distributed data parallel",
       .question = "Two processes share a batch: how much of the second one's help is left after they have exchanged gradients?",
       .workload = "R2",
       .ranks = 2,
       .baseline = {"one process", one_process},
       .techniques = {{"naive", naive, sent_after},
                      {"bucketed", bucketed, sent_after},
                      {"overlapped", [](const Trial& trial) { return overlapped(trial, /*quiet=*/false); }, sent_each},
                      {"overlapped, no_sync", [](const Trial& trial) { return overlapped(trial, /*quiet=*/true); }, sent_once},
                      {"c10d Reducer", pytorch_reducer, sent_once},
                      {"no all-reduce", no_all_reduce}},
       .cases = {{"R2",
                  {},
                  {{"naive", {FASTER, SMALLER, VALID}},
                   {"bucketed", {FASTER, SMALLER, VALID}},
                   {"overlapped", {FASTER, SMALLER, VALID}},
                   {"c10d Reducer", {FASTER, SMALLER, VALID}},
                   {"no all-reduce", {ANY, ANY, INVALID}}}},
                 {"accumulate",
                  {{"batch", 16}, {"micro_batches", 4}},
                  {{"overlapped", {ANY, SMALLER, VALID}}, {"overlapped, no_sync", {FASTER, SMALLER, VALID}}}},
                 {"tiny",
                  {{"batch", 2}, {"length", 8}, {"layers", 1}, {"width", 16}, {"heads", 2}},
                  {{"naive", {SLOWER, ANY, VALID}}, {"bucketed", {SLOWER, ANY, VALID}}, {"overlapped", {SLOWER, ANY, VALID}}}}},
       .agreement = tenfold::Agreement::within(1e-5, "sums are taken in another order")});
}
