// A step on more GPUs: by hand, at the limits, and what must grow with what.
#include "common/machine/scaling.h"

#include <gtest/gtest.h>

namespace tenfold {
namespace {

constexpr Cluster kCluster{.per_node = 8, .inside_bytes_per_s = 100e9, .node_bytes_per_s = 10e9};

// Latencies are some microseconds a step of the ring; bytes are chosen to take seconds.
constexpr double kLatencies = 1e-2;

TEST(Scaling, OneGpuExchangesNothing) {
  EXPECT_EQ(exchange_seconds({.reduced_bytes = 1e9, .collectives = 10}, 1, kCluster), 0);
  const StepBounds step = step_bounds(2, 1, 1, {.reduced_bytes = 1e9}, kCluster);
  EXPECT_EQ(step.least, 2);
  EXPECT_EQ(step.most, 2);
}

TEST(Scaling, BytesOfARingOverTheSlowestLink) {
  // 2 * 7/8 * 100 GB at 100 GB/s; over the network 2 * 15/16 * 100 GB at 10 GB/s.
  EXPECT_NEAR(exchange_seconds({.reduced_bytes = 100e9}, 8, kCluster), 1.75, kLatencies);
  EXPECT_NEAR(exchange_seconds({.reduced_bytes = 100e9}, 16, kCluster), 18.75, kLatencies);
  // One reduce-scatter and two all-gathers: (100 + 200) * 15/16 at 10 GB/s.
  EXPECT_NEAR(exchange_seconds({.reduced_bytes = 100e9, .gathered_bytes = 200e9, .sharded = true}, 16, kCluster),
              28.125, kLatencies);
  // A network faster than the links within the node does not help.
  Cluster fast = kCluster;
  fast.node_bytes_per_s = 1e12;
  EXPECT_NEAR(exchange_seconds({.reduced_bytes = 100e9}, 16, fast), 1.875, kLatencies);
}

TEST(Scaling, BucketsOfDdp) {
  EXPECT_EQ(ddp_buckets(1), 1);
  EXPECT_EQ(ddp_buckets(25 << 20), 1);
  EXPECT_EQ(ddp_buckets((25 << 20) + 1.0), 2);
}

TEST(Scaling, LatencyCountsForEachCollective) {
  const auto latency = [](int collectives, bool sharded, int gpus) {
    return exchange_seconds({.reduced_bytes = 0, .sharded = sharded, .collectives = collectives}, gpus, kCluster);
  };
  EXPECT_NEAR(latency(10, false, 64), 10 * latency(1, false, 64), 1e-12);
  EXPECT_LT(latency(1, false, 512), latency(1, true, 512)) << "an all-reduce has a tree";
  EXPECT_LT(latency(1, true, 8), latency(1, true, 16));
}

TEST(Scaling, BoundsHideAllOrNothing) {
  const StepExchange gradients{.reduced_bytes = 8e9};  // 1.5 s among 16
  const double exchange = exchange_seconds(gradients, 16, kCluster);
  const StepBounds longer = step_bounds(6, 1, 16, gradients, kCluster);
  EXPECT_DOUBLE_EQ(longer.least, 6) << "4 s of backward hide it";
  EXPECT_DOUBLE_EQ(longer.most, 6 + exchange);
  const StepBounds shorter = step_bounds(1.5, 1, 16, gradients, kCluster);
  EXPECT_DOUBLE_EQ(shorter.least, 0.5 + exchange) << "1 s of backward hides 1 s";
  // What is sharded hides behind the forward pass, too.
  StepExchange sharded = gradients;
  sharded.sharded = true;
  sharded.gathered_bytes = 8e9;
  const StepBounds both = step_bounds(1.5, 1, 16, sharded, kCluster);
  EXPECT_DOUBLE_EQ(both.least, std::max(1.5, exchange_seconds(sharded, 16, kCluster)));
}

TEST(Scaling, WhatTheMeasuredStepExchangedIsTakenOff) {
  const StepExchange gradients{.reduced_bytes = 8e9};
  EXPECT_DOUBLE_EQ(step_bounds(6, 8, 8, gradients, kCluster).most, 6);
  EXPECT_DOUBLE_EQ(step_bounds(6, 8, 8, gradients, kCluster).least, 6);
  EXPECT_LT(step_bounds(6, 8, 16, gradients, kCluster).most, step_bounds(6, 1, 16, gradients, kCluster).most);
}

}  // namespace
}  // namespace tenfold
