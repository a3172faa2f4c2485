// The loss against its definition in 64 bits, the cache's bookkeeping, and the teacher that all variants share.
#include <gtest/gtest.h>

#include "distillation.h"
#include "losses.h"
#include "student.h"
#include "surveys.h"
#include "teacher.h"

#include <ATen/autocast_mode.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/support.h"

namespace tenfold {
namespace {

using torch::Tensor;
using Rows = std::vector<std::vector<double>>;

Rows rows_of(const Tensor& logits) {
  Rows rows(static_cast<size_t>(logits.size(0)));
  const Tensor exact = logits.detach().to(torch::kDouble).contiguous();
  for (int64_t r = 0; r < exact.size(0); ++r) {
    const double* row = exact[r].const_data_ptr<double>();
    rows[static_cast<size_t>(r)].assign(row, row + exact.size(1));
  }
  return rows;
}

/// Probabilities at a temperature, by their definition.
std::vector<double> softmax_of(const std::vector<double>& logits, double temperature) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const double logit : logits) largest = std::max(largest, logit);
  std::vector<double> p;
  for (const double logit : logits) p.push_back(std::exp((logit - largest) / temperature));
  for (const double value : p) sum += value;
  for (double& value : p) value /= sum;
  return p;
}

/// The loss in 64 bits, in loops.
double loss_by_definition(const Rows& student, const Rows& teacher, const std::vector<int64_t>& labels,
                          const DistillationOptions& options) {
  double soft = 0, hard = 0;
  for (size_t n = 0; n < student.size(); ++n) {
    const std::vector<double> p = softmax_of(teacher[n], options.temperature);
    const std::vector<double> q = softmax_of(student[n], options.temperature);
    for (size_t c = 0; c < p.size(); ++c) soft += p[c] * (std::log(p[c]) - std::log(q[c]));
    hard -= std::log(softmax_of(student[n], 1)[static_cast<size_t>(labels[n])]);
  }
  const auto rows = static_cast<double>(student.size());
  return options.alpha * options.temperature * options.temperature * soft / rows + (1 - options.alpha) * hard / rows;
}

/// Its gradient with respect to student[n][c]: alpha T (q - p) / N + (1 - alpha) (q1 - [c is the label]) / N.
Tensor gradient_by_definition(const Rows& student, const Rows& teacher, const std::vector<int64_t>& labels,
                              const DistillationOptions& options) {
  const auto rows = static_cast<int64_t>(student.size()), classes = static_cast<int64_t>(student[0].size());
  Tensor gradient = torch::zeros({rows, classes}, torch::kDouble);
  auto to = gradient.accessor<double, 2>();
  for (int64_t n = 0; n < rows; ++n) {
    const auto at = static_cast<size_t>(n);
    const std::vector<double> p = softmax_of(teacher[at], options.temperature);
    const std::vector<double> q = softmax_of(student[at], options.temperature), q1 = softmax_of(student[at], 1);
    for (int64_t c = 0; c < classes; ++c) {
      const auto k = static_cast<size_t>(c);
      const double soft = options.temperature * (q[k] - p[k]), hard = q1[k] - (labels[at] == c ? 1 : 0);
      to[n][c] = (options.alpha * soft + (1 - options.alpha) * hard) / static_cast<double>(rows);
    }
  }
  return gradient;
}

struct Example {
  Tensor student, teacher, labels;
  std::vector<int64_t> label_values;
};
Example example(int64_t rows, int64_t classes, double scale = 3) {
  torch::manual_seed(5);
  Example made{scale * torch::randn({rows, classes}),
               scale * torch::randn({rows, classes}),
               torch::randint(0, classes, {rows}, torch::kLong),
               {}};
  made.label_values.assign(made.labels.data_ptr<int64_t>(), made.labels.data_ptr<int64_t>() + rows);
  return made;
}

