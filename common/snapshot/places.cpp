#include "places.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "common/base/text.h"

namespace tenfold {
namespace {

bool has_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts,
                             [text](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

/// Python's own library and what pip installed.
bool is_of_a_package(std::string_view file) {
  return has_any(file, {"/site-packages/", "/dist-packages/", "/lib/python", "<frozen "});
}

/// Sources of PyTorch, CPython and the C library, as their debug information names them.
bool is_foreign_source(std::string_view file) {
  return has_any(file, {"/Python/", "/Objects/", "/Modules/", "/Include/", "csu/", "sysdeps/", "nptl/", "aten/src",
                        "c10/", "torch/csrc", "/include/ATen/", "/include/torch/", "/include/c++/"});
}

/// Functions of PyTorch, the standard library and what starts a program.
bool is_foreign_function(std::string_view name) {
  if (name.empty() || name == "??" || name.starts_with('_') || name.starts_with("Py")) return true;
  if (has_any(name, {"at::", "c10::", "torch::", "std::", "pybind11::", "caffe2::"})) return true;
  constexpr std::array<std::string_view, 6> kStarts = {
      "start_thread", "clone", "clone3", "cfunction_call", "thread_start", "execute_native_thread_routine"};
  return std::ranges::find(kStarts, name) != kStarts.end();
}

/// The file and the folder that it lies in.
std::string short_path(std::string_view file) {
  const std::filesystem::path path(file);
  const std::filesystem::path folder = path.parent_path().filename();
  return (folder.empty() ? path.filename() : folder / path.filename()).string();
}

}  // namespace

uint32_t Places::of(const Value* frames) {
  if (!frames || frames->kind != Value::Kind::LIST) return kNoPlace;
  const std::vector<Value>& items = document_.items(*frames);
  if (items.empty()) return kNoPlace;
  const auto known = by_stack_.find(frames->bits);
  if (known != by_stack_.end()) return known->second;
  const Place place = read_stack(items);
  const std::string key = place.name + (place.empties_cache ? "\n" : "");
  const auto [entry, is_new] = by_name_.try_emplace(key, static_cast<uint32_t>(places_.size()));
  if (is_new) places_.push_back(place);
  by_stack_[frames->bits] = entry->second;
  return entry->second;
}

Places::Frame Places::frame_of(const Value& frame) {
  if (frame.kind != Value::Kind::DICT) return {};
  const auto known = frames_.find(frame.bits);
  if (known != frames_.end()) return known->second;
  return frames_[frame.bits] = read_frame(frame);
}

Places::Frame Places::read_frame(const Value& frame) const {
  const auto text = [&](std::string_view key) {
    const Value* value = document_.find(frame, key);
    return value && value->kind == Value::Kind::TEXT ? document_.text(*value) : std::string_view();
  };
  const Value* line = document_.find(frame, "line");
  const bool has_line = line && line->kind == Value::Kind::INTEGER && line->bits > 0;
  const std::string_view file = text("filename"), name = text("name");
  Frame read;
  read.empties_cache = name == "empty_cache" || has_any(name, {"emptyCache"});
  if (file.ends_with(".py") || file.starts_with('<')) {
    read.rank = is_of_a_package(file) ? Rank::PACKAGE : Rank::OWN_PYTHON;
  } else if (has_any(name, {"autograd::Engine"})) {
    read.rank = Rank::BACKWARD;
  } else if (!is_foreign_function(name)) {
    read.rank = has_line && !is_foreign_source(file) ? Rank::OWN_CPP_LINE
                : is_foreign_source(file)            ? Rank::NONE
                                                     : Rank::OWN_CPP_FUNCTION;
  }
  return read;
}

Place Places::read_stack(const std::vector<Value>& frames) {
  Place place{places_[kNoPlace].name};
  Rank best = Rank::NONE;
  const Value* chosen = nullptr;
  for (const Value& frame : frames) {
    const Frame read = frame_of(frame);
    place.empties_cache |= read.empties_cache;
    if (read.rank >= best) continue;
    best = read.rank;
    chosen = &frame;
  }
  if (best == Rank::BACKWARD) place.name = "backward pass";
  if (!chosen || best == Rank::BACKWARD) return place;
  const auto text = [&](std::string_view key) {
    const Value* value = document_.find(*chosen, key);
    return std::string(value && value->kind == Value::Kind::TEXT ? document_.text(*value) : std::string_view());
  };
  const std::string name = text("name");
  const std::string function = name.substr(0, name.find('('));
  if (best == Rank::OWN_CPP_FUNCTION) {
    place.name = one_line(function);
  } else {
    const Value* line = document_.find(*chosen, "line");
    const int64_t number = line && line->kind == Value::Kind::INTEGER ? line->bits : 0;
    place.name = one_line(short_path(text("filename")) + ":" + std::to_string(number) + " " + function);
  }
  return place;
}

}  // namespace tenfold
