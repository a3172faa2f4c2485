#include <gtest/gtest.h>

#include "thumbnail_training.h"

#include <memory>
#include <vector>

namespace {

using torch::Tensor;

tenfold::Trial on_cpu() { return tenfold::Trial(std::make_shared<tenfold::TrialRecord>()); }

TEST(ShuffledImages, ThumbnailsOfTheEnlargedImagesAreTheDataSet) {
  torch::manual_seed(3);
  const auto set = tenfold::fashion_mnist(/*train=*/true);
  const auto shuffled = tenfold::shuffled_images(on_cpu(), 4, 1000);
  ASSERT_EQ(shuffled.size(), 2U);
  EXPECT_EQ(shuffled[0].sizes(), (c10::IntArrayRef{1000, 1, 112, 112}));
  ASSERT_EQ(shuffled[1].size(0), shuffled[0].size(0));
  const Tensor all = set.images.flatten(1);  // (60000, 784)
  for (int64_t i = 0; i < 5; ++i) {
    const Tensor thumbnail = shuffled[0][i].slice(1, 0, std::nullopt, 4).slice(2, 0, std::nullopt, 4);
    const Tensor found = all.eq(thumbnail.flatten()).all(1).nonzero();
    ASSERT_GE(found.size(0), 1) << "image " << i << " is not from the data set";
    EXPECT_EQ(set.labels[found[0].item<int64_t>()].item<int64_t>(), shuffled[1][i].item<int64_t>());
  }
}

TEST(ShuffledImages, AreMadeOnce) {
  EXPECT_EQ(tenfold::shuffled_images(on_cpu(), 16, 64)[0].data_ptr(),
            tenfold::shuffled_images(on_cpu(), 16, 64)[0].data_ptr());
}

TEST(ShuffledImages, AreContiguousAsSent) {
  for (const int64_t enlarge : {1, 8}) {
    const auto shuffled = tenfold::shuffled_images(on_cpu(), enlarge, tenfold::images_kept(enlarge, 64));
    EXPECT_TRUE(shuffled[0].narrow(0, 5, 3).is_contiguous());
    EXPECT_EQ(shuffled[0].dtype(), torch::kByte);
    EXPECT_EQ(shuffled[0].size(0), enlarge == 1 ? 60'000 : (128 << 20) / (224 * 224));
  }
}

// At every size of case "large images", and at a batch of which 128 MiB hold but two.
TEST(ThumbnailTraining, FiveBatchesInTurnAreDifferent) {
  for (const int64_t batch : {128, 256, 512})
    EXPECT_GE(tenfold::images_kept(16, batch) / batch, 5) << "batches of " << batch << " images";
  auto record = std::make_shared<tenfold::TrialRecord>();
  record->given = {{"batch", int64_t{40}}, {"enlarge", int64_t{32}}, {"channels", int64_t{2}}};
  const tenfold::Trial trial(record);
  ASSERT_LT((128 << 20) / (32 * 32 * 784) / 40, 5) << "too many fit: the test would not see a batch that comes again";
  tenfold::ThumbnailTraining work(trial);
  std::vector<Tensor> images;
  for (int i = 0; i < 5; ++i) {
    images.push_back(work.next_on_host()[0]);
    for (int before = 0; before < i; ++before)
      EXPECT_FALSE(images[i].equal(images[before])) << "batch " << i << " is batch " << before;
  }
  EXPECT_TRUE(work.next_on_host()[0].equal(images[0])) << "a pass has five";
}

TEST(ThumbnailTraining, ABatchThatHasNotFourOthersIsRefused) {
  auto record = std::make_shared<tenfold::TrialRecord>();
  record->given = {{"batch", int64_t{12'001}}};
  const tenfold::Trial trial(record);
  EXPECT_THROW(tenfold::ThumbnailTraining{trial}, c10::ValueError);
}

}  // namespace
