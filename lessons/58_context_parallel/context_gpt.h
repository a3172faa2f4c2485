#pragma once
// What lesson 58 trains: a GPT that has a part of each sequence's tokens, and sees the others through attention alone.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <string>
#include <utility>

#include "common/measure/trial.h"
#include "common/models/gpt.h"
#include "common/models/host_batch.h"
#include "gathered_attention.h"
#include "ring_attention.h"
#include "sequence_parts.h"
#include "settings.h"
#include "ulysses.h"

namespace tenfold::inline lesson_58 {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

enum class Scheme { one_process, ring, zigzag, gathered, ulysses };

inline SequenceOrder order_of(Scheme scheme) {
  const bool zigzag = scheme == Scheme::zigzag || scheme == Scheme::gathered;
  return zigzag ? SequenceOrder::zigzag : SequenceOrder::contiguous;
}

/// What goes wrong in other people's programs.
enum class Mistake {
  none,
  positions_from_zero,  ///< a rank's tokens have positions as if they were a sequence of their own
  mean_of_each_rank,    ///< each rank takes the mean of its own targets, and the ranks' means are averaged
  not_rescaled          ///< two parts' results are averaged, whatever their scores sum up to
};

/// A merge that forgets how much each part weighs.
struct AverageParts {
  static void merge(const torch::Tensor& out, const torch::Tensor& lse, const torch::Tensor& part,
                    const torch::Tensor& part_lse) {
    out.add_(part).div_(2);  // wrong
    lse.copy_(torch::logaddexp(lse, part_lse));
  }
};

/// Attention of a rank's tokens to all tokens before them: (B, T / N, 3, H, D / H) to (B, T / N, D).
inline torch::Tensor attention_over_ranks(const torch::Tensor& qkv, Scheme scheme, const Group& group,
                                          Mistake mistake = Mistake::none) {
  if (scheme == Scheme::ulysses) {
    const torch::Tensor attended = aten_attention(tokens_to_heads(qkv, group), 0);  // (B, T, D / N)
    return heads_to_tokens(attended.unflatten(2, {1, -1, qkv.size(4)}), group).flatten(2);
  }
  const auto parts = qkv.permute({2, 0, 3, 1, 4}).unbind(0);  // three of (B, H, T / N, D / H)
  const auto attend = scheme == Scheme::gathered         ? gathered_attention
                      : mistake == Mistake::not_rescaled ? ring_attention<AverageParts>
                                                         : ring_attention<RescaleParts>;
  const torch::Tensor attended = attend(parts[0], parts[1], parts[2], order_of(scheme), group);
  return attended.transpose(1, 2).flatten(2);
}

constexpr int64_t kIgnored = -100;  // a target of the prompt

/// Sum of the cross-entropy of the targets that count, (...), in 32 bits.
inline torch::Tensor sum_of_losses(GptImpl& model, const torch::Tensor& h, const torch::Tensor& targets) {
  const torch::Tensor logits = model.logits(h).flatten(0, -2).to(torch::kFloat);
  return torch::cross_entropy_loss(logits, targets.flatten(), /*weight=*/{}, at::Reduction::Sum, kIgnored);
}

/// How many targets of this rank count, without waiting for the device.
inline torch::Tensor own_targets(const torch::Tensor& targets) { return targets.ne(kIgnored).sum(); }

/// Skips what the ranks cannot share.
inline void skip_unless_divisible(const Trial& trial, Scheme scheme, int64_t ranks) {
  const GptOptions options = gpt_options(trial);
  const int64_t chunks = order_of(scheme) == SequenceOrder::zigzag ? 2 * ranks : ranks;
  if (options.length % chunks != 0) trial.skip("a sequence cannot be cut into " + std::to_string(chunks) + " chunks");
  if (scheme == Scheme::ulysses && options.heads % ranks != 0)
    trial.skip(std::to_string(ranks) + " ranks do not divide " + std::to_string(options.heads) + " heads");
}

/// A GPT that gets the tokens at some places of each sequence, with SGD.
struct ContextTraining : GptTraining {
  /// `places` of every sequence, ascending; all ranks draw the same sequences.
  ContextTraining(const Trial& trial, GptParts parts, const torch::Tensor& own_places)
      : GptTraining(trial, std::move(parts)),
        targets(targets_of(model->options, trial.get(kPrompt))),
        places(own_places.to(trial.device)),
        device_(trial.device),
        prompt_(trial.get(kPrompt)),
        places_on_host_(own_places),
        text_(shakespeare_tokens(model->options.tokens, /*train=*/true)),
        generator_(at::detail::createCPUGenerator(trial.seed)) {
    TORCH_CHECK_VALUE(model->options.dropout == 0, "dropout needs a random state for each rank: set dropout=0");
  }

  /// Ids and next ids of this rank's tokens, (B, places) each. Next ids of the prompt are kIgnored.
  std::pair<torch::Tensor, torch::Tensor> own_batch() {
    RECORD_USER_SCOPE("data");
    TextBatch batch = sample_batch(text_, model->options.batch, model->options.length, generator_);
    batch.targets.narrow(1, 0, prompt_).fill_(kIgnored);
    const auto own = [&](const torch::Tensor& t) { return tensor_on(device_, t.index_select(1, places_on_host_)); };
    return {own(batch.ids), own(batch.targets)};
  }

  void optimizer_step() {
    RECORD_USER_SCOPE("optimizer");
    optimizer->step();
  }

  int64_t targets;       ///< of the whole batch that count
  torch::Tensor places;  ///< this rank's

 private:
  torch::Device device_;
  int64_t prompt_;
  torch::Tensor places_on_host_, text_;
  at::Generator generator_;
};

}  // namespace tenfold::inline lesson_58
