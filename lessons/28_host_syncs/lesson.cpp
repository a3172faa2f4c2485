// Lesson 28 - Host syncs
// What does it cost when the host waits for the GPU in every step?
// Read read_every_n() and item_every_step() first: the same numbers are logged, with one wait in n steps and with one
// in each. async_scalar.h is the remedy for who needs every value; logged_training.h is what is trained.
#include "common/harness/lesson.h"
#include "async_scalar.h"
#include "logged_training.h"
#include "prediction.h"
#include "synchronising_calls.h"

namespace {
using namespace tenfold;
using torch::Tensor;

constexpr Setting<int64_t> kReadEvery{"read_every", 10, "steps whose mean loss makes one line of the log"};

/// How a variant's step differs from the baseline's.
struct Differs {
  MeanLoss mean_loss = ignoring;  ///< of a batch
  bool set_to_none = true;        ///< gradients are dropped, not filled with zeros
};

/// One training step; `log` gets its loss, which the device may not have computed yet.
Step train(const Trial& trial, const std::function<void(const Tensor& loss)>& log, const Differs& differs = {}) {
  const Work work = trial.workload.make(trial);
  const auto update = [work, log, differs] {
    work.optimizer->zero_grad(differs.set_to_none);
    Tensor loss;
    {
      RECORD_USER_SCOPE("loss");
      const auto [logits, targets] = work.next_logits();  // (N, C), (N)
      loss = differs.mean_loss(logits, targets);
      loss.backward();
    }
    {
      RECORD_USER_SCOPE("optimizer");
      work.optimizer->step();
    }
    log(loss.detach());
    return loss;
  };
  return {.items = work.items, .parameters = work.parameters, .update = update};
}

/// The sum stays on the device: adding is one more operator in the queue. The host reads it once in n steps.
std::function<void(const Tensor&)> log_every_n(const Trial& trial) {
  return [log = std::make_shared<LogFile>(), sum = Tensor(), steps = int64_t{0},
          n = trial.get(kReadEvery)](const Tensor& loss) mutable {
    if (!sum.defined()) sum = torch::zeros_like(loss);
    sum += loss;
    if (++steps % n != 0) return;
    log->mean_loss(sum.item<double>() / static_cast<double>(n));  // the only wait
    sum.zero_();
  };
}

/// The baseline: logs without waiting in each step.
Step read_every_n(const Trial& trial) { return train(trial, log_every_n(trial)); }

/// Adds up the same mean on the host. A value that the host has is a value that it has waited for: until then it
/// queues nothing, and afterwards the device has nothing to do until it does.
Step item_every_step(const Trial& trial) {
  return train(trial, [log = std::make_shared<LogFile>(), sum = 0.0, steps = int64_t{0},
                       n = trial.get(kReadEvery)](const Tensor& loss) mutable {
    sum += loss.item<double>();  // waits, in every step
    if (++steps % n != 0) return;
    log->mean_loss(sum / static_cast<double>(n));
    sum = 0;
  });
}

/// Waits as well: what is printed is copied to the host first.
Step print_every_step(const Trial& trial) {
  return train(trial, [log = std::make_shared<LogFile>()](const Tensor& loss) { log->print(loss); });
}

/// Waits as well: a copy to ordinary host memory returns when it has arrived.
Step copy_to_the_host(const Trial& trial) {
  return train(trial, [log = std::make_shared<LogFile>(), losses = std::vector<float>(),
                       n = static_cast<size_t>(trial.get(kReadEvery))](const Tensor& loss) mutable {
    losses.push_back(*loss.to(torch::kCPU).const_data_ptr<float>());
    if (losses.size() < n) return;
    log->mean_loss(mean_of(losses));
    losses.clear();
  });
}

/// Waits without asking for a value: how many rows a mask keeps is the size of the result, which the host must know.
Step boolean_mask(const Trial& trial) { return train(trial, log_every_n(trial), {.mean_loss = masking}); }

/// The remedy where each value is needed: it is copied while the host goes on, and read two steps later.
Step async_scalar(const Trial& trial) {
  return train(trial, [log = std::make_shared<LogFile>(), scalars = std::make_shared<AsyncScalar>(/*delay=*/2),
                       losses = std::vector<double>(),
                       n = static_cast<size_t>(trial.get(kReadEvery))](const Tensor& loss) mutable {
    if (const std::optional<double> earlier = scalars->push(loss)) losses.push_back(*earlier);
    if (losses.size() < n) return;
    log->mean_loss(mean_of(losses));
    losses.clear();
  });
}

/// Nothing waits here. Gradients that stay are written, and backward() reads them, adds and writes them again.
Step zeroed_gradients(const Trial& trial) { return train(trial, log_every_n(trial), {.set_to_none = false}); }

/// A look for each variant, which counts what it does in a step.
std::vector<Look> counted(const std::vector<Variant>& variants, void (*note)(const Trial&, const Step&, int64_t)) {
  std::vector<Look> looks;
  for (const Variant& variant : variants)
    looks.push_back(
        {variant.name, [=](const Trial& trial) { note(trial, variant.build(trial), trial.get(kReadEvery)); }});
  return looks;
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const Expect same{SAME_SPEED, SAME_MEMORY};
  const auto waits = on_cuda(mistake({SLOWER, SAME_MEMORY}));
  // Without a device there is nothing to wait for: the host has done the work itself. Printing and masking are work; so
  // are, of a GPU's host, the launches of a copy and an event.
  const std::vector<Expectation> short_steps = {{"item every step", same, waits},
                                                {"print every step", SAME_MEMORY, waits},
                                                {"copy to the host", same, waits},
                                                {"boolean mask", {}, on_cuda(mistake(SLOWER))},
                                                {"async scalar", same, on_cuda(SAME_MEMORY)},
                                                {"zeroed gradients", SLOWER}};
  const std::vector<Expectation> long_steps = {{"item every step", same}, {"async scalar", same}};
  std::vector<Expectation> in_gpt = long_steps;
  in_gpt.push_back({"zeroed gradients", LARGER});
  const Variant baseline{"read every n", read_every_n};
  const std::vector<Variant> techniques = {{"item every step", item_every_step, waits_every_step},
                                           {"print every step", print_every_step, prints_every_step},
                                           {"copy to the host", copy_to_the_host, waits_every_step},
                                           {"boolean mask", boolean_mask},
                                           {"async scalar", async_scalar, never_waits},
                                           {"zeroed gradients", zeroed_gradients, keeps_gradients}};
  std::vector<Variant> all = techniques;
  all.insert(all.begin(), baseline);
  return run(
      argc, argv,
      {.title = "Host syncs",
       .question = "What does it cost when the host waits for the GPU in every step?",
       .workload = mlp_workload,
       .version = 5,
       .settings = {kReadEvery},
       .baseline = baseline,
       .techniques = techniques,
       // A GPU needs 1 to 2 times as long as the host; in the last case 30 times, with layers that are wide enough.
       .cases = {{"mlp", {mlp::kWidth(64, 1024, 2048), mlp::kBatch(32, 512, 256)}, short_steps},
                 {"gpt", {}, in_gpt, gpt_workload},
                 {"large batch", {mlp::kLayers(2, 8, 8), mlp::kWidth(64, 3072, 4096), mlp::kBatch(4096)}, long_steps}},
       .surveys = {{"waits", counted(all, note_synchronising_calls)},
                   {"gradients",
                    counted({{"set to none", read_every_n}, {"zeroed", zeroed_gradients}}, note_gradient_traffic)}},
       .headline = Headline{"mlp", "item every step"}});
}
