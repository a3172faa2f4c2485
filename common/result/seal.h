#pragma once
// A set of results as it was committed: a file of hashes beside them, so that nobody can change what was said of a card
// once the card is there.

#include <filesystem>
#include <map>
#include <string>

namespace tenfold {

/// The file's name, and its form, which `sha256sum -c` reads.
inline constexpr const char* kSealFile = "SHA256SUMS";

/// A line "HASH  NAME" for each of these texts, by name.
std::string seal_of(const std::map<std::string, std::string>& texts);

/// The result files of a folder by name.
std::map<std::string, std::string> sealed_texts(const std::filesystem::path& folder);

/// Throws FileError unless the folder has a seal and every result in it is as it was sealed, and none more. Returns the
/// seal's own hash.
std::string check_seal(const std::filesystem::path& folder);

}  // namespace tenfold
