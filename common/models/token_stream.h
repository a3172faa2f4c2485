#pragma once
// Text as one long row of token ids, and random windows of it: what a language model trains on.

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace tenfold {

enum class Encoding {
  characters,  ///< the text's bytes
  gpt2,        ///< GPT-2's byte pairs
};

/// "characters" or "gpt2", as a setting names it.
Encoding encoding_named(std::string_view name);

/// Ids run from 0 to this, exclusive: 128 or 50257.
int64_t vocabulary_size(Encoding encoding);

/// The works of Shakespeare to train on (true) or the held-out plays (false) as ids: (N) int64 on the CPU. After each
/// work stands one end mark: 0 (characters) or 50256 (gpt2). The same ids in every process. Encoded once per process
/// (about 0.1 s); shared: read the tensor, never write to it. Not from the tensor allocator, so a measured peak never
/// holds it. Throws DataError when a data file is missing or altered.
torch::Tensor shakespeare_tokens(Encoding encoding, bool train);

/// A text as token ids, at least two. A language model is given all but the last and is to say all but the first.
using TextIds = std::span<const int32_t>;

/// Orders texts by length; equal ones by where they lie, so that a sort has one result.
inline bool shorter(TextIds a, TextIds b) {
  return a.size() != b.size() ? a.size() < b.size() : std::less<>()(a.data(), b.data());
}

/// Windows of a token stream; targets[b][t] is the token that follows ids[b][t].
struct TextBatch {
  torch::Tensor ids;      ///< (B, T) int64, contiguous
  torch::Tensor targets;  ///< (B, T) int64, contiguous
};

/// `batch` windows of `length` ids that start anywhere, each start equally likely; on the device of `tokens`, (N)
/// int64. The generator is a CPU one, so that every device sees the same windows. Throws std::invalid_argument unless
/// batch >= 1, length >= 1 and N > length.
TextBatch sample_batch(const torch::Tensor& tokens, int64_t batch, int64_t length, torch::Generator generator);

}  // namespace tenfold
