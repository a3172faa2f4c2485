#pragma once
// A step's timeline as it goes from one process to another: with the fields that a result file has of it.

#include <nlohmann/json_fwd.hpp>

#include "common/result/result.h"

namespace tenfold {

nlohmann::json json_of(const Timeline& timeline);
/// Throws FileError on a field that is missing, of the wrong type or unknown.
Timeline timeline_in(const nlohmann::json& json);

}  // namespace tenfold
