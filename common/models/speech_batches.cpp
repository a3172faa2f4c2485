#include "common/models/speech_batches.h"

#include "common/data/data_files.h"
#include "common/data/speeches.h"
#include "common/data/tokenizer.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>

namespace tenfold {
namespace {

std::shared_ptr<const EncodedSpeeches> encode_all(Encoding encoding) {
  auto all = std::make_shared<EncodedSpeeches>();
  std::vector<size_t> begins;
  const auto add = [&](const auto& ids, int32_t end_mark) {
    begins.push_back(all->ids.size());
    all->ids.push_back(end_mark);
    all->ids.insert(all->ids.end(), ids.begin(), ids.end());
    all->ids.push_back(end_mark);
  };
  if (encoding == Encoding::characters) {
    for (const Speech& speech : speeches(/*train=*/true)) add(speech.text, 0);
  } else {
    const Gpt2Tokenizer tokenizer;
    for (const Speech& speech : speeches(/*train=*/true))
      add(tokenizer.encode(speech.text), Gpt2Tokenizer::end_of_text);
  }
  begins.push_back(all->ids.size());
  for (size_t i = 0; i + 1 < begins.size(); ++i)
    all->texts.push_back(TextIds(all->ids).subspan(begins[i], begins[i + 1] - begins[i]));
  std::sort(all->texts.begin(), all->texts.end(), shorter);
  return all;
}

}  // namespace

std::shared_ptr<const EncodedSpeeches> encoded_speeches(Encoding encoding) {
  // Every variant of a lesson asks again.
  static std::mutex mutex;
  static std::map<std::pair<std::filesystem::path, Encoding>, std::shared_ptr<const EncodedSpeeches>> encoded;
  const std::lock_guard lock(mutex);
  auto& found = encoded[{data_folder(), encoding}];
  if (!found) found = encode_all(encoding);
  return found;
}

SpeechBatches::SpeechBatches(const SpeechSettings& settings, uint64_t seed)
    : speeches_(encoded_speeches(settings.encoding)), bits_(seed) {
  if (settings.batch < 1 || settings.context < 1 || settings.equal < 0) {
    throw std::invalid_argument("speeches: batch and context must be at least 1, and equal at least 0");
  }
  const std::vector<TextIds>& texts = speeches_->texts;
  // Texts from this one on have so many tokens or more.
  const auto first_of = [&](int64_t length) {
    return static_cast<size_t>(
        std::partition_point(texts.begin(), texts.end(),
                             [&](TextIds text) { return static_cast<int64_t>(text.size()) - 1 < length; }) -
        texts.begin());
  };
  const int64_t most = settings.equal > 0 ? std::min(settings.equal, settings.context) : settings.context;
  const size_t shortest = settings.equal > 0 ? first_of(most) : 0;
  if (shortest == texts.size()) throw std::invalid_argument("speeches: none has " + std::to_string(most) + " tokens");
  longest_ = std::min(most, speeches_->longest());
  for (int64_t i = 0; i < settings.batch; ++i) {
    const size_t quantile = shortest + static_cast<size_t>((2 * i + 1) * static_cast<int64_t>(texts.size() - shortest) /
                                                           (2 * settings.batch));
    const int64_t length = std::min(most, static_cast<int64_t>(texts[quantile].size()) - 1);
    lengths_.push_back(length);
    candidates_.emplace_back(first_of(length), length == most ? texts.size() : first_of(length + 1));  // cut ones, too
  }
}

std::vector<TextIds> SpeechBatches::next() {
  std::vector<TextIds> batch;
  for (size_t i = 0; i < lengths_.size(); ++i) {
    const auto [first, last] = candidates_[i];
    // The remainder of 64 random bits: the same on every platform, unlike std::uniform_int_distribution.
    batch.push_back(speeches_->texts[first + bits_() % (last - first)].first(static_cast<size_t>(lengths_[i]) + 1));
  }
  for (size_t i = batch.size(); i > 1; --i) std::swap(batch[i - 1], batch[bits_() % i]);
  return batch;
}

int64_t SpeechBatches::tokens_per_step() const { return std::accumulate(lengths_.begin(), lengths_.end(), int64_t{0}); }

}  // namespace tenfold
