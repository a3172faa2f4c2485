#pragma once
// The student, and its trainings: the workload's convnet on some images of Fashion-MNIST, judged on others.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>

#include "common/harness/lesson.h"
#include "common/models/convnet.h"
#include "common/models/host_batch.h"
#include "losses.h"
#include "settings.h"
#include "teacher.h"

namespace tenfold::inline lesson_63 {

struct StudentBatch {
  torch::Tensor ids;             ///< numbers of the images in the training set, (B), on the device
  torch::Tensor images, labels;  ///< (B, 1, 28, 28), (B)
};

/// The workload, on `images` of the first `pool` images of the training set: other ones for the next seed.
struct StudentTraining : ConvNetTraining {
  explicit StudentTraining(const Trial& trial)
      : ConvNetTraining(convnet_options(trial), trial.device),
        device(trial.device),
        set(fashion_mnist(/*train=*/true)),
        batch(trial.get(convnet::kBatch)),
        pool(checked(trial, kPool, kTrainImages)),
        images(checked(trial, kImages, pool)),
        first(static_cast<int64_t>(trial.seed % static_cast<uint64_t>(pool - images + 1)) * images %
              (pool - images + 1)),
        options(distillation_options(trial)),
        order(at::detail::createCPUGenerator(trial.seed)) {}

  /// Of the student's images, or of all of the pool.
  StudentBatch next_batch(bool of_pool = false) {
    RECORD_USER_SCOPE("data");
    const torch::Tensor drawn = torch::randint(0, of_pool ? pool : images, {batch}, order, torch::kLong);
    const torch::Tensor picked = of_pool ? drawn : drawn + first;
    return {tensor_on(device, picked), normalise_images(rows_on(device, set.images, picked)),
            rows_on(device, set.labels, picked)};
  }

  /// One update by a loss of the student's logits (B, 10).
  torch::Tensor update(const StudentBatch& from, const std::function<torch::Tensor(const torch::Tensor&)>& loss_of) {
    optimizer->zero_grad();
    const torch::Tensor loss = loss_of(model(from.images));
    loss.backward();
    optimizer->step();
    return loss.detach();
  }

  torch::Device device;
  ImageSet set;
  int64_t batch, pool, images, first;
  DistillationOptions options;
  at::Generator order;
};

/// Images of the test file that a training is judged by: those of one half are for choices, such as the learning
/// rate's.
enum class Judge { tuning, unseen };

/// Percent of 1000 images. Without gradients.
template <class Model>
double accuracy(Model model, Judge judge, torch::Device device) {
  constexpr int64_t kJudged = 1000, kAtOnce = 100;
  const torch::NoGradGuard no_graph;
  const ImageSet set = fashion_mnist(/*train=*/false);
  const int64_t first = judge == Judge::tuning ? 0 : kHalf;
  int64_t right = 0;
  for (int64_t from = first; from < first + kJudged; from += kAtOnce) {
    const torch::Tensor images = normalise_images(tensor_on(device, set.images.narrow(0, from, kAtOnce)));
    const torch::Tensor labels = tensor_on(device, set.labels.narrow(0, from, kAtOnce));
    right += (model(images).argmax(1) == labels).sum().template item<int64_t>();
  }
  return 100.0 * static_cast<double>(right) / kJudged;
}

/// What the teacher itself comes to, and what it took.
inline void note_teacher(const Trial& trial, Judge judge) {
  const TrainedTeacher& teacher = shared_teacher(trial);
  const std::string name = (judge == Judge::tuning ? "tuning accuracy of " : "accuracy of ") + teacher_name(trial);
  trial.note("teacher", trial.shared<double>(name, [&] { return accuracy(teacher.model, judge, trial.device); }), "%");
  trial.note("teacher trained in", teacher.seconds, "s");
  trial.note("logits kept", static_cast<double>(shared_logits(trial).bytes()), "bytes");
}

/// One way to train a student to the end.
struct Way {
  DistillationLoss loss = labels_only;
  double rate = 0.03;
  bool all_images = false;  ///< batches of the whole pool, and the teacher's answers alone
  bool shuffled = false;    ///< the mistake: the answers lie in another order
  Judge judge = Judge::unseen;
};

inline Learned train_student(const Trial& trial, const Way& way) {
  constexpr int64_t kEvaluations = 2;
  const int64_t updates = checked(trial, kUpdates, 1 << 20), every = std::max<int64_t>(updates / kEvaluations, 1);
  const TeacherLogits* logits = nullptr;
  TeacherLogits wrong({.samples = 1, .classes = 1});
  if (way.loss != labels_only) {
    logits = &shared_logits(trial);
    note_teacher(trial, way.judge);
    if (way.shuffled) {
      const at::Generator order = at::detail::createCPUGenerator(1);
      wrong = own_logits(trial, torch::kFloat, torch::randperm(trial.get(kPool), order, torch::kLong));
      logits = &wrong;
    }
  }
  StudentTraining work(trial);
  work.optimizer->param_groups()[0].options().set_lr(way.rate);
  if (way.all_images) work.options.alpha = 1;
  TrainingClock clock(trial.device);
  for (int64_t update = 1; update <= updates; ++update) {
    const StudentBatch batch = work.next_batch(way.all_images);
    work.update(batch, [&](const torch::Tensor& student) {
      return way.loss(student, logits ? logits->rows(batch.ids) : torch::Tensor(), batch.labels, work.options);
    });
    clock.trained(work.batch);
    if (update == updates || (update % every == 0 && updates - update >= every))
      clock.evaluate([&] { return accuracy(work.model, way.judge, trial.device); });
  }
  return clock.learned();
}

/// A run of a training.
inline std::function<Learned(const Trial&)> student(const Way& way) {
  return [way](const Trial& trial) { return train_student(trial, way); };
}

}  // namespace tenfold::inline lesson_63
