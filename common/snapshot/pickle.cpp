// The pickle machine without its dangerous half. Opcodes: CPython's Lib/pickletools.py.

#include <algorithm>
#include <string>

#include "common/base/text.h"
#include "document.h"

namespace tenfold {
namespace {

using Kind = Value::Kind;

/// An index that a pickler writes follows on the last one, or nearly so.
constexpr size_t kMemoGap = 1024;

/// Small pickles may be dense; of a large one each value takes some bytes.
constexpr size_t kDense = 1024;

std::string hexadecimal(uint8_t byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return {'0', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

class PickleReader {
 public:
  explicit PickleReader(std::string_view bytes) : bytes_(bytes), document_(bytes) {}

  Document read() {
    if (bytes_.empty()) throw SnapshotError("is empty");
    if (bytes_[0] != '\x80') throw SnapshotError("is no pickle of protocol 2 or later, and no JSON");
    while (!stopped_) step(static_cast<uint8_t>(take(1)[0]));
    return std::move(document_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw SnapshotError("at byte " + std::to_string(at_) + ": " + what);
  }
  /// Never returns: a class or a function is asked for, and a snapshot needs none.
  [[noreturn]] void refuse(const std::string& name) const {
    fail("asks Python for " + one_line(name) + ", which no snapshot needs; it was not run");
  }

  std::string_view take(uint64_t count) {
    if (count > bytes_.size() - at_)
      throw SnapshotError("is truncated: it ends after " + std::to_string(bytes_.size()) + " bytes");
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }
  /// Little-endian, of 1 to 8 bytes.
  uint64_t number(size_t count) {
    uint64_t value = 0;
    const std::string_view taken = take(count);
    for (size_t i = count; i-- > 0;) value = value << 8 | static_cast<uint8_t>(taken[i]);
    return value;
  }
  std::string_view line() {
    const size_t end = bytes_.find('\n', at_);
    const std::string_view taken = take(end == std::string_view::npos ? bytes_.size() - at_ + 1 : end - at_ + 1);
    return taken.substr(0, taken.size() - 1);
  }

  void push(const Value& value) {
    if (stack_.size() > bytes_.size() / 2 + kDense || document_.nodes() > bytes_.size() / 3 + kDense)
      fail("holds more values than a snapshot of its size");
    stack_.push_back(value);
  }
  void push_integer(int64_t value) { push({Kind::INTEGER, 0, value}); }
  void push_text(uint64_t length) {
    if (length > UINT32_MAX) fail("a text of more than 4 GiB");
    take(length);
    push(Document::text_at(at_ - length, length));
  }
  /// Two's complement, of any length; a number of more than 64 bits becomes a NUMBER, as no size or address has it.
  void push_long(uint64_t length) {
    const std::string_view digits = take(length);
    if (digits.size() > 8) return push({Kind::NUMBER, 0, std::bit_cast<int64_t>(1e30)});
    uint64_t value = !digits.empty() && (digits.back() & '\x80') != 0 ? ~uint64_t{0} : 0;
    for (size_t i = digits.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(digits[i]);
    push_integer(static_cast<int64_t>(value));
  }
  void push_double() {
    uint64_t bits = 0;
    for (const char byte : take(8)) bits = bits << 8 | static_cast<uint8_t>(byte);  // big-endian
    push({Kind::NUMBER, 0, static_cast<int64_t>(bits)});
  }

  /// Nothing below the last mark may be taken.
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Value& top() {
    if (stack_.size() <= floor()) fail("takes a value where there is none");
    return stack_.back();
  }
  Value pop() {
    const Value value = top();
    stack_.pop_back();
    return value;
  }
  size_t pop_mark() {
    if (marks_.empty()) fail("ends a list that was not begun");
    const size_t mark = marks_.back();
    marks_.pop_back();
    return mark;
  }

  /// What stands above `begin` becomes a new node.
  void collect(Value node, size_t begin) {
    if (begin < floor() || begin > stack_.size()) fail("takes a value where there is none");
    if (node.kind == Kind::DICT && (stack_.size() - begin) % 2 != 0) fail("a key without a value");
    document_.items(node).assign(stack_.begin() + static_cast<ptrdiff_t>(begin), stack_.end());
    stack_.resize(begin);
    push(node);
  }
  /// What stands above `begin` goes into the list or dict below it.
  void add_to_node(Kind kind, size_t begin) {
    if (begin > stack_.size() || begin <= floor()) fail("adds to nothing");
    const Value node = stack_[begin - 1];
    if (node.kind != kind) fail(kind == Kind::LIST ? "appends to what is no list" : "sets a key of what is no dict");
    if (kind == Kind::DICT && (stack_.size() - begin) % 2 != 0) fail("a key without a value");
    std::vector<Value>& items = document_.items(node);
    if (items.empty()) items.reserve(stack_.size() - begin);  // most come at once
    items.insert(items.end(), stack_.begin() + static_cast<ptrdiff_t>(begin), stack_.end());
    stack_.resize(begin);
  }
  void tuple_of(size_t count) {
    if (count > stack_.size() - floor()) fail("takes a value where there is none");
    collect(document_.new_list(), stack_.size() - count);
  }

  void remember(uint64_t index) {
    if (index > memo_.size() + kMemoGap) fail("a memo out of order");
    if (index >= memo_.size()) memo_.resize(index + 1);
    memo_[index] = top();
  }
  void recall(uint64_t index) {
    if (index >= memo_.size()) fail("recalls what was not memorised");
    push(memo_[index]);
  }

  /// The two texts above, by which STACK_GLOBAL asks for a name.
  std::string name_on_stack() const {
    std::string name;
    for (size_t i = stack_.size() < 2 ? 0 : stack_.size() - 2; i < stack_.size(); ++i) {
      if (stack_[i].kind == Kind::TEXT) name += (name.empty() ? "" : ".") + std::string(document_.text(stack_[i]));
    }
    return name.empty() ? "an object" : name;
  }
  std::string name_in_lines() {
    const std::string module(line());
    return module + "." + std::string(line());
  }

  void step(uint8_t opcode) {
    switch (opcode) {
      case 0x80:  // PROTO
        if (const uint64_t protocol = number(1); protocol < 2 || protocol > 5)
          fail("pickle protocol " + std::to_string(protocol) + "; 2 to 5 are read");
        return;
      case 0x95:
        take(8);
        return;  // FRAME: how far to read ahead
      case '.':
        return stop();
      case '(':
        return marks_.push_back(stack_.size());
      case '0':
        pop();
        return;
      case '1':
        stack_.resize(std::min(stack_.size(), pop_mark()));
        return;
      case '2':
        return push(top());
      case 'N':
        return push({});
      case 0x88:
        return push({Kind::BOOLEAN, 0, 1});
      case 0x89:
        return push({Kind::BOOLEAN, 0, 0});
      case 'J':
        return push_integer(static_cast<int32_t>(number(4)));
      case 'K':
        return push_integer(static_cast<int64_t>(number(1)));
      case 'M':
        return push_integer(static_cast<int64_t>(number(2)));
      case 0x8a:
        return push_long(number(1));
      case 0x8b:
        return push_long(number(4));
      case 'G':
        return push_double();
      case 'X':
      case 'B':
      case 'T':
        return push_text(number(4));  // BINUNICODE, BINBYTES, BINSTRING
      case 0x8c:
      case 'C':
      case 'U':
        return push_text(number(1));  // their short forms
      case 0x8d:
      case 0x8e:
        return push_text(number(8));  // their long forms
      case ']':
        return push(document_.new_list());
      case ')':
        return push(document_.new_list());
      case '}':
        return push(document_.new_dict());
      case 'l':
      case 't':
        return collect(document_.new_list(), pop_mark());
      case 'd':
        return collect(document_.new_dict(), pop_mark());
      case 0x85:
        return tuple_of(1);
      case 0x86:
        return tuple_of(2);
      case 0x87:
        return tuple_of(3);
      case 'a':
        return add_to_node(Kind::LIST, stack_.empty() ? 0 : stack_.size() - 1);
      case 'e':
        return add_to_node(Kind::LIST, pop_mark());
      case 's':
        return add_to_node(Kind::DICT, stack_.size() < 2 ? 0 : stack_.size() - 2);
      case 'u':
        return add_to_node(Kind::DICT, pop_mark());
      case 'q':
        return remember(number(1));
      case 'r':
        return remember(number(4));
      case 0x94:
        return remember(memo_.size());
      case 'h':
        return recall(number(1));
      case 'j':
        return recall(number(4));
      case 'c':
        refuse(name_in_lines());
      case 'i':
        refuse(name_in_lines());
      case 0x93:
        refuse(name_on_stack());
      case 'R':
      case 'o':
      case 'b':
      case 0x81:
      case 0x92:
      case 0x82:
      case 0x83:
      case 0x84:
      case 'P':
      case 'Q':
        refuse("an object");
      default:
        fail("opcode " + hexadecimal(opcode) + ", which no snapshot needs");
    }
  }

  void stop() {
    document_.root = pop();
    if (!stack_.empty() || !marks_.empty()) fail("ends in the middle of a list");
    stopped_ = true;
  }

  std::string_view bytes_;
  size_t at_ = 0;
  bool stopped_ = false;
  Document document_;
  std::vector<Value> stack_, memo_;
  std::vector<size_t> marks_;
};

}  // namespace

Document read_pickle(std::string_view bytes) { return PickleReader(bytes).read(); }

}  // namespace tenfold
