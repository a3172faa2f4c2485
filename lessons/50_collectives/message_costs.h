#pragma once
// What each all-reduce sends and how long it takes, by formula: from a rank's place among the ranks, not from the code.

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include <torch/torch.h>

#include "collectives.h"

namespace tenfold::inline lesson_50 {

using AllReduce = std::function<void(const torch::Tensor&, c10d::ProcessGroup&)>;

enum class Algorithm { ring, tree, star, doubling };
inline constexpr std::array kAlgorithms = {Algorithm::ring, Algorithm::tree, Algorithm::star, Algorithm::doubling};

inline const char* name_of(Algorithm algorithm) {
  constexpr std::array kNames = {"ring", "tree", "star", "doubling"};
  return kNames.at(static_cast<size_t>(algorithm));
}

inline AllReduce all_reduce_by(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::ring:
      return ring_all_reduce;
    case Algorithm::tree:
      return tree_all_reduce;
    case Algorithm::star:
      return star_all_reduce;
    case Algorithm::doubling:
      return doubling_all_reduce;
  }
  return nullptr;
}

/// Of one rank, in one call.
struct MessageCosts {
  int64_t sent_bytes = 0, received_bytes = 0, sent_messages = 0;
  bool operator==(const MessageCosts&) const = default;
};

/// Numbers of part `index`, counted around, of `numbers` in `parts`.
inline int64_t numbers_of_part(int64_t numbers, int64_t index, int64_t parts) {
  const int64_t part = (index % parts + parts) % parts;
  return (part + 1) * numbers / parts - part * numbers / parts;
}

/// The largest power of two that is at most `ranks`.
inline int ranks_in_pairs(int ranks) {
  int pairing = 1;
  while (2 * pairing <= ranks) pairing *= 2;
  return pairing;
}

/// ceil(log2(ranks)).
inline int levels_of_tree(int ranks) {
  int levels = 0;
  while ((1 << levels) < ranks) ++levels;
  return levels;
}

/// Of an all-reduce of so many numbers, as many as there are ranks at least, of `number_bytes` each.
inline MessageCosts costs_of_rank(Algorithm algorithm, int rank, int ranks, int64_t numbers, int64_t number_bytes = 4) {
  const int64_t all = numbers * number_bytes;
  if (ranks == 1) return {};
  if (algorithm == Algorithm::ring) {
    // The reduce-scatter sends all parts but the rank's own and receives all but the one before; the all-gather sends
    // all but the one behind and receives all but its own.
    const auto part = [&](int index) { return numbers_of_part(numbers, index, ranks) * number_bytes; };
    return {2 * all - part(rank) - part(rank + 1), 2 * all - part(rank - 1) - part(rank), 2 * (ranks - 1)};
  }
  int64_t partners = 0;  // ranks with which it exchanges the whole, in each direction
  if (algorithm == Algorithm::star) partners = rank == 0 ? ranks - 1 : 1;
  if (algorithm == Algorithm::tree) {
    partners = rank == 0 ? 0 : 1;  // the rank above
    for (int distance = 1; distance < ranks && rank % (2 * distance) == 0; distance *= 2) {
      if (rank + distance < ranks) ++partners;
    }
  }
  if (algorithm == Algorithm::doubling) {
    const int pairing = ranks_in_pairs(ranks);
    partners = rank >= pairing ? 1 : levels_of_tree(pairing) + (rank + pairing < ranks ? 1 : 0);
  }
  return {partners * all, partners * all, partners};
}

/// The most of each, over the ranks.
inline MessageCosts busiest(Algorithm algorithm, int ranks, int64_t numbers, int64_t number_bytes = 4) {
  MessageCosts most;
  for (int rank = 0; rank < ranks; ++rank) {
    const MessageCosts of_rank = costs_of_rank(algorithm, rank, ranks, numbers, number_bytes);
    most.sent_bytes = std::max(most.sent_bytes, of_rank.sent_bytes);
    most.received_bytes = std::max(most.received_bytes, of_rank.received_bytes);
    most.sent_messages = std::max(most.sent_messages, of_rank.sent_messages);
  }
  return most;
}

/// Memory that the busiest rank needs besides the tensor: what it receives to add lies there.
inline int64_t scratch_bytes(Algorithm algorithm, int ranks, int64_t numbers, int64_t number_bytes = 4) {
  return (algorithm == Algorithm::ring ? (numbers + ranks - 1) / ranks : numbers) * number_bytes;
}

/// The time of a message: a latency and a time for each byte, in seconds. Known as the alpha-beta model.
/// Source: R. Hockney, The communication challenge for MPP: Intel Paragon and Meiko CS-2, 1994.
struct LinkModel {
  double latency = 0;           ///< alpha
  double seconds_per_byte = 0;  ///< beta
  /// Whether a rank sends and receives at the same time as fast as one of them alone: so over NVLink. Over Gloo one
  /// thread of the rank copies the bytes of both.
  bool full_duplex = false;
};

/// Messages that follow one another, of `bytes` each.
struct Steps {
  int count = 0;
  double bytes = 0;
  bool both_ways = false;  ///< a rank receives as much as it sends, at the same time

  /// The factor of the link's time for a byte.
  double bytes_waited_for(const LinkModel& link) const {
    return count * bytes * (both_ways && !link.full_duplex ? 2 : 1);
  }
  double seconds(const LinkModel& link) const {
    return count * link.latency + bytes_waited_for(link) * link.seconds_per_byte;
  }
};

/// What an all-reduce of `bytes` waits for, one message after another. Adding up costs nothing.
inline Steps steps_of(Algorithm algorithm, int ranks, double bytes) {
  switch (algorithm) {
    case Algorithm::ring:
      return {2 * (ranks - 1), bytes / ranks, true};
    case Algorithm::tree:
      return {2 * levels_of_tree(ranks), bytes};
    case Algorithm::star:
      return {2 * (ranks - 1), bytes};
    case Algorithm::doubling: {
      const int pairing = ranks_in_pairs(ranks);
      return {levels_of_tree(pairing) + (pairing < ranks ? 2 : 0), bytes, true};
    }
  }
  return {};
}

/// Bytes of an all-reduce that ring and tree take equally long for: below, the tree is faster. 0: the ring is never
/// slower, as on two ranks, where both have two steps.
inline double ring_pays_from(int ranks, const LinkModel& link) {
  const Steps ring = steps_of(Algorithm::ring, ranks, 1), tree = steps_of(Algorithm::tree, ranks, 1);
  if (ring.count <= tree.count) return 0;
  const double of_a_byte = (tree.bytes_waited_for(link) - ring.bytes_waited_for(link)) * link.seconds_per_byte;
  return (ring.count - tree.count) * link.latency / of_a_byte;
}

}  // namespace tenfold::inline lesson_50
