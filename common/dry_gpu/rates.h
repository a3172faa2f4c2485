#pragma once
// How fast a card that is not there works, for modelled times: its maker's ceilings, and the share of them that
// published measurements reached. Nothing here was fitted to a time that the model is held against.

#include <algorithm>
#include <optional>
#include <string>

#include "common/dry_gpu/card.h"

namespace tenfold::dry {

/// What a card can do at most, as its maker publishes it.
struct Ceilings {
  double clock_hz = 0;                                ///< boost clock
  double bytes_per_s = 0;                             ///< of its memory
  double fp32 = 0, tf32 = 0, half = 0, bfloat16 = 0;  ///< FLOP/s of matrix products; 0: not in tensor cores
};

/// Nothing for a card without ceilings in the table.
std::optional<Ceilings> ceilings_of(const Card& card);

/// FLOP, bytes and seconds; rates.cpp has the source of each.
struct Rates {
  double bytes_per_s = 0;                             ///< of its memory
  double l2_bytes = 0;                                ///< of its cache
  double fp32 = 0, tf32 = 0, half = 0, bfloat16 = 0;  ///< FLOP/s of matrix products
  double link_bytes_per_s = 0;                        ///< to and from the host, each way
  double link_latency = 0;                            ///< of a copy over it
  double peer_bytes_per_s = 0;                        ///< from each card to others of its host, each way
  double peer_latency = 0;                            ///< of a collective
  double gap = 0;                                     ///< between two kernels of a stream
  double graph_gap = 0;                               ///< the same within a CUDA graph
  double least = 0;                                   ///< that a kernel lasts, whatever little it does
  double least_memset = 0;                            ///< the same of a memset
  double first_byte = 0;                              ///< until the first byte has come from the card's memory
};

/// Of one kernel, the gap before it included: the time that other streams may use as well, and the time in which it has
/// the card to itself.
struct Lasting {
  double shared = 0, exclusive = 0;  ///< seconds
  double seconds() const { return shared + exclusive; }
};

/// A kernel that keeps the card's memory or its arithmetic busy for so many seconds, and lasts at least so long.
inline Lasting lasting(double work, double least, const Rates& rates) {
  const double exclusive = std::max(0.0, work - rates.first_byte);
  return {.shared = rates.gap + std::max(work, least) - exclusive, .exclusive = exclusive};
}

/// What takes longer: the bytes through its memory, or products at this rate.
inline double seconds_of(double bytes, double flops, double products_per_s, const Rates& rates) {
  return std::max(bytes / rates.bytes_per_s, flops / products_per_s);
}

/// Nothing for a card without ceilings in the table: its times are not modelled.
std::optional<Rates> rates_of(const Card& card);

}  // namespace tenfold::dry
