#pragma once
// How long the batches of a round are: one length for all, or the lengths that batches of speeches have.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/measure/setting.h"
#include "common/models/gpt.h"
#include "common/models/speech_batches.h"
#include "lessons/10_parallel_loading/epoch_plan.h"
#include "lessons/10_parallel_loading/sample_random.h"

namespace tenfold::inline lesson_32 {

inline constexpr Setting<std::string> kOrder{"order",
                                             "equal",
                                             "lengths of a round's batches: all as long as a sequence can be; as long "
                                             "as the longest of so many speeches, spread "
                                             "evenly and in this order; or each drawn for itself",
                                             {"equal", "shuffled", "rising", "falling", "drawn"}};
inline constexpr Setting<int64_t> kBatches{"batches", 1, "batches of a round; a round is measured as one step"};
inline constexpr Setting<int64_t> kMultiple{"multiple", {16, 64, 64}, "tokens that rounded lengths are a multiple of"};

/// Up to a multiple, but never above the longest that the model takes.
inline int64_t rounded_up(int64_t length, int64_t multiple, int64_t context) {
  return std::min(context, (length + multiple - 1) / multiple * multiple);
}

/// Lengths of `batches` batches, rising. Each is as long as the longest of `batch` texts, cut to `context`; `texts` are
/// the lengths of all texts, rising. They are quantiles, the same for every seed: the longest of B texts is below the
/// quantile q where all B are below the quantile q^(1/B) of the texts.
inline std::vector<int64_t> longest_of_batches(const std::vector<int64_t>& texts, int64_t batch, int64_t context,
                                               int64_t batches) {
  TORCH_CHECK_VALUE(!texts.empty() && batch >= 1 && batches >= 1, "longest_of_batches: ", texts.size(), " texts, ",
                    batches, " batches of ", batch, ": each must be 1 or more");
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < batches; ++i) {
    const double share =
        std::pow((static_cast<double>(i) + 0.5) / static_cast<double>(batches), 1.0 / static_cast<double>(batch));
    const auto place = static_cast<size_t>(share * static_cast<double>(texts.size()));
    lengths.push_back(std::clamp<int64_t>(texts[std::min(place, texts.size() - 1)], 1, context));
  }
  return lengths;
}

/// Lengths of so many batches by the settings of a Trial or of Counted, rising.
template <class Settings>
std::vector<int64_t> rising_lengths(const Settings& settings, int64_t batches) {
  const int64_t context = settings.get(gpt::kLength);
  TORCH_CHECK_VALUE(batches >= 1, "setting batches=", batches, " must be at least 1");
  if (settings.get(kOrder) == "equal") return std::vector<int64_t>(static_cast<size_t>(batches), context);
  std::vector<int64_t> texts;
  for (const TextIds text : encoded_speeches(encoding_named(settings.get(gpt::kTokens)))->texts)
    texts.push_back(static_cast<int64_t>(text.size()) - 1);
  return longest_of_batches(texts, settings.get(gpt::kBatch), context, batches);
}

/// Each batch for itself, from among lengths that are equally likely.
inline std::vector<int64_t> picked_lengths(const std::vector<int64_t>& likely, int64_t batches, uint64_t seed,
                                           int64_t round) {
  SampleRandom random(seed, round, 0);
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < batches; ++i)
    lengths.push_back(likely[static_cast<size_t>(random.below(static_cast<int64_t>(likely.size())))]);
  return lengths;
}

/// Other lengths for each round, as batches are never the same again, but with the same sum and the same longest:
/// neighbours come closer by as many tokens as is drawn. `rising` are those to begin with.
inline std::vector<int64_t> drawn_lengths(const std::vector<int64_t>& rising, const std::string& order, uint64_t seed,
                                          int64_t round) {
  std::vector<int64_t> near = rising;
  for (size_t i = 0; i + 2 < near.size(); i += 2) {
    SampleRandom random(seed, round, static_cast<int64_t>(i));
    const int64_t closer = random.below((near[i + 1] - near[i]) / 2 + 1);
    near[i] += closer;
    near[i + 1] -= closer;
  }
  if (order == "falling") std::ranges::reverse(near);
  if (order != "shuffled") return near;
  std::vector<int64_t> lengths;
  for (const int64_t place : epoch_order(static_cast<int64_t>(near.size()), seed, round, /*shuffle=*/true))
    lengths.push_back(near[static_cast<size_t>(place)]);
  return lengths;
}

/// Tokens of a sequence over all batches of a round, without padding, and with it as in a round that begins.
struct RoundTokens {
  int64_t real = 0, padded = 0;
  int64_t longest = 0, longest_padded = 0;
};

template <class Settings>
RoundTokens tokens_of_round(const Settings& settings) {
  RoundTokens tokens;
  const int64_t context = settings.get(gpt::kLength), multiple = settings.get(kMultiple);
  for (const int64_t length : rising_lengths(settings, settings.get(kBatches))) {
    const int64_t padded = rounded_up(length, multiple, context);
    tokens.real += length;
    tokens.padded += padded;
    tokens.longest = std::max(tokens.longest, length);
    tokens.longest_padded = std::max(tokens.longest_padded, padded);
  }
  return tokens;
}

}  // namespace tenfold::inline lesson_32
