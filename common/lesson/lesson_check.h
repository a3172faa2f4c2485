#pragma once
// What a lesson says of itself, read and checked before anything is built.

#include <optional>
#include <string>

#include <tenfold/lesson.h>
#include <tenfold/result.h>

namespace tenfold {

/// The workload of a lesson, or of a case, that trains nothing: its variants note numbers while they are built.
inline constexpr const char* kSurvey = "foundation";

std::string workload_of(const Lesson& lesson, const Case& one);
bool is_survey(const Lesson& lesson, const Case& one);

/// A case compares the techniques that it states something of, or all if it states nothing.
bool compares(const Case& one, const std::string& technique);

/// What the case states of a technique on this device.
std::optional<Expected> expected_of(const Case& one, const std::string& technique, torch::Device device);

/// Throws UsageError, in one line, when two variants or cases have one name, an expectation names no technique or is none
/// that can come true, or no case compares a technique: each would drop something without a word.
void check_lesson(const Lesson& lesson);

}  // namespace tenfold
