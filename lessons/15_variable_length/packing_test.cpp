// Padded and packed hold the same; what goes there and back is unchanged; and the CPU's way is that of the kernel.
#include <gtest/gtest.h>

#include "packing.h"
#include "padding_plans.h"

#ifdef TENFOLD_WITH_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

#include <map>
#include <random>

namespace tenfold {
namespace {

using torch::Tensor;

std::vector<torch::Device> devices() {
  std::vector<torch::Device> found{torch::kCPU};
  if (torch::cuda::is_available()) found.emplace_back(torch::kCUDA);
  return found;
}

std::vector<std::vector<int64_t>> awkward_lengths() {
  std::vector<std::vector<int64_t>> all{{1}, {7}, {1, 1, 1}, {3, 1, 4}, {5, 5}, {1, 31, 2, 8}};
  std::mt19937 bits(15);
  for (int i = 0; i < 5; ++i) {
    auto& lengths = all.emplace_back();
    for (unsigned j = 0; j < 1 + bits() % 9; ++j) lengths.push_back(static_cast<int64_t>(1 + bits() % 20));
  }
  return all;
}

/// Texts of random ids with these many tokens, each one id longer.
struct Texts {
  explicit Texts(const std::vector<int64_t>& lengths) {
    std::mt19937 bits(15);
    for (const int64_t length : lengths) {
      auto& one = ids.emplace_back();
      for (int64_t i = 0; i <= length; ++i) one.push_back(static_cast<int32_t>(1 + bits() % 100));
    }
    views.assign(ids.begin(), ids.end());
  }
  std::vector<std::vector<int32_t>> ids;
  std::vector<TextIds> views;
};

TEST(Packing, LaysSequencesOutInTheirOrder) {
  const Packing packing = make_packing({3, 1, 4}, torch::kCPU);
  EXPECT_EQ(packing.count(), 3);
  EXPECT_EQ(packing.total(), 8);
  EXPECT_EQ(packing.longest(), 4);
  EXPECT_EQ(packing.offsets, (std::vector<int64_t>{0, 3, 4, 8}));
  EXPECT_TRUE(torch::equal(packing.cu_seqlens, torch::tensor({0, 3, 4, 8}, torch::kInt)));
  EXPECT_TRUE(torch::equal(packing.positions, torch::tensor({0, 1, 2, 0, 0, 1, 2, 3}, torch::kLong)));
  EXPECT_TRUE(torch::equal(packing.sequence_of, torch::tensor({0, 0, 0, 1, 2, 2, 2, 2}, torch::kLong)));
}

// From memory that is not page-locked each copy would wait until the device has done all that was queued before.
TEST(Packing, BatchesGoToTheDeviceWithoutAWait) {
#ifndef TENFOLD_WITH_CUDA
  GTEST_SKIP() << "built without CUDA";
#else
  if (!torch::cuda::is_available()) GTEST_SKIP() << "needs a CUDA device";
  torch::empty({1}, torch::kCUDA);
  const Texts texts({3, 1, 4});
  PackedBatch packed;
  PaddedBatch padded;
  c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR);
  EXPECT_THROW(torch::ones({2}).to(torch::kCUDA), c10::Error) << "it would not notice";
  EXPECT_NO_THROW(packed = pack_batch(texts.views, torch::kCUDA));
  EXPECT_NO_THROW(padded = pad_batch(texts.views, 5, torch::kCUDA));
  c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED);
  const PackedBatch expected = pack_batch(texts.views, torch::kCPU);
  EXPECT_TRUE(torch::equal(packed.ids.cpu(), expected.ids));
  EXPECT_TRUE(torch::equal(packed.targets.cpu(), expected.targets));
  EXPECT_TRUE(torch::equal(packed.packing.cu_seqlens.cpu(), expected.packing.cu_seqlens));
  EXPECT_TRUE(torch::equal(packed.packing.positions.cpu(), expected.packing.positions));
  EXPECT_TRUE(torch::equal(packed.packing.sequence_of.cpu(), expected.packing.sequence_of));
  EXPECT_TRUE(torch::equal(padded.ids.cpu(), pad_batch(texts.views, 5, torch::kCPU).ids));
  EXPECT_TRUE(torch::equal(padded.targets.cpu(), pad_batch(texts.views, 5, torch::kCPU).targets));
#endif
}

TEST(Packing, RefusesWhatHasNoTokens) {
  EXPECT_THROW(make_packing({}, torch::kCPU), c10::Error);
  EXPECT_THROW(make_packing({2, 0}, torch::kCPU), c10::Error);
  EXPECT_THROW(make_packing({-1}, torch::kCPU), c10::Error);
}

TEST(Packing, ThereAndBackIsTheSame) {
  for (const torch::Device device : devices()) {
    for (const auto& lengths : awkward_lengths()) {
      const Packing packing = make_packing(lengths, device);
      for (const std::vector<int64_t>& row : {std::vector<int64_t>{1}, {5}, {3, 2, 4}}) {
        std::vector<int64_t> shape{packing.total()};
        shape.insert(shape.end(), row.begin(), row.end());
        const Tensor x = torch::randn(shape, device), padded = unpack_rows(x, packing);
        EXPECT_EQ(padded.size(0), packing.count());
        EXPECT_EQ(padded.size(1), packing.longest());
        EXPECT_TRUE(torch::equal(pack_rows(padded, packing), x)) << lengths;
        for (int64_t i = 0; i < packing.count(); ++i) {
          const int64_t length = lengths[static_cast<size_t>(i)], first = packing.offsets[static_cast<size_t>(i)];
          EXPECT_TRUE(torch::equal(padded[i].slice(0, 0, length), x.slice(0, first, first + length)))
              << lengths << " sequence " << i;
          EXPECT_EQ(padded[i].slice(0, length).abs().sum().item<double>(), 0)
              << lengths << ": padding of sequence " << i;
        }
      }
    }
  }
}

