// The hand counts of the pages of kernels that go over rows or over values, as hand_counts_test.cpp does for matrices:
// what arithmetic on a page says must be what the microscope counts. All in float; columns in whole packets of a warp.
#include "kernel_device.h"

#ifndef TENFOLD_COUNTED

TEST(HandCountsOfRows, AreOfTheMicroscope) {
  GTEST_SKIP() << "nothing counts here: a GPU does not say what it moved, nor does a build with sanitizers";
}

#else

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/adamw/adamw.h"
#include "kernels/bias_gelu/bias_gelu.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/embedding/embedding.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/pack/pack.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope/rope.h"
#include "kernels/softmax/softmax.h"

namespace tenfold::test {
namespace {

using simt::Access;
using simt::Kind;
using simt::Report;
using simt::Space;

/// Accesses to global memory that a page counts: of loads and of stores, of a buffer or of several.
struct Moved {
  int64_t load_sectors = 0, store_sectors = 0, load_requests = 0, store_requests = 0;
};

class RowsByHand : public KernelTest {
 protected:
  /// What `run` moves of these buffers.
  template <class F>
  Moved moved(const std::vector<std::string>& buffers, F&& run) {
    device_.reset();
    run();
    expect_clean();
    Moved all;
    for (const Access& access : device_.report().accesses) {
      if (access.space != Space::global || std::ranges::find(buffers, access.buffer) == buffers.end()) continue;
      const bool is_load = access.kind == Kind::load;
      (is_load ? all.load_sectors : all.store_sectors) += access.sectors;
      (is_load ? all.load_requests : all.store_requests) += access.requests;
    }
    EXPECT_GT(all.load_sectors + all.store_sectors, 0);
    return all;
  }
};

struct Size {
  int64_t rows, columns;
};
constexpr Size kSizes[] = {{64, 1024}, {32, 384}};

TEST_F(RowsByHand, Softmax) {
  for (const auto& [rows, columns] : kSizes) {
    const int64_t n = rows * columns;
    const auto in = copied(normal_values(n, 1), "in"), out = poisoned<float>(n, "out");
    const int64_t sectors[] = {3 * n + n, (3 * n + n) / 8, (2 * n + n) / 8, (2 * n + n) / 8, (n + n) / 8};
    const int64_t requests[] = {3 * n / 32, 3 * n / 32, 2 * n / 32, 2 * n / 128, n / 128};
    for (int rung = 0; rung < kernels::kSoftmaxRungs; ++rung) {
      const Moved all =
          moved({"in", "out"}, [&] { kernels::softmax(stream(), out.data(), in.data(), rows, columns, rung); });
      EXPECT_EQ(all.load_sectors + all.store_sectors, sectors[rung]) << rung;
      EXPECT_EQ(all.load_requests, requests[rung]) << rung;
    }
  }
}

TEST_F(RowsByHand, LayerNorm) {
  for (const auto& [rows, columns] : kSizes) {
    const int64_t n = rows * columns;
    const auto in = copied(normal_values(n, 1), "in"), out = poisoned<float>(n, "out");
    const auto weight = copied(normal_values(columns, 2), "weight"), bias = copied(normal_values(columns, 3), "bias");
    const auto mean = poisoned<float>(rows, "mean"), rstd = poisoned<float>(rows, "rstd");
    const int64_t sectors[] = {3 * n + n, (3 * n + n) / 8, (2 * n + n) / 8, (2 * n + n) / 8, (n + n) / 8};
    const int64_t requests[] = {3 * n / 32, 3 * n / 32, 2 * n / 32, 2 * n / 128, n / 128};
    for (int rung = 0; rung < kernels::kLayerNormRungs; ++rung) {
      const auto run = [&] {
        kernels::layer_norm(stream(), out.data(), mean.data(), rstd.data(), in.data(), weight.data(), bias.data(), rows,
                            columns, 1e-5F, rung);
      };
      const Moved all = moved({"in", "out"}, run), of_columns = moved({"weight", "bias"}, run),
                  of_rows = moved({"mean", "rstd"}, run);
      EXPECT_EQ(all.load_sectors + all.store_sectors, sectors[rung]) << rung;
      EXPECT_EQ(all.load_requests, requests[rung]) << rung;
      EXPECT_EQ(of_columns.load_sectors, rung == 0 ? 2 * n / 32 : 2 * n / 8) << rung;
      EXPECT_EQ(of_rows.store_sectors, rung == 0 ? 2 * rows / 8 : 2 * rows) << rung;
    }
  }
}

TEST_F(RowsByHand, BackwardOfTheNorms) {
  for (const auto& [rows, columns] : kSizes) {
    const int64_t n = rows * columns, parts = kernels::norm_parts(rows);
    const auto in = copied(normal_values(n, 1), "in"), grad_out = copied(normal_values(n, 4), "grad_out");
    const auto grad_in = poisoned<float>(n, "grad_in"), weight = copied(normal_values(columns, 2), "weight");
    const auto mean = copied(normal_values(rows, 5), "other"), rstd = copied(normal_values(rows, 6), "other");
    const auto grad_weight = poisoned<float>(columns, "other"), grad_bias = poisoned<float>(columns, "other");
    const auto sums = poisoned<float>(2 * parts * columns, "sums");
    for (int rung = 0; rung < kernels::kNormBackwardRungs; ++rung) {
      const auto layer_norm = [&] {
        kernels::layer_norm_backward(stream(), grad_in.data(), grad_weight.data(), grad_bias.data(), sums.data(),
                                     grad_out.data(), in.data(), mean.data(), rstd.data(), weight.data(), rows, columns,
                                     rung);
      };
      const auto rms_norm = [&] {
        kernels::rms_norm_backward(stream(), grad_in.data(), grad_weight.data(), sums.data(), grad_out.data(),
                                   in.data(), rstd.data(), weight.data(), rows, columns, rung);
      };
      for (const Moved& read : {moved({"in", "grad_out"}, layer_norm), moved({"in", "grad_out"}, rms_norm)}) {
        EXPECT_EQ(read.load_sectors, (rung == 0 ? 3 : 1) * 2 * n / 8) << rung;
        EXPECT_EQ(read.load_requests, (rung == 0 ? 3 : 1) * 2 * n / 128) << rung;
      }
      EXPECT_EQ(moved({"grad_in"}, layer_norm).store_sectors, n / 8);
      const Moved of_sums = moved({"sums"}, layer_norm);
      EXPECT_EQ(of_sums.store_sectors, 2 * parts * columns / 8);
      EXPECT_EQ(of_sums.load_sectors, 2 * parts * columns / 8);
      EXPECT_EQ(moved({"sums"}, rms_norm).store_sectors, parts * columns / 8);
    }
  }
}

TEST_F(RowsByHand, RmsNorm) {
  for (const auto& [rows, columns] : kSizes) {
    const int64_t n = rows * columns;
    const auto in = copied(normal_values(n, 1), "in"), out = poisoned<float>(n, "out");
    const auto weight = copied(normal_values(columns, 2), "other"), rstd = poisoned<float>(rows, "other");
    for (int rung = 0; rung < kernels::kRmsNormRungs; ++rung) {
      const Moved all = moved({"in", "out"}, [&] {
        kernels::rms_norm(stream(), out.data(), rstd.data(), in.data(), weight.data(), rows, columns, 1e-5F, rung);
      });
      EXPECT_EQ(all.load_sectors, rung == 0 ? 2 * n : 2 * n / 8) << rung;
      EXPECT_EQ(all.store_sectors, rung == 0 ? n : n / 8) << rung;
      EXPECT_EQ(all.load_requests, rung == 2 ? 2 * n / 128 : 2 * n / 32) << rung;
    }
  }
}

TEST_F(RowsByHand, BiasGelu) {
  for (const auto& [rows, columns] : kSizes) {
    const int64_t n = rows * columns;
    const auto in = copied(normal_values(n, 1), "in"), out = poisoned<float>(n, "out");
    const auto bias = copied(normal_values(columns, 2), "other");
    for (int rung = 0; rung < kernels::kBiasGeluRungs; ++rung) {
      const Moved all = moved({"in", "out"}, [&] {
        kernels::bias_gelu(stream(), out.data(), in.data(), bias.data(), rows, columns, kernels::Gelu::tanh, rung);
      });
      EXPECT_EQ(32 * (all.load_sectors + all.store_sectors), (rung == 0 ? 16 : 8) * n) << rung;
      EXPECT_EQ(all.load_requests, rung == 0 ? 2 * n / 32 : rung == 1 ? n / 32 : n / 128) << rung;
    }
  }
}

TEST_F(RowsByHand, AdamW) {
  const int64_t tensors = 3, n = 4096;
  std::vector<kernels::AdamWTensor> list;
  const auto all = copied(std::vector<float>(static_cast<size_t>(4 * tensors * n), 1), "all");
  for (int64_t t = 0; t < tensors; ++t) {
    float* first = all.data() + 4 * t * n;
    list.push_back({first, first + n, first + 2 * n, first + 3 * n, n});
  }
  for (int rung = 0; rung < kernels::kAdamWRungs; ++rung) {
    const Moved values = moved({"all"}, [&] { kernels::adamw(stream(), std::span(list), {}, 1, rung); });
    EXPECT_EQ(32 * values.load_sectors, 16 * tensors * n) << rung;
    EXPECT_EQ(32 * values.store_sectors, 12 * tensors * n) << rung;
    EXPECT_EQ(values.load_requests, 4 * tensors * n / (rung == 2 ? 128 : 32)) << rung;
    EXPECT_EQ(device_.report().launches, rung == 0 ? tensors : 1) << rung;
  }
}

TEST_F(RowsByHand, CrossEntropy) {
  for (const auto& [rows, classes] : kSizes) {
    const int64_t n = rows * classes;
    const auto mean = poisoned<float>(1, "other"), losses = poisoned<float>(rows, "other");
    const auto counted = poisoned<int64_t>(1, "other");
    std::vector<int64_t> ids(static_cast<size_t>(rows));
    std::iota(ids.begin(), ids.end(), 0);
    const auto targets = copied(ids, "other");
    const int64_t loads[] = {5 * n + rows, 3 * n / 8 + rows, 2 * n / 8 + rows, 2 * n / 8 + rows, n / 8 + rows};
    for (int rung = 0; rung < kernels::kCrossEntropyRungs; ++rung) {
      const auto logits = copied(normal_values(n, 1), "logits");
      const Moved all = moved({"logits"}, [&] {
        kernels::cross_entropy(stream(), logits.data(), mean.data(), losses.data(), counted.data(), targets.data(),
                               rows, classes, kernels::kIgnoreIndex, rung);
      });
      EXPECT_EQ(all.load_sectors, loads[rung]) << rung;
      EXPECT_EQ(all.store_sectors, rung == 0 ? n : n / 8) << rung;
    }
  }
}

TEST_F(RowsByHand, Embedding) {
  for (const auto& [tokens, width] : kSizes) {
    const int64_t n = tokens * width, vocabulary = 2 * tokens;
    std::vector<int64_t> all(static_cast<size_t>(tokens));
    std::iota(all.begin(), all.end(), 3);
    const auto weight = copied(normal_values(vocabulary * width, 1), "weight"), out = poisoned<float>(n, "out");
    const auto ids = copied(all, "other");
    for (int rung = 0; rung < kernels::kEmbeddingRungs; ++rung) {
      const Moved both = moved({"weight", "out"}, [&] {
        kernels::embedding(stream(), out.data(), weight.data(), ids.data(), tokens, width, vocabulary, rung);
      });
      EXPECT_EQ(both.load_sectors, rung == 0 ? n : n / 8) << rung;
      EXPECT_EQ(both.store_sectors, rung == 0 ? n : n / 8) << rung;
      EXPECT_EQ(both.load_requests, rung == 2 ? n / 128 : n / 32) << rung;
    }
  }
}

TEST_F(RowsByHand, Rope) {
  const int64_t tokens = 8, heads = 4, head_dim = 128, n = tokens * heads * head_dim;
  const auto values = copied(normal_values(n, 1), "values");
  const auto cosines = copied(normal_values(tokens * head_dim / 2, 2), "cosines"),
             sines = copied(normal_values(tokens * head_dim / 2, 3), "sines");
  for (int rung = 0; rung < kernels::kRopeRungs; ++rung) {
    const auto run = [&] {
      kernels::rope(stream(), values.data(), cosines.data(), sines.data(), tokens, heads, head_dim, tokens,
                    kernels::Rotation::forward, rung);
    };
    const Moved all = moved({"values"}, run), tables = moved({"cosines", "sines"}, run);
    EXPECT_EQ(all.load_sectors, (rung == 0 ? 2 : 1) * n / 8) << rung;
    EXPECT_EQ(all.store_sectors, n / 8) << rung;
    EXPECT_EQ(tables.load_sectors, rung == 0 ? 2 * n / 8 : tokens * head_dim / 8) << rung;
  }
}

TEST_F(RowsByHand, Pack) {
  const int64_t batch = 8, length = 6, width = 384, total = batch * 4, n = total * width;
  std::vector<int64_t> starts(batch + 1);
  for (int64_t i = 0; i <= batch; ++i) starts[static_cast<size_t>(i)] = 4 * i;
  const auto padded = copied(normal_values(batch * length * width, 1), "padded"), packed = poisoned<float>(n, "packed");
  const auto offsets = copied(starts, "cu_seqlens");
  const int64_t steps = 3 + 2;  // log2(batch) to search, and both ends of the sequence
  const int64_t searches[] = {n / 32, total, total};
  for (int rung = 0; rung < kernels::kPackRungs; ++rung) {
    const auto run = [&] {
      kernels::pack(stream(), packed.data(), padded.data(), offsets.data(), batch, length, width, total, rung);
    };
    const Moved rows = moved({"padded", "packed"}, run), found = moved({"cu_seqlens"}, run);
    EXPECT_EQ(rows.load_sectors, n / 8) << rung;
    EXPECT_EQ(rows.store_sectors, n / 8) << rung;
    EXPECT_EQ(rows.load_requests, rung == 2 ? n / 128 : n / 32) << rung;
    EXPECT_EQ(found.load_requests, steps * searches[rung]) << rung;
  }
}

}  // namespace
}  // namespace tenfold::test

#endif