TEST(DistillationLoss, IsItsDefinitionAndHasItsGradient) {
  const Example e = example(7, 10);
  for (const double temperature : {0.5, 1.0, 3.0, 20.0}) {
    for (const double alpha : {0.0, 0.3, 1.0}) {
      const DistillationOptions options{.temperature = temperature, .alpha = alpha};
      const Tensor student = e.student.clone().requires_grad_();
      const Tensor loss = distillation_loss(student, e.teacher, e.labels, options);
      loss.backward();
      const double expected = loss_by_definition(rows_of(e.student), rows_of(e.teacher), e.label_values, options);
      EXPECT_NEAR(loss.item<double>(), expected, 2e-6 * std::max(1.0, expected)) << temperature << ", " << alpha;
      const Tensor gradient = gradient_by_definition(rows_of(e.student), rows_of(e.teacher), e.label_values, options);
      EXPECT_LT((student.grad() - gradient).abs().max().item<double>(), 2e-6) << temperature << ", " << alpha;
    }
  }
}

TEST(DistillationLoss, GradientIsThatOfDifferences) {
  Example e = example(3, 4);
  const DistillationOptions options{.temperature = 2.5, .alpha = 0.7};
  const Tensor student = e.student.to(torch::kDouble).requires_grad_();
  const Tensor teacher = e.teacher.to(torch::kDouble);
  distillation_loss(student, teacher, e.labels, options).backward();
  for (int64_t i = 0; i < student.numel(); ++i) {
    const auto moved = [&](double by) {
      Tensor at = student.detach().clone();
      at.view(-1)[i] += by;
      return loss_by_definition(rows_of(at), rows_of(teacher), e.label_values, options);
    };
    EXPECT_NEAR(student.grad().view(-1)[i].item<double>(), (moved(1e-5) - moved(-1e-5)) / 2e-5, 1e-8);
  }
}

// Equation 4 of the paper: at a high temperature, with logits of mean 0, the gradient is their difference over N C.
TEST(DistillationLoss, AtAHighTemperatureItMatchesLogits) {
  Example e = example(6, 10, 1);
  const Tensor teacher = e.teacher - e.teacher.mean(1, true);
  const Tensor student = (e.student - e.student.mean(1, true)).to(torch::kDouble).requires_grad_();
  soft_target_loss(student, teacher.to(torch::kDouble), 1000).backward();
  const Tensor expected = (student.detach() - teacher) / (6 * 10);
  EXPECT_LT(((student.grad() - expected).norm() / expected.norm()).item<double>(), 3e-3);
}

TEST(DistillationLoss, IsNothingWhereBothAnswerAlike) {
  const Example e = example(5, 10);
  EXPECT_NEAR(soft_target_loss(e.teacher, e.teacher, 3).item<double>(), 0, 1e-6);
  const Tensor shifted = e.teacher + 100;  // the same probabilities
  EXPECT_NEAR(soft_target_loss(shifted, e.teacher, 3).item<double>(), 0, 1e-5);
}

TEST(DistillationLoss, CountsIn32BitsWhateverTheLogitsHave) {
  const Example e = example(32, 100);
  for (const auto type : {torch::kHalf, torch::kBFloat16}) {
    const Tensor student = e.student.to(type).requires_grad_(), teacher = e.teacher.to(type);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const Tensor loss = distillation_loss(student, teacher, e.labels, {.temperature = 3});
    at::autocast::set_autocast_enabled(at::kCPU, false);
    EXPECT_EQ(loss.scalar_type(), torch::kFloat);
    const double expected = loss_by_definition(rows_of(student), rows_of(teacher), e.label_values, {.temperature = 3});
    EXPECT_NEAR(loss.item<double>() / expected, 1, 1e-6);
    loss.backward();
    EXPECT_EQ(student.grad().scalar_type(), type);
  }
}

TEST(DistillationLoss, RefusesWhatItCannotMean) {
  const Example e = example(4, 10);
  const auto refusal = [&](const Tensor& student, const Tensor& teacher, const DistillationOptions& options) {
    return test::message_of<c10::ValueError>([&] { distillation_loss(student, teacher, e.labels, options); });
  };
  const auto has = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  has(refusal(e.student, e.teacher.narrow(0, 0, 3), {}), "[4, 10] of the student and [3, 10] of the teacher");
  has(refusal(e.student.unsqueeze(0), e.teacher.unsqueeze(0), {}), "flatten sequences first");
  has(refusal(e.student, e.teacher.clone().requires_grad_(), {}), "under no_grad");
  has(refusal(e.student, e.teacher, {.temperature = 0}), "temperature must be above 0");
  has(refusal(e.student, e.teacher, {.temperature = std::numeric_limits<double>::quiet_NaN()}), "temperature");
  has(refusal(e.student, e.teacher, {.alpha = 1.5}), "alpha must be 0 to 1");
}

