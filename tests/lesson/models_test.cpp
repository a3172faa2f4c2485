#include <gtest/gtest.h>

#include <tenfold/gpt.h>
#include <tenfold/image_workloads.h>
#include <tenfold/passes.h>

namespace {

using torch::Tensor;

tenfold::Trial trial(tenfold::Settings settings = {}, uint64_t seed = 7) {
  auto record = std::make_shared<tenfold::TrialRecord>();
  record->settings = std::move(settings);
  tenfold::Trial result(record);
  result.seed = seed;
  torch::manual_seed(seed);
  return result;
}

double gpt_loss(tenfold::GptTraining& work) {
  auto [ids, targets] = work.next_batch();
  work.optimizer->zero_grad();
  Tensor h = work.model->embed(ids);
  for (auto& block : work.model->blocks) h = block->forward(h);
  const Tensor loss = work.model->loss(h, targets);
  loss.backward();
  work.optimizer->step();
  return loss.item<double>();
}

TEST(Gpt, Shapes) {
  tenfold::GptTraining work(trial({{"layers", 2}}));
  auto [ids, targets] = work.next_batch();
  EXPECT_EQ(ids.sizes(), targets.sizes());
  EXPECT_TRUE(torch::equal(ids.slice(1, 1), targets.slice(1, 0, -1))) << "targets are the next ids";
  EXPECT_EQ(work.model->forward(ids).sizes(), (std::vector<int64_t>{ids.size(0), ids.size(1), 128}));
  EXPECT_EQ(work.tokens_per_step(), ids.numel());
}

TEST(Gpt, SeesOnlyThePast) {
  tenfold::GptTraining work(trial({{"layers", 2}}));
  work.model->eval();
  auto [ids, targets] = work.next_batch();
  Tensor changed = ids.clone();
  changed.index_put_({torch::indexing::Slice(), -1}, (ids.index({torch::indexing::Slice(), -1}) + 1) % 128);
  const Tensor a = work.model->forward(ids), b = work.model->forward(changed);
  EXPECT_TRUE(torch::allclose(a.slice(1, 0, -1), b.slice(1, 0, -1)));
  EXPECT_FALSE(torch::allclose(a.slice(1, -1), b.slice(1, -1)));
}

TEST(Gpt, LearnsText) {
  tenfold::GptTraining work(trial({{"layers", 2}}));
  EXPECT_NEAR(gpt_loss(work), std::log(128), 0.3) << "an untrained model spreads its guess over the vocabulary";
  double last = 0;
  for (int i = 0; i < 150; ++i) last = gpt_loss(work);
  EXPECT_LT(last, 3.3) << "the frequencies of letters alone would give about this";
}

TEST(Gpt, EqualSeedsGiveEqualRuns) {
  tenfold::GptTraining a(trial({{"layers", 1}})), b(trial({{"layers", 1}}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(gpt_loss(a), gpt_loss(b));
  tenfold::GptTraining other(trial({{"layers", 1}}, 8));
  EXPECT_NE(gpt_loss(other), gpt_loss(a));
}

TEST(Gpt, RefusesHeadsThatDoNotDivideTheWidth) { EXPECT_THROW(tenfold::GptTraining(trial({{"heads", 5}})), c10::Error); }

template <class Training>
double accuracy_after(Training& work, int steps) {
  for (int i = 0; i < steps; ++i) {
    auto [images, labels] = work.next_batch();
    work.optimizer->zero_grad();
    torch::cross_entropy_loss(work.model(images), labels).backward();
    work.optimizer->step();
  }
  torch::NoGradGuard no_grad;
  double right = 0;
  for (int i = 0; i < 10; ++i) {
    auto [images, labels] = work.next_batch();
    right += work.model(images).argmax(1).eq(labels).to(torch::kDouble).mean().template item<double>() / 10;
  }
  return right;
}

TEST(ConvNet, LearnsPictures) {
  tenfold::ConvNetTraining work(trial());
  EXPECT_GT(accuracy_after(work, 150), 0.6);
}

TEST(Mlp, LearnsPictures) {
  tenfold::MlpTraining work(trial({{"layers", 3}}));
  EXPECT_GT(accuracy_after(work, 400), 0.6);
}

TEST(Images, AreNormalisedAndSeeded) {
  tenfold::ImageBatches a(trial(), 512), b(trial(), 512);
  auto [images, labels] = a.next();
  EXPECT_EQ(images.sizes(), (std::vector<int64_t>{512, 1, 28, 28}));
  EXPECT_NEAR(images.mean().item<double>(), 0, 0.1);
  EXPECT_NEAR(images.std().item<double>(), 1, 0.1);
  EXPECT_TRUE(torch::equal(labels, b.next().second));
}

}  // namespace