// On a CPU the kernel runs under the microscope: few and small.
TEST(Packing, RowsAndGradientsAreThoseOfTheKernel) {
  for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{3, 1, 4}, {1}, {9, 2}}) {
    const Packing packing = make_packing(lengths, torch::kCPU);
    const Tensor x = torch::randn({packing.total(), 5}).requires_grad_(), y = x.detach().clone().requires_grad_();
    const Tensor ours = unpack_rows(x, packing), kernels = fused::unpack(y, packing.cu_seqlens, packing.longest());
    EXPECT_TRUE(torch::equal(ours, kernels));
    const Tensor weight = torch::randn_like(ours);
    (ours * weight).sum().backward();
    (kernels * weight).sum().backward();
    EXPECT_TRUE(torch::equal(x.grad(), y.grad()));

    const Tensor a = torch::randn({packing.count(), packing.longest(), 5}).requires_grad_(),
                 b = a.detach().clone().requires_grad_();
    const Tensor our_rows = pack_rows(a, packing), kernel_rows = fused::pack(b, packing.cu_seqlens, packing.total());
    EXPECT_TRUE(torch::equal(our_rows, kernel_rows));
    const Tensor row_weight = torch::randn_like(our_rows);
    (our_rows * row_weight).sum().backward();
    (kernel_rows * row_weight).sum().backward();
    EXPECT_TRUE(torch::equal(a.grad(), b.grad()));
  }
}

TEST(Batches, PaddedAndPackedHoldTheSameTokens) {
  for (const torch::Device device : devices()) {
    for (const auto& lengths : awkward_lengths()) {
      const Texts texts(lengths);
      const PackedBatch packed = pack_batch(texts.views, device);
      EXPECT_EQ(packed.packing.lengths, lengths);
      const PaddedBatch padded = pad_batch(texts.views, packed.packing.longest(), device);
      const Tensor is_token = padded.targets != kIgnoredTarget;
      EXPECT_EQ(is_token.sum().item<int64_t>(), packed.packing.total());
      EXPECT_TRUE(torch::equal(padded.ids.masked_select(is_token), packed.ids));
      EXPECT_TRUE(torch::equal(padded.targets.masked_select(is_token), packed.targets));
      for (size_t i = 0; i < lengths.size(); ++i) {  // ids are all but the last, targets all but the first
        const auto first = packed.packing.offsets[i], last = packed.packing.offsets[i + 1] - 1;
        EXPECT_EQ(packed.ids[first].item<int64_t>(), texts.ids[i].front());
        EXPECT_EQ(packed.targets[first].item<int64_t>(), texts.ids[i][1]);
        EXPECT_EQ(packed.targets[last].item<int64_t>(), texts.ids[i].back());
      }
    }
  }
}

TEST(Batches, WhatDoesNotFitIsRefused) {
  const Texts texts({4, 2});
  EXPECT_NO_THROW(pad_batch(texts.views, 4, torch::kCPU));
  EXPECT_THROW(pad_batch(texts.views, 3, torch::kCPU), c10::Error);
  const Texts empty({0});
  EXPECT_THROW(pad_batch(empty.views, 3, torch::kCPU), c10::Error);
  EXPECT_THROW(pack_batch(empty.views, torch::kCPU), c10::Error);
  EXPECT_THROW(pack_batch({}, torch::kCPU), c10::Error);
}

TEST(Plans, EveryTextOnceAndNoneLongerThanItsRectangle) {
  for (const auto& lengths : awkward_lengths()) {
    const Texts texts(lengths);
    const int64_t tokens = make_packing(lengths, torch::kCPU).total();
    for (const Plan plan : {pad_to_batch, pad_to_data_set, pad_in_buckets}) {
      for (const int64_t buckets : {1, 2, 3, 100}) {
        std::map<const int32_t*, int> seen;
        int64_t covered = 0;
        for (const MicroBatch& part : plan(texts.views, {.longest = 40, .buckets = buckets})) {
          EXPECT_FALSE(part.texts.empty());
          for (const TextIds text : part.texts) {
            EXPECT_LE(static_cast<int64_t>(text.size()) - 1, part.length);
            EXPECT_EQ(++seen[text.data()], 1);
          }
          EXPECT_LE(part.tokens(), part.rows());
          covered += part.tokens();
        }
        EXPECT_EQ(seen.size(), lengths.size());
        EXPECT_EQ(covered, tokens);
      }
    }
  }
}

int64_t rows_of(const std::vector<MicroBatch>& plan) {
  int64_t rows = 0;
  for (const MicroBatch& part : plan) rows += part.rows();
  return rows;
}

TEST(Plans, LessPaddingFromOneToTheNext) {
  const Texts texts({2, 20, 3, 10, 9, 1});
  const auto rows = [&](Plan plan, int64_t buckets) {
    return rows_of(plan(texts.views, {.longest = 40, .buckets = buckets}));
  };
  EXPECT_EQ(rows(pad_to_data_set, 1), 6 * 40);
  EXPECT_EQ(rows(pad_to_batch, 1), 6 * 20);
  EXPECT_EQ(rows(pad_in_buckets, 1), 6 * 20);
  EXPECT_EQ(rows(pad_in_buckets, 2), 3 * 3 + 3 * 20);
  EXPECT_EQ(rows(pad_in_buckets, 6), 45) << "a bucket for each text: no padding";
  EXPECT_EQ(rows(pad_in_buckets, 7), 45);
}

}  // namespace
}  // namespace tenfold
