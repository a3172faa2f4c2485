// Lesson 92 - The parameters do not fit
// A training step does not fit into memory: which lever frees which bytes, and what does it cost?
// Read levers.h first: the order. fit_training.h is the training step with all levers in it, bytes_by_formula.h what it
// needs. The techniques themselves are those of lessons 21, 44, 30, 31, 33 and 34.
#include "common/harness/lesson.h"
#include "common/models/precision.h"
#include "fit_training.h"
#include "lessons/33_optimizer_memory/most_bytes.h"
#include "levers.h"
#include "prediction.h"
#include "settings.h"
#include "surveys.h"

namespace {
using namespace tenfold;

Step step_with(const Trial& trial, const Levers& levers) {
  auto training = std::make_shared<FitTraining>(trial, gpt_options(trial), levers);
  return {.items = training->tokens_per_step(), .parameters = training->parameters(), .update = [training] {
            return training->update();
          }};
}

/// The baseline: 32 bits, AdamW, the whole batch at once.
Step all_at_once(const Trial& trial) { return step_with(trial, {}); }

/// The same in a budget that is too small for it: LibTorch's own error ends it.
Step in_the_budget(const Trial& trial) {
  {
    const ByteBudget budget(trial.device, budget_bytes_of(trial));
    FitTraining training(trial, gpt_options(trial), {});
    for (int update = 0; update < kUpdatesOfCount; ++update) training.update();
    synchronize(trial.device);
  }
  return all_at_once(trial);
}

Step build(const Trial& trial, const Stack& stack) {
  skip_where_nothing_changes(trial, stack);
  const Levers levers = stack.levers_of(trial);
  if (levers.averages_on_host && memory_only() && parameter_bytes(gpt_options(trial)) > (int64_t{128} << 20))
    trial.skip("on a card that computes nothing the host would still update all parameters: see model states");
  return step_with(trial, levers);
}

/// Loss in chunks, accumulation and checkpointing.
constexpr size_t kUpToCheckpointing = 4;
Step without_autocast(const Trial& trial) { return step_with(trial, in_32_bits(kUpToCheckpointing)); }

/// "+ bf16 autocast" to "+ offload". A training judges them, since autocast, which all of them have where it is on,
/// rounds to 16 bits. "in 32 bits" has loss in chunks, accumulation and checkpointing, number by number.
std::vector<Variant> stacks() {
  const Agreement rounded = Agreement::judged_by("quality", kLastBitOfBfloat16);
  // The keys' bias has no gradient but rounding: see kEpsilon.
  const Agreement order = Agreement::within(5e-3, "the same sums in another order, divided by their own size");
  std::vector<Variant> variants;
  for (const Stack& stack : all_stacks()) {
    if (stack.count == 0) continue;
    variants.push_back({stack.name, [stack](const Trial& trial) { return build(trial, stack); },
                        by_formula(stack_of(stack.count)), rounded});
  }
  variants.push_back({"in 32 bits", without_autocast, by_formula(in_32_bits(kUpToCheckpointing)), order});
  variants.push_back({"in the budget", in_the_budget});
  return variants;
}

/// The baseline, and all stacks.
std::vector<Run> trained() {
  std::vector<Run> runs;
  for (const Stack& stack : all_stacks()) {
    const auto train = [stack](const Trial& trial) {
      return train_to_the_end(trial, build(trial, stack),
                              {.updates = trial.get(lesson_33::kUpdates), .evaluations = 5});
    };
    runs.push_back({stack.name, train, stack.count == 0 ? expect::Quality::any : expect::NOT_WORSE});
  }
  return runs;
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  return run(
      argc, argv,
      {.title = "The parameters do not fit",
       .question = "A training step does not fit into memory: which lever frees which bytes, and what does it "
                   "cost?",
       .workload = gpt_workload,
       .version = 7,
       .settings = {kAutocast, kMicroBatches, kChunkRows, lesson_33::kChunk, lesson_33::kAdamWLearningRate,
                    lesson_33::kUpdates, kBudget, kCardMebibytes},
       .baseline = {"all at once", all_at_once},
       .most_bytes = adamw_most_bytes,
       .techniques = stacks(),
       .cases = {{"gpt", {}, {{"+ bf16 autocast", SMALLER}, {"+ checkpointing", SMALLER}, {"+ 8-bit AdamW", SMALLER}}},
                 {"does not fit",
                  does_not_fit(),
                  {{"+ bf16 autocast", SMALLER},
                   {"+ loss in chunks", SMALLER},
                   {"+ accumulation", SMALLER},
                   {"+ checkpointing", SMALLER},
                   {"+ 8-bit AdamW", SMALLER},
                   {"+ offload", {}, on_cuda({SLOWER, SMALLER})},
                   {"in 32 bits", SMALLER},
                   {"in the budget", EXCEEDS}}},
                 {"model states",
                  few_tokens(),
                  {{"+ accumulation", {SLOWER, LARGER}},
                   {"+ checkpointing", SLOWER},
                   {"+ 8-bit AdamW", {SLOWER, SMALLER}},
                   {"+ offload", {SLOWER, LARGER}, on_cuda({SLOWER, SMALLER})}}}},
       .trainings = {{.name = "quality",
                      .metric = {.name = "validation loss", .margin = 0.01, .relative = true},
                      .runs = trained(),
                      .settings = many_updates_of_tokens()}},
       .surveys = {{"bytes, counted", looks_of(counted_look), does_not_fit(), /*of_memory=*/true},
                   {"bytes, by formula", looks_of(predicted_look), does_not_fit(), /*of_memory=*/true},
                   {"in a budget", looks_of(budget_look), does_not_fit(), /*of_memory=*/true},
                   {"largest model", looks_of(largest_look), wide_layers(), /*of_memory=*/true}},
       .headline = Headline{"does not fit", "+ 8-bit AdamW"}});
}
