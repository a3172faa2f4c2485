#pragma once
// One way to train the repository's GPT, counted on a dry GPU: memory by LibTorch's allocator, time by the dry GPU's
// model. The techniques are the lessons' own headers.

#include <cstdint>

#include "fit/search.h"

namespace tenfold::fit {

struct Sizes {
  int64_t layers = 0, width = 0, heads = 0, length = 0, batch = 0, vocabulary = 0;
};

/// Numbers in the model's parameters: embeddings of tokens and positions, blocks, the last norm and the head.
int64_t parameters_of(const Sizes& sizes);

/// Bytes that the dry GPU's card holds.
int64_t card_bytes();

/// Makes two updates with a fresh allocator on a card that holds `memory_bytes`. Of an update's micro-batches it runs
/// two, since the third is as the second, and its time counts for all of them.
Counted train(const Sizes& sizes, const Way& way, int64_t memory_bytes);

}  // namespace tenfold::fit
