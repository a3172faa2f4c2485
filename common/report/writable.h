#pragma once
// Whether a file could be written, known before the work that is to end in it.

#include <filesystem>
#include <string>

namespace tenfold {

/// Throws std::invalid_argument, "WHAT: cannot be written: why; ADVICE", unless write_atomically could write `file` now. It is
/// tried with a file beside it, or in the nearest folder above that exists; nothing of that stays and nothing else is touched.
void require_writable(const std::filesystem::path& file, const std::string& what, const std::string& advice);

}  // namespace tenfold
