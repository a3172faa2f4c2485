#include "graph_surveys.h"

#include <functional>
#include <string>

#include "captured_step.h"
#include "common/measure/counted.h"
#include "common/measure/memory.h"
#include "lessons/28_host_syncs/synchronising_calls.h"

namespace tenfold::inline lesson_25 {
namespace {

using torch::Tensor;

/// Counts what waits in a step with a line between backward and update.
Look waits_of(const std::string& name, const std::function<void(const BatchTraining&, const Tensor& loss)>& line) {
  return {name, [line](const Trial& trial) {
            const BatchTraining work = batch_training(trial);
            const Batch batch = work.next_batch();
            const auto step = [&] {
              work.drop_gradients();
              const Tensor loss = work.differentiate(batch).detach();
              line(work, loss);
              work.update();
            };
            step();  // the first step makes what later ones find
            trial.note("waits", static_cast<double>(count_synchronising_calls(step).all()), "a step");
          }};
}

}  // namespace

std::vector<Look> lines_that_wait() {
  return {
      waits_of("nothing but training", [](const BatchTraining&, const Tensor&) {}),
      waits_of("loss.item()", [](const BatchTraining&, const Tensor& loss) { loss.item<float>(); }),
      waits_of("a copy of the loss to the host",
               [](const BatchTraining&, const Tensor& loss) { (void)loss.to(torch::kCPU); }),
      waits_of("if the loss is NaN", [](const BatchTraining&, const Tensor& loss) { (void)loss.isnan().is_nonzero(); }),
      waits_of("clip_grad_norm_", [](const BatchTraining& work, const Tensor&) {
        torch::nn::utils::clip_grad_norm_(work.parameters.values(), 1.0);
      })};
}

void note_operators(const Trial& trial, const Step& step) {
  const Counted counted = count_step(trial.device, [&] { return step; });
  trial.note("a step", static_cast<double>(counted.whole.operators), "operators");
  trial.note("its update", static_cast<double>(counted.region("optimizer").operators), "operators");
}

namespace {

/// Lets cuBLAS make its workspaces, of each thread and stream that a step computes on. They stay for good: made in the
/// middle of a step, in what a large tensor has just freed, each would keep all of that from being given back.
void make_workspaces(torch::Device device) {
  const Tensor weight = torch::ones({8, 8}, device).requires_grad_();
  const auto multiply = [&weight] { weight.mm(weight).sum().backward(); };
  multiply();
  CapturedWork(device, multiply).run();  // its first call: on the stream of the captures
}

}  // namespace

void note_peaks(const Trial& trial, Step (*build)(const Trial&)) {
  make_workspaces(trial.device);
  const CountCpuMemory counting;
  const MemoryWatch memory({trial.device});
  const Step step = build(trial);
  for (int warm = 0; warm < 2; ++warm) step.update();  // launched one by one, then captured and replayed
  synchronize(trial.device);
  memory.reset_peaks();
  for (int measured = 0; measured < 2; ++measured) step.update();
  synchronize(trial.device);
  for (const auto& [kind, bytes] : memory.peaks()) trial.note("most " + kind, static_cast<double>(bytes), "bytes");
}

}  // namespace tenfold::inline lesson_25
