#pragma once
// A number from text, strictly.

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace tenfold {

/// The number that is all of the text; none where something else stands beside it, a space or a plus sign, too, or
/// where no Number holds it.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

}  // namespace tenfold
