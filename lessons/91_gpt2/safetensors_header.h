// installs as <tenfold/safetensors_header.h>
#pragma once
// The header of a safetensors file: JSON that names each tensor, its type, its sizes and where its bytes lie. Strict:
// what the format does not have is refused in one line. The standard library is all that this needs.
// Source: Hugging Face, safetensors, README, section Format; limits and order as in its version 0.8.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenfold {

/// One tensor of a file. Its bytes are [begin, end) of those behind the header, in C's order.
struct SafetensorsEntry {
  std::string name, dtype;
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;  ///< "__metadata__"
  std::vector<SafetensorsEntry> entries;        ///< in the order of their bytes
};

/// Most bytes of a header, as the format's own reader has it: a length beyond is taken for a damaged file.
inline constexpr uint64_t kMostSafetensorsHeader = 100'000'000;

struct SafetensorsType {
  std::string_view name;
  int64_t bytes;
};
/// The types that PyTorch has, in the order in which the format's own writer sorts them (the last goes first).
inline constexpr std::array<SafetensorsType, 16> kSafetensorsTypes = {{{"BOOL", 1},
                                                                       {"U8", 1},
                                                                       {"I8", 1},
                                                                       {"F8_E5M2", 1},
                                                                       {"F8_E4M3", 1},
                                                                       {"I16", 2},
                                                                       {"U16", 2},
                                                                       {"F16", 2},
                                                                       {"BF16", 2},
                                                                       {"I32", 4},
                                                                       {"U32", 4},
                                                                       {"F32", 4},
                                                                       {"C64", 8},
                                                                       {"F64", 8},
                                                                       {"I64", 8},
                                                                       {"U64", 8}}};

/// Its place in kSafetensorsTypes. Throws std::runtime_error for a name that is not there.
inline size_t safetensors_type(std::string_view name) {
  for (size_t i = 0; i < kSafetensorsTypes.size(); ++i)
    if (kSafetensorsTypes[i].name == name) return i;
  throw std::runtime_error("dtype '" + std::string(name) + "' is not known here");
}

namespace safetensors_detail {

/// Reads the few forms of JSON that a header has. Errors name the byte of the header.
class Json {
 public:
  explicit Json(std::string_view text) : text_(text) {}

  /// Calls member(name) for each, which reads the value. A name may come once.
  template <class Member>
  void object(const Member& member) {
    expect('{');
    std::set<std::string> names;
    if (next_is('}')) return;
    do {
      std::string name = string();
      if (!names.insert(name).second) fail("name '" + name + "' comes twice");
      expect(':');
      member(name);
    } while (next_is(','));
    expect('}');
  }

  std::vector<int64_t> numbers() {
    std::vector<int64_t> all;
    expect('[');
    if (next_is(']')) return all;
    do {
      all.push_back(number());
    } while (next_is(','));
    expect(']');
    return all;
  }

  std::string string() {
    expect('"');
    std::string value;
    for (;;) {
      const char c = take();
      if (c == '"') return value;
      if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string");
      if (c == '\\') {
        escaped(value);
      } else {
        value += c;
      }
    }
  }

  void end() {
    skip_space();
    if (at_ != text_.size()) fail("something follows the closing bracket");
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("header, byte " + std::to_string(at_) + ": " + what);
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  char take() {
    if (at_ == text_.size()) fail("it ends too early");
    return text_[at_++];
  }
  bool next_is(char wanted) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!next_is(wanted)) fail(std::string("expected ") + wanted);
  }

  int64_t number() {
    skip_space();
    int64_t value = 0;
    const char *first = text_.data() + at_, *last = text_.data() + text_.size();
    const auto [end, error] = std::from_chars(first, last, value);
    if (error != std::errc() || *first == '-') fail("expected a whole number from 0 to 2^63 - 1");
    if (end - first > 1 && *first == '0') fail("a number that begins with 0");
    at_ += static_cast<size_t>(end - first);
    return value;
  }

  uint32_t hexadecimal() {
    uint32_t value = 0;
    const std::string_view digits = text_.substr(at_, 4);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() < 4 || error != std::errc() || end != digits.data() + 4) fail("expected four hexadecimal digits");
    at_ += 4;
    return value;
  }

  void escaped(std::string& value) {
    constexpr std::string_view kNames = "\"\\/bfnrt", kValues = "\"\\/\b\f\n\r\t";
    const char c = take();
    if (const size_t i = kNames.find(c); i != std::string_view::npos) {
      value += kValues[i];
      return;
    }
    if (c != 'u') fail("an escape that JSON does not have");
    uint32_t code = hexadecimal();
    if (code >= 0xd800 && code < 0xe000) {  // a character beyond 16 bits is two escapes
      const bool first_half = code < 0xdc00 && take() == '\\' && take() == 'u';
      const uint32_t low = first_half ? hexadecimal() : 0;
      if (low < 0xdc00 || low > 0xdfff) fail("half of a surrogate pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    append_utf8(value, code);
  }

  static void append_utf8(std::string& value, uint32_t code) {
    const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;  // bytes after the first
    constexpr std::array<uint32_t, 4> kFirst = {0, 0xc0, 0xe0, 0xf0};
    value += static_cast<char>(kFirst.at(static_cast<size_t>(more)) | (code >> (6 * more)));
    for (int i = more - 1; i >= 0; --i) value += static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3f));
  }

  std::string_view text_;
  size_t at_ = 0;
};

