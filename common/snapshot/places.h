#pragma once
// Which line of the program a stack of frames stands for.

#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "snapshot.h"

namespace tenfold {

/// Frames come innermost first, of Python, of C++ or both. Named is the innermost line of Python that is not of a
/// package; without one the innermost line of C++ that is not PyTorch's, which needs -g; then the innermost function;
/// then a package's line of Python.
class Places {
 public:
  explicit Places(const Document& document)
      : document_(document), places_{{"(no stack recorded)"}, {"(before the trace began)"}} {}

  /// `frames` is a LIST of frames, or anything else: no stack.
  uint32_t of(const Value* frames);
  std::vector<Place> take() { return std::move(places_); }

 private:
  /// How good a name a frame gives, best first.
  enum class Rank : uint8_t { OWN_PYTHON, OWN_CPP_LINE, BACKWARD, OWN_CPP_FUNCTION, PACKAGE, NONE };
  struct Frame {
    Rank rank = Rank::NONE;
    bool empties_cache = false;
  };

  Frame frame_of(const Value& frame);
  Frame read_frame(const Value& frame) const;
  Place read_stack(const std::vector<Value>& frames);

  const Document& document_;
  std::vector<Place> places_;
  std::unordered_map<std::string, uint32_t> by_name_;
  std::unordered_map<int64_t, uint32_t> by_stack_;  // by node: stacks and frames are shared between events
  std::unordered_map<int64_t, Frame> frames_;
};

}  // namespace tenfold
