#pragma once
// GPT-2's byte-pair tokenizer, of our own: the ids of the original, and fast on one thread.

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenfold {

/// Text to GPT-2 token ids and back. All functions are const and may be called by many threads at once.
///
/// Text is cut into pieces by GPT-2's pattern (words with their leading space, numbers, punctuation, white space); the
/// bytes of a piece are then merged, always the leftmost pair of lowest rank, until no pair is in the vocabulary.
/// Source: A. Radford et al., Language Models are Unsupervised Multitask Learners, 2019, section 2.2.
class Gpt2Tokenizer {
 public:
  static constexpr int64_t vocabulary_size = 50257;
  static constexpr int32_t end_of_text = 50256;

  /// Reads data_folder()/gpt2/gpt2.tiktoken, or the same file elsewhere: a line per token, base64 of its bytes and its
  /// rank. Throws DataError unless it is exactly the vocabulary of GPT-2.
  Gpt2Tokenizer();
  explicit Gpt2Tokenizer(const std::filesystem::path& vocabulary);

  /// The ids of `text`, as tiktoken's encode_ordinary gives them: "<|endoftext|>" in a text is ordinary text. Bytes
  /// that are no UTF-8 are read as U+FFFD, one for each maximal broken part (Python's errors="replace"). Time is O(n
  /// log n) at worst, in practice linear.
  std::vector<int32_t> encode(std::string_view text) const;

  /// The bytes of the ids; end_of_text gives "<|endoftext|>". encode's inverse on valid UTF-8. Cut inside a character,
  /// ids give bytes that are no valid UTF-8. Throws std::invalid_argument on an id outside 0..50256.
  std::string decode(std::span<const int32_t> ids) const;

 private:
  struct WholeSlot {
    uint32_t tag = 0;
    int32_t id = -1;  // -1: empty
  };
  struct PairSlot {
    uint32_t pair = 0;  // left id << 16 | right id; ids fit into 16 bits
    int32_t merged = -1;
  };

  void load(const std::filesystem::path& vocabulary);
  void insert_whole(int32_t id);
  void insert_pair(uint32_t left, uint32_t right, int32_t merged);
  std::string_view bytes_of(int32_t id) const { return {arena_.data() + start_[id], start_[id + 1] - start_[id]}; }
  int32_t find_whole(std::string_view piece) const;
  uint32_t find_pair(uint32_t left, uint32_t right) const;
  void append_piece(std::string_view piece, std::vector<int32_t>& out) const;
  void merge_short(std::string_view piece, std::vector<int32_t>& out) const;
  void merge_long(std::string_view piece, std::vector<int32_t>& out) const;

  std::string arena_;                       // the bytes of all tokens, one after another
  std::vector<uint32_t> start_;             // where each token starts in it, and the end
  size_t longest_ = 0;                      // bytes of the longest token
  std::array<int32_t, 256> byte_id_{};      // id of each single byte
  std::vector<uint32_t> byte_pair_merged_;  // merged id of two single bytes: 65,536 entries
  std::vector<WholeSlot> whole_;            // tokens by their bytes, open addressing
  std::vector<PairSlot> pairs_;             // merges by their two ids, open addressing
};

}  // namespace tenfold
