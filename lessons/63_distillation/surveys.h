#pragma once
// The trainings of lesson 63, the sizes of its parts, and how large the losses' gradients are.

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/harness/lesson.h"
#include "losses.h"
#include "settings.h"
#include "student.h"

namespace tenfold::inline lesson_63 {

inline std::vector<Assignment> small_teacher() {
  return {kTeacherChannels(4), kImages(16384), kPool(16384), convnet::kBatch(16, 64, 64)};
}

/// One teacher for all trainings; on a CPU small students, so that seeds are affordable.
inline std::vector<Assignment> trained_teacher() {
  return {kUpdates(240), kTeacherUpdates(2), kTeacherChannels(24, 64, 128), kPool(8192)};
}
inline std::vector<Assignment> trained_student(std::vector<Assignment> more) {
  std::vector<Assignment> all = trained_teacher();
  all.insert(all.end(), {convnet::kBatch(32, 32, 32), convnet::kChannels(8, 16, 16)});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// 256 labelled images, each seen 30 times; the teacher has seen all images.
inline Training few_labels(const Metric& metric) {
  using namespace expect;
  return {.name = "few labels",
          .metric = metric,
          .runs = {{"labels only", student({.loss = labels_only})},
                   {"distilled", student({.loss = distilled}), NOT_WORSE},
                   {"no T squared", student({.loss = without_t_squared})},
                   {"article D's loss", student({.loss = article_d_loss}), WORSE},
                   {"shuffled cache", student({.loss = distilled, .shuffled = true}), WORSE},
                   {"answers for all images", student({.loss = distilled, .all_images = true}), NOT_WORSE}},
          .settings = trained_student({kImages(256)})};
}

/// As many images as are drawn.
inline Training many_labels(const Metric& metric) {
  using namespace expect;
  return {.name = "many labels",
          .metric = metric,
          .runs = {{"labels only", student({.loss = labels_only})},
                   {"distilled", student({.loss = distilled}), NOT_WORSE},
                   {"no T squared", student({.loss = without_t_squared}), NOT_WORSE}},
          .settings = trained_student({kImages(8192)})};
}

/// Each side's learning rate was chosen by this one, on images that the others are not judged by.
inline Training rates(Metric metric) {
  metric.name = "accuracy on tuning images";
  Training training{
      .name = "rates, few labels", .metric = metric, .runs = {}, .settings = trained_student({kImages(256)})};
  for (const auto& [name, loss] : {std::pair{"labels only", &labels_only}, {"distilled", &distilled}}) {
    for (const double rate : {0.003, 0.01, 0.03, 0.1}) {
      std::string digits = std::to_string(rate);
      digits.erase(digits.find_last_not_of('0') + 1);
      training.runs.push_back(
          {name + (", rate " + digits), student({.loss = loss, .learning_rate = rate, .judge = Judge::tuning})});
    }
  }
  return training;
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
