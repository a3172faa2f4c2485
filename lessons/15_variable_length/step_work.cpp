#include <tenfold/step_work.h>

#include <tenfold/epoch_plan.h>
#include <tenfold/speech_training.h>

#include <algorithm>

namespace tenfold {

StepWork padded_work(const std::vector<TextIds>& texts, Plan plan, const PlanSettings& settings) {
  StepWork work{.pieces = 0};
  for (const MicroBatch& part : plan(texts, settings)) {
    const auto rows = static_cast<double>(part.rows());
    work.rows += rows;
    work.pairs += static_cast<double>(part.texts.size()) * pairs_of(static_cast<double>(part.length));
    work.largest_piece = std::max(work.largest_piece, rows);
    work.pieces += 1;
  }
  return work;
}

StepWork packed_work(const std::vector<TextIds>& texts) {
  StepWork work;
  for (const TextIds text : texts) {
    const auto tokens = static_cast<double>(text.size() - 1);
    work.rows += tokens;
    work.pairs += pairs_of(tokens);
  }
  work.largest_piece = work.rows;
  return work;
}

// Six operators for each text: five that make views or heads of them, and the attention. Its results are kept, and so is the row that
// they are copied to.
StepWork work_of_each(const Counted& baseline) {
  const std::vector<TextIds> texts = texts_of_step(baseline);
  StepWork work = packed_work(texts);
  work.operators = 6 * static_cast<double>(texts.size()) * baseline.setting("layers");
  work.kept_bytes = work.rows * baseline.setting("width") * 4 * baseline.setting("layers");
  return work;
}

// What attention keeps (q, k, v, its result, and a number for each head) has padding; its result is also kept as packed.
StepWork work_of_padded_attention(const Counted& baseline) {
  StepWork work = packed_work(texts_of_step(baseline));
  const StepWork padded = padded_work(texts_of_step(baseline), pad_to_batch, {});
  const double width = baseline.setting("width"), heads = baseline.setting("heads");
  work.pairs = padded.pairs;
  work.kept_bytes = ((padded.rows - work.rows) * (4 * width + heads) + work.rows * width) * 4 * baseline.setting("layers");
  return work;
}

StepWork work_of_one_mask(const Counted& baseline) {
  StepWork work = packed_work(texts_of_step(baseline));
  work.pairs = work.rows * work.rows;
  work.kept_bytes = 4 * work.pairs;  // the mask
  return work;
}

StepWork work_of_one_kernel(const Counted& baseline) { return packed_work(texts_of_step(baseline)); }

std::vector<TextIds> texts_of_step(const Counted& baseline) { return SpeechBatches(speech_settings(baseline), 0).next(); }

PlanSettings plan_settings(const Counted& baseline) {
  return {SpeechBatches(speech_settings(baseline), 0).longest_of_all(), static_cast<int64_t>(baseline.setting("buckets"))};
}

// Peak bytes: the highest of three moments. Parameters and momenta are always there; so are, with several micro-batches, the gradients
// of those before. What rows keep and what the head's loss needs shrink or grow with them. The last block's backward comes with its
// working memory (see lesson 31) on top of the head's gradients; at the end all gradients are there, and the one that arrives at the
// embeddings.
Prediction predict_step(const Counted& baseline, const StepWork& work) {
  const StepWork before = padded_work(texts_of_step(baseline), pad_to_batch, {});
  const auto& block = baseline.region("block.forward");
  const auto& head = baseline.region("head.forward");

  const double width = baseline.setting("width"), row = width * 4, scale = work.largest_piece / before.rows;  // a row: D floats
  const double stream = before.rows * row;
  const auto gradients = static_cast<double>(baseline.gradient_bytes), resting = static_cast<double>(baseline.resting_bytes);
  const double block_gradients = baseline.setting("layers") * (12 * width + 13) * row;
  const double states = work.pieces > 1 ? resting : resting - gradients;
  const double kept = states + work.kept_bytes + scale * (stream + static_cast<double>(block.retained_bytes));
  const auto head_kept = static_cast<double>(head.retained_bytes);
  const double at_loss = kept + scale * std::max(static_cast<double>(head.largest_peak_bytes), head_kept + 2 * (head_kept - stream));
  const double new_gradients = work.pieces > 1 ? 0 : gradients - block_gradients;
  const double in_block = kept + new_gradients + scale * 5 * stream + 4 * width * row;
  const double at_end = resting + scale * stream;
  Prediction prediction{.peak_bytes = static_cast<int64_t>(std::max({at_loss, in_block, at_end}))};

  // Time: the update and the dispatch of operators stay. Attention's part of forward is taken for its part of backward, too. Each
  // further micro-batch dispatches every operator again, reads the parameters twice, writes gradients of its own and adds them. Arrays
  // over 32 MiB come from the system each time, which clears them: the logits, their logarithms and two gradients (see lesson 44).
  const auto ceiling = [&](const char* name) { return baseline.ceilings.contains(name) ? baseline.ceilings.at(name) : 0; };
  const double op = ceiling("cpu_new_tensor_op_seconds"), both_ways = ceiling("cpu_autograd_op_seconds"),
               copy = ceiling("cpu_copy_bytes_per_s");
  if (op == 0 || both_ways == 0 || copy == 0) return prediction;
  const double dispatch = static_cast<double>(baseline.whole.operators) * op;
  const double fixed = baseline.share("update") * baseline.step_seconds + dispatch;
  const double attention = baseline.region("attention").seconds / (block.seconds + head.seconds);
  constexpr double kFromTheSystem = 32 << 20;
  const auto clearing = [&](double logits) { return logits > kFromTheSystem ? 4 * logits / copy : 0; };
  const double logits = head_kept - stream, cleared = clearing(logits);
  const double in_proportion = (1 - attention) * work.rows / before.rows + attention * work.pairs / before.pairs;
  const double bytes = 2 * static_cast<double>(baseline.parameter_bytes) + 4 * gradients;
  const double seconds = fixed + (baseline.step_seconds - fixed - cleared) * in_proportion + clearing(scale * logits) * work.pieces +
                         work.operators * both_ways + (work.pieces - 1) * (dispatch + bytes / copy);
  prediction.speed_ratio = baseline.step_seconds / seconds;
  return prediction;
}

Step note_all_speeches(const Trial& trial, Plan plan) {
  const SpeechSettings settings = speech_settings(trial);
  const PlanSettings plan_settings{SpeechBatches(settings, trial.seed).longest_of_all(), trial.get("buckets", 4)};
  const auto speeches = encoded_speeches(settings.encoding);
  const std::vector<TextIds>& all = speeches->texts;
  double rows = 0, real_rows = 0, pairs = 0, real_pairs = 0;
  std::vector<TextIds> batch;
  size_t left = all.size();
  for (const int64_t i : epoch_order(static_cast<int64_t>(all.size()), trial.seed, /*epoch=*/0, /*shuffle=*/true)) {
    const TextIds text = all[static_cast<size_t>(i)];
    batch.push_back(text.first(std::min(text.size(), static_cast<size_t>(settings.context) + 1)));
    if (--left > 0 && static_cast<int64_t>(batch.size()) < settings.batch) continue;
    const StepWork padded = padded_work(batch, plan, plan_settings), real = packed_work(batch);
    rows += padded.rows, real_rows += real.rows, pairs += padded.pairs, real_pairs += real.pairs;
    batch.clear();
  }
  trial.note("real tokens", 100 * real_rows / rows, "%");
  trial.note("real pairs of attention", 100 * real_pairs / pairs, "%");
  return {};
}

}  // namespace tenfold
