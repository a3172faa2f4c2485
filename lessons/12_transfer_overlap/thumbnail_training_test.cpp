#include <gtest/gtest.h>

#include "thumbnail_training.h"

namespace {

using torch::Tensor;

TEST(ShuffledImages, ThumbnailsOfTheEnlargedImagesAreTheDataSet) {
  torch::manual_seed(3);
  const auto set = tenfold::fashion_mnist(/*train=*/true);
  const auto shuffled = tenfold::shuffled_images(torch::kCPU, 4);
  ASSERT_EQ(shuffled.size(), 2U);
  EXPECT_EQ(shuffled[0].sizes(), (c10::IntArrayRef{(128 << 20) / (112 * 112), 1, 112, 112}));
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
  EXPECT_EQ(tenfold::shuffled_images(torch::kCPU, 16)[0].data_ptr(),
            tenfold::shuffled_images(torch::kCPU, 16)[0].data_ptr());
}

TEST(ShuffledImages, AreContiguousAsSent) {
  for (const int64_t enlarge : {1, 8}) {
    const auto shuffled = tenfold::shuffled_images(torch::kCPU, enlarge);
    EXPECT_TRUE(shuffled[0].narrow(0, 5, 3).is_contiguous());
    EXPECT_EQ(shuffled[0].dtype(), torch::kByte);
    EXPECT_EQ(shuffled[0].size(0), enlarge == 1 ? 60'000 : (128 << 20) / (224 * 224));
  }
}

}  // namespace
