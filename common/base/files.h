#pragma once
// Whole text files, read, written and listed; and where the suite keeps what it downloads.

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace tenfold {

/// A file that cannot be used; what() is one line naming the file and what is wrong with it.
struct FileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A whole file. Throws FileError, "PATH: why", on one that is missing, a folder or unreadable.
std::string read_text(const std::filesystem::path& path);

/// Writes beside the target, then renames, so a reader never sees half a file. A link stays one, and the file behind it
/// is replaced; what was there keeps its mode. Throws FileError naming the file, e.g. when the disk is full, or for a
/// device, a pipe or an open stream (/dev/stdout); the old file then stays as it was.
void write_atomically(const std::filesystem::path& path, const std::string& text);

/// Throws UsageError (flags.h), "WHAT: cannot be written: why; ADVICE", unless write_atomically could write `file`
/// now. It is tried with a file beside it, or in the nearest folder above that exists; nothing of that stays and
/// nothing else is touched.
void require_writable(const std::filesystem::path& file, const std::string& what, const std::string& advice);

/// Every *.json right in a folder, sorted; none where there is no such folder.
std::vector<std::filesystem::path> json_files_in(const std::filesystem::path& folder);

/// $TENFOLD_CACHE, else $XDG_CACHE_HOME/tenfold, else ~/.cache/tenfold.
std::filesystem::path cache_folder();

}  // namespace tenfold
