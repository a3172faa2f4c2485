// JSON into the same tree, event by event: no second tree is made of it.

#include <map>
#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "document.h"

namespace tenfold {
namespace {

using Json = nlohmann::json;
using Kind = Value::Kind;

// How nlohmann::json hands on what it reads; each function returns whether to go on.
class TreeBuilder : public nlohmann::json_sax<Json> {
 public:
  explicit TreeBuilder(std::string_view bytes) : document_(bytes) {}

  bool null() override { return add({}); }
  bool boolean(bool value) override { return add({Kind::BOOLEAN, 0, value ? 1 : 0}); }
  bool number_integer(number_integer_t value) override { return add({Kind::INTEGER, 0, value}); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(INT64_MAX)) return number_float(static_cast<double>(value), "");
    return add({Kind::INTEGER, 0, static_cast<int64_t>(value)});
  }
  bool number_float(number_float_t value, const string_t&) override {
    return add({Kind::NUMBER, 0, std::bit_cast<int64_t>(value)});
  }
  bool string(string_t& text) override { return add(text_once(text)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(document_.new_dict()); }
  bool start_array(std::size_t) override { return open(document_.new_list()); }
  bool key(string_t& text) override { return add(text_once(text)); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    throw SnapshotError("at byte " + std::to_string(position) + ": is not JSON, or truncated");
  }

  Document take() { return std::move(document_); }

 private:
  /// Keys, files and functions come again and again.
  Value text_once(const std::string& text) {
    const auto found = texts_.find(text);
    if (found != texts_.end()) return found->second;
    return texts_[text] = document_.own_text(text);
  }
  bool add(const Value& value) {
    if (open_.empty()) {
      document_.root = value;
    } else {
      document_.items(open_.back()).push_back(value);
    }
    return true;
  }
  bool open(const Value& node) {
    add(node);
    open_.push_back(node);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Document document_;
  std::vector<Value> open_;
  std::map<std::string, Value> texts_;
};

}  // namespace

Document read_json(std::string_view bytes) {
  TreeBuilder builder(bytes);
  Json::sax_parse(bytes.begin(), bytes.end(), &builder);
  return builder.take();
}

}  // namespace tenfold
