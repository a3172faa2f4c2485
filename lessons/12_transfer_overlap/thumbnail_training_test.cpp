#include <gtest/gtest.h>

#include <tenfold/thumbnail_training.h>

namespace {

using torch::Tensor;

TEST(ShuffledPictures, ThumbnailsOfTheEnlargedPicturesAreTheDataSet) {
  torch::manual_seed(3);
  const auto set = tenfold::fashion_mnist(/*train=*/true);
  const auto pictures = tenfold::shuffled_pictures(torch::kCPU, 4);
  ASSERT_EQ(pictures.size(), 2U);
  EXPECT_EQ(pictures[0].sizes(), (c10::IntArrayRef{(128 << 20) / (112 * 112), 1, 112, 112}));
  ASSERT_EQ(pictures[1].size(0), pictures[0].size(0));
  const Tensor all = set.images.flatten(1);  // (60000, 784)
  for (int64_t i = 0; i < 5; ++i) {
    const Tensor thumbnail = pictures[0][i].slice(1, 0, std::nullopt, 4).slice(2, 0, std::nullopt, 4);
    const Tensor found = all.eq(thumbnail.flatten()).all(1).nonzero();
    ASSERT_GE(found.size(0), 1) << "picture " << i << " is not from the data set";
    EXPECT_EQ(set.labels[found[0].item<int64_t>()].item<int64_t>(), pictures[1][i].item<int64_t>());
  }
}

TEST(ShuffledPictures, AreMadeOnce) {
  EXPECT_EQ(tenfold::shuffled_pictures(torch::kCPU, 16)[0].data_ptr(), tenfold::shuffled_pictures(torch::kCPU, 16)[0].data_ptr());
}

TEST(ShuffledPictures, AreContiguousAsSent) {
  for (const int64_t enlarge : {1, 8}) {
    const auto pictures = tenfold::shuffled_pictures(torch::kCPU, enlarge);
    EXPECT_TRUE(pictures[0].narrow(0, 5, 3).is_contiguous());
    EXPECT_EQ(pictures[0].dtype(), torch::kByte);
    EXPECT_EQ(pictures[0].size(0), enlarge == 1 ? 60'000 : (128 << 20) / (224 * 224));
  }
}

}  // namespace
