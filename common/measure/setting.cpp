#include "common/measure/setting.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "common/base/number_in.h"
#include "common/base/text.h"

namespace tenfold {

std::string to_string(Size size) { return size == Size::cpu ? "cpu" : size == Size::gpu8 ? "gpu8" : "gpu80"; }

SettingValue parse_setting(const DeclaredSetting& setting, const std::string& text) {
  const auto refuse = [&](const std::string& expected) {
    return std::invalid_argument(setting.name + "=" + one_line(text) + ": expected " + expected);
  };
  if (std::holds_alternative<bool>(setting.value.cpu)) {
    if (text == "true" || text == "1") return true;
    if (text == "false" || text == "0") return false;
    throw refuse("true or false");
  }
  if (std::holds_alternative<int64_t>(setting.value.cpu)) {
    const auto number = number_in<int64_t>(text);
    if (!number || *number < setting.least)
      throw refuse("a whole number, " + std::to_string(setting.least) + " or more");
    return *number;
  }
  if (std::holds_alternative<double>(setting.value.cpu)) {
    const auto number = number_in<double>(text);
    if (!number || !std::isfinite(*number)) throw refuse("a number");
    return *number;
  }
  if (!setting.choices.empty() &&
      std::find(setting.choices.begin(), setting.choices.end(), text) == setting.choices.end()) {
    const std::string guess = nearest(text, setting.choices);
    throw refuse("one of " + joined(setting.choices) + (guess.empty() ? "" : "; did you mean '" + guess + "'?"));
  }
  return text;
}

}  // namespace tenfold