/// How many times smaller the gradient of a loss is than the right one's.
double too_small_by(DistillationLoss loss, double temperature, int64_t classes) {
  const Example e = example(8, classes);
  const auto gradient = [&](DistillationLoss used) {
    const Tensor student = e.student.clone().requires_grad_();
    used(student, e.teacher, e.labels, {.temperature = temperature, .alpha = 1}).backward();
    return student.grad();
  };
  const Tensor right = gradient(distilled), wrong = gradient(loss);
  const double ratio = (right.norm() / wrong.norm()).item<double>();
  EXPECT_LT(((right - ratio * wrong).norm() / right.norm()).item<double>(), 1e-5) << "another direction";
  return ratio;
}

TEST(WrongLosses, AreTooSmallByWhatTheyLeaveOut) {
  EXPECT_NEAR(too_small_by(article_d_loss, 3, 10), 90, 1e-3) << "9 of T squared, 10 classes";
  EXPECT_NEAR(too_small_by(without_t_squared, 3, 10), 9, 1e-4);
  EXPECT_NEAR(too_small_by(mean_over_classes, 3, 25), 25, 1e-3);
}

TEST(TeacherLogits, KeepsRowsByTheirNumberWhateverTheirOrder) {
  const Tensor logits = torch::arange(50, torch::kFloat).view({10, 5});
  TeacherLogits cache({.samples = 10, .classes = 5});
  const Tensor order = torch::tensor({3, 9, 0, 1, 8, 2, 7, 4, 6, 5}, torch::kLong);
  for (const int64_t from : {0, 4, 8}) {
    const Tensor ids = order.slice(0, from, from + 4);
    cache.put(ids, logits.index_select(0, ids));
  }
  cache.seal();
  const Tensor asked = torch::tensor({5, 0, 5, 9}, torch::kLong);
  EXPECT_TRUE(torch::equal(cache.rows(asked), logits.index_select(0, asked)));
  EXPECT_EQ(cache.bytes(), 10 * 5 * 4);
  EXPECT_EQ(cache.deviation(asked, logits.index_select(0, asked)), 0);
  EXPECT_GT(cache.deviation(asked, logits.index_select(0, asked.flip(0))), 0.5) << "rows of other samples";
}

TEST(TeacherLogits, In16BitsTakesHalfAndRounds) {
  torch::manual_seed(2);
  const Tensor logits = 10 * torch::randn({64, 10}), ids = torch::arange(64);
  TeacherLogits cache({.samples = 64, .classes = 10, .type = torch::kHalf});
  cache.put(ids, logits);
  cache.seal();
  EXPECT_EQ(cache.bytes(), 64 * 10 * 2);
  EXPECT_EQ(cache.rows(ids).scalar_type(), torch::kFloat);
  EXPECT_LT(((cache.rows(ids) - logits) / logits).abs().max().item<double>(), std::pow(2.0, -11) * 1.001);
}

TEST(TeacherLogits, NamesWhatIsMissing) {
  TeacherLogits cache({.samples = 6, .classes = 2, .type = torch::kHalf});
  EXPECT_THROW(cache.rows(torch::arange(2)), c10::Error) << "before seal()";
  cache.put(torch::arange(4), torch::ones({4, 2}));
  const auto of = [&](auto check) { return test::message_of<c10::ValueError>(check); };
  EXPECT_NE(of([&] { cache.seal(); }).find("2 of 6 samples have no logits, the first is number 4"), std::string::npos);
  cache.put(torch::tensor({4, 5}, torch::kLong), torch::full({2, 2}, 70000.0));
  cache.seal();
  EXPECT_NE(
      of([&] { cache.check_finite(); }).find("2 of 6 samples have logits that are not finite, the first is number 4"),
      std::string::npos)
      << "beyond float16";
  EXPECT_THROW(cache.put(torch::tensor({6}, torch::kLong), torch::ones({1, 2})), c10::ValueError);
  EXPECT_THROW(cache.put(torch::arange(3), torch::ones({4, 2})), c10::ValueError);
  EXPECT_THROW(cache.put(torch::arange(4), torch::ones({4, 3})), c10::ValueError);
  EXPECT_THROW(TeacherLogits({.samples = 0, .classes = 2}), c10::ValueError);
  EXPECT_THROW(TeacherLogits({.samples = 1, .classes = 2, .type = torch::kLong}), c10::ValueError);
}

