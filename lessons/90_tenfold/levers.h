#pragma once
// What makes a training pipeline faster, one lever on top of the other: first the six ways that article B names, in its
// order, then four of ours.

#include <array>
#include <string>
#include <vector>

#include "common/harness/lesson.h"

namespace tenfold::inline lesson_90 {

/// Which levers are pulled. None: the pipeline as it is written first.
struct Levers {
  bool workers = false;          ///< threads load the next batches meanwhile: lesson 10
  bool ranks = false;            ///< several processes, each with its part of the batch: lesson 52
  bool sixteen_bits = false;     ///< matmuls and convolutions in bf16: lesson 21
  bool sharded = false;          ///< of gradients and momentum each rank keeps its part: lesson 53; needs ranks
  bool without_graph = false;    ///< validation keeps nothing for a backward pass: lesson 29
  bool packed = false;           ///< images decoded once, into one file (14); texts without padding (15)
  bool fused = false;            ///< the optimizer as one operator: lesson 45
  bool batched = false;          ///< a batch is augmented at once: lesson 16
  bool without_waiting = false;  ///< no loss is read in the loop: lesson 28
  bool batch_each = false;       ///< a mistake: each rank takes a whole batch, so that an update sees several
};

struct Lever {
  const char* name;
  bool Levers::* pulled = nullptr;
  const char* why_no_step = nullptr;   ///< a step cannot show it
  const char* why_no_texts = nullptr;  ///< there is nothing that it could do to texts
};

inline constexpr std::array<Lever, 10> kLevers = {
    {{"workers", &Levers::workers, nullptr, "texts lie in memory: there is nothing to load"},
     {"ranks", &Levers::ranks},
     {"16 bits", &Levers::sixteen_bits},
     {"sharding", &Levers::sharded},
     {"early stopping", nullptr, "changes how many steps there are, not how long one takes: see the trainings"},
     {"validation without a graph", &Levers::without_graph},
     {"packed", &Levers::packed},
     {"fused optimizer", &Levers::fused},
     {"batched", &Levers::batched, nullptr, "texts are not augmented"},
     {"no waiting", &Levers::without_waiting}}};

/// The first `count` levers.
constexpr Levers stack_of(size_t count) {
  Levers levers;
  for (size_t i = 0; i < count; ++i) {
    if (kLevers[i].pulled != nullptr) levers.*kLevers[i].pulled = true;
  }
  return levers;
}

/// All but one.
constexpr Levers all_but(const Lever& lever) {
  Levers levers = stack_of(kLevers.size());
  levers.*lever.pulled = false;
  return levers;
}

}  // namespace tenfold::inline lesson_90
