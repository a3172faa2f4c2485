// Lesson 15 - Variable length
// What does padding cost when texts have very different lengths, and how much of it can be saved?
// Read padded() and packed() first; packing.h lays texts out, varlen_attention.h keeps them apart.
#include "common/harness/lesson.h"
#include "packed_gpt.h"
#include "padding_plans.h"
#include "prediction.h"
#include "speech_survey.h"
#include "speech_training.h"

namespace {
using namespace tenfold;
using torch::Tensor;
using Texts = std::vector<TextIds>;  // of one step

/// How the mean over a step's tokens is made; two of the traps make it wrong.
struct Mean {
  int64_t target_of_padding = kIgnoredTarget;
  bool by_tokens = true;
};

/// Padded: a step's texts in one rectangle, or in several of like length. The loss of each is a mean over its own
/// tokens, and its weight in the step's mean is its share of the tokens.
Step padded(const Trial& trial, Plan plan, Mean mean = {}) {
  auto work = std::make_shared<SpeechTraining>(trial);
  const auto all = static_cast<double>(work->speeches.tokens_per_step());
  const double rows = padded_work(SpeechBatches(work->speeches).next(), plan, work->plan).rows;
  trial.note("real tokens", 100 * all / rows, "%");
  return speech_step(work, [work, plan, mean, all](const Texts& texts) {
    const std::vector<MicroBatch> parts = plan(texts, work->plan);
    Tensor total = torch::zeros({}, work->device);
    for (const MicroBatch& part : parts) {
      const double weight =
          mean.by_tokens ? static_cast<double>(part.tokens()) / all : 1 / static_cast<double>(parts.size());
      Tensor loss = weight * work->loss(work->padded(part, mean.target_of_padding));
      loss.backward();
      total += loss.detach();
    }
    return total;
  });
}

/// Packed: a step's tokens in one row with nothing between; `attention` keeps the texts apart. All layers use the
/// step's mask.
Step packed(const Trial& trial, const PackedAttention& attention, bool with_mask = false) {
  const auto packing = std::make_shared<Packing>();  // of the step in work
  auto work = std::make_shared<SpeechTraining>(trial, with_packed_attention(packing, attention));
  return speech_step(work, [work, packing, with_mask](const Texts& texts) {
    PackedBatch batch = work->packed(texts);  // (total) ids and targets
    if (with_mask) batch.packing.mask = block_diagonal_mask(batch.packing);
    Tensor loss = work->forward([&] { return packed_loss(*work->gpt.model, packing, batch); });
    loss.backward();
    return loss;
  });
}

Step to_batch(const Trial& trial) { return padded(trial, pad_to_batch); }
Step buckets(const Trial& trial) { return padded(trial, pad_in_buckets); }
Step to_data_set(const Trial& trial) { return padded(trial, pad_to_data_set); }

Step each_alone(const Trial& trial) { return packed(trial, attention_of_each); }
Step padded_attention(const Trial& trial) { return packed(trial, attention_padded); }
Step one_mask(const Trial& trial) { return packed(trial, attention_masked, /*with_mask=*/true); }
Step one_kernel(const Trial& trial) {
  if (!trial.device.is_cuda()) trial.skip("needs a CUDA device: LibTorch has no CPU kernel for packed sequences");
  return packed(trial, attention_in_one_kernel);
}

/// The trap: with nothing but a causal mask, every text sees those that happen to lie before it.
Step no_boundaries(const Trial& trial) {
  return packed(trial, [](const Tensor& qkv, const Packing&) {  // (total, 3, H, D), as one
    return aten_attention(qkv.unsqueeze(0), /*dropout=*/0).squeeze(0);
  });
}

/// Two more traps: padding counts as text; every micro-batch counts the same, of few tokens or many.
Step padding_counted(const Trial& trial) { return padded(trial, pad_to_batch, {.target_of_padding = 0}); }
Step mean_of_means(const Trial& trial) { return padded(trial, pad_in_buckets, {.by_tokens = false}); }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  constexpr Expect kLess{FASTER, SMALLER};
  const auto fewer_bits = Agreement::within(8e-3, "sums of numbers with 8 bits");
  const std::vector<Expectation> short_context = {
      {"packed", kLess, on_cuda(SMALLER)},
      {"packed, one kernel", kLess},
      {"packed, padded attention", kLess, on_cuda(SMALLER)},
      {"packed, one mask", SLOWER, on_cuda(SMALLER)},
      {"buckets", SMALLER},
      {"padded to the data set", {SAME_SPEED, SAME_MEMORY}, on_cuda({SLOWER, LARGER})},
      {"no boundaries", TRAP},
      {"padding counted", TRAP},
      {"mean of means", TRAP}};
  const std::vector<Expectation> long_context = {{"packed", kLess},
                                                 {"packed, one kernel", kLess},
                                                 {"packed, padded attention", kLess},
                                                 {"packed, one mask", FASTER},
                                                 {"buckets", kLess, on_cuda(SMALLER)},
                                                 {"padded to the data set", {SLOWER, LARGER}}};
  const std::vector<Expectation> mostly_attention = {{"packed", kLess, on_cuda(SMALLER)},
                                                     {"packed, one kernel", kLess, on_cuda(SMALLER)},
                                                     {"packed, padded attention", {}}};
  return run(
      argc, argv,
      {.title = "Variable length",
       .question = "What does padding cost when texts have very different lengths, and how much of it can be saved?",
       .workload = gpt_workload,
       .version = 9,
       .core = true,
       .settings = {kEqual, kBuckets, kPrecision},
       .baseline = {"padded to the batch", to_batch},
       .techniques = {{"packed", each_alone, predict_each},
                      {"packed, one kernel", one_kernel, predict_one_kernel},
                      {"packed, padded attention", padded_attention, predict_padded_attention},
                      {"packed, one mask", one_mask, predict_one_mask},
                      {"buckets", buckets, predict_buckets},
                      {"padded to the data set", to_data_set, predict_padded_to_data_set},
                      {"packed, 16 bits", each_alone, nullptr, fewer_bits},
                      {"packed, one kernel, 16 bits", one_kernel, nullptr, fewer_bits},
                      {"no boundaries", no_boundaries},
                      {"padding counted", padding_counted},
                      {"mean of means", mean_of_means}},
       // Half of the speeches are cut to a CPU's context of 64, so each step has one as long as the longest.
       .cases = {{"gpt", {}, short_context},
                 {"speeches",
                  {gpt::kLayers(1, 2, 2), gpt::kWidth(32, 512, 768), gpt::kHeads(2, 8, 12), gpt::kLength(512)},
                  long_context},
                 {.name = "16 bits",  // FlashAttention
                  .settings = {gpt::kLayers(1, 2, 2), gpt::kWidth(32, 512, 768), gpt::kHeads(2, 8, 12),
                               gpt::kLength(512), kPrecision("bfloat16")},
                  .expected = {{"packed, 16 bits", kLess, on_cuda(SMALLER)}, {"packed, one kernel, 16 bits", kLess}}},
                 {"equal",
                  {kEqual(64)},
                  {{"packed", {SLOWER, LARGER}, on_cuda()}, {"packed, one kernel", SAME_MEMORY}}},
                 {"attention",
                  {gpt::kTokens("characters"), gpt::kLayers(1, 2, 2), gpt::kWidth(16, 128, 256), gpt::kHeads(2, 2, 4),
                   gpt::kLength(1024), gpt::kBatch(8, 32, 64)},
                  mostly_attention},
                 {"GPT-2 tokens",
                  {gpt::kTokens("gpt2"), gpt::kLayers(1, 2, 2), gpt::kWidth(16), gpt::kHeads(2),
                   gpt::kLength(64, 128, 128), gpt::kBatch(4)},
                  {{"packed", kLess, on_cuda(SMALLER)}}}},
       .surveys = {{"all speeches",
                    {{"padded to the batch", count_to_batch},
                     {"buckets", count_buckets},
                     {"padded to the data set", count_to_data_set}},
                    {gpt::kLength(1024)}}},
       .headline = Headline{"speeches", "packed"},
       .agreement = Agreement::within(1e-4, "the same sums in another order")});
}
