// installs as <tenfold/sequence_parts.h>
#pragma once
// Which tokens of a sequence a rank has in context parallelism.

#include <torch/torch.h>

#include <cstdint>

namespace tenfold {

/// contiguous: a rank has one run of the sequence. zigzag: the sequence is cut into 2 N chunks, and rank r has chunks r
/// and 2 N - 1 - r, one from each end, so that with a causal mask all ranks have equally much to compute. Source of the
/// second: Llama team, The Llama 3 Herd of Models, 2024, section 3.3.2.
enum class SequenceOrder { contiguous, zigzag };

/// Tokens of a rank. Throws c10::ValueError unless the sequence can be cut evenly.
inline int64_t tokens_of_rank(SequenceOrder order, int64_t length, int64_t ranks) {
  const int64_t chunks = order == SequenceOrder::zigzag ? 2 * ranks : ranks;
  TORCH_CHECK_VALUE(length % chunks == 0, "a sequence of ", length, " tokens cannot be cut into ", chunks,
                    " equal chunks: pad it at its end, and leave the padding out of the loss");
  return length / ranks;
}

/// The places of a rank's tokens in the sequence, ascending: (T / N), 64-bit, on the CPU. They choose its columns of
/// ids and targets, and are its positions. Throws what tokens_of_rank() throws.
inline torch::Tensor places_of_rank(SequenceOrder order, int64_t length, int64_t rank, int64_t ranks) {
  const int64_t tokens = tokens_of_rank(order, length, ranks);
  if (order == SequenceOrder::contiguous) return torch::arange(rank * tokens, (rank + 1) * tokens);
  const int64_t chunk = tokens / 2, last = 2 * ranks - 1 - rank;
  return torch::cat({torch::arange(rank * chunk, (rank + 1) * chunk), torch::arange(last * chunk, (last + 1) * chunk)});
}

/// A part of attention's scores: these queries of a rank against the first `keys` keys of another one.
struct VisibleBlock {
  int64_t first_query = 0, queries = 0, keys = 0;
  bool causal = false;  ///< a query sees the keys up to its own number, else all of the block
};

/// What the queries of `rank` see of the keys of `source`, if each has `tokens`: one rectangle, or one triangle. Chunks
/// of a rank lie in the sequence's order, so its own tokens are causal as they are.
inline VisibleBlock visible_block(SequenceOrder order, int64_t rank, int64_t source, int64_t tokens) {
  if (source == rank) return {0, tokens, tokens, true};
  if (order == SequenceOrder::contiguous)
    return source < rank ? VisibleBlock{0, tokens, tokens, false} : VisibleBlock();
  const int64_t chunk = tokens / 2;
  // Of an earlier rank the first chunk is before both of ours, and the last one after both.
  if (source < rank) return {0, tokens, chunk, false};
  // Both chunks of a later rank are between ours.
  return {chunk, chunk, tokens, false};
}

}  // namespace tenfold
