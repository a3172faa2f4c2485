// Steps of speeches: the same lengths in each, other speeches in each, and what is predicted from them.
#include <gtest/gtest.h>

#include "common/data/speeches.h"
#include "common/data/tokenizer.h"
#include "common/measure/memory.h"
#include "packed_gpt.h"
#include "prediction.h"
#include "speech_training.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace tenfold {
namespace {

std::vector<int64_t> lengths_of(const std::vector<TextIds>& texts) {
  std::vector<int64_t> lengths;
  for (const TextIds text : texts) lengths.push_back(static_cast<int64_t>(text.size()) - 1);
  return lengths;
}

TEST(EncodedSpeeches, AreAllSpeechesBetweenEndMarks) {
  const std::vector<Speech> all = speeches(/*train=*/true);
  for (const Encoding encoding : {Encoding::characters, Encoding::gpt2}) {
    const auto encoded = encoded_speeches(encoding);
    ASSERT_EQ(encoded->texts.size(), all.size());
    const int32_t end_mark = encoding == Encoding::gpt2 ? Gpt2Tokenizer::end_of_text : 0;
    for (const TextIds text : encoded->texts) {
      ASSERT_GE(text.size(), 3U);
      ASSERT_TRUE(text.front() == end_mark && text.back() == end_mark);
    }
    EXPECT_TRUE(std::is_sorted(encoded->texts.begin(), encoded->texts.end(),
                               [](TextIds a, TextIds b) { return a.size() < b.size(); }));
    EXPECT_EQ(encoded, encoded_speeches(encoding)) << "encoded once";
  }
}

TEST(SpeechBatches, TextsAreSpeechesAndTheirCutBeginnings) {
  const Gpt2Tokenizer tokenizer;
  std::multiset<std::string> said;
  for (const Speech& speech : speeches(/*train=*/true)) said.insert(speech.text);
  SpeechBatches batches({Encoding::gpt2, 16, 40, 0}, 1);
  int whole = 0, cut = 0;
  for (int step = 0; step < 5; ++step) {
    for (const TextIds text : batches.next()) {
      const bool ends = text.back() == Gpt2Tokenizer::end_of_text;
      const std::string words = tokenizer.decode(text.subspan(1, text.size() - (ends ? 2 : 1)));
      if (ends) {
        EXPECT_TRUE(said.contains(words)) << words;
        ++whole;
      } else {
        EXPECT_EQ(text.size(), 41U);
        const auto found = said.lower_bound(words);
        EXPECT_TRUE(found != said.end() && found->starts_with(words)) << words;
        ++cut;
      }
    }
  }
  EXPECT_GT(whole, 0);
  EXPECT_GT(cut, 0);
}

TEST(SpeechBatches, EveryStepHasTheSameLengthsButOtherSpeeches) {
  for (const SpeechSettings& settings :
       {SpeechSettings{Encoding::characters, 8, 64, 0}, SpeechSettings{Encoding::characters, 7, 1024, 0},
        SpeechSettings{Encoding::gpt2, 16, 512, 0}, SpeechSettings{Encoding::characters, 5, 64, 32}}) {
    SpeechBatches batches(settings, 1), same(settings, 1), other(settings, 2);
    const int64_t tokens = std::accumulate(batches.lengths().begin(), batches.lengths().end(), int64_t{0});
    EXPECT_EQ(batches.tokens_per_step(), tokens);
    std::set<const int32_t*> seen;
    std::set<std::vector<int64_t>> orders;
    bool differs = false;
    for (int step = 0; step < 6; ++step) {
      const auto texts = batches.next(), again = same.next(), third = other.next();
      std::vector<int64_t> lengths = lengths_of(texts);
      orders.insert(lengths);
      std::sort(lengths.begin(), lengths.end());
      EXPECT_EQ(lengths, batches.lengths());
      for (size_t i = 0; i < texts.size(); ++i) {
        seen.insert(texts[i].data());
        EXPECT_EQ(texts[i].data(), again[i].data()) << "equal seeds";
        differs = differs || texts[i].data() != third[i].data();
      }
    }
    EXPECT_GT(seen.size(), static_cast<size_t>(2 * settings.batch));
    EXPECT_EQ(orders.size() > 1, settings.equal == 0) << "the order is drawn, too";
    EXPECT_TRUE(differs) << "other seeds";
  }
}

TEST(SpeechBatches, LengthsAreQuantiles) {
  const auto encoded = encoded_speeches(Encoding::characters);
  const SpeechBatches batches({Encoding::characters, 10, 100, 0}, 1);
  for (size_t i = 0; i < 10; ++i) {
    const int64_t length = batches.lengths()[i];
    const auto shorter =
        static_cast<double>(std::count_if(encoded->texts.begin(), encoded->texts.end(),
                                          [&](TextIds t) { return static_cast<int64_t>(t.size()) - 1 < length; }));
    const auto not_longer =
        static_cast<double>(std::count_if(encoded->texts.begin(), encoded->texts.end(),
                                          [&](TextIds t) { return static_cast<int64_t>(t.size()) - 1 <= length; }));
    const double quantile = (static_cast<double>(i) + 0.5) / 10, all = static_cast<double>(encoded->texts.size());
    EXPECT_LE(shorter / all, quantile) << length;
    if (length < 100) {
      EXPECT_GE(not_longer / all, quantile) << length;
    }
  }
  EXPECT_EQ(batches.lengths().back(), 100) << "longer ones are cut";
  EXPECT_EQ(batches.longest_of_all(), 100);
  EXPECT_EQ(SpeechBatches({Encoding::characters, 10, 1 << 20, 0}, 1).longest_of_all(), encoded->longest());
}

TEST(SpeechBatches, EqualLengthsAndErrors) {
  const SpeechBatches equal({Encoding::gpt2, 4, 128, 64}, 1);
  EXPECT_EQ(equal.lengths(), (std::vector<int64_t>(4, 64)));
  EXPECT_EQ(equal.longest_of_all(), 64);
  EXPECT_THROW(SpeechBatches({Encoding::gpt2, 4, 1 << 20, 1 << 20}, 1), std::invalid_argument);
  EXPECT_THROW(SpeechBatches({Encoding::gpt2, 0, 64, 0}, 1), std::invalid_argument);
  EXPECT_THROW(SpeechBatches({Encoding::gpt2, 4, 0, 0}, 1), std::invalid_argument);
}

Trial trial_with(const std::vector<Assignment>& settings, uint64_t seed = 15) {
  auto record = std::make_shared<TrialRecord>();
  for (const Assignment& setting : settings) record->given[setting.name] = setting.value.cpu;
  Trial trial(record);
  trial.seed = seed;
  torch::manual_seed(seed);
  return trial;
}

TEST(SpeechTraining, ModelIsTheGpts) {
  const std::vector<Assignment> settings{gpt::kLayers(2), gpt::kWidth(32)};
  const SpeechTraining speech(trial_with(settings));
  const GptTraining plain(trial_with(settings));
  const auto ours = speech.gpt.parameters(), expected = plain.parameters();
  ASSERT_EQ(ours.size(), expected.size());
  for (const auto& item : expected) EXPECT_TRUE(torch::equal(ours[item.key()], item.value())) << item.key();
  const SpeechTraining with_gpt2_tokens(trial_with({gpt::kTokens("gpt2"), gpt::kWidth(16)}));
  EXPECT_EQ(with_gpt2_tokens.gpt.model->options.vocabulary(), 50304);
  EXPECT_THROW(SpeechTraining(trial_with({kBuckets(0)})), c10::Error);
}

const std::vector<Assignment> kSmall{gpt::kLayers(2), gpt::kLength(256), gpt::kWidth(32)};

Step padded_step(Plan plan, bool split) {
  auto work = std::make_shared<SpeechTraining>(trial_with(kSmall));
  return speech_step(work, [work, plan, split](const std::vector<TextIds>& texts) {
    torch::Tensor total = torch::zeros({});
    for (const MicroBatch& part : plan(texts, work->plan)) {
      const auto [ids, targets] = work->padded(part, kIgnoredTarget);
      torch::Tensor loss = work->gpt.model->loss(work->gpt.model->hidden(ids), targets);
      if (split) loss = loss / 4;
      loss.backward();
      total += loss.detach();
    }
    return total;
  });
}

Step packed_step(const PackedAttention& attention) {
  const auto packing = std::make_shared<Packing>();
  auto work = std::make_shared<SpeechTraining>(trial_with(kSmall), with_packed_attention(packing, attention));
  return speech_step(work, [work, packing](const std::vector<TextIds>& texts) {
    torch::Tensor loss = packed_loss(*work->gpt.model, packing, work->packed(texts));
    loss.backward();
    return loss;
  });
}

int64_t measured_peak(const std::function<Step()>& build) { return count_step(torch::kCPU, build).peak_bytes; }

// What the lesson prints as predicted, against peaks counted at once.
TEST(StepWork, PeaksAreAsPredicted) {
  Counted baseline = count_step(torch::kCPU, [] { return padded_step(pad_to_batch, false); });
  for (const Assignment& read : {gpt::kLayers(2), gpt::kLength(256), gpt::kWidth(32), gpt::kHeads(4), gpt::kBatch(8),
                                 gpt::kDropout(0), gpt::kTokens("characters"), kEqual(0), kBuckets(4)}) {
    baseline.settings[read.name] = read.value.cpu;
  }
  const std::vector<TextIds> texts = texts_of_step(baseline);
  const PlanSettings plan = plan_settings(baseline);
  const auto expect_near = [&](const char* what, const StepWork& work, int64_t measured) {
    const auto predicted = static_cast<double>(predict_step(baseline, work).peak_bytes.value());
    EXPECT_NEAR(predicted / static_cast<double>(measured), 1, 0.05)
        << what << ": predicted " << predicted << ", measured " << measured;
    EXPECT_GT(std::abs(static_cast<double>(baseline.peak_bytes) / static_cast<double>(measured) - 1), 0.1)
        << what << ": the baseline's own peak would be as good a prediction";
  };
  EXPECT_NEAR(static_cast<double>(*predict_step(baseline, padded_work(texts, pad_to_batch, plan)).peak_bytes),
              static_cast<double>(baseline.peak_bytes), 0.02 * static_cast<double>(baseline.peak_bytes));
  expect_near("packed", work_of_each(baseline), measured_peak([] { return packed_step(attention_of_each); }));
  expect_near("padded attention", work_of_padded_attention(baseline),
              measured_peak([] { return packed_step(attention_padded); }));
  expect_near("buckets", padded_work(texts, pad_in_buckets, plan),
              measured_peak([] { return padded_step(pad_in_buckets, true); }));
}

TEST(StepWork, CountsRowsAndPairs) {
  const std::vector<int32_t> ids(20, 1);
  const std::vector<TextIds> texts{TextIds(ids).first(3), TextIds(ids).first(11),
                                   TextIds(ids).first(6)};  // 2, 10 and 5 tokens
  const StepWork packed = packed_work(texts);
  EXPECT_EQ(packed.rows, 17);
  EXPECT_EQ(packed.pairs, 2 * 2 + 10 * 10 + 5 * 5);
  const StepWork padded = padded_work(texts, pad_to_batch, {});
  EXPECT_EQ(padded.rows, 30);
  EXPECT_EQ(padded.pairs, 300);
  EXPECT_EQ(padded.pieces, 1);
  const StepWork buckets = padded_work(texts, pad_in_buckets, {.longest = 12, .buckets = 2});
  EXPECT_EQ(buckets.rows, 2 + 20);
  EXPECT_EQ(buckets.largest_piece, 20);
  EXPECT_EQ(buckets.pieces, 2);
  EXPECT_EQ(padded_work(texts, pad_to_data_set, {.longest = 12, .buckets = 2}).rows, 36);
}

}  // namespace
}  // namespace tenfold
