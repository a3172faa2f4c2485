#pragma once
// A wrong cure for a leak; two leaks that are hard to see; and loops that hold much and leak nothing, which a watch
// must not take for leaks.

#include "loop.h"

namespace tenfold::inline lesson_04 {

/// A trap: whoever detaches until memory no longer grows may detach what trains. Nothing leaks, the loss falls, and the
/// convolutions learn nothing.
inline void detached_too_early(Loop& loop) {
  const auto [images, labels] = loop.next_batch();
  loop.optimizer->zero_grad();
  torch::Tensor features = torch::relu(loop.model->conv2(torch::relu(loop.model->conv1(images))));
  features = torch::max_pool2d(features, {2, 2}).flatten(1);                                    // (B, 2 C * 7 * 7)
  torch::Tensor loss = torch::cross_entropy_loss(loop.model->head(features.detach()), labels);  // wrong
  loss.backward();
  loop.optimizer->step();
  loop.losses.push_back(loss.detach());
}

/// Trains on 1 to B of a batch's images, another number in each step, and returns their features, (b, C, 28, 28).
inline torch::Tensor train_on_some(Loop& loop) {
  auto [images, labels] = loop.next_batch();
  const int64_t images_used = 1 + loop.kept.step++ * 7 % images.size(0);
  images = images.narrow(0, 0, images_used);
  labels = labels.narrow(0, 0, images_used);
  loop.optimizer->zero_grad();
  loop.training_loss(images, labels).backward();
  loop.optimizer->step();
  const torch::NoGradGuard no_grad;
  return torch::relu(loop.model->conv1(images));
}

inline void outputs_kept(Loop& loop) {
  const torch::Tensor output = train_on_some(loop);
  loop.kept.outputs.push_back(output);
}

inline void every_50th_graph_kept(Loop& loop) {
  train_on_some(loop);
  if (loop.kept.step % 50 == 0) loop.validation.push_back(loop.validation_loss());
}

/// The last output stays until the next one is there, as `output = model(images)` keeps it in most loops.
inline void batches_of_all_sizes(Loop& loop) { loop.kept.last = train_on_some(loop); }

/// A copy of the weights, made anew every 50 steps.
inline void best_weights_kept(Loop& loop) {
  train_on_some(loop);
  if (loop.kept.step % 50 != 0) return;
  loop.kept.best.clear();
  for (const torch::Tensor& parameter : loop.model->parameters()) loop.kept.best.push_back(parameter.detach().clone());
}

inline void recent_outputs(Loop& loop) {
  loop.kept.recent.push_back(train_on_some(loop));
  if (loop.kept.recent.size() > 64) loop.kept.recent.pop_front();
}

inline void outputs_of_an_epoch(Loop& loop) {
  outputs_kept(loop);
  if (loop.kept.outputs.size() == 16) loop.kept.outputs.clear();
}

}  // namespace tenfold::inline lesson_04
