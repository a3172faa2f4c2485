#include "common/kernel_page/sizes.h"

#include <algorithm>
#include <stdexcept>

#include "common/base/number_in.h"

namespace tenfold::simt {

std::string text_of(const Sizes& sizes) {
  std::string text;
  for (const auto& [name, value] : sizes) text += (text.empty() ? "" : ",") + name + "=" + std::to_string(value);
  return text;
}

Shape parse_shape(const std::string& where, const std::string& text, const Sizes& sizes, int64_t least) {
  const auto refuse = [&](const std::string& why) { throw std::invalid_argument(where + ": " + why); };
  Shape shape = shape_of(sizes);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string pair = text.substr(begin, end - begin);
    const size_t equals = pair.find('=');
    const std::string name = pair.substr(0, equals);
    if (equals == std::string::npos) refuse("expected NAME=N,NAME=N, e.g. " + text_of(sizes));
    if (!shape.contains(name)) refuse("there is no '" + name + "'; this kernel has: " + text_of(sizes));
    const auto value = number_in<int64_t>(pair.substr(equals + 1));
    if (!value || *value < least) refuse(name + " must be a whole number from " + std::to_string(least));
    shape[name] = *value;
    begin = end + 1;
  }
  return shape;
}

}  // namespace tenfold::simt
