#include "common/cli/numbered_names.h"

#include <algorithm>

#include "common/base/flags.h"
#include "common/base/text.h"

namespace tenfold::cli {

std::vector<std::string> matching_names(const std::vector<std::string>& names, const std::string& word) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (name == word || number_of_name(name) == word) return {name};
    if (!word.empty() && name.find(word) != std::string::npos) found.push_back(name);
  }
  return found;
}

std::string name_meant(const std::string& kind, const std::vector<std::string>& names, const std::string& word,
                       const std::string& list_command) {
  const std::vector<std::string> found = matching_names(names, word);
  if (found.size() == 1) return found.front();
  if (found.size() > 1)
    throw UsageError("'" + word + "' means several " + kind + "s: " + joined(found) + "; give the number");
  // A mistyped word may stand for a whole name or for the words behind its number.
  std::vector<std::string> candidates = names;
  for (const std::string& name : names) candidates.push_back(name.substr(std::min(name.find('_') + 1, name.size())));
  const std::string guess = nearest(word, candidates);
  const auto place = static_cast<size_t>(std::find(candidates.begin(), candidates.end(), guess) - candidates.begin());
  throw UsageError("unknown " + kind + " '" + word + "'" +
                   (guess.empty() ? "" : "; did you mean '" + names[place % names.size()] + "'?") + " (all " + kind +
                   "s: " + list_command + ")");
}

}  // namespace tenfold::cli
