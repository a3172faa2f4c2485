#pragma once
// Lesson 91's model FLOP utilisation (MFU): the FLOP that the model needs by formula, in the time that a step takes, as
// a share of what the device can do.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "bytes_by_formula.h"
#include "common/machine/fingerprint.h"
#include "common/machine/makers_share.h"
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

/// The ceiling, as `./tenfold probe` names it, of the matmuls that these techniques compute with.
inline const char* matmul_ceiling(bool on_cuda, const Techniques& techniques) {
  if (!on_cuda) return "cpu_flops_per_s";
  if (techniques.bf16) return "cuda_flops_bf16";
  return techniques.tf32 ? "cuda_flops_tf32" : "cuda_flops_fp32";
}

/// Notes FLOP, tokens a second, and the share of what `./tenfold probe` has measured of the device's matmuls; of a GPU
/// also that of what its maker states, where the table of cards has it.
inline void note_utilisation(const Trial& trial, const Techniques& techniques) {
  if (techniques.bf16 && trial.device.is_cpu()) trial.skip("on a CPU the ceiling is that of 32 bits");
  const Counted counted = count_step(trial.device, [&] { return step_with(trial, techniques); });
  const auto tokens = static_cast<double>(trial.get(gpt2::kBatch) * trial.get(gpt2::kLength));
  const double by_formula = flops_per_token(gpt2_options(trial));  // the padding's are no use
  trial.note("FLOP a token, by formula", by_formula / 1e6, "MFLOP");
  trial.note("FLOP a token, counted", counted.whole.flops / tokens / 1e6, "MFLOP");
  if (!counted.timed) return;
  const double rate = tokens / counted.step_seconds;
  trial.note("tokens", rate, "/s");
  static const Machine machine = fingerprint();
  static const std::map<std::string, double> ceilings = read_ceilings(machine.id);
  const char* const matmuls = matmul_ceiling(trial.device.is_cuda(), techniques);
  if (const auto ceiling = ceilings.find(matmuls); ceiling != ceilings.end())
    trial.note("MFU of the measured ceiling", 100 * rate * by_formula / ceiling->second, "%");
  // The maker's share of a rate; none of TF32, and of no card that is not in the table.
  if (const auto share = share_of_makers(machine, matmuls, rate * by_formula))
    trial.note("MFU of the card's peak", 100 * *share, "%");
}

inline std::vector<Look> utilisations() {
  std::vector<Look> looks = {{"plain", [](const Trial& trial) { note_utilisation(trial, {}); }}};
  for (const size_t count : {3, 5})
    looks.push_back({stack_name(count), [count](const Trial& trial) { note_utilisation(trial, stack_of(count)); }});
  return looks;
}

}  // namespace tenfold::inline lesson_91
