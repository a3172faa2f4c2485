#include <gtest/gtest.h>

#include <ATen/record_function.h>

#include EXERCISE

#include <functional>

namespace {

using torch::Tensor;

/// One image after the other.
Tensor expected(const Tensor& images, const Tensor& roll, const Tensor& flip) {
  std::vector<Tensor> turned;
  const int64_t width = images.size(3);
  for (int64_t b = 0; b < images.size(0); ++b) {
    std::vector<int64_t> from;
    for (int64_t x = 0; x < width; ++x)
      from.push_back(((flip[b].item<bool>() ? width - 1 - x : x) + roll[b].item<int64_t>()) % width);
    turned.push_back(images[b].index_select(2, torch::tensor(from, torch::kLong)));
  }
  return torch::stack(turned);
}

Tensor rolls(int64_t batch, int64_t width) { return torch::randint(0, width, {batch}, torch::kLong); }
Tensor flips(int64_t batch) { return torch::rand({batch}) < 0.5; }

int64_t calls = 0;

/// How many operators PyTorch is asked for.
int64_t operators_of(const std::function<void()>& work) {
  calls = 0;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
        ++calls;
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  work();
  at::removeCallback(handle);
  return calls;
}

TEST(Exercise16, OneImage) {
  const Tensor images = torch::arange(5, torch::kFloat).view({1, 1, 1, 5});
  const auto turned = [&](int64_t roll, bool flip) {
    return turn_batch(images, torch::tensor({roll}), torch::tensor({flip})).flatten();
  };
  EXPECT_TRUE(torch::equal(turned(2, false), torch::tensor({2.F, 3.F, 4.F, 0.F, 1.F})));
  EXPECT_TRUE(torch::equal(turned(0, true), torch::tensor({4.F, 3.F, 2.F, 1.F, 0.F})));
  EXPECT_TRUE(torch::equal(turned(2, true), torch::tensor({1.F, 0.F, 4.F, 3.F, 2.F})))
      << "hint: mirrored, column 0 is column (W - 1 + roll) modulo W";
}

TEST(Exercise16, EachImageItsOwnWay) {
  torch::manual_seed(1);
  for (const auto& shape : std::vector<std::vector<int64_t>>{{16, 3, 8, 8}, {5, 1, 1, 1}, {7, 2, 3, 11}}) {
    const Tensor images = torch::randn(shape), roll = rolls(shape[0], shape[3]), flip = flips(shape[0]);
    const Tensor turned = turn_batch(images, roll, flip);
    ASSERT_EQ(turned.sizes(), images.sizes());
    EXPECT_TRUE(torch::equal(turned, expected(images, roll, flip)))
        << "hint: is every image rolled and mirrored by its own row, or all by the first?";
  }
}

TEST(Exercise16, BytesAsWellAsFloats) {
  const Tensor images = torch::randint(0, 256, {6, 3, 4, 9}, torch::kByte), roll = rolls(6, 9), flip = flips(6);
  const Tensor turned = turn_batch(images, roll, flip);
  EXPECT_EQ(turned.scalar_type(), torch::kByte)
      << "hint: bytes are a quarter of what floats are; make floats of them last";
  EXPECT_TRUE(torch::equal(turned, expected(images, roll, flip)));
}

TEST(Exercise16, NoLoopOverTheImages) {
  const auto operators = [](int64_t batch) {
    const Tensor images = torch::randn({batch, 3, 8, 8}), roll = rolls(batch, 8), flip = flips(batch);
    return operators_of([&] { turn_batch(images, roll, flip); });
  };
  const int64_t few = operators(2), many = operators(200);
  EXPECT_GT(few, 0);
  EXPECT_EQ(few, many) << "hint: the number of operators grows with the batch";
}

}  // namespace