inline SafetensorsEntry read_entry(Json& json, std::string name) {
  SafetensorsEntry entry{.name = std::move(name)};
  bool has_dtype = false, has_shape = false;
  std::vector<int64_t> offsets;
  json.object([&](const std::string& key) {
    if (key == "dtype") {
      entry.dtype = json.string();
      has_dtype = true;
    } else if (key == "shape") {
      entry.shape = json.numbers();
      has_shape = true;
    } else if (key == "data_offsets") {
      offsets = json.numbers();
    } else {
      json.fail("tensor '" + entry.name + "' has an unknown key '" + key + "'");
    }
  });
  if (!has_dtype || !has_shape || offsets.size() != 2)
    json.fail("tensor '" + entry.name + "' needs dtype, shape and two data_offsets");
  entry.begin = offsets[0];
  entry.end = offsets[1];
  return entry;
}

/// Text as a JSON string, escaped as the format's own writer does, so that equal headers are equal bytes.
inline std::string json_string(std::string_view text) {
  constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t", kNames = "\"\\bfnrt", kDigits = "0123456789abcdef";
  std::string json = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (const size_t i = kEscaped.find(c); i != std::string_view::npos) {
      json += {'\\', kNames[i]};
    } else if (byte < 0x20) {
      json += {'\\', 'u', '0', '0', kDigits[byte >> 4U], kDigits[byte & 15U]};
    } else {
      json += c;
    }
  }
  return json + '"';
}

}  // namespace safetensors_detail

/// Throws std::runtime_error unless the tensors' bytes lie one behind the other and are all of the `data_bytes` that
/// follow the header, and each has as many as its type and sizes say. Bytes that two tensors share, or none has, are
/// those of a damaged file, or hide something.
inline void check_safetensors_layout(const SafetensorsHeader& header, int64_t data_bytes) {
  int64_t expected = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    const auto fail = [&](const std::string& what) {
      throw std::runtime_error("tensor '" + entry.name + "', data_offsets [" + std::to_string(entry.begin) + ", " +
                               std::to_string(entry.end) + "]: " + what);
    };
    if (entry.end < entry.begin) fail("the end is before the begin");
    if (entry.end > data_bytes) fail("the file has only " + std::to_string(data_bytes) + " bytes of data");
    if (entry.begin < expected) fail("it overlaps the tensor before it, which ends at " + std::to_string(expected));
    if (entry.begin > expected) fail("bytes from " + std::to_string(expected) + " on belong to no tensor");
    int64_t bytes = kSafetensorsTypes[safetensors_type(entry.dtype)].bytes;
    bool overflow = false;
    for (const int64_t size : entry.shape) overflow = __builtin_mul_overflow(bytes, size, &bytes) || overflow;
    if (overflow || bytes != entry.end - entry.begin) fail("dtype and shape ask for another number of bytes");
    expected = entry.end;
  }
  if (expected != data_bytes)
    throw std::runtime_error(std::to_string(data_bytes - expected) + " bytes at the end belong to no tensor");
}

/// The header of this JSON. Throws std::runtime_error, in one line, for what is no header; where the tensors lie is not
/// looked at, see check_safetensors_layout().
inline SafetensorsHeader parse_safetensors_header(std::string_view text) {
  SafetensorsHeader header;
  safetensors_detail::Json json(text);
  if (!text.starts_with('{')) json.fail("expected {");
  json.object([&](const std::string& name) {
    if (name == "__metadata__") {
      json.object([&](const std::string& key) { header.metadata[key] = json.string(); });
      return;
    }
    header.entries.push_back(safetensors_detail::read_entry(json, name));
    try {
      safetensors_type(header.entries.back().dtype);
    } catch (const std::runtime_error& error) {
      json.fail("tensor '" + name + "': " + error.what());
    }
  });
  json.end();
  std::stable_sort(header.entries.begin(), header.entries.end(),
                   [](const auto& a, const auto& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  return header;
}

/// The header as JSON, its entries in their order, filled up with spaces so that the data begins at a multiple of 8.
inline std::string safetensors_header_text(const SafetensorsHeader& header) {
  using safetensors_detail::json_string;
  std::string text = "{";
  const auto member = [&](const std::string& name) { text += (text == "{" ? "" : ",") + json_string(name) + ":"; };
  if (!header.metadata.empty()) {
    member("__metadata__");
    std::string members;
    for (const auto& [key, value] : header.metadata)
      members += (members.empty() ? "" : ",") + json_string(key) + ":" + json_string(value);
    text += "{" + members + "}";
  }
  for (const SafetensorsEntry& entry : header.entries) {
    member(entry.name);
    std::string sizes;
    for (const int64_t size : entry.shape) sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
    text += R"({"dtype":)" + json_string(entry.dtype) + R"(,"shape":[)" + sizes + R"(],"data_offsets":[)" +
            std::to_string(entry.begin) + "," + std::to_string(entry.end) + "]}";
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace tenfold
