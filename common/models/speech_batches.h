#pragma once
// Batches of Shakespeare's speeches, each a text of its own, with the same lengths in every step.

#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "common/models/token_stream.h"

namespace tenfold {

/// The speeches to train on as token ids, each with the end mark (0, or GPT-2's 50256) before and behind it.
struct EncodedSpeeches {
  std::vector<int32_t> ids;    ///< of all speeches, one after the other
  std::vector<TextIds> texts;  ///< views into ids, by rising length
  int64_t longest() const { return static_cast<int64_t>(texts.back().size()) - 1; }
};

/// Encoded once per process, in about a second. Throws DataError when a text is missing or altered.
std::shared_ptr<const EncodedSpeeches> encoded_speeches(Encoding encoding);

struct SpeechSettings {
  Encoding encoding = Encoding::characters;
  int64_t batch = 8;     ///< speeches in a step
  int64_t context = 64;  ///< a longer speech is cut to this many tokens
  int64_t equal = 0;     ///< above 0: every speech is cut to this length, and shorter ones are left out
};

/// Speeches for one step after the other. So that every step is the same amount of work, a step's lengths are always
/// the same `batch` quantiles of all lengths, (i + 1/2) / batch; which speech of that length comes, and in what order,
/// is drawn anew each time.
class SpeechBatches {
 public:
  /// Throws std::invalid_argument for a batch or context below 1, or when no speech has `equal` tokens.
  SpeechBatches(const SpeechSettings& settings, uint64_t seed);

  /// `batch` texts; text i is cut so that it has one id more than its length. Equal seeds give equal texts.
  std::vector<TextIds> next();

  const std::vector<int64_t>& lengths() const { return lengths_; }  ///< of every step, rising
  int64_t tokens_per_step() const;
  int64_t longest_of_all() const { return longest_; }  ///< of all speeches, after cutting

 private:
  std::shared_ptr<const EncodedSpeeches> speeches_;
  std::vector<int64_t> lengths_;
  std::vector<std::pair<size_t, size_t>> candidates_;  // of each length: texts [first, last)
  int64_t longest_;
  std::mt19937_64 bits_;
};

}  // namespace tenfold
