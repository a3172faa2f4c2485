// The tensors made of the data: shapes, values, determinism, windows.
#include <gtest/gtest.h>
#include <torch/torch.h>
#include "common/data/data_files.h"
#include "common/data/shakespeare.h"
#include "common/data/tokenizer.h"
#include "common/models/fashion_mnist.h"
#include "common/models/host_batch.h"
#include "common/models/token_stream.h"

#include "tests/data/scratch.h"
#include "tests/support/places.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

torch::Generator seeded(uint64_t seed) { return at::detail::createCPUGenerator(seed); }

TEST(FashionMnist, HasTheShapesAndClassesOfThePaper) {
  for (const bool train : {true, false}) {
    const ImageSet set = fashion_mnist(train);
    const int64_t n = train ? 60000 : 10000;
    EXPECT_EQ(set.size(), n);
    EXPECT_EQ(set.images.sizes(), (std::vector<int64_t>{n, 1, 28, 28}));
    EXPECT_EQ(set.images.scalar_type(), torch::kUInt8);
    EXPECT_EQ(set.labels.sizes(), (std::vector<int64_t>{n}));
    EXPECT_EQ(set.labels.scalar_type(), torch::kInt64);
    EXPECT_TRUE(torch::equal(set.labels.bincount(), torch::full({10}, n / 10, torch::kInt64)))
        << "the classes are of equal size";
  }
}
TEST(FashionMnist, NormalisesToMean0AndDeviation1) {
  const torch::Tensor x = normalise_images(fashion_mnist(true).images);
  EXPECT_EQ(x.scalar_type(), torch::kFloat32);
  EXPECT_NEAR(x.mean(torch::kFloat64).item<double>(), 0, 1e-3);
  EXPECT_NEAR(x.to(torch::kFloat64).std().item<double>(), 1, 1e-3);
}
TEST(FashionMnist, RefusesADamagedFile) {
  const fs::path real = data_folder() / "fashion-mnist";
  const test::Scratch scratch;
  const test::CacheAt cache(scratch.path());
  fs::create_directories(data_folder());
  fs::copy(real, data_folder() / "fashion-mnist");
  const fs::path file = data_folder() / "fashion-mnist" / "t10k-labels-idx1-ubyte.gz";
  const std::string whole = read_file(file);
  const auto error = [] { return test::message_of<DataError>([] { fashion_mnist(false); }); };
  for (const std::string& wrong : {whole.substr(0, whole.size() - 1), std::string()}) {
    test::write_text(file, wrong);
    EXPECT_NE(error().find("t10k-labels-idx1-ubyte.gz: is truncated or altered"), std::string::npos) << error();
  }
  fs::remove(file);
  EXPECT_NE(error().find("is missing"), std::string::npos) << error();
  test::write_text(file, whole);
  EXPECT_EQ(error(), "") << "an error must not stick";
}

// On a device they are views of one block, whatever their types.
TEST(TensorsOn, KeepValuesTypesAndShapes) {
  const std::vector<torch::Tensor> sent = {torch::tensor({1, 2, 3}, torch::kInt), torch::empty({0}),
                                           torch::tensor({-5L, 1L << 40}), torch::ones({3, 1}, torch::kByte),
                                           torch::arange(6, torch::kDouble).reshape({2, 3}).t()};
  for (const torch::Device device : test::devices()) {
    const std::vector<torch::Tensor> arrived = tensors_on(device, sent);
    ASSERT_EQ(arrived.size(), sent.size());
    for (size_t i = 0; i < sent.size(); ++i) {
      EXPECT_EQ(arrived[i].device().type(), device.type());
      EXPECT_EQ(arrived[i].scalar_type(), sent[i].scalar_type());
      EXPECT_TRUE(torch::equal(arrived[i].cpu(), sent[i])) << device << ", tensor " << i;
      if (device.is_cuda()) EXPECT_TRUE(arrived[i].is_alias_of(arrived[0])) << "one copy";
    }
  }
  EXPECT_TRUE(tensors_on(torch::kCPU, {sent[0]})[0].is_same(sent[0]));
}

