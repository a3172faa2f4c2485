// Lesson 33 - Optimizer memory
// How many bytes of state does an optimizer need for each parameter, and what do fewer cost in quality and time?
// Read adamw.h first: the baseline. eight_bit_codes.h and eight_bit_adamw.h are the technique, sixteen_bit_adamw.h and
// adafactor.h two others; wrong_optimizers.h has one that saves nothing at its peak and one that stops learning.
#include "common/harness/lesson.h"
#include "adafactor.h"
#include "adamw.h"
#include "eight_bit_adamw.h"
#include "most_bytes.h"
#include "prediction.h"
#include "rounded_weights.h"
#include "settings.h"
#include "sixteen_bit_adamw.h"
#include "surveys.h"
#include "wrong_optimizers.h"

namespace {
using namespace tenfold;
using torch::Tensor;

/// One training step; `make` makes the optimizer of the parameters, which is all that differs between the variants.
Step train(const Trial& trial, const auto& make) {
  const Work work = trial.workload.make(trial);
  auto optimizer = make(work.parameters.values());
  return {.items = work.items, .parameters = work.parameters, .update = [work, optimizer] {
            for (const auto& parameter : work.parameters) parameter.value().mutable_grad() = Tensor();
            Tensor loss;
            {
              RECORD_USER_SCOPE("loss");
              loss = work.next_loss();
              loss.backward();
            }
            optimizer->step();
            return loss;
          }};
}

/// The baseline: two averages of 32 bits.
Step adamw(const Trial& trial) {
  return train(trial,
               [&](const auto& parameters) { return std::make_shared<AdamW>(parameters, adamw_settings(trial)); });
}

/// The same averages; only the decay of the parameters is missing.
Step adam(const Trial& trial) {
  AdamWSettings settings = adamw_settings(trial);
  settings.weight_decay = 0;
  return train(trial, [&](const auto& parameters) { return std::make_shared<AdamW>(parameters, settings); });
}

Step sixteen_bits(const Trial& trial) {
  return train(trial, [&](const auto& parameters) {
    return std::make_shared<SixteenBitAdamW>(parameters, adamw_settings(trial), trial.get(kChunk), trial.seed);
  });
}

Step eight_bits(const Trial& trial) {
  return train(trial, [&](const auto& parameters) {
    return std::make_shared<EightBitAdamW>(parameters, adamw_settings(trial), trial.get(kChunk));
  });
}

Step whole_copy(const Trial& trial) {
  return train(trial, [&](const auto& parameters) {
    return std::make_shared<WholeCopyAdamW>(parameters, adamw_settings(trial));
  });
}

/// `Rule` is Adafactor, or the one with a mistake.
template <class Rule>
Step adafactor(const Trial& trial) {
  return train(trial,
               [&](const auto& parameters) { return std::make_shared<Rule>(parameters, adafactor_settings(trial)); });
}

/// LibTorch's SGD, by the workload's learning rate.
template <int percent>
Step sgd(const Trial& trial) {
  const auto options = torch::optim::SGDOptions(trial.get(gpt::kLearningRate)).momentum(percent / 100.0);
  return train(trial, [&](const auto& parameters) { return std::make_shared<torch::optim::SGD>(parameters, options); });
}

/// Weights of 16 bits, without a copy in 32.
Step to_nearest(const Trial& trial) { return with_16_bit_weights(adamw(trial), trial, /*by_chance=*/false); }
Step by_chance(const Trial& trial) { return with_16_bit_weights(adamw(trial), trial, /*by_chance=*/true); }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const auto rounded = Agreement::judged_by("quality", 0.001);  // first losses: rounding hardly shows in them
  const auto another = Agreement::judged_by("quality", 0.2);
  const auto to_the_end = [](Step (*build)(const Trial&)) {
    return [build](const Trial& trial) {
      return train_to_the_end(trial, build(trial), {.updates = trial.get(kUpdates), .evaluations = 5});
    };
  };
  const auto state = [](const std::string& name, Step (*build)(const Trial&), int64_t (*by_formula)(const Shapes&)) {
    return state_look(name, build, sgd<0>, by_formula);
  };
  const Metric loss{.name = "validation loss", .margin = 0.01, .relative = true};
  return run(
      argc, argv,
      {.title = "Optimizer memory",
       .question = "How many bytes of state does an optimizer need for each parameter, and what do fewer cost in "
                   "quality and time?",
       .workload = gpt_workload,
       .version = 3,
       .settings = {kAdamWLearningRate, kWeightDecay, kAdafactorRate, kChunk, kUpdates},
       .baseline = {"AdamW", adamw},
       .most_bytes = adamw_most_bytes,
       .techniques = {{"Adam", adam, as_before, rounded},
                      {"bf16 averages", sixteen_bits, predict_16_bits, rounded},
                      {"8-bit AdamW", eight_bits, predict_8_bits, rounded},
                      {"Adafactor", adafactor<Adafactor>, predict_adafactor, another},
                      {"whole copy", whole_copy, predict_whole_copy, rounded},
                      {"rate overwritten", adafactor<OverwrittenRateAdafactor>, nullptr,
                       Agreement::judged_by("quality", 0.1)}},
       .cases =
           {{"gpt",
             {},
             {{"Adam", SAME_MEMORY}, {"bf16 averages", SMALLER}, {"8-bit AdamW", SMALLER}, {"Adafactor", SMALLER}}},
            {"model states",
             states_fill(),
             {{"Adam", SAME_MEMORY},
              {"bf16 averages", {SLOWER, SMALLER}},
              {"8-bit AdamW", {SLOWER, SMALLER}},
              {"Adafactor", SMALLER},
              {"whole copy", mistake({SLOWER, LARGER})},
              {"rate overwritten", TRAP}}},
            {"small tensors", {mlp::kWidth(32)}, {{"8-bit AdamW", {SAME_SPEED, SAME_MEMORY}}}, mlp_workload}},
       .trainings = {{.name = "quality",
                      .metric = loss,
                      .runs = {{"AdamW", to_the_end(adamw)},
                               {"Adam", to_the_end(adam), NOT_WORSE},
                               {"bf16 averages", to_the_end(sixteen_bits), NOT_WORSE},
                               {"8-bit AdamW", to_the_end(eight_bits), NOT_WORSE},
                               {"whole copy", to_the_end(whole_copy), NOT_WORSE},
                               {"Adafactor", to_the_end(adafactor<Adafactor>), NOT_WORSE},
                               {"rate overwritten", to_the_end(adafactor<OverwrittenRateAdafactor>), WORSE},
                               {"momentum", to_the_end(sgd<90>)},
                               {"SGD", to_the_end(sgd<0>), WORSE}},
                      .settings = gpt::affordable()},
                     {.name = "16-bit weights",
                      .metric = loss,
                      .runs = {{"AdamW", to_the_end(adamw)},
                               {"to nearest", to_the_end(to_nearest), WORSE},
                               {"by chance", to_the_end(by_chance), NOT_WORSE}},
                      .settings = many_small_updates()}},
       .surveys = {{"state",
                    {state("SGD", sgd<0>, sgd_bytes), state("momentum", sgd<90>, momentum_bytes),
                     state("Adam", adam, adamw_bytes), state("AdamW", adamw, adamw_bytes),
                     state("bf16 averages", sixteen_bits, sixteen_bit_bytes),
                     state("8-bit AdamW", eight_bits, eight_bit_bytes),
                     state("Adafactor", adafactor<Adafactor>, adafactor_bytes)},
                    states_fill(),
                    /*of_memory=*/true},
                   {"squares in 8 bits",
                    {stored_look("equal factors", in_equal_factors), stored_look("equal steps", in_equal_steps)}}},
       .headline = Headline{"model states", "8-bit AdamW"}});
}
