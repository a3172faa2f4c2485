#include <gtest/gtest.h>

#include EXERCISE

#include <torch/torch.h>

#include <string>

namespace {

using torch::Tensor;

constexpr int64_t kWidth = 6, kHeads = 2, kHeadWidth = 3;

/// What the file's y = x W says of one head: `part` 0 queries, 1 keys, 2 values.
Tensor from_the_file(const Tensor& c_attn, const Tensor& x, int64_t part, int64_t head) {
  Tensor y = torch::zeros({kHeadWidth});
  for (int64_t out = 0; out < kHeadWidth; ++out)
    for (int64_t in = 0; in < kWidth; ++in) y[out] += x[in] * c_attn[in][part * kWidth + head * kHeadWidth + out];
  return y;
}

/// The answer for a token, (3, H, D / H); empty where its shape is wrong.
Tensor answered(const Tensor& c_attn, const Tensor& x) {
  const Tensor weights = heads_of_c_attn(c_attn, kHeads);
  if (!weights.sizes().equals({3, kHeads, kHeadWidth, kWidth})) return {};
  return weights.matmul(x);
}

TEST(Exercise91, TheShapeIsThatOfHeads) {
  const Tensor weights = heads_of_c_attn(torch::zeros({kWidth, 3 * kWidth}), kHeads);
  EXPECT_TRUE(weights.sizes().equals({3, kHeads, kHeadWidth, kWidth}))
      << "hint: (3, H, D / H, D) is wanted, this is " << weights.sizes();
}

TEST(Exercise91, EveryHeadHasItsOwnQueriesKeysAndValues) {
  torch::manual_seed(1);
  const Tensor c_attn = torch::randn({kWidth, 3 * kWidth}), x = torch::randn({kWidth});
  const Tensor answer = answered(c_attn, x);
  ASSERT_TRUE(answer.defined()) << "hint: the shape is wrong";
  // A token of one feature picks one row of the file's matrix; its first columns are the first head's queries.
  const Tensor picked = answered(c_attn, torch::eye(kWidth)[1])[0][0];
  EXPECT_TRUE(torch::allclose(picked, c_attn[1].narrow(0, 0, kHeadWidth)))
      << "hint: the second feature alone must give the second row of the file's matrix: transpose it first";
  for (int64_t head = 0; head < kHeads; ++head) {
    for (int64_t part = 0; part < 3; ++part) {
      EXPECT_TRUE(torch::allclose(answer[part][head], from_the_file(c_attn, x, part, head), 1e-4, 1e-5))
          << "hint: the columns are all queries, then all keys, then all values, and the heads lie within each";
    }
  }
}

TEST(Exercise91, TheFilesTensorIsNotChanged) {
  const Tensor c_attn = torch::arange(3.0 * kWidth * kWidth).view({kWidth, 3 * kWidth}), before = c_attn.clone();
  heads_of_c_attn(c_attn, kHeads);
  EXPECT_TRUE(torch::equal(c_attn, before)) << "hint: give a new tensor, and leave the file's as it is";
}

TEST(Exercise91, WhatIsNoCAttnIsRefused) {
  EXPECT_THROW(heads_of_c_attn(torch::zeros({3 * kWidth, kWidth}), kHeads), c10::ValueError)
      << "hint: (3 D, D) is PyTorch's layout: refuse it with TORCH_CHECK_VALUE";
  EXPECT_THROW(heads_of_c_attn(torch::zeros({kWidth, 3 * kWidth}), 4), c10::ValueError)
      << "hint: 4 heads do not divide 6 features";
}

}  // namespace
