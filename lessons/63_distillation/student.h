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
#include "common/models/judged_images.h"
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
        pool(checked(trial, kPool, 1, kTrainImages)),
        images(checked(trial, kImages, 1, pool)),
        first(first_of_seed(trial.seed, images, pool)),
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

/// What the teacher itself comes to, and what it took.
inline void note_teacher(const Trial& trial, Judge judge) {
  const TrainedTeacher& teacher = shared_teacher(trial);
  const std::string name = (judge == Judge::tuning ? "tuning accuracy of " : "accuracy of ") + teacher_name(trial);
  const auto judged = [&] { return accuracy(teacher.model, fashion_mnist(/*train=*/false), judge, trial.device); };
  trial.note("teacher", trial.shared<double>(name, judged), "%");
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
  const auto next_update = [&] {
    const StudentBatch batch = work.next_batch(way.all_images);
    return work.update(batch, [&](const torch::Tensor& student) {
      return way.loss(student, logits ? logits->rows(batch.ids) : torch::Tensor(), batch.labels, work.options);
    });
  };
  return train_to_the_end(trial.device, {.items = work.batch, .update = next_update},
                          {.updates = checked(trial, kUpdates, 1, 1 << 20), .evaluations = kEvaluations}, [&] {
                            return accuracy(work.model, fashion_mnist(/*train=*/false), way.judge, trial.device);
                          });
}

/// A run of a training.
inline std::function<Learned(const Trial&)> student(const Way& way) {
  return [way](const Trial& trial) { return train_student(trial, way); };
}

}  // namespace tenfold::inline lesson_63
