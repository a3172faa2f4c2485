#pragma once
// Lesson 91's model FLOP utilisation (MFU): the FLOP that the model needs by formula, in the time that a step takes, as
// a share of what the device can do.

#include <map>
#include <string>

#include "bytes_by_formula.h"
#include "common/machine/fingerprint.h"
#include "common/measure/counted.h"
#include "training.h"

namespace tenfold::inline lesson_91 {

inline Step step_with(const Trial& trial, const Techniques& techniques, Changes changes = {}) {
  if (trial.get(kKeepStart)) start_file(trial);
  const auto training = std::make_shared<Gpt2Training>(trial, techniques, std::move(changes));
  Step step{.items = training->tokens_per_step(), .parameters = training->parameters(), .update = [training] {
              return training->update();
            }};
  if (techniques.padded_vocabulary) step.gather = [training] { return training->without_padding(); };
  return step;
}

/// Notes FLOP, tokens a second and, where `./tenfold probe` has measured the device's matmuls, the share of that.
inline void note_utilisation(const Trial& trial, const Techniques& techniques) {
  const Counted counted = count_step(trial.device, [&] { return step_with(trial, techniques); });
  const auto tokens = static_cast<double>(trial.get(gpt2::kBatch) * trial.get(gpt2::kLength));
  const double by_formula = flops_per_token(gpt2_options(trial));  // the padding's are no use
  trial.note("FLOP a token, by formula", by_formula / 1e6, "MFLOP");
  trial.note("FLOP a token, counted", counted.whole.flops / tokens / 1e6, "MFLOP");
  if (!counted.timed) return;
  const double rate = tokens / counted.step_seconds;
  trial.note("tokens", rate, "/s");
  const char* matmuls = trial.device.is_cpu() ? "cpu_flops_per_s"
                        : techniques.tf32     ? "cuda_flops_tf32"
                                              : "cuda_flops_fp32";
  if (techniques.bf16 && trial.device.is_cuda()) matmuls = "cuda_flops_bf16";
  static const std::map<std::string, double> ceilings = read_ceilings(fingerprint().id);
  if (const auto ceiling = ceilings.find(matmuls); ceiling != ceilings.end())
    trial.note("MFU of the measured ceiling", 100 * rate * by_formula / ceiling->second, "%");
}

}  // namespace tenfold::inline lesson_91
