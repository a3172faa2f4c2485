#include "bucket_sweep.h"

#include <gtest/gtest.h>

#include "prediction.h"

#include <numeric>
#include <vector>

namespace {

using tenfold::AllReduceTime, tenfold::exposed_seconds;

TEST(BucketSweep, TheShapesOfAGptsGradientsMakeItsBuckets) {
  for (const tenfold::GptOptions& options :
       {tenfold::GptOptions{}, {.layers = 2, .width = 24, .heads = 2, .length = 8}}) {
    const auto parameters = tenfold::Gpt(options)->parameters();
    for (const int64_t kib : {0, 1, 16, 100, 256, 4096}) {
      const auto sizes = tenfold::buckets_of(kib << 10);
      const auto bytes = tenfold::bytes_of_buckets(tenfold::shapes_of_gradients(options), sizes);
      EXPECT_EQ(bytes, tenfold::bytes_of_buckets(parameters, sizes)) << kib;
      EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}), tenfold::parameter_bytes(options));
      if (kib == 0) EXPECT_EQ(bytes.size(), parameters.size());
    }
  }
}

// Latency 2 s, 10 bytes a second.
TEST(BucketSweep, WhatBackwardDoesNotHideIsExposed) {
  const AllReduceTime time{2, 10};
  EXPECT_DOUBLE_EQ(exposed_seconds({100}, time, 0), 2 + 10.0);
  EXPECT_DOUBLE_EQ(exposed_seconds({50, 50}, time, 0), 2 * 2 + 10.0);
  EXPECT_DOUBLE_EQ(exposed_seconds({100}, time, 1000), 2 + 10.0) << "one bucket waits for all of backward()";
  EXPECT_DOUBLE_EQ(exposed_seconds({90, 10}, time, 1000), 2 + 1.0) << "the last bucket's alone";
  EXPECT_DOUBLE_EQ(exposed_seconds({50, 50}, time, 10), (5 + 7 + 7) - 10.0) << "the second waits for the first";
  EXPECT_NEAR(exposed_seconds(std::vector<int64_t>(100, 1), time, 10), (0.1 + 210) - 10.0, 1e-9) << "latency";
}

}  // namespace
