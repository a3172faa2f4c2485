#pragma once
// What a lesson says of itself, read and checked before anything is built.

#include <optional>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "common/result/result.h"

namespace tenfold {

std::string workload_of(const Lesson& lesson, const Case& compared);
std::string workload_of(const Lesson& lesson, const Training& training);

/// Ranks that a case needs: the product of its mesh.
int ranks_of(const Case& compared);

/// A case compares the techniques that it states something of, or all if it states nothing.
bool compares(const Case& compared, const std::string& technique);

/// Names of what a part compares or looks at, the baseline first.
std::vector<std::string> variants_of(const Lesson& lesson, const Case& compared);
std::vector<std::string> variants_of(const Training& training);
std::vector<std::string> variants_of(const Survey& survey);

/// What the case states of a technique on this device.
std::optional<Expected> expected_of(const Case& compared, const std::string& technique, torch::Device device);

/// What the training states of one of its runs on this device; nothing of the baseline.
std::optional<Expected> expected_of(const Training& training, const Run& run, torch::Device device);

/// Throws UsageError, in one line, when two variants, cases or settings have one name; an expectation names no
/// technique or is none that can come true; a case or budget changes a setting that is not declared, or to another
/// type; a case's mesh has a size below 1 or one name twice; no case compares a technique; a training has nothing to
/// compare, or a metric without a margin; or the headline names none. Each would drop something without a word.
void check_lesson(const Lesson& lesson);

}  // namespace tenfold
