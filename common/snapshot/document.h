#pragma once
// A tree of plain values, as a pickle or a JSON text holds it: 16 bytes a value, and text stays where it was read.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tenfold {

/// A file that is no snapshot; what() is one line without the file's name.
struct SnapshotError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A tuple is a LIST. `bits` is a whole number, the bits of a double, where a text begins, or which node it is.
struct Value {
  enum class Kind : uint8_t { NONE, BOOLEAN, INTEGER, NUMBER, TEXT, LIST, DICT };
  Kind kind = Kind::NONE;
  uint32_t length = 0;  ///< of a text
  int64_t bits = 0;
};

/// Values and what they refer to.
class Document {
 public:
  /// `bytes` must outlive it.
  explicit Document(std::string_view bytes) : bytes_(bytes) {}

  Value root;

  Value new_list() { return new_node(Value::Kind::LIST); }
  Value new_dict() { return new_node(Value::Kind::DICT); }
  /// Of a DICT: key, value, key, value ...
  std::vector<Value>& items(const Value& node) { return nodes_[static_cast<size_t>(node.bits)]; }
  const std::vector<Value>& items(const Value& node) const { return nodes_[static_cast<size_t>(node.bits)]; }
  size_t nodes() const { return nodes_.size(); }

  /// A part of `bytes`.
  static Value text_at(size_t begin, size_t length) {
    return {Value::Kind::TEXT, static_cast<uint32_t>(length), static_cast<int64_t>(begin)};
  }
  /// A text that is not in `bytes` as it is, such as one of JSON with escapes.
  Value own_text(std::string_view text) {
    own_ += text;
    return text_at(bytes_.size() + own_.size() - text.size(), text.size());
  }
  std::string_view text(const Value& value) const {
    const auto begin = static_cast<size_t>(value.bits);
    if (begin < bytes_.size()) return bytes_.substr(begin, value.length);
    return std::string_view(own_).substr(begin - bytes_.size(), value.length);
  }
  /// The value of a key of a DICT; the last one, where a key stands twice.
  const Value* find(const Value& dict, std::string_view key) const {
    const std::vector<Value>& all = items(dict);
    for (size_t i = all.size(); i >= 2; i -= 2) {
      const Value& name = all[i - 2];
      if (name.kind == Value::Kind::TEXT && text(name) == key) return &all[i - 1];
    }
    return nullptr;
  }

 private:
  Value new_node(Value::Kind kind) {
    nodes_.emplace_back();
    return {kind, 0, static_cast<int64_t>(nodes_.size()) - 1};
  }

  std::string_view bytes_;
  std::string own_;
  std::vector<std::vector<Value>> nodes_;
};

/// A pickle of protocol 2 to 5 that holds only None, bool, int, float, str, bytes, list, tuple and dict. Nothing in it
/// is run: one that asks for a class or a function is refused by its name. Throws SnapshotError.
Document read_pickle(std::string_view bytes);

/// A JSON text. Throws SnapshotError.
Document read_json(std::string_view bytes);

}  // namespace tenfold
