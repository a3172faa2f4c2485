// Lesson 15 - Variable length
//
// Question  What does padding cost when texts have very different lengths, and how much of it comes back?
// Expect    Packed, a step costs what its real tokens cost, in time and in memory; the losses are the same.
// Not for   Texts of one length (case "equal"): there is nothing to leave out, and an operator for each text to pay.
// Run       ./tenfold run 15_variable_length
// Read      padded() and packed(); packing.h lays texts out, varlen_attention.h keeps them from looking at each other.
#include <tenfold/gpt_attention.h>
#include <tenfold/lesson.h>
#include <tenfold/packed_gpt.h>
#include <tenfold/padding_plans.h>
#include <tenfold/speech_training.h>
#include <tenfold/step_work.h>

namespace {
using tenfold::Counted;
using tenfold::MicroBatch;
using tenfold::PackedBatch;
using tenfold::Packing;
using tenfold::SpeechTraining;
using tenfold::Step;
using tenfold::TextIds;
using tenfold::Trial;
using torch::Tensor;
using Texts = std::vector<TextIds>;  // of one step

/// How the mean over a step's tokens is made; two of the traps make it wrong.
struct Mean {
  int64_t target_of_padding = tenfold::kIgnoredTarget;
  bool by_tokens = true;
};

/// Padded: a step's texts in one rectangle, or in several of like length. The loss of each is a mean over its own tokens, and its part
/// of the step's mean is its part of the tokens.
Step padded(const Trial& trial, tenfold::Plan plan, Mean mean = {}) {
  if (trial.get("all", 0) > 0) return tenfold::note_all_speeches(trial, plan);
  auto work = std::make_shared<SpeechTraining>(trial);
  const auto all = static_cast<double>(work->speeches.tokens_per_step());
  const double rows = tenfold::padded_work(tenfold::SpeechBatches(work->speeches).next(), plan, work->plan).rows;
  trial.note("real tokens", 100 * all / rows, "%");
  return tenfold::speech_step(work, [work, plan, mean, all](const Texts& texts) {
    const std::vector<MicroBatch> parts = plan(texts, work->plan);
    Tensor total = torch::zeros({}, work->device);
    for (const MicroBatch& part : parts) {
      const auto [ids, targets] = work->padded(part, mean.target_of_padding);  // (n, T) each
      const double weight = mean.by_tokens ? static_cast<double>(part.tokens()) / all : 1 / static_cast<double>(parts.size());
      Tensor loss = weight * tenfold::loss_with(*work->gpt.model, ids, targets, tenfold::attention_by_aten);
      loss.backward();
      total += loss.detach();
    }
    return total;
  });
}

/// Packed: a step's tokens in one row with nothing between; `attention` keeps the texts apart.
Step packed(const Trial& trial, const tenfold::PackedAttention& attention) {
  auto work = std::make_shared<SpeechTraining>(trial);
  return tenfold::speech_step(work, [work, attention](const Texts& texts) {
    const PackedBatch batch = work->packed(texts);  // (total) ids and targets
    Tensor loss = tenfold::packed_loss(*work->gpt.model, batch, attention);
    loss.backward();
    return loss;
  });
}

Step each_alone(const Trial& trial) { return packed(trial, tenfold::attention_of_each); }
Step padded_attention(const Trial& trial) { return packed(trial, tenfold::attention_padded); }
Step one_kernel(const Trial& trial) {
  if (!trial.device.is_cuda()) trial.cannot("needs a CUDA device: LibTorch has no CPU kernel for packed sequences");
  return packed(trial, tenfold::attention_in_one_kernel);
}

/// The mask belongs to the step; all layers use it.
Step one_mask(const Trial& trial) {
  auto work = std::make_shared<SpeechTraining>(trial);
  return tenfold::speech_step(work, [work](const Texts& texts) {
    const PackedBatch batch = work->packed(texts);
    const Tensor mask = tenfold::block_diagonal_mask(batch.packing);  // (total, total)
    const auto attention = [&mask](const Tensor& qkv, const Packing&) { return tenfold::attention_masked(qkv, mask); };
    Tensor loss = tenfold::packed_loss(*work->gpt.model, batch, attention);
    loss.backward();
    return loss;
  });
}

/// The trap: with nothing but a causal mask, every text looks at those that happen to lie before it.
Step no_boundaries(const Trial& trial) {
  return packed(trial, [](const Tensor& qkv, const Packing&) {
    const auto parts = qkv.permute({1, 2, 0, 3}).unsqueeze(1).unbind(0);  // three of (1, H, total, D)
    return tenfold::attention_by_aten(parts[0], parts[1], parts[2]).transpose(1, 2).reshape({qkv.size(0), -1});
  });
}

Step to_batch(const Trial& trial) { return padded(trial, tenfold::pad_to_batch); }

tenfold::Variant padded_variant(const std::string& name, tenfold::Plan plan) {
  return {name, [plan](const Trial& trial) { return padded(trial, plan); },
          [plan](const Counted& baseline) {
            return predict_step(baseline, padded_work(texts_of_step(baseline), plan, plan_settings(baseline)));
          }};
}

tenfold::Variant packed_variant(const std::string& name, Step (*build)(const Trial&), tenfold::StepWork (*work_of)(const Counted&)) {
  return {name, build, [work_of](const Counted& baseline) { return predict_step(baseline, work_of(baseline)); }};
}

/// Two more traps: padding counts as text; and every micro-batch counts the same, though its tokens may be few.
Step padding_counted(const Trial& trial) { return padded(trial, tenfold::pad_to_batch, {.target_of_padding = 0}); }
Step mean_of_means(const Trial& trial) { return padded(trial, tenfold::pad_in_buckets, {.by_tokens = false}); }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const tenfold::Expect trap{ANY, ANY, TRAP};
  return tenfold::run(
      argc, argv,
      {.title = "Variable length",
       .question = "What does padding cost when texts have very different lengths, and how much of it comes back?",
       .workload = "R2",
       .baseline = {"padded to the batch", to_batch},
       .techniques = {packed_variant("packed", each_alone, tenfold::work_of_each),
                      packed_variant("packed, one kernel", one_kernel, tenfold::work_of_one_kernel),
                      packed_variant("packed, padded attention", padded_attention, tenfold::work_of_padded_attention),
                      packed_variant("packed, one mask", one_mask, tenfold::work_of_one_mask),
                      padded_variant("buckets", tenfold::pad_in_buckets),
                      padded_variant("padded to the data set", tenfold::pad_to_data_set),
                      {"no boundaries", no_boundaries},
                      {"padding counted", padding_counted},
                      {"mean of means", mean_of_means}},
       // R2's context on a CPU is 64 characters. Half of the speeches are cut to it, so any step has one as long as the longest.
       .cases = {{"R2",
                  {},
                  {{"packed", {FASTER, SMALLER, VALID}, {{ANY, SMALLER, VALID}}},
                   {"packed, one kernel", {FASTER, SMALLER, VALID}},
                   {"packed, padded attention", {FASTER, SMALLER, VALID}, {{ANY, SMALLER, VALID}}},
                   {"packed, one mask", {SLOWER, ANY, VALID}, {{ANY, SMALLER, VALID}}},
                   {"buckets", {ANY, SMALLER, VALID}},
                   {"padded to the data set", {SAME, SAME, VALID}, {{SLOWER, LARGER, VALID}}},
                   {"no boundaries", trap},
                   {"padding counted", trap},
                   {"mean of means", trap}}},
                 {"speeches",
                  {{"layers", 2}, {"length", 512}},
                  {{"packed", {FASTER, SMALLER, VALID}},
                   {"packed, one kernel", {FASTER, SMALLER, VALID}},
                   {"packed, padded attention", {FASTER, SMALLER, VALID}},
                   {"packed, one mask", {FASTER, ANY, VALID}},
                   {"buckets", {FASTER, SMALLER, VALID}, {{ANY, SMALLER, VALID}}},
                   {"padded to the data set", {SLOWER, LARGER, VALID}}}},
                 {"equal",
                  {{"equal", 64}},
                  {{"packed", {SLOWER, LARGER, VALID}, {{ANY, ANY, VALID}}}, {"packed, one kernel", {ANY, SAME, VALID}}}},
                 {"attention",
                  {{"layers", 2}, {"width", 16}, {"heads", 2}, {"length", 1024}},
                  {{"packed", {FASTER, SMALLER, VALID}, {{ANY, SMALLER, VALID}}},
                   {"packed, one kernel", {FASTER, SMALLER, VALID}},
                   {"packed, padded attention", {ANY, ANY, VALID}}}},
                 {"GPT-2 tokens",
                  {{"gpt2_tokens", 1}, {"layers", 2}, {"width", 16}, {"heads", 2}, {"length", 128}, {"batch", 4}},
                  {{"packed", {FASTER, SMALLER, VALID}, {{ANY, SMALLER, VALID}}}}},
                 {"all speeches", {{"all", 1}, {"length", 1024}}, {{"buckets", {}}, {"padded to the data set", {}}}, "foundation"}},
       .agreement = tenfold::Agreement::within(1e-4, "the same sums in another order")});
}
