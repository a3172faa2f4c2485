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
#include <tenfold/pytorch_reducer.h>

#include <algorithm>

namespace {
using tenfold::Counted, tenfold::GptTraining, tenfold::Step, tenfold::Traffic, tenfold::Trial;
using torch::Tensor;
using Work = std::shared_ptr<GptTraining>;

/// Forward and backward of one of `pieces` equal parts of a batch, (B, T) each. Returns its share of the mean loss.
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
void note_traffic(const Trial& trial, const Traffic& after, const Traffic& before = {}) {
  trial.note("bytes sent", static_cast<double>(tenfold::ring_bytes(after.payload_bytes - before.payload_bytes, trial.world_size)), "B");
  trial.note("all-reduces", static_cast<double>(after.all_reduces - before.all_reduces), "per step");
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

/// This rank's part of the joint batch, which every rank draws alike; (B / ranks, T) each.
std::pair<Tensor, Tensor> next_part(const Trial& trial, GptTraining& work) {
  auto [ids, targets] = work.next_batch();
  return {tenfold::part_of_rank(ids, trial.rank, trial.world_size), tenfold::part_of_rank(targets, trial.rank, trial.world_size)};
}

/// Without the technique: rank 0 trains on the joint batch, the others have nothing to do.
Step one_process(const Trial& trial) {
  auto work = std::make_shared<GptTraining>(trial);
  trial.get("micro_batches", 1);  // a setting of the case, whichever techniques run
  if (trial.rank != 0) return {work->tokens_per_step(), work->parameters(), [] { return Tensor(); }};
  return {work->tokens_per_step(), work->parameters(), [work] {
            auto [ids, targets] = work->next_batch();
            work->optimizer->zero_grad();
            Tensor loss = forward_backward(*work, ids, targets);
            update(*work);
            return loss;
          }};
}

/// One rank's step on its part; then `average` makes the gradients those of the joint batch.
Step data_parallel(
    const Trial& trial, const Work& work, const std::function<Traffic()>& average, const std::function<void()>& prepare = [] {}) {
  return {work->tokens_per_step(), work->parameters(), [trial, work, average, prepare] {
            auto [ids, targets] = next_part(trial, *work);
            work->optimizer->zero_grad();
            prepare();
            Tensor loss = forward_backward(*work, ids, targets);
            note_traffic(trial, average());
            update(*work);
            return loss;
          }};
}

Step naive(const Trial& trial) {
  const Work work = work_of_rank(trial);
  return data_parallel(trial, work,
                       [parameters = work->model->parameters(), group = trial.group] { return tenfold::average_each(parameters, *group); });
}

Step bucketed(const Trial& trial) {
  const Work work = work_of_rank(trial);
  const auto buckets = tenfold::assign_buckets(work->model->parameters(), bucket_sizes(trial));
  return data_parallel(trial, work, [parameters = work->model->parameters(), buckets, group = trial.group] {
    return tenfold::average_in_buckets(parameters, buckets, *group);
  });
}

/// The trap: every rank goes its own way. Losses look fine; there are now two different models.
Step no_all_reduce(const Trial& trial) {
  return data_parallel(trial, work_of_rank(trial), [] { return Traffic{}; });
}

/// All-reduces run beside backward(). A batch may also come in micro-batches; `quiet` then sends only once, at the last.
Step overlapped(const Trial& trial, bool quiet) {
  const Work work = work_of_rank(trial);
  auto ddp = std::make_shared<tenfold::DistributedDataParallel>(*work->model, trial.group, bucket_sizes(trial));
  const int64_t micro_batches = trial.get("micro_batches", 1);
  TORCH_CHECK_VALUE(work->batch % (trial.world_size * micro_batches) == 0, "batch=", work->batch,
                    ": not divisible by ranks x micro_batches");
  return {work->tokens_per_step(), work->parameters(), [trial, work, ddp, micro_batches, quiet] {
            auto [ids, targets] = next_part(trial, *work);
            const auto ids_of = ids.chunk(micro_batches), targets_of = targets.chunk(micro_batches);
            const Traffic before = ddp->traffic();
            work->optimizer->zero_grad();
            Tensor total = torch::zeros({}, torch::dtype(torch::kFloat).device(trial.device));
            for (int64_t i = 0; i < micro_batches; ++i) {
              std::optional<tenfold::NoSync> no_sync;
              if (quiet && i + 1 < micro_batches) no_sync.emplace(*ddp);
              total += forward_backward(*work, ids_of[i], targets_of[i], micro_batches);
              ddp->finish();
            }
            update(*work);
            note_traffic(trial, ddp->traffic(), before);
            return total;
          }};
}

/// PyTorch's own engine, for comparison. Its all-reduces also run beside backward(), which leaves averaged gradients.
Step reducer_of_pytorch(const Trial& trial) {
  const Work work = work_of_rank(trial);
  auto reducer = tenfold::pytorch_reducer(work->model->parameters(), trial.group, bucket_sizes(trial));
  const auto prepare = [reducer] {
    reducer->rebuild_buckets();  // once: into the order in which the first backward() made gradients
    reducer->prepare_for_forward();
    reducer->prepare_for_backward({});
  };
  return data_parallel(trial, work, [reducer] { return tenfold::traffic_of(*reducer); }, prepare);
}

enum class Sent { alone, in_buckets, beside_backward };  // the last: in buckets that live always and fill in backward()

/// Drawing the batch, dispatching and the update stay whole, the rest is divided. An all-reduce takes the probed latency and its bytes'
/// time; beside backward(), two thirds of computing, only the bytes and the last latency wait. Gradients travel `sends` times a step.
tenfold::Prediction divided(const Counted& baseline, Sent how, double sends = 1) {
  const double n = baseline.setting("world_size"), pieces = baseline.setting("micro_batches");
  const int64_t gradients = baseline.gradient_bytes, states = baseline.resting_bytes - gradients;  // parameters and momenta
  const int64_t part = static_cast<int64_t>(static_cast<double>(baseline.peak_bytes - states) / (n * pieces));
  const int64_t forward = part + (pieces > 1 ? gradients : 0);  // gradients live during every forward but an update's first
  const int64_t bucket = how == Sent::alone ? 0 : int64_t(baseline.setting("bucket_kib")) << 10, first = std::min<int64_t>(bucket, 1 << 20);
  const int64_t kept = how == Sent::beside_backward ? gradients : 0, passing = how == Sent::in_buckets ? std::min(gradients, bucket) : 0;
  tenfold::Prediction prediction{.peak_bytes = states + kept + std::max(forward, gradients + passing)};
  const auto ceiling = [&](const char* name) { return baseline.ceilings.contains(name) ? baseline.ceilings.at(name) : 0; };
  const double op = ceiling("cpu_op_seconds"), copy = ceiling("cpu_copy_bytes_per_s");
  const double latency = (n - 1) * ceiling("cpu_all_reduce_seconds"), rate = ceiling("cpu_all_reduce_bytes_per_s");
  if (std::min({op, copy, latency, rate}) <= 0) return prediction;  // not probed
  const double dispatch = static_cast<double>(baseline.whole.operators) * op;
  const double whole = (baseline.share("data") + baseline.share("optimizer")) * baseline.step_seconds;
  const double compute = std::max(0.0, baseline.step_seconds - whole - dispatch) / n + dispatch * pieces;
  const double tensors = 12 * baseline.setting("layers") + 5;  // of a GPT: in each block, and around the blocks
  // NOLINTNEXTLINE(bugprone-integer-division): buckets are counted whole
  const double calls = sends * (bucket == 0 ? tensors : double(1 + (std::max(gradients, first) - first + bucket - 1) / bucket));
  const double waits = latency * (kept > 0 ? std::max(sends, calls - compute * 2 / 3 / latency) : calls);
  const double per_byte = 2 * (n - 1) / n / rate + (bucket > 0 ? 2 / copy : 0);  // sent; into a bucket and out of it
  prediction.speed_ratio = baseline.step_seconds / (whole + compute + waits + sends * per_byte * static_cast<double>(gradients));
  return prediction;
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const tenfold::Expect helps{FASTER, SMALLER, VALID}, smaller{ANY, SMALLER, VALID}, loses{SLOWER, ANY, VALID}, trap{ANY, ANY, TRAP};
  const auto one_by_one = [](const Counted& c) { return divided(c, Sent::alone); };
  const auto in_turn = [](const Counted& c) { return divided(c, Sent::in_buckets); };
  const auto each_piece = [](const Counted& c) { return divided(c, Sent::beside_backward, c.setting("micro_batches")); };
  const auto once = [](const Counted& c) { return divided(c, Sent::beside_backward); };
  return tenfold::run(
      argc, argv,
      {.title = "Distributed data parallel",
       .question = "Two processes share a batch: how much of the second one's help is left after they have exchanged gradients?",
       .workload = "R2",
       .ranks = 2,
       .baseline = {"one process", one_process},
       .techniques = {{"naive", naive, one_by_one},
                      {"bucketed", bucketed, in_turn},
                      {"overlapped", [](const Trial& trial) { return overlapped(trial, /*quiet=*/false); }, each_piece},
                      {"overlapped, no_sync", [](const Trial& trial) { return overlapped(trial, /*quiet=*/true); }, once},
                      {"c10d Reducer", reducer_of_pytorch, once},
                      {"no all-reduce", no_all_reduce}},
       .cases = {{"R2",
                  {},
                  {{"naive", smaller}, {"bucketed", smaller}, {"overlapped", smaller}, {"c10d Reducer", smaller}, {"no all-reduce", trap}}},
                 {"large batch", {{"batch", 64}}, {{"bucketed", helps}, {"overlapped", helps}, {"c10d Reducer", helps}}},
                 {"accumulate", {{"batch", 16}, {"micro_batches", 4}}, {{"overlapped", smaller}, {"overlapped, no_sync", smaller}}},
                 {"tiny",
                  {{"batch", 2}, {"length", 8}, {"layers", 1}, {"width", 16}, {"heads", 2}},
                  {{"naive", loses}, {"bucketed", loses}, {"overlapped", loses}}}},
       .agreement = tenfold::Agreement::within(1e-5, "sums are taken in another order")});
}
