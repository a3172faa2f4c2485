#include "common/data/tokenizer.h"
#include "common/base/sha256.h"
#include "common/data/data_files.h"
#include "common/data/unicode.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace tenfold {
namespace {

constexpr const char* kVocabularySha256 = "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930";
constexpr std::string_view kEndOfText = "<|endoftext|>";
constexpr size_t kTokens = 50256;          // without end of text
constexpr uint32_t kNoMerge = 0xffffffff;  // larger than every rank
constexpr int kTableBits = 17;             // 131,072 slots: under 40 % full
constexpr size_t kTableMask = (size_t{1} << kTableBits) - 1;
constexpr size_t kShortPiece = 64;  // up to here scanning for the minimum beats a heap

// --- GPT-2's pattern -------------------------------------------------------------------------------------------------
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// The alternatives are tried in this order, so the class of the first character decides which one can match.
class Scanner {
 public:
  explicit Scanner(std::string_view text)
      : at_(reinterpret_cast<const unsigned char*>(text.data())),
        end_(at_ + text.size()),
        classes_(character_classes()) {
    for (uint32_t c = 0; c < 128; ++c) ascii_[c] = classes_[c];
  }

  bool done() const { return at_ == end_; }

  /// The next piece; not when done(). The pieces together are the text.
  std::string_view next() {
    const unsigned char* begin = at_;
    const unsigned char* first = at_;
    CharacterClass kind = class_at(first);
    if (*first == '\'') {
      if (const int length = contraction(first)) {
        at_ += length;
        return piece(begin);
      }
    } else if (*first == ' ' && first + 1 < end_ && class_at(first + 1) != CharacterClass::space) {
      kind = class_at(++first);
    }
    if (kind != CharacterClass::space) {
      at_ = end_of_run(first + utf8_length(*first), kind);
      return piece(begin);
    }
    // White space up to the end of the text is one piece; before something else its last character is left over, and
    // begins the next piece when it is a space.
    const unsigned char* last = first;
    const unsigned char* stop = first;
    while (stop < end_ && class_at(stop) == CharacterClass::space) last = stop, stop += utf8_length(*stop);
    at_ = stop == end_ || last == first ? stop : last;
    return piece(begin);
  }

 private:
  std::string_view piece(const unsigned char* begin) const {
    return {reinterpret_cast<const char*>(begin), static_cast<size_t>(at_ - begin)};
  }
  CharacterClass class_at(const unsigned char* at) const {
    return *at < 128 ? ascii_[*at] : classes_[utf8_code_point(at)];
  }
  const unsigned char* end_of_run(const unsigned char* at, CharacterClass kind) const {
    while (at < end_ && class_at(at) == kind) at += utf8_length(*at);
    return at;
  }
  /// Bytes of 's 't 'm 'd (2) or 're 've 'll (3) at an apostrophe; 0 for anything else.
  int contraction(const unsigned char* at) const {
    if (end_ - at < 2) return 0;
    switch (at[1]) {
      case 's':
      case 't':
      case 'm':
      case 'd':
        return 2;
      case 'r':
      case 'v':
        return end_ - at > 2 && at[2] == 'e' ? 3 : 0;
      case 'l':
        return end_ - at > 2 && at[2] == 'l' ? 3 : 0;
      default:
        return 0;
    }
  }

  const unsigned char* at_;
  const unsigned char* end_;
  const CharacterClasses& classes_;
  std::array<CharacterClass, 128> ascii_;
};

// --- hashing ---------------------------------------------------------------------------------------------------------
uint64_t load(const char* at, size_t bytes) {
  uint64_t word = 0;
  std::memcpy(&word, at, bytes);
  return word;
}
uint64_t mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}
uint64_t hash(std::string_view s) {
  constexpr uint64_t k0 = 0x9e3779b97f4a7c15, k1 = 0xd6e8feb86659fd93;
  const char* p = s.data();
  size_t n = s.size();
  uint64_t h = k0 ^ n;
  for (; n > 16; p += 8, n -= 8) h = mix(h ^ load(p, 8), k1);
  uint64_t a, b;  // first and last word; they overlap
  if (n >= 8) {
    a = load(p, 8), b = load(p + n - 8, 8);
  } else if (n >= 4) {
    a = load(p, 4), b = load(p + n - 4, 4);
  } else {
    a = load(p, 1) | load(p + n / 2, 1) << 8, b = load(p + n - 1, 1);
  }
  return mix(h ^ a, k1 ^ b);
}
size_t pair_place(uint32_t pair) { return pair * uint64_t{0x9e3779b97f4a7c15} >> (64 - kTableBits); }

