#pragma once
// A snapshot for people and for programs.

#include <string>

#include "snapshot.h"

namespace tenfold {

/// Words and tables, to 120 columns. `name` is what the file is called.
std::string snapshot_text(const MemorySnapshot& snapshot, const std::string& name);

/// The same numbers as a JSON object, in bytes and seconds.
std::string snapshot_json(const MemorySnapshot& snapshot, const std::string& name);

}  // namespace tenfold
