#pragma once
// The fetched data files: found, read, checked. `./tenfold setup` fetches them.

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tenfold {

/// Data that is missing or not what it should be; what() is one line: which file, what is wrong, what to do.
struct DataError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Where fetched data lies: <cache folder>/data, with one folder per data set and its SHA256SUMS.
std::filesystem::path data_folder();

/// Every byte of a file. Throws DataError when it is missing or cannot be read.
std::string read_file(const std::filesystem::path& path);

/// A fetched file, whole and unchanged: read_file, then its SHA-256 held against the SHA256SUMS beside it. Throws
/// DataError, and in data_folder() also removes the mark of completeness, so that `./tenfold setup` fetches again.
/// Costs about 5 ms per MB.
std::string read_data_file(const std::filesystem::path& path);

/// What a gzip file holds. `name` is for the message. Throws DataError on anything but one or more whole gzip members.
std::string gunzip(std::string_view compressed, const std::string& name);

/// "PATH: WHAT; to fix: ./tenfold setup": the error for a fetched file that is not usable, mark removed as above.
[[noreturn]] void fail_data_file(const std::filesystem::path& path, const std::string& what);

}  // namespace tenfold
