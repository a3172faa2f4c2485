// Lesson 16 - Batching
//
// Question  What does it cost to transform pictures one at a time, and what does it bring to do it for a whole batch?
// Expect    Work for each picture becomes work for each batch: fewer operators, fewer passes over memory, fewer bytes to send.
// Not for   Models that compute for much longer than their pictures take to prepare (case "compute-bound").
// Run       ./tenfold run 16_batching
// Read      picture_views.h is the technique, in three forms; update() is the same for all variants.
#include <ATen/record_function.h>
#include <tenfold/image_workloads.h>
#include <tenfold/lesson.h>
#include <tenfold/loader.h>
#include <tenfold/loading_trial.h>
#include <tenfold/openclipart.h>
#include <tenfold/picture_views.h>
#include <tenfold/shard.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace {
using tenfold::Dataset;
using tenfold::Loader;
using tenfold::LoaderOptions;
using tenfold::PixelScale;
using tenfold::Row;
using tenfold::SampleRandom;
using tenfold::Shard;
using tenfold::Step;
using tenfold::Trial;
using tenfold::View;
using torch::Tensor;

constexpr int64_t kStored = 64;  // side of the pictures in the shard

/// What all variants have: decoded pictures in a mapped shard, and a model that looks at squares of them.
struct Work {
  std::shared_ptr<const Shard> shard;
  int64_t batch, side;
  LoaderOptions options;
  std::shared_ptr<tenfold::ClipartTraining> training;
  torch::Device device;
  Tensor shift, factor;  // (3, 1, 1) each, on the device

  explicit Work(const Trial& trial)
      : shard(open_clipart(trial, {tenfold::PictureForm::raw, kStored})),
        batch(trial.get("batch", trial.by_size(32, 128, 512))),
        side(trial.get("side", 56)),
        options{.batch = batch, .workers = 0, .tail = tenfold::Tail::drop, .seed = trial.seed, .pinned = trial.device.is_cuda()},
        training(std::make_shared<tenfold::ClipartTraining>(trial, 3, side, tenfold::kOpenclipartClasses.size())),
        device(trial.device),
        shift(PixelScale().shifts(trial.device)),
        factor(PixelScale().factors(trial.device)) {
    TORCH_CHECK_VALUE(side >= 4 && side <= kStored, "side=", side, " is outside 4 to ", kStored);
  }

  View view(SampleRandom& random) const { return tenfold::random_view(kStored, kStored, side, random); }

  /// One update from pictures (B, 3, S, S) and labels (B).
  Tensor update(const Tensor& images, const Tensor& labels) const {
    training->optimizer->zero_grad();
    Tensor loss = torch::cross_entropy_loss(training->model(images), labels);
    loss.backward();
    training->optimizer->step();
    return loss;
  }
};

/// Without the technique: as one would write it down. Each picture goes through its own operators, then all are stacked.
Step by_hand(const Trial& trial) {
  struct State : Work {
    using Work::Work;
    tenfold::EpochPlan plan{shard->size(), batch, {}, tenfold::Tail::drop};
    std::vector<int64_t> order;
    int64_t epoch = 0, index = 0;
    Tensor host_shift = PixelScale().shifts(torch::kCPU), host_factor = PixelScale().factors(torch::kCPU);
  };
  auto work = std::make_shared<State>(trial);
  return {work->batch, work->training->parameters(), [work, seed = trial.seed] {
            Tensor images, labels;
            {
              RECORD_USER_SCOPE("data");
              if (work->index == work->plan.batches()) ++work->epoch, work->index = 0;
              if (work->index == 0) work->order = tenfold::epoch_order(work->shard->size(), seed, work->epoch, /*shuffle=*/true);
              std::vector<Tensor> pictures;
              std::vector<int64_t> numbers;
              for (const int64_t sample : work->plan.samples(work->order, work->index++)) {
                SampleRandom random(seed, work->epoch, sample);
                auto* pixels = const_cast<uint8_t*>(work->shard->record(sample).data());  // from_blob has no form for constants
                const Tensor picture = torch::from_blob(pixels, {kStored, kStored, 3}, torch::kByte);
                pictures.push_back(tenfold::view_of(picture, work->view(random), work->side, work->host_shift, work->host_factor));
                numbers.push_back(work->shard->label(sample));
              }
              images = torch::stack(pictures);
              labels = torch::tensor(numbers, torch::kLong);
            }
            return work->update(images.to(work->device), labels.to(work->device));
          }};
}

