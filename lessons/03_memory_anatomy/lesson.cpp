// Lesson 03 - Memory anatomy
// What fills the memory of a training step, and which of it grows with what?
// Read gpt_by_kind() first: it watches one step of a GPT, kind by kind, with memory_kinds.h. The three variants below
// it are one training loop with two lines that cost memory and compute nothing.
#include "common/harness/lesson.h"
#include "by_formula.h"
#include "common/models/convnet.h"
#include "common/models/gpt.h"
#include "memory_kinds.h"
#include "prediction.h"
#include "totals.h"

namespace {
using tenfold::GptTraining;
using tenfold::MemoryKind;
using tenfold::MemoryKinds;
using tenfold::MemoryMoment;
using tenfold::MemoryOfStep;
using tenfold::Pass;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;

/// The optimizer that the survey asks for.
std::unique_ptr<torch::optim::Optimizer> optimizer_for(const Trial& trial, const std::vector<Tensor>& parameters) {
  const std::string name = trial.get(tenfold::kOptimizer);
  if (name == "adamw") return std::make_unique<torch::optim::AdamW>(parameters);
  return std::make_unique<torch::optim::SGD>(parameters,
                                             torch::optim::SGDOptions(0.01).momentum(name == "momentum" ? 0.9 : 0));
}

/// One step of a GPT, watched. Two steps before it make what stays: optimizer state, and gradients to free.
MemoryOfStep gpt_by_kind(const Trial& trial) {
  MemoryKinds watch(trial.device);
  GptTraining work(trial);
  const auto optimizer = optimizer_for(trial, work.model->parameters());
  for (int step = 0;; ++step) {
    watch.begin_step(work.model->parameters());
    auto [ids, targets] = work.next_batch();  // (B, T) each
    optimizer->zero_grad();
    watch.begin(Pass::forward);
    Tensor loss = work.model->loss(work.model->hidden(ids), targets);
    watch.begin(Pass::backward);
    loss.backward();
    watch.begin(Pass::update);
    optimizer->step();
    if (step == 2) return watch.end_step();
  }
}

/// The same of a convnet on images.
MemoryOfStep convnet_by_kind(const Trial& trial) {
  MemoryKinds watch(trial.device);
  tenfold::ConvNetTraining work(tenfold::convnet_of(trial.size), trial.device);
  tenfold::FashionBatches batches(trial, tenfold::convnet::kBatch.value.at(trial.size));
  const auto optimizer = optimizer_for(trial, work.model->parameters());
  for (int step = 0;; ++step) {
    watch.begin_step(work.model->parameters());
    auto [images, labels] = batches.next();  // (B, 1, 28, 28), (B)
    optimizer->zero_grad();
    watch.begin(Pass::forward);
    Tensor loss = torch::cross_entropy_loss(work.model(images), labels);
    watch.begin(Pass::backward);
    loss.backward();
    watch.begin(Pass::update);
    optimizer->step();
    if (step == 2) return watch.end_step();
  }
}

/// A training step, and what it leaves: `held` is what the loop still has when the next step begins.
template <class Body>
Step training_step(const Trial& trial, Body body) {
  auto work = std::make_shared<GptTraining>(trial);
  return {.items = work->tokens_per_step(), .parameters = work->parameters(), .update = [work, body]() mutable {
            auto [ids, targets] = work->next_batch();  // (B, T) each
            Tensor loss = body(*work, ids, targets);
            loss.backward();
            work->optimizer->step();
            return loss;
          }};
}

/// As a loop should be: gradients are freed before the forward pass, and nothing but the loss has a name.
Step lean(const Trial& trial) {
  return training_step(trial, [](GptTraining& work, const Tensor& ids, const Tensor& targets) {
    work.optimizer->zero_grad();
    return work.model->loss(work.model->hidden(ids), targets);
  });
}

/// Gradients are set to zero instead of freed: they are there during the whole forward pass.
Step gradients_kept(const Trial& trial) {
  return training_step(trial, [](GptTraining& work, const Tensor& ids, const Tensor& targets) {
    work.optimizer->zero_grad(/*set_to_none=*/false);
    return work.model->loss(work.model->hidden(ids), targets);
  });
}

/// The logits have a name that outlives backward(), as `logits = model(x)` has in most Python loops.
Step logits_held(const Trial& trial) {
  return training_step(trial, [logits = Tensor()](GptTraining& work, const Tensor& ids, const Tensor& targets) mutable {
    work.optimizer->zero_grad();
    logits = work.model->forward(ids).flatten(0, 1);  // (B T, V); frees the last step's
    return torch::cross_entropy_loss(logits, targets.flatten());
  });
}

using Watched = MemoryOfStep (*)(const Trial&);
using Formula = MemoryMoment (*)(const Trial&);

MemoryMoment gpt_formula(const Trial& trial) {
  return tenfold::gpt_peak(gpt_options(trial), trial.get(tenfold::kOptimizer));
}
MemoryMoment convnet_formula(const Trial& trial) {
  return tenfold::convnet_peak(tenfold::convnet_of(trial.size), tenfold::convnet::kBatch.value.at(trial.size),
                               trial.get(tenfold::kOptimizer), trial.device);
}

/// A row for each kind: at the step's highest moment, by formula, and between two steps. One training serves all rows.
std::vector<tenfold::Look> kinds(Watched watched, Formula formula) {
  std::vector<tenfold::Look> looks;
  const auto step = std::make_shared<std::optional<MemoryOfStep>>();
  for (size_t kind = 0; kind + 1 < tenfold::kMemoryKinds; ++kind) {
    looks.push_back({tenfold::kMemoryKindNames[kind], [=](const Trial& trial) {
                       if (!*step) *step = watched(trial);
                       const auto peak = static_cast<double>((*step)->peak().bytes[kind]);
                       const auto by_formula = static_cast<double>(formula(trial).bytes[kind]);
                       trial.note("at the peak", peak, "bytes");
                       trial.note("by formula", by_formula, "bytes");
                       trial.note("between steps", static_cast<double>((*step)->end().bytes[kind]), "bytes");
                     }});
  }
  return looks;
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold;
  using namespace tenfold::expect;
  const std::vector<Expectation> both_cost = {{"gradients kept", mistake(LARGER)}, {"logits held", mistake(LARGER)}};
  return run(
      argc, argv,
      {.title = "Memory anatomy",
       .question = "What fills the memory of a training step, and which of it grows with what?",
       .workload = gpt_workload,
       .version = 4,
       .core = true,
       .settings = {kOptimizer},
       .baseline = {"lean", lean},
       .techniques = {{"gradients kept", gradients_kept, keeps_gradients}, {"logits held", logits_held, holds_logits}},
       .cases = {{"gpt", {}, both_cost},
                 {"GPT-2 vocabulary", {gpt::kTokens("gpt2"), gpt::kBatch(4, 8, 16)}, both_cost},
                 {"model states",
                  {gpt::kBatch(1), gpt::kLength(16, 64, 64), gpt::kWidth(256, 1024, 1024), gpt::kHeads(4, 16, 16)},
                  {{"gradients kept", mistake(LARGER)}, {"logits held", SAME_MEMORY}}}},
       .surveys =
           {{"gpt by kind, SGD", kinds(gpt_by_kind, gpt_formula), {kOptimizer("sgd")}, /*of_memory=*/true},
            {"gpt by kind, AdamW", kinds(gpt_by_kind, gpt_formula), {kOptimizer("adamw")}, /*of_memory=*/true},
            {"convnet by kind, SGD", kinds(convnet_by_kind, convnet_formula), {kOptimizer("sgd")}, /*of_memory=*/true},
            {"convnet by kind, AdamW",
             kinds(convnet_by_kind, convnet_formula),
             {kOptimizer("adamw")},
             /*of_memory=*/true},
            {"totals", {{"process", process_totals}, {"device", device_totals}}}},
       .headline = Headline{"GPT-2 vocabulary", "logits held"}});
}
