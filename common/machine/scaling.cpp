#include "common/machine/scaling.h"

#include <algorithm>
#include <cmath>

namespace tenfold {
namespace {

// Seconds of a step of NCCL's ring and tree between neighbours of a node and of the network: its own table for NVLink
// and network, protocols Simple (ring) and LL128 (tree), github.com/NVIDIA/nccl, src/graph/tuning.cc at 01afd20.
constexpr double kRingInside = 3.4e-6, kRingNetwork = 9.6e-6, kTreeInside = 1.2e-6, kTreeNetwork = 8.5e-6;

constexpr double kBackward = 2.0 / 3;

/// Of one pass around the ring, n - 1 steps: a reduce-scatter or an all-gather.
double ring_latency(int gpus, int nodes) { return (gpus - nodes) * kRingInside + (nodes - 1) * kRingNetwork; }

/// Up and down a tree of nodes, in each of which the GPUs stand in a row.
double tree_latency(int gpus, int nodes) {
  return 2 * ((static_cast<double>(gpus) / nodes - 1) * kTreeInside + std::ceil(std::log2(nodes)) * kTreeNetwork);
}

}  // namespace

int ddp_buckets(double bytes) { return std::max(1, static_cast<int>(std::ceil(bytes / (25 << 20)))); }

double exchange_seconds(const StepExchange& exchange, int gpus, const Cluster& cluster) {
  if (gpus <= 1) return 0;
  const int nodes = (gpus + cluster.per_node - 1) / cluster.per_node;
  // A ring enters and leaves each node once, over all of its adapters.
  const double rate =
      nodes == 1 ? cluster.inside_bytes_per_s : std::min(cluster.inside_bytes_per_s, cluster.node_bytes_per_s);
  const double passes = exchange.sharded ? 1 : 2;
  const double sent = (passes * exchange.reduced_bytes + exchange.gathered_bytes) * (gpus - 1) / gpus;
  // Only an all-reduce has a tree, and takes it where messages are small.
  const double ring = passes * ring_latency(gpus, nodes);
  const double latency = exchange.sharded ? ring : std::min(ring, tree_latency(gpus, nodes));
  return sent / rate + exchange.collectives * latency;
}

StepBounds step_bounds(double seconds, int measured_gpus, int gpus, const StepExchange& exchange,
                       const Cluster& cluster) {
  const double now = exchange_seconds(exchange, gpus, cluster);
  const double then = exchange_seconds(exchange, measured_gpus, cluster);
  const double hides = (exchange.sharded ? 1 : kBackward) * seconds;
  return {.least = seconds + std::max(0.0, now - hides), .most = std::max(0.0, seconds - then) + now};
}

}  // namespace tenfold