/// The loader calls one function for each picture, which writes it to its row of the batch: no operators, no stacking.
Step loader(const Trial& trial) {
  auto work = std::make_shared<Work>(trial);
  const Dataset samples{.size = work->shard->size(),
                        .fields = {{{3, work->side, work->side}, torch::kFloat}, {{}, torch::kLong}},
                        .load = [work, scale = PixelScale()](int64_t i, SampleRandom& random, const Row& row) {
                          write_view(work->shard->record(i), kStored, kStored, work->view(random), work->side, scale, row.field<float>(0));
                          row.field<int64_t>(1)[0] = work->shard->label(i);
                        }};
  auto batches = std::make_shared<Loader>(samples, work->options);
  return {work->batch, work->training->parameters(), [work, batches] {
            const auto batch = batches->next_of_any_epoch().to(work->device);
            return work->update(batch[0], batch[1]);
          }};
}

/// The loader only collects bytes and draws numbers; a few operators transform the whole batch where the model is.
Step batched_views(const Trial& trial, bool one_view) {
  auto work = std::make_shared<Work>(trial);
  const Dataset samples{.size = work->shard->size(),
                        .fields = {{{kStored, kStored, 3}, torch::kByte}, {{}, torch::kLong}, {{3}, torch::kLong}},
                        .load = [work](int64_t i, SampleRandom& random, const Row& row) {
                          std::ranges::copy(work->shard->record(i), row.field<uint8_t>(0).begin());
                          row.field<int64_t>(1)[0] = work->shard->label(i);
                          const View view = work->view(random);
                          std::ranges::copy(std::array{view.top, view.left, int64_t{view.flip}}, row.field<int64_t>(2).begin());
                        }};
  auto batches = std::make_shared<Loader>(samples, work->options);
  return {work->batch, work->training->parameters(), [work, batches, one_view] {
            const auto batch = batches->next_of_any_epoch().to(work->device);
            RECORD_USER_SCOPE("transform");
            const Tensor views = one_view ? batch[2].narrow(0, 0, 1).expand({work->batch, 3}) : batch[2];
            return work->update(tenfold::views_of(batch[0], views, work->side, work->shift, work->factor), batch[1]);
          }};
}
Step batched(const Trial& trial) { return batched_views(trial, /*one_view=*/false); }

/// The mistake: with one operator for the batch goes one draw for the batch. All its pictures move and turn together.
Step one_draw(const Trial& trial) { return batched_views(trial, /*one_view=*/true); }

/// Takes the baseline's preparation out of the step and puts in what moves so many bytes per number, at the rate of a copy.
tenfold::Prediction moved(const tenfold::Counted& baseline, double bytes_per_number, double operators) {
  const auto rate = baseline.ceilings.find("cpu_copy_bytes_per_s"), call = baseline.ceilings.find("cpu_new_tensor_op_seconds");
  if (rate == baseline.ceilings.end() || call == baseline.ceilings.end()) return {};
  const double numbers = baseline.setting("batch") * 3 * std::pow(baseline.setting("side"), 2);
  const double seconds = numbers * bytes_per_number / rate->second + operators * call->second;
  return {.speed_ratio = 1 / (1 - baseline.share("data") + seconds / baseline.step_seconds)};
}

/// A byte read, a float written.
tenfold::Prediction one_pass(const tenfold::Counted& baseline) { return moved(baseline, 1 + 4, 0); }

/// Bytes collected (1 + 1), picked by 64-bit numbers (which are made, and read: 16 / 3; 1 + 1), brought into order (1 + 1), made
/// floats (1 + 4), shifted and scaled in place (8 + 8): by some twenty operators.
tenfold::Prediction few_operators(const tenfold::Counted& baseline) { return moved(baseline, 27 + 16.0 / 3, 20); }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  using tenfold::Expect;
  return tenfold::run(
      argc, argv,
      {.title = "Batching",
       .question = "What does it cost to transform pictures one at a time, and what does it bring to do it for a whole batch?",
       .workload = "R1",
       .baseline = {"by hand", by_hand},
       .techniques = {{"loader", loader, one_pass}, {"batched", batched, few_operators}, {"one draw", one_draw}},
       .cases = {{"R1",
                  {},
                  {{"loader", {FASTER, SAME, VALID}},
                   {"batched", {ANY, ANY, VALID}, Expect{FASTER, ANY, VALID}},
                   {"one draw", {ANY, ANY, TRAP}}}},
                 {"light model",
                  {{"channels", 2}, {"batch", 128}},
                  {{"loader", {FASTER, SAME, VALID}}, {"batched", {FASTER, LARGER, VALID}}}},
                 {"small pictures",
                  {{"channels", 2}, {"side", 16}, {"batch", 128}},
                  {{"loader", {FASTER, SAME, VALID}}, {"batched", {FASTER, LARGER, VALID}}}},
                 {"compute-bound",
                  {{"channels", 48}},
                  {{"loader", {SAME, SAME, VALID}, Expect{ANY, SAME, VALID}}, {"batched", {SAME, SAME, VALID}, Expect{ANY, ANY, VALID}}}}},
       .agreement = tenfold::Agreement::exact_on_cpu()});
}
