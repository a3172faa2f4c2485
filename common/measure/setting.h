#pragma once
// A setting of a lesson: a number, a switch or a choice that cases, --set and --sweep may change. It is declared once,
// with its default for each size and what it means, and read through the declaration:
//
//   constexpr Setting<int64_t> kMicroBatches{"micro_batches", 4, "micro-batches that a batch is processed in"};
//   trial.get(kMicroBatches)          what this trial has
//   kMicroBatches(8)                  a case's value; kMicroBatches(8, 16, 64) for cpu, gpu8 and gpu80

#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// How large the problem is, chosen by device memory unless --size says otherwise. Part of a row's identity.
enum class Size { cpu, gpu8, gpu80 };
std::string to_string(Size size);

/// One value for all sizes, or one for each.
template <class T>
struct PerSize {
  T cpu, gpu8, gpu80;

  // NOLINTBEGIN(google-explicit-constructor): a plain value is a value for all sizes.
  template <class U>
    requires std::convertible_to<U, T>
  constexpr PerSize(const U& all) : cpu(static_cast<T>(all)), gpu8(static_cast<T>(all)), gpu80(static_cast<T>(all)) {}
  // NOLINTEND(google-explicit-constructor)
  constexpr PerSize(T on_cpu, T on_gpu8, T on_gpu80)
      : cpu(std::move(on_cpu)), gpu8(std::move(on_gpu8)), gpu80(std::move(on_gpu80)) {}

  bool operator==(const PerSize&) const = default;
  constexpr const T& at(Size size) const { return size == Size::cpu ? cpu : size == Size::gpu8 ? gpu8 : gpu80; }
};

/// A setting with a value: what a case changes.
struct Assignment {
  std::string name;
  PerSize<SettingValue> value;
};

/// What help, list and pages say of a setting.
struct DeclaredSetting {
  std::string name;
  PerSize<SettingValue> value;       ///< unless a case or --set changes it
  std::string meaning;               ///< one line, without a full stop
  std::vector<std::string> choices;  ///< of a text: the values that it takes
  int64_t least = 0;                 ///< of a whole number

  bool operator==(const DeclaredSetting&) const = default;
};

/// T is bool, int64_t, double or std::string.
template <class T>
struct Setting {
  static_assert(std::is_same_v<T, bool> || std::is_same_v<T, int64_t> || std::is_same_v<T, double> ||
                std::is_same_v<T, std::string>);
  using Literal = std::conditional_t<std::is_same_v<T, std::string>, std::string_view, T>;

  std::string_view name;
  PerSize<Literal> value;
  std::string_view meaning;
  std::array<std::string_view, 6> choices = {};  ///< of a text: the values that it takes
  /// Of a whole number the least value. Not said: 1, or 0 where that is its default.
  std::optional<int64_t> least = {};

  Assignment operator()(Literal all) const { return {std::string(name), held(all)}; }
  Assignment operator()(Literal cpu, Literal gpu8, Literal gpu80) const {
    return {std::string(name), {held(cpu), held(gpu8), held(gpu80)}};
  }

  operator DeclaredSetting() const {  // NOLINT(google-explicit-constructor): the same declaration, without its type
    DeclaredSetting declared{
        std::string(name), {held(value.cpu), held(value.gpu8), held(value.gpu80)}, std::string(meaning), {}};
    for (const std::string_view choice : choices) {
      if (!choice.empty()) declared.choices.emplace_back(choice);
    }
    if constexpr (std::is_same_v<T, int64_t>)
      declared.least = least.value_or(value.cpu == 0 || value.gpu8 == 0 || value.gpu80 == 0 ? 0 : 1);
    return declared;
  }

  static SettingValue held(Literal value) { return T(value); }
};

/// The value that `text` means to a setting, by its type. Throws std::invalid_argument, "NAME=TEXT: expected ...",
/// also for a whole number below its least.
SettingValue parse_setting(const DeclaredSetting& setting, const std::string& text);

}  // namespace tenfold
