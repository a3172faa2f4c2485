#pragma once
// Lessons and exercises as a person names them: "30_gradient_accumulation", "30", "accumulation".

#include <string>
#include <vector>

namespace tenfold::cli {

/// The one name that `word` is or whose number it is; else every name of which it is a part.
std::vector<std::string> matching_names(const std::vector<std::string>& names, const std::string& word);

/// The one name that `word` means. Throws UsageError, in one line, when it means several, with the choices, or none,
/// with the nearest name and the command that lists all. `kind` is what the names are of: "lesson".
std::string name_meant(const std::string& kind, const std::vector<std::string>& names, const std::string& word,
                       const std::string& list_command);

}  // namespace tenfold::cli
