#pragma once
// Trainings on some images of Fashion-MNIST, judged by how many of others are classified rightly.

#include <torch/torch.h>

#include <cstdint>

#include "common/measure/setting.h"
#include "common/measure/trial.h"
#include "common/models/fashion_mnist.h"
#include "common/models/host_batch.h"

namespace tenfold {

/// Images of a test file that a training is judged by: those of its first half are for choices, such as the learning
/// rate's.
enum class Judge { tuning, unseen };

/// Percent of the first 1000 images of a half that `model`, (B, 1, 28, 28) to (B, classes), classifies rightly. Without
/// gradients.
template <class Model>
double accuracy(Model model, const ImageSet& test, Judge judge, torch::Device device) {
  constexpr int64_t kJudged = 1000, kAtOnce = 100;
  const torch::NoGradGuard no_graph;
  const int64_t first = judge == Judge::tuning ? 0 : test.size() / 2;
  int64_t right = 0;
  for (int64_t from = first; from < first + kJudged; from += kAtOnce) {
    const torch::Tensor images = normalise_images(tensor_on(device, test.images.narrow(0, from, kAtOnce)));
    const torch::Tensor labels = tensor_on(device, test.labels.narrow(0, from, kAtOnce));
    right += (model(images).argmax(1) == labels).sum().template item<int64_t>();
  }
  return 100.0 * static_cast<double>(right) / kJudged;
}

/// Which of `all` images a seed trains on: `count` after each other, other ones for the next seed.
inline int64_t first_of_seed(uint64_t seed, int64_t count, int64_t all) {
  const int64_t starts = all - count + 1;
  return static_cast<int64_t>(seed % static_cast<uint64_t>(starts)) * count % starts;
}

/// A setting's value. Throws c10::ValueError, with the setting's name, unless it is from `least` to `most`.
inline int64_t checked(const Trial& trial, const Setting<int64_t>& setting, int64_t least, int64_t most) {
  const int64_t value = trial.get(setting);
  TORCH_CHECK_VALUE(value >= least && value <= most, setting.name, "=", value, ": must be ", least, " to ", most);
  return value;
}

}  // namespace tenfold