TEST(ShakespeareTokens, AreTheWorksInOrder) {
  const torch::Tensor ids = shakespeare_tokens(Encoding::characters, false);
  EXPECT_EQ(ids.scalar_type(), torch::kInt64);
  std::string expected;
  for (const Book& book : shakespeare(false)) expected += book.text + '\0';
  ASSERT_EQ(ids.numel(), static_cast<int64_t>(expected.size()));
  const int64_t* at = ids.data_ptr<int64_t>();
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(at[i], expected[i]);
}
TEST(ShakespeareTokens, OfGpt2DecodeToTheText) {
  int64_t tokens = 0;
  for (const bool train : {true, false}) {
    const torch::Tensor ids = shakespeare_tokens(Encoding::gpt2, train).to(torch::kInt32);
    tokens += ids.numel();
    std::string expected;
    for (const Book& book : shakespeare(train)) expected += book.text + "<|endoftext|>";
    EXPECT_EQ(Gpt2Tokenizer().decode({ids.data_ptr<int32_t>(), static_cast<size_t>(ids.numel())}), expected);
  }
  EXPECT_EQ(tokens, 1565959 + 42);
}
TEST(ShakespeareTokens, StayInsideTheVocabulary) {
  for (const Encoding encoding : {Encoding::characters, Encoding::gpt2}) {
    const torch::Tensor ids = shakespeare_tokens(encoding, true);
    EXPECT_GE(ids.min().item<int64_t>(), 0);
    EXPECT_LT(ids.max().item<int64_t>(), vocabulary_size(encoding));
  }
}

TEST(SampleBatch, TargetsFollowIds) {
  const torch::Tensor tokens = torch::arange(1000, torch::kInt64) * 3;
  const TextBatch batch = sample_batch(tokens, 8, 16, seeded(1));
  EXPECT_EQ(batch.ids.sizes(), (std::vector<int64_t>{8, 16}));
  EXPECT_TRUE(batch.ids.is_contiguous() && batch.targets.is_contiguous());
  EXPECT_TRUE(torch::equal(batch.targets, batch.ids + 3));
  EXPECT_TRUE(torch::equal(batch.ids.narrow(1, 1, 15), batch.targets.narrow(1, 0, 15)));
}
TEST(SampleBatch, FollowsTheSeed) {
  const torch::Tensor tokens = torch::arange(100000, torch::kInt64);
  const TextBatch a = sample_batch(tokens, 4, 8, seeded(7)), b = sample_batch(tokens, 4, 8, seeded(7)),
                  c = sample_batch(tokens, 4, 8, seeded(8));
  EXPECT_TRUE(torch::equal(a.ids, b.ids) && torch::equal(a.targets, b.targets));
  EXPECT_FALSE(torch::equal(a.ids, c.ids));
  torch::Generator one = seeded(7);
  sample_batch(tokens, 4, 8, one);
  EXPECT_FALSE(torch::equal(sample_batch(tokens, 4, 8, one).ids, a.ids)) << "the caller's generator must move on";
}
TEST(SampleBatch, ReachesTheFirstAndTheLastWindow) {
  const torch::Tensor tokens = torch::arange(10, torch::kInt64);
  const TextBatch batch = sample_batch(tokens, 2000, 4, seeded(3));
  EXPECT_EQ(batch.ids.min().item<int64_t>(), 0);
  EXPECT_EQ(batch.targets.max().item<int64_t>(), 9);
  const torch::Tensor starts = batch.ids.select(1, 0).contiguous();
  EXPECT_EQ(starts.bincount().numel(), 6);
  EXPECT_GT(starts.bincount().min().item<int64_t>(), 250) << "every start is equally likely";
}
TEST(SampleBatch, RefusesWhatDoesNotFit) {
  const torch::Tensor tokens = torch::arange(10, torch::kInt64);
  EXPECT_NO_THROW(sample_batch(tokens, 1, 9, seeded(1)));
  EXPECT_THROW(sample_batch(tokens, 1, 10, seeded(1)), std::invalid_argument);
  EXPECT_THROW(sample_batch(tokens, 0, 4, seeded(1)), std::invalid_argument);
  EXPECT_THROW(sample_batch(tokens, 1, 0, seeded(1)), std::invalid_argument);
  EXPECT_THROW(sample_batch(tokens.to(torch::kFloat32), 1, 4, seeded(1)), std::invalid_argument);
  EXPECT_THROW(sample_batch(tokens.view({2, 5}), 1, 4, seeded(1)), std::invalid_argument);
}

}  // namespace
}  // namespace tenfold
