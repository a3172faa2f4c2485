// Lesson 63 - Distillation
// When is a student better for learning from a teacher's answers, and what do kept answers save?
// Read distillation.h first: the loss, and the cache of the teacher's logits. teacher_each_step() and cached_logits()
// differ by where the answers come from; losses.h has the losses that look right; student.h trains to the end.
#include "common/harness/lesson.h"
#include "distillation.h"
#include "losses.h"
#include "prediction.h"
#include "student.h"
#include "surveys.h"
#include "teacher.h"

namespace {
using namespace tenfold;
using torch::Tensor;

/// Without the technique: the teacher answers in every step.
Step teacher_each_step(const Trial& trial) {
  auto work = std::make_shared<StudentTraining>(trial);
  return {work->batch, work->parameters(), [work, teacher = own_teacher(trial)]() mutable {
            const StudentBatch batch = work->next_batch();
            Tensor answers;
            {
              RECORD_USER_SCOPE("teacher");
              const torch::NoGradGuard no_graph;
              answers = teacher(batch.images);  // (B, 10); the teacher is in eval()
            }
            return work->update(batch, [&](const Tensor& student) {
              return distillation_loss(student, answers, batch.labels, work->options);
            });
          }};
}

/// With it: each image has passed the teacher once, and its answer is found by the image's number.
Step from_cache(const Trial& trial, torch::ScalarType type, const Tensor& order) {
  auto work = std::make_shared<StudentTraining>(trial);
  return {work->batch, work->parameters(), [work, cache = own_logits(trial, type, order)] {
            const StudentBatch batch = work->next_batch();
            return work->update(batch, [&](const Tensor& student) {
              return distillation_loss(student, cache.rows(batch.ids), batch.labels, work->options);
            });
          }};
}
Step cached_logits(const Trial& trial) { return from_cache(trial, torch::kFloat, torch::arange(trial.get(kPool))); }
Step cached_in_16_bits(const Trial& trial) { return from_cache(trial, torch::kHalf, torch::arange(trial.get(kPool))); }

/// A trap: the cache was filled by a loader that shuffles, row after row.
Step shuffled_cache(const Trial& trial) {
  const at::Generator order = at::detail::createCPUGenerator(1);
  return from_cache(trial, torch::kFloat, torch::randperm(trial.get(kPool), order, torch::kLong));
}

/// Another loss, or another teacher, that answers each step.
Step with(const Trial& trial, DistillationLoss loss, bool teacher_trains = false) {
  auto work = std::make_shared<StudentTraining>(trial);
  Teacher teacher = own_teacher(trial);
  teacher->train(teacher_trains);
  return {work->batch, work->parameters(), [work, teacher, loss]() mutable {
            const StudentBatch batch = work->next_batch();
            Tensor answers;
            {
              const torch::NoGradGuard no_graph;
              answers = teacher(batch.images);
            }
            return work->update(
                batch, [&](const Tensor& student) { return loss(student, answers, batch.labels, work->options); });
          }};
}
Step article_d(const Trial& trial) { return with(trial, article_d_loss); }
Step no_t_squared(const Trial& trial) { return with(trial, without_t_squared); }
Step class_mean(const Trial& trial) { return with(trial, mean_over_classes); }
Step teacher_trains(const Trial& trial) { return with(trial, distilled, /*teacher_trains=*/true); }

/// A mistake that computes the same: without no_grad the teacher's graph is kept until backward(), which goes through
/// it, too. soft_target_loss() refuses such logits, so the loss is written out.
Step teachers_graph(const Trial& trial) {
  auto work = std::make_shared<StudentTraining>(trial);
  return {work->batch, work->parameters(), [work, teacher = own_teacher(trial)]() mutable {
            const StudentBatch batch = work->next_batch();
            const Tensor answers = teacher(batch.images);
            teacher->zero_grad();
            return work->update(batch, [&](const Tensor& student) {
              const auto [temperature, alpha] = work->options;
              const Tensor kl = torch::kl_div(torch::log_softmax(student / temperature, 1),
                                              torch::log_softmax(answers / temperature, 1), at::Reduction::Sum, true);
              return alpha * (kl * (temperature * temperature / static_cast<double>(work->batch))) +
                     (1 - alpha) * torch::cross_entropy_loss(student, batch.labels);
            });
          }};
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  // Stated before anything was measured: a point of accuracy on images that nothing was chosen by.
  const Metric unseen{.name = "accuracy", .unit = "%", .better = Better::higher, .margin = 1};
  return run(
      argc, argv,
      {.title = "Distillation",
       .question = "When is a student better for learning from a teacher's answers, and what do kept answers save?",
       .workload = convnet_workload,
       .settings = {kImages, kPool, kUpdates, kTeacherUpdates, kTeacherChannels, kTemperature, kAlpha},
       .baseline = {"teacher each step", teacher_each_step},
       .most_bytes = distillation_most_bytes,
       .techniques = {{"cached logits", cached_logits, predict_cached},
                      {"cached in 16 bits", cached_in_16_bits, predict_cached_in_16_bits,
                       Agreement::within(1e-3, "logits of 11 binary digits")},
                      {"teacher's graph", teachers_graph},
                      {"article D's loss", article_d},
                      {"no T squared", no_t_squared},
                      {"mean over classes", class_mean},
                      {"shuffled cache", shuffled_cache},
                      {"teacher in train()", teacher_trains}},
       .cases = {{"convnet",
                  {},
                  {{"cached logits", {FASTER, SMALLER}},
                   {"cached in 16 bits", {FASTER, SMALLER}},
                   {"teacher's graph", mistake({SLOWER, LARGER})},
                   {"article D's loss", TRAP},
                   {"no T squared", TRAP},
                   {"mean over classes", TRAP},
                   {"shuffled cache", TRAP},
                   {"teacher in train()", TRAP}}},
                 // The logits of many images take more than a small teacher, and what it needs to answer.
                 {"small teacher", small_teacher(), {{"cached logits", LARGER}, {"cached in 16 bits", LARGER}}}},
       // The first one's first seed pays for the teacher's training: with two runs there is time for all seeds.
       .trainings = {many_labels(unseen), few_labels(unseen), rates_of_few(unseen), rates_of_many(unseen)},
       .surveys = {{"gradient", gradient_looks()}},
       .headline = Headline{"convnet", "cached logits"},
       .agreement = Agreement::within(1e-4, "the cache was filled in other batches, whose sums have another order")});
}