int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : 63;
}
void append_base64(std::string_view digits, std::string& out) {
  uint32_t bits = 0;
  int count = 0;
  for (const char c : digits) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(base64_digit(c));
    count += 6;
    if (count >= 8) out += static_cast<char>(bits >> (count -= 8) & 255);
  }
}

}  // namespace

// --- building --------------------------------------------------------------------------------------------------------
Gpt2Tokenizer::Gpt2Tokenizer() {
  const std::filesystem::path vocabulary = data_folder() / "gpt2" / "gpt2.tiktoken";
  if (!std::filesystem::exists(vocabulary)) fail_data_file(vocabulary, "is missing");
  load(vocabulary);
}

Gpt2Tokenizer::Gpt2Tokenizer(const std::filesystem::path& vocabulary) { load(vocabulary); }

void Gpt2Tokenizer::load(const std::filesystem::path& vocabulary) {
  const std::string file = read_file(vocabulary);
  // There is one such file. Its hash tells that every line is what the code below takes for granted.
  if (sha256(file) != kVocabularySha256)
    fail_data_file(vocabulary, "is truncated or altered (its SHA-256 is not that of GPT-2's vocabulary)");
  for (size_t at = 0; at < file.size();
       at = file.find('\n', at) + 1) {  // in the order of rank, the rank is the line's number
    start_.push_back(static_cast<uint32_t>(arena_.size()));
    append_base64(std::string_view(file).substr(at, file.find(' ', at) - at), arena_);
  }
  start_.push_back(static_cast<uint32_t>(arena_.size()));

  whole_.resize(kTableMask + 1);
  pairs_.resize(kTableMask + 1);
  byte_pair_merged_.assign(65536, kNoMerge);
  for (size_t t = 0; t < kTokens; ++t) {
    const auto id = static_cast<int32_t>(t);
    const std::string_view bytes = bytes_of(id);
    longest_ = std::max(longest_, bytes.size());
    if (bytes.size() == 1) byte_id_[static_cast<unsigned char>(bytes[0])] = id;
    insert_whole(id);
  }
  // tiktoken merges two neighbours whenever their bytes together are a token. Merges inside a token's bytes go the same
  // way wherever these bytes stand, so each token has one pair that it is made of: the two that its own bytes, merged
  // by the lower ranks, come down to.
  std::vector<int32_t> parts;
  for (size_t t = 0; t < kTokens; ++t) {
    const auto id = static_cast<int32_t>(t);
    const std::string_view bytes = bytes_of(id);
    if (bytes.size() == 1) continue;
    parts.clear();
    bytes.size() <= kShortPiece ? merge_short(bytes, parts) : merge_long(bytes, parts);
    if (parts.size() != 2) throw std::logic_error("token " + std::to_string(id) + " is not a pair of two others");
    insert_pair(static_cast<uint32_t>(parts[0]), static_cast<uint32_t>(parts[1]), id);
  }
}

void Gpt2Tokenizer::insert_whole(int32_t id) {
  const uint64_t h = hash(bytes_of(id));
  size_t place = h & kTableMask;
  while (whole_[place].id >= 0) place = (place + 1) & kTableMask;
  whole_[place] = {static_cast<uint32_t>(h >> 32), id};
}

void Gpt2Tokenizer::insert_pair(uint32_t left, uint32_t right, int32_t merged) {
  const uint32_t pair = left << 16 | right;
  size_t place = pair_place(pair);
  while (pairs_[place].merged >= 0) place = (place + 1) & kTableMask;
  pairs_[place] = {pair, merged};
  if (left < 256 && right < 256) byte_pair_merged_[left << 8 | right] = static_cast<uint32_t>(merged);
}

// --- looking up ------------------------------------------------------------------------------------------------------
int32_t Gpt2Tokenizer::find_whole(std::string_view piece) const {
  const uint64_t h = hash(piece);
  for (size_t place = h & kTableMask; whole_[place].id >= 0; place = (place + 1) & kTableMask) {
    if (whole_[place].tag == h >> 32 && bytes_of(whole_[place].id) == piece) return whole_[place].id;
  }
  return -1;
}

uint32_t Gpt2Tokenizer::find_pair(uint32_t left, uint32_t right) const {
  const uint32_t pair = left << 16 | right;
  for (size_t place = pair_place(pair); pairs_[place].merged >= 0; place = (place + 1) & kTableMask) {
    if (pairs_[place].pair == pair) return static_cast<uint32_t>(pairs_[place].merged);
  }
  return kNoMerge;
}