TEST(TeacherLogits, KeepsNoGraph) {
  TeacherLogits cache({.samples = 2, .classes = 3});
  cache.put(torch::arange(2), torch::ones({2, 3}).requires_grad_() * 2);
  cache.seal();
  EXPECT_FALSE(cache.rows(torch::arange(2)).requires_grad());
}

Trial small_trial(const std::map<std::string, SettingValue>& more = {}) {
  auto record = std::make_shared<TrialRecord>();
  record->given = {{"images", int64_t{64}},          {"pool", int64_t{128}},  {"batch", int64_t{16}},
                   {"channels", int64_t{2}},         {"updates", int64_t{4}}, {"teacher_updates", int64_t{1}},
                   {"teacher_channels", int64_t{4}}, {"learning_rate", 0.01}};
  for (const auto& [name, value] : more) record->given[name] = value;
  Trial trial(record);
  trial.seed = 3;
  return trial;
}

TEST(Teacher, IsTrainedOnceAndDrawsNoNumbersOfOthers) {
  const Trial trial = small_trial();
  torch::manual_seed(9);
  const TrainedTeacher& teacher = shared_teacher(trial);
  const Tensor after = torch::rand({4});
  torch::manual_seed(9);
  EXPECT_TRUE(torch::equal(torch::rand({4}), after));
  EXPECT_EQ(&shared_teacher(trial), &teacher);
  EXPECT_FALSE(teacher.model->is_training());
  EXPECT_GT(teacher.seconds, 0);
}

TEST(Teacher, ItsCacheHasItsAnswersUnlessItIsShuffled) {
  const Trial trial = small_trial();
  const torch::NoGradGuard no_graph;
  Teacher teacher = own_teacher(trial);
  const ImageSet set = fashion_mnist(/*train=*/true);
  const Tensor ids = torch::tensor({5, 100, 17}, torch::kLong);
  const Tensor now = teacher(normalise_images(set.images.index_select(0, ids)));
  EXPECT_LT(shared_logits(trial).deviation(ids, now), 1e-5);
  EXPECT_LT(own_logits(trial, torch::kHalf, torch::arange(128)).deviation(ids, now), 2e-3);
  EXPECT_GT(own_logits(trial, torch::kFloat, torch::arange(128).flip(0)).deviation(ids, now), 0.1);
  teacher->train();
  EXPECT_GT(shared_logits(trial).deviation(ids, teacher(normalise_images(set.images.index_select(0, ids)))), 0.1);
}

TEST(Students, OfOneSeedSeeTheSameBatches) {
  const Trial trial = small_trial();
  StudentTraining one(trial), two(trial);
  const StudentBatch a = one.next_batch(), b = two.next_batch();
  EXPECT_TRUE(torch::equal(a.ids, b.ids));
  EXPECT_TRUE(torch::equal(a.images, b.images));
  const ImageSet set = fashion_mnist(/*train=*/true);
  EXPECT_TRUE(torch::equal(a.labels, set.labels.index_select(0, a.ids))) << "ids are numbers of the training set";
  EXPECT_GE(a.ids.min().item<int64_t>(), one.first);
  EXPECT_LT(a.ids.max().item<int64_t>(), one.first + one.images);
}

TEST(Students, AreJudgedAsOftenAsTheyShould) {
  torch::manual_seed(4);
  const Learned learned = train_student(small_trial(), {.loss = distilled});
  EXPECT_EQ(learned.curve.quality.size(), 2U);
  EXPECT_EQ(learned.curve.items, 4 * 16);
}

}  // namespace
}  // namespace tenfold
