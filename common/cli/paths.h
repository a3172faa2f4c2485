#pragma once
// Where the driver finds and puts things.

#include <filesystem>
#include <string>

#include "common/base/flags.h"

namespace tenfold::cli {

/// Exit codes: a result is not valid, or a check has failed; wrong usage; nothing could run; Ctrl-C.
inline constexpr int kInvalid = 1, kBadUsage = 2, kNothingRan = 77, kInterrupted = 130;

/// The checkout and the build folder; $TENFOLD_SOURCE_DIR and $TENFOLD_BUILD_DIR override what was compiled in.
std::filesystem::path source_folder();
std::filesystem::path build_folder();

/// Proves that files can be written to `folder`, which need not exist; leaves nothing. Throws UsageError.
void require_writable_folder(const std::filesystem::path& folder);

/// Relative to the current folder when it lies below, for messages.
std::string shown(const std::filesystem::path& path);

}  // namespace tenfold::cli
