// Lesson 02 - Roofline
// Is a step limited by arithmetic or by memory, and which of SIMD and threads helps then?
// Read repeated_fma.h first: the loop whose arithmetic for each byte is a setting; then prediction.h, the roofline.
#include <memory>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/mlp.h"
#include "layer_survey.h"
#include "prediction.h"
#include "repeated_fma.h"
#include "thread_per_element.h"

namespace {
using namespace tenfold;
using torch::Tensor;

constexpr float kRate = 0x1p-13F, kTarget = 1.5F;  // small enough that no step reaches the target

/// The mlp workload's training step. Its operators are SIMD code already.
Step train_mlp(const Trial& trial) {
  auto work = std::make_shared<MlpTraining>(trial);
  return {.items = trial.get(mlp::kBatch), .parameters = work->parameters(), .update = [work] {
            auto [images, labels] = work->next_batch();  // (B, 1, 28, 28), (B)
            work->optimizer->zero_grad();
            Tensor loss = torch::cross_entropy_loss(work->model(images), labels);
            loss.backward();
            work->optimizer->step();
            return loss;
          }};
}

/// The same 65,536 normal numbers again and again: drawing each would take longer than all steps.
Tensor normal_weights(int64_t count) {
  const Tensor some = torch::randn({std::min<int64_t>(count, 1 << 16)});
  const Tensor all = torch::empty({count});
  for (const Tensor& part : all.split(some.numel())) part.copy_(some.narrow(0, 0, part.numel()));
  return all;
}

/// Trains models of one weight each by gradient descent towards a target. The weights go from one array to another and
/// back: each pass reads 4 bytes of a weight and writes 4, as a copy does. The loss looks at some of them only: a loss
/// of all would be one more pass.
Step train_weights(const Trial& trial, int64_t threads, UpdateWeights update) {
  if (!trial.device.is_cpu()) trial.skip("runs on a CPU's cores; a GPU's threads are survey 'a thread per element'");
  const int64_t count = trial.get(kWeights), passes = trial.get(kPasses);
  const Updates updates{trial.get(kUpdates), 1 - kRate, kRate * kTarget};
  TORCH_CHECK_VALUE(passes > 0 && passes % 2 == 0 && count >= 64 && updates.count > 0,
                    "passes must be even and above 0, weights at least 64, updates at least 1");
  const Tensor weights = normal_weights(count), other = torch::empty({count});
  const Tensor some = weights.slice(0, 0, count, count / 64), target = torch::full_like(some, kTarget);
  trial.note("arithmetic intensity", intensity(updates.count), "FLOP per byte");
  const auto step = [=] {
    RECORD_FUNCTION("updates", c10::ArrayRef<const c10::IValue>());  // for the split of a step's time
    auto *from = weights.data_ptr<float>(), *to = other.data_ptr<float>();
    for (int64_t pass = 0; pass < passes; ++pass, std::swap(from, to))
      update_on_threads(threads, update, to, from, count, updates);
    return torch::mse_loss(some, target);
  };
  return {.items = 2 * updates.count * count * passes,  // FLOP, so that items/s are FLOP/s
          .parameters = {{"weights", weights.slice(0, 0, count, count > (1 << 20) ? 31 : 1)}},
          .update = step};
}

/// The case's work on so many threads. The number of ATen's threads is this variant's alone: the harness restores it
/// between blocks.
Step train(const Trial& trial, int64_t threads, UpdateWeights update) {
  if (trial.workload == weights_workload) return train_weights(trial, threads, update);
  at::set_num_threads(static_cast<int>(threads));
  return train_mlp(trial);
}

int64_t all_cores(const Trial& trial) {
  const int64_t cores = trial.get(kCores);
  return cores > 0 ? cores : tenfold::usable_cores();
}

Step one_thread(const Trial& trial) { return train(trial, 1, ways_to_update().scalar); }
Step simd(const Trial& trial) { return train(trial, 1, ways_to_update().simd); }
Step threads(const Trial& trial) { return train(trial, all_cores(trial), ways_to_update().scalar); }
Step simd_and_threads(const Trial& trial) { return train(trial, all_cores(trial), ways_to_update().simd); }

/// The mistake: one weight after the other, so that each FMA waits until the one before has finished.
Step one_chain(const Trial& trial) { return train(trial, 1, ways_to_update().one_chain); }

/// The trap: a benchmark that never reads its result.
Step forgotten_result(const Trial& trial) { return train(trial, 1, ways_to_update().forgotten); }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  // On some CPUs a matmul's sums are added up in another order when threads share it.
  const Agreement order = Agreement::within(1e-5, "sums in another order");
  const auto weights = [](int64_t count, int64_t updates, int64_t passes) -> std::vector<Assignment> {
    return {kWeights(count), kUpdates(updates), kPasses(passes)};
  };
  return run(argc, argv,
             {.title = "Roofline",
              .question = "Is a step limited by arithmetic or by memory, and which of SIMD and threads helps then?",
              .workload = mlp_workload,
              .version = 5,
              .settings = {kCores, kCountedFloats, kTimedFloats},
              .baseline = {"one thread", one_thread},
              .techniques = {{"SIMD", simd, by_simd},
                             {"threads", threads, by_threads, order},
                             {"SIMD + threads", simd_and_threads, by_simd_and_threads},
                             {"one chain", one_chain, by_one_chain},
                             {"forgotten result", forgotten_result}},
              .cases = {{"mlp", {}, {{"threads", {}}}},
                        {.name = "compute-bound",
                         .settings = weights(15'618, 2048, 2),
                         .expected = {{"SIMD", FASTER},
                                      {"threads", FASTER},
                                      {"SIMD + threads", FASTER},
                                      {"one chain", mistake(SLOWER)},
                                      {"forgotten result", TRAP}},
                         .workload = weights_workload},
                        {.name = "memory-bound",
                         .settings = weights(1 << 25, 1, 2),
                         .expected = {{"SIMD", {}}, {"threads", FASTER}, {"SIMD + threads", FASTER}},
                         .workload = weights_workload},
                        // The same intensity, but the weights never leave the core's own cache.
                        {.name = "in cache",
                         .settings = weights(1 << 12, 1, 256),
                         .expected = {{"SIMD", FASTER}, {"threads", SLOWER}, {"SIMD + threads", {}}},
                         .workload = weights_workload}},
              .surveys = {{"a thread per element", threads_per_element()},
                          {"FLOPs by layer, convnet", convnet_layers()},
                          {"FLOPs by layer, gpt", gpt_layers()},
                          {"one picture at a time", one_picture_or_many()},
                          {"this machine", this_machine()}},
              .headline = Headline{"compute-bound", "SIMD + threads"}});
}
