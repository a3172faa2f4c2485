#pragma once
// The trainings of lesson 63, the sizes of its parts, and how large the losses' gradients are.

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/harness/lesson.h"
#include "common/harness/rate_search.h"
#include "losses.h"
#include "settings.h"
#include "student.h"

namespace tenfold::inline lesson_63 {

inline std::vector<Assignment> small_teacher() {
  return {kTeacherChannels(4), kImages(8192, 60000, 60000), kPool(8192, 60000, 60000), convnet::kBatch(8, 64, 64)};
}

/// One teacher for all trainings; on a CPU small students, so that seeds are affordable.
/// With many images the student's training is twice as long, so that the labels have their say, too.
inline constexpr int64_t kFew = 256, kMany = 4096;
inline std::vector<Assignment> trained_student(int64_t images) {
  const int64_t longer = images == kMany ? 2 : 1;
  return {kUpdates(160 * longer), kTeacherUpdates(2 / longer), kTeacherChannels(16, 64, 128),
          kPool(kMany),           convnet::kBatch(32, 32, 32), convnet::kChannels(8, 16, 16),
          kImages(images)};
}

// Of three for each loss the rates that were best on the tuning images, by the trainings `rates`. Labels weigh a tenth
// in the loss without T squared, and the teacher 16 times less than with it: its rates are higher.
inline constexpr double kLabelsRate = 0.03, kDistilledRate = 0.01, kNoSquareRate = 0.3;
inline constexpr double kManyLabelsRate = 0.03, kManyDistilledRate = 0.01;
// 160 times that of the teacher's answers alone: 4 squared, 10 classes. Its gradients are then the same.
inline constexpr double kArticleRate = 160 * kDistilledRate;

/// 256 labelled images, each seen 20 times; the teacher has seen all images.
inline Training few_labels(const Metric& metric) {
  using namespace expect;
  const Way right{.loss = distilled, .rate = kDistilledRate};
  Way shuffled = right, all_images = right;
  shuffled.shuffled = true;
  all_images.all_images = true;
  return {.name = "few labels",
          .metric = metric,
          .runs = {{"labels only", student({.loss = labels_only, .rate = kLabelsRate})},
                   {"distilled", student(right), NOT_WORSE},
                   {"no T squared", student({.loss = without_t_squared, .rate = kNoSquareRate})},
                   {"article D's loss", student({.loss = article_d_loss, .rate = kDistilledRate}), WORSE},
                   {"article D's loss, tuned", student({.loss = article_d_loss, .rate = kArticleRate})},
                   {"shuffled cache", student(shuffled), WORSE},
                   {"answers for all images", student(all_images), NOT_WORSE}},
          .settings = trained_student(kFew)};
}

/// Each image seen 2.5 times.
inline Training many_labels(const Metric& metric) {
  using namespace expect;
  return {.name = "many labels",
          .metric = metric,
          .runs = {{"labels only", student({.loss = labels_only, .rate = kManyLabelsRate})},
                   {"distilled", student({.loss = distilled, .rate = kManyDistilledRate}), NOT_WORSE}},
          .settings = trained_student(kMany)};
}

// The searches for the rates.
inline Training rates_of_few(const Metric& metric) {
  return rate_search<Way>(metric, "few labels", trained_student(kFew),
                          {{"labels only", {.loss = labels_only}, {{"0.01", 0.01}, {"0.03", 0.03}, {"0.1", 0.1}}},
                           {"distilled", {.loss = distilled}, {{"0.003", 0.003}, {"0.01", 0.01}, {"0.03", 0.03}}},
                           {"no T squared", {.loss = without_t_squared}, {{"0.1", 0.1}, {"0.3", 0.3}, {"1", 1}}}},
                          student);
}
inline Training rates_of_many(const Metric& metric) {
  return rate_search<Way>(metric, "many labels", trained_student(kMany),
                          {{"labels only", {.loss = labels_only}, {{"0.01", 0.01}, {"0.03", 0.03}}},
                           {"distilled", {.loss = distilled}, {{"0.01", 0.01}, {"0.03", 0.03}}}},
                          student);
}

/// How many times smaller the gradient of a loss is than that of the definition, with alpha 1.
inline Look gradient_look(const std::string& name, DistillationLoss loss, double temperature, int64_t classes) {
  return {name, [=](const Trial& /*unused*/ trial) {
            torch::manual_seed(trial.seed);
            const torch::Tensor teacher = torch::randn({8, classes}), start = torch::randn({8, classes});
            const torch::Tensor labels = torch::zeros({8}, torch::kLong);
            const auto norm_of = [&](DistillationLoss used) {
              const torch::Tensor student = start.clone().requires_grad_();
              used(student, teacher, labels, {.temperature = temperature, .alpha = 1}).backward();
              return student.grad().norm().item<double>();
            };
            trial.note("too small by", norm_of(distilled) / norm_of(loss), "times");
          }};
}

inline std::vector<Look> gradient_looks() {
  return {gradient_look("article D's loss, T 3, 10 classes", article_d_loss, 3, 10),
          gradient_look("no T squared, T 3, 10 classes", without_t_squared, 3, 10),
          gradient_look("mean over classes, T 3, 10 classes", mean_over_classes, 3, 10),
          gradient_look("article D's loss, T 3, 1000 classes", article_d_loss, 3, 1000)};
}

}  // namespace tenfold::inline lesson_63
