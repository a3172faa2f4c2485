#pragma once
// What lesson 30 trains on: a loader that gives micro-batches, a fixed number of them in an epoch. Their number need
// not be a multiple of those in an update: an epoch's last batch is then smaller.

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "common/measure/trial.h"
#include "common/models/gpt.h"
#include "common/models/precision.h"

namespace tenfold::inline lesson_30 {

inline constexpr Setting<int64_t> kMicroBatches{"micro_batches", 4, "micro-batches that a batch is processed in"};
inline constexpr Setting<int64_t> kEpoch{"epoch", 0,
                                         "micro-batches of an epoch, which is one step then; 0: those of one update"};

/// From a Trial or a Counted.
template <class Source>
int64_t micro_batches_in_epoch(const Source& source) {
  const int64_t epoch = source.get(kEpoch);
  return epoch == 0 ? source.get(kMicroBatches) : epoch;
}

/// The GPT, and its batches as an epoch has them. Throws c10::ValueError unless the batch divides into micro-batches.
struct GptEpochs : GptTraining {
  explicit GptEpochs(const Trial& trial)
      : GptTraining(trial),
        micro_batches(trial.get(kMicroBatches)),
        epoch(micro_batches_in_epoch(trial)),
        sixteen_bits(in_16_bits(trial)) {
    const int64_t batch = model->options.batch;
    TORCH_CHECK_VALUE(micro_batches > 0 && batch % micro_batches == 0, "micro_batches=", micro_batches,
                      " does not divide batch=", batch);
    TORCH_CHECK_VALUE(epoch > 0, "epoch=", epoch, " must be 0 or more");
    micro_rows = batch / micro_batches;
  }

  /// The next batch of the epoch, ids and targets, (B, T) each; the last has the rows that are left.
  // NOLINTNEXTLINE(bugprone-derived-method-shadowing-base-method): what the lesson trains on instead
  std::pair<torch::Tensor, torch::Tensor> next_batch() {
    auto [ids, targets] = GptTraining::next_batch();
    if (left == 0) left = epoch;
    const int64_t taken = std::min(left, micro_batches);
    left -= taken;
    return {ids.narrow(0, 0, taken * micro_rows), targets.narrow(0, 0, taken * micro_rows)};
  }

  int64_t micro_batches, epoch;  ///< of an update, of an epoch
  int64_t micro_rows = 0;        ///< sequences in a micro-batch
  int64_t left = 0;              ///< micro-batches that the epoch still has
  bool sixteen_bits;             ///< forward passes run under autocast
};

/// A step that trains one epoch: all steps are then equally long, and each ends where the epoch does. Its loss is the
/// mean over the epoch's tokens.
inline Step one_epoch(const std::shared_ptr<GptEpochs>& training, const std::function<torch::Tensor()>& update) {
  const int64_t tokens = training->epoch * training->micro_rows * training->model->options.length;
  if (training->epoch <= training->micro_batches) return {tokens, training->parameters(), update};
  return {tokens, training->parameters(), [training, update] {
            torch::Tensor total;
            do {
              const int64_t before = training->left == 0 ? training->epoch : training->left;
              const torch::Tensor loss = update();
              const double share = static_cast<double>(before - training->left) / static_cast<double>(training->epoch);
              total = total.defined() ? total + share * loss.detach() : share * loss.detach();
            } while (training->left > 0);
            return total;
          }};
}

}  // namespace tenfold::inline lesson_30