// --- merging ---------------------------------------------------------------------------------------------------------
void Gpt2Tokenizer::append_piece(std::string_view piece, std::vector<int32_t>& out) const {
  if (piece.size() == 1) {
    out.push_back(byte_id_[static_cast<unsigned char>(piece[0])]);
    return;
  }
  if (piece.size() <= longest_) {
    if (const int32_t id = find_whole(piece); id >= 0) {
      out.push_back(id);
      return;
    }
  }
  piece.size() <= kShortPiece ? merge_short(piece, out) : merge_long(piece, out);
}

// A token's id is its rank: the lowest rank is the lowest merged id.
void Gpt2Tokenizer::merge_short(std::string_view piece, std::vector<int32_t>& out) const {
  uint32_t id[kShortPiece], merged[kShortPiece];  // merged[i]: what parts i and i + 1 would become
  size_t n = piece.size();
  for (size_t i = 0; i < n; ++i) id[i] = static_cast<uint32_t>(byte_id_[static_cast<unsigned char>(piece[i])]);
  for (size_t i = 0; i + 1 < n; ++i) merged[i] = byte_pair_merged_[id[i] << 8 | id[i + 1]];
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) best = merged[i] < merged[best] ? i : best;
    if (merged[best] == kNoMerge) break;
    id[best] = merged[best];
    --n;
    for (size_t i = best + 1; i < n; ++i) id[i] = id[i + 1], merged[i - 1] = merged[i];
    if (best + 1 < n) merged[best] = find_pair(id[best], id[best + 1]);
    if (best > 0) merged[best - 1] = find_pair(id[best - 1], id[best]);
  }
  for (size_t i = 0; i < n; ++i) out.push_back(static_cast<int32_t>(id[i]));
}

void Gpt2Tokenizer::merge_long(std::string_view piece, std::vector<int32_t>& out) const {
  struct Part {
    uint32_t id, merged;    // merged: with the next part; kNoMerge also for the last and for swallowed parts
    size_t previous, next;  // neighbours; the piece's size past the end
  };
  const size_t n = piece.size();
  std::vector<Part> parts(n);
  using Entry = std::pair<uint32_t, size_t>;  // rank, place: the smallest is the leftmost pair of lowest rank
  std::vector<Entry> heap;
  for (size_t i = 0; i < n; ++i) {
    parts[i] = {static_cast<uint32_t>(byte_id_[static_cast<unsigned char>(piece[i])]), kNoMerge, i - 1, i + 1};
  }
  for (size_t i = 0; i + 1 < n; ++i) {
    parts[i].merged = byte_pair_merged_[parts[i].id << 8 | parts[i + 1].id];
    if (parts[i].merged != kNoMerge) heap.emplace_back(parts[i].merged, i);
  }
  std::ranges::make_heap(heap, std::greater<>());
  const auto look = [&](size_t i) {
    parts[i].merged = parts[i].next == n ? kNoMerge : find_pair(parts[i].id, parts[parts[i].next].id);
    if (parts[i].merged == kNoMerge) return;
    heap.emplace_back(parts[i].merged, i);
    std::ranges::push_heap(heap, std::greater<>());
  };
  while (!heap.empty()) {
    std::ranges::pop_heap(heap, std::greater<>());
    const auto [merged, i] = heap.back();
    heap.pop_back();
    if (parts[i].merged != merged) continue;  // overtaken by another merge
    const size_t swallowed = parts[i].next;
    parts[i].id = merged;
    parts[i].next = parts[swallowed].next;
    parts[swallowed].merged = kNoMerge;
    if (parts[i].next != n) parts[parts[i].next].previous = i;
    look(i);
    if (i > 0) look(parts[i].previous);
  }
  for (size_t i = 0; i < n; i = parts[i].next) out.push_back(static_cast<int32_t>(parts[i].id));
}

// --- text to ids and back --------------------------------------------------------------------------------------------
std::vector<int32_t> Gpt2Tokenizer::encode(std::string_view text) const {
  std::string repaired;
  if (valid_utf8_prefix(text) != text.size()) text = repaired = replace_invalid_utf8(text);
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 8);
  for (Scanner scanner(text); !scanner.done();) append_piece(scanner.next(), ids);
  return ids;
}

std::string Gpt2Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    if (id < 0 || id > end_of_text)
      throw std::invalid_argument("token id " + std::to_string(id) + " is outside 0..50256");
    text += id == end_of_text ? kEndOfText : bytes_of(id);
  }
  return text;
}

}  // namespace tenfold
