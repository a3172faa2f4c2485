// Lesson 31 - Activation checkpointing
// How much memory does it save if backward() recomputes activations instead of keeping them, and what does it cost?
// Read checkpoint.h first: it is the technique. train() calls it; a plan of plan.h says for which blocks.
#include "common/harness/lesson.h"
#include "checkpoint.h"
#include "common/models/gpt.h"
#include "plan.h"
#include "prediction.h"

namespace {
using tenfold::CheckpointOptions;
using tenfold::GptTraining;
using tenfold::MakePlan;
using tenfold::Plan;
using tenfold::Segment;
using tenfold::Step;
using tenfold::Trial;
using tenfold::Variant;
using torch::Tensor;

/// One training step of the GPT; the plan is all that differs between the variants.
Step train(const Trial& trial, MakePlan make_plan, CheckpointOptions options = {}) {
  auto training = std::make_shared<GptTraining>(trial);
  const Plan plan = make_plan(trial.get(tenfold::gpt::kLayers));
  auto update = [training, plan, options] {
    auto [ids, targets] = training->next_batch();  // (B, T) each
    training->optimizer->zero_grad();              // before forward: gradients must not live through the peak
    Tensor h = training->model->embed(ids);        // (B, T, D)
    for (const Segment& segment : plan) {
      const auto run_blocks = [training, segment](Tensor x) {
        for (int64_t i = segment.first; i < segment.last; ++i) x = training->model->blocks[i]->forward(x);
        return x;
      };
      h = segment.recompute ? tenfold::checkpoint_with(options, run_blocks, h) : run_blocks(h);
    }
    Tensor loss = training->model->loss(h, targets);
    loss.backward();
    training->optimizer->step();
    return loss;
  };
  return {training->tokens_per_step(), training->parameters(), update};
}

/// The trap: without the random state, the recomputed blocks drop other activations than those that made the loss.
Step new_random_numbers(const Trial& trial) { return train(trial, tenfold::every_block, {.keep_random_state = false}); }

Variant variant(const std::string& name, MakePlan make_plan) {
  return {name, [make_plan](const Trial& trial) { return train(trial, make_plan); }, tenfold::predict(make_plan)};
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold;
  using namespace tenfold::expect;
  return run(argc, argv,
             {.title = "Activation checkpointing",
              .question = "How much memory does it save if backward() recomputes activations instead of keeping them, "
                          "and what does it cost?",
              .workload = gpt_workload,
              .version = 6,
              .core = true,
              .baseline = variant("keep all", keep_all),
              .most_bytes = most_bytes,
              .techniques = {variant("every block", every_block),
                             variant("every second", every_second),
                             variant("square root", square_root),
                             {"new random numbers", new_random_numbers}},
              .cases = {{"gpt",
                         {gpt::kLayers(12), gpt::kBatch(2), gpt::kDropout(0.1)},
                         {{"every block", {SLOWER, SMALLER}},
                          {"every second", {SLOWER, SMALLER}},
                          {"square root", {SLOWER, SMALLER}},
                          {"new random numbers", TRAP}}},
                        {"model states",
                         {gpt::kLayers(2), gpt::kBatch(1), gpt::kLength(8), gpt::kWidth(256), gpt::kHeads(4)},
                         {{"every block", {SLOWER, SAME_MEMORY}}, {"every second", {SLOWER, SAME_MEMORY}}}},
                        // As much memory for each, not the same batch: what fits, and how fast it is.
                        {.name = "same memory",
                         .settings = {gpt::kLayers(12), gpt::kBatch(1)},
                         .expected = {{"every block", SLOWER}, {"every second", {}}},
                         .budget = SameBudget{{24 << 20, int64_t{3} << 30, int64_t{12} << 30}, "batch"}}},
              .headline = Headline{"gpt", "every block"},
              .agreement = Agreement::exact_on_cpu()});
}
